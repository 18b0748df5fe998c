/* SPDX-License-Identifier: MIT */
/* Merging adapters into weights on their way out. */
#include "tools/formats/peft/merge.h"

#include <math.h>
#include <string.h>

#include "core/plan/adapter.h"
#include "tools/formats/peft/peft_names.h"

#define NAME_BYTES 400
#define PIECE      1024 /* elements that are measured at once */

static const char where[] = "merge";
static const char prefix[] = "base_model.model.";
static const char weight[] = ".weight";
static const char bias[] = ".bias";

static bp_status foreign(bp_error *error, const char *text, const char *name)
{
    return bp_error_set(error, BP_ERR_DATA, where, text, name);
}

static bool merge_ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), tail = strlen(end);
    return length > tail && strcmp(name + length - tail, end) == 0;
}

/* By either of a tensor's names. */
static bp_tensor_entry *merge_find(bp_tensor_set *set, const char *name, uint32_t *part)
{
    char newer[BP_TENSOR_NAME_MAX];
    bp_tensor_entry *entry = bp_tensor_set_find(set, name, part);
    return entry == NULL && bp_peft_newer(name, newer) ? bp_tensor_set_find(set, newer, part)
                                                       : entry;
}

/* "base_model.model.<module><end>" of a parameter that is the module's `kind`; else false. */
static bool merge_name_of(const char *parameter, const char *kind, const char *end,
                          char name[NAME_BYTES])
{
    size_t length = strlen(parameter), tail = strlen(kind);
    if (!merge_ends_with(parameter, kind) || sizeof prefix + length + strlen(end) > NAME_BYTES) {
        return false;
    }
    memcpy(name, prefix, sizeof prefix - 1);
    memcpy(name + sizeof prefix - 1, parameter, length - tail);
    memcpy(name + sizeof prefix - 1 + length - tail, end, strlen(end) + 1);
    return true;
}

/* Elements of a row: of a weight of rank 1 there is 1. */
static uint64_t merge_columns(uint32_t rank, const uint64_t *shape)
{
    uint64_t columns = 1;
    for (uint32_t i = 1; i < rank; i++) {
        columns = bp_size_mul(columns, shape[i]);
    }
    return columns;
}

/* Whether a tensor is a matrix of so many rows and columns; with 0 columns a vector; with a
 * `window` a convolution's (rows, columns / window, window[0], window[1]). */
static bool merge_shaped(const bp_tensor_entry *entry, uint64_t rows, uint64_t columns,
                         const uint64_t *window)
{
    const uint32_t rank = columns == 0 ? 1 : window != NULL ? 4 : 2;
    return entry->rank == rank && entry->shape[0] == rows &&
           (columns == 0 || merge_columns(rank, entry->shape) == columns) &&
           (window == NULL || (entry->shape[2] == window[0] && entry->shape[3] == window[1]));
}

/* Such a tensor as floats; *values stays NULL where the file has none of that name. */
static bp_status load_shaped(bp_tensor_set *set, const char *name, uint64_t rows, uint64_t columns,
                             const uint64_t *window, bp_staging *room, const float **values,
                             bp_error *error)
{
    uint32_t part = 0;
    bp_tensor_entry *entry = merge_find(set, name, &part);
    bp_tensor_view view;
    const bp_tensor_heads heads = {1, 1, 0};
    *values = NULL;
    if (entry == NULL) {
        return BP_OK;
    }
    if (!merge_shaped(entry, rows, columns, window) || !bp_tensor_readable(entry->dtype) ||
        !bp_tensor_view_of(&view, part, entry, BP_LAYOUT_PLAIN, heads)) {
        return foreign(error, "the adapter is of another base: its shape or type differs", name);
    }
    entry->handle = 1; /* somebody's */
    uint64_t count = columns > 0 ? rows * columns : rows;
    float *to = bp_room_take(room, count * sizeof *to);
    if (to == NULL || room->capacity < BP_VIEW_WORK_MIN) {
        return bp_error_set(error, BP_ERR_FIT, where, "the adapters are too large", name);
    }
    *values = to;
    return bp_tensor_view_read(set, &view, 0, (size_t)count, BP_F32, to, *room);
}

static bp_status load_one(bp_tensor_set *set, const char *name, uint64_t rows, uint64_t columns,
                          bp_staging *room, const float **values, bp_error *error)
{
    return load_shaped(set, name, rows, columns, NULL, room, values, error);
}

/* A parameter that was trained beside the adapters. */
static bp_status load_whole(bp_tensor_set *set, const bp_wanted *wanted, bp_merge_pair *pair,
                            bp_staging *room, bp_error *error)
{
    char name[NAME_BYTES];
    const size_t length = strlen(wanted->name);
    if (sizeof prefix + length > NAME_BYTES) {
        return BP_OK;
    }
    memcpy(name, prefix, sizeof prefix - 1);
    memcpy(name + sizeof prefix - 1, wanted->name, length + 1);
    uint32_t part = 0;
    if (wanted->rank > 2 && merge_find(set, name, &part) != NULL) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "experts and convolutions that were trained beside adapters are not "
                            "merged",
                            name);
    }
    const uint64_t columns = wanted->rank == 2 ? wanted->shape[1] : 0;
    BP_TRY(load_one(set, name, wanted->shape[0], columns, room, &pair->whole, error));
    /* PEFT calls the bias of a module with an adapter that of its base layer. */
    const bool other = pair->whole == NULL && merge_ends_with(wanted->name, bias);
    return other && merge_name_of(wanted->name, bias, ".base_layer.bias", name)
               ? load_one(set, name, wanted->shape[0], columns, room, &pair->whole, error)
               : BP_OK;
}

/* m, which is divided by n later. */
static bp_status load_magnitude(bp_tensor_set *set, const bp_wanted *wanted, bp_merge_pair *pair,
                                bp_staging *room, bp_error *error)
{
    char name[NAME_BYTES];
    const float *magnitude = NULL;
    (void)merge_name_of(wanted->name, weight, ".lora_magnitude_vector", name);
    BP_TRY(load_one(set, name, pair->out, 0, room, &magnitude, error));
    if (magnitude == NULL) {
        return foreign(error, "an adapter with use_dora lacks its magnitudes", name);
    }
    pair->factor = bp_room_take(room, pair->out * sizeof *pair->factor);
    if (pair->factor == NULL) {
        return bp_error_set(error, BP_ERR_FIT, where, "the adapters are too large", name);
    }
    memcpy(pair->factor, magnitude, pair->out * sizeof *pair->factor);
    return BP_OK;
}

/* Trained rows of the token embedding. */
static bp_status load_rows(const bp_lora *lora, bp_tensor_set *set, const bp_wanted *wanted,
                           bp_merge_pair *pair, bp_staging *room, bp_error *error)
{
    char name[NAME_BYTES];
    if (lora->token_count == 0 || wanted->rank != 2 ||
        !merge_name_of(wanted->name, weight, ".token_adapter.trainable_tokens_delta", name)) {
        return BP_OK;
    }
    pair->row_count = lora->token_count;
    pair->tokens = lora->tokens;
    BP_TRY(load_one(set, name, pair->row_count, wanted->shape[1], room, &pair->rows, error));
    for (uint32_t i = 0; i < pair->row_count && pair->rows != NULL; i++) {
        if (pair->tokens[i] >= wanted->shape[0]) {
            return bp_error_limit(error, BP_ERR_DATA, where,
                                  "trainable_token_indices has a token that the table has not",
                                  wanted->name, pair->tokens[i], BP_LIMIT_MOST,
                                  bp_size_signed(wanted->shape[0]) - 1);
        }
    }
    return BP_OK;
}

/* The trained row in the place of row `row` of a table; NULL: none. */
static const float *trained_row(const bp_merge_pair *pair, uint64_t row, uint64_t width)
{
    for (uint32_t i = 0; i < pair->row_count; i++) {
        if (pair->tokens[i] == row) {
            return pair->rows + i * width;
        }
    }
    return NULL;
}

static bool is_convolution(const bp_wanted *wanted)
{
    return wanted->rank == 4;
}

static bool has_parameter(const bp_weight_source *source, const char *name)
{
    for (size_t i = 0; i < source->count; i++) {
        if (strcmp(source->list[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a head of the model is the table itself. */
static bool is_tied(const bp_weight_source *source, const char *table)
{
    const bp_tensor_naming *naming = source->naming;
    for (size_t i = 0; naming != NULL && i < naming->twin_count; i++) {
        const bp_tensor_twin *twin = &naming->twins[i];
        if (strcmp(twin->ours, table) == 0 && !has_parameter(source, twin->theirs) &&
            (twin->unless == NULL || !has_parameter(source, twin->unless))) {
            return true;
        }
    }
    return false;
}

/* What the tensors of an adapter are called, and how they lie. */
typedef struct merge_form {
    const char *a;
    const char *b;
    const uint64_t *window; /* of a convolution; NULL: it is none */
} merge_form;

static bp_status load_factors(const bp_lora *lora, bp_tensor_set *set, const bp_wanted *wanted,
                              const merge_form *form, bp_merge_pair *pair, bp_staging *room,
                              bp_error *error)
{
    static const uint64_t one[2] = {1, 1};
    char name[NAME_BYTES];
    const bp_lora_part part =
        bp_adapter_part_of(lora, wanted->name, bp_adapter_module_length(wanted->name));
    if (part.rank == 0) { /* a tensor of it would be nobody's */
        return BP_OK;
    }
    pair->rank = part.rank;
    pair->scale = (float)bp_adapter_scale(lora, part);
    pair->in = pair->turned ? wanted->shape[0] : merge_columns(wanted->rank, wanted->shape);
    pair->out = wanted->shape[pair->turned ? 1 : 0];
    (void)merge_name_of(wanted->name, weight, form->a, name);
    BP_TRY(load_shaped(set, name, pair->rank, pair->in, form->window, room, &pair->a, error));
    (void)merge_name_of(wanted->name, weight, form->b, name);
    BP_TRY(load_shaped(set, name, pair->out, pair->rank, form->window != NULL ? one : NULL, room,
                       &pair->b, error));
    return (pair->a == NULL) != (pair->b == NULL)
               ? foreign(error, "an adapter has one of its two tensors only", name)
               : BP_OK;
}

/* Of a token embedding, whose rows are what goes in: A (r, rows), B (width, r). */
static bp_status load_table(const bp_lora *lora, bp_tensor_set *set, const bp_weight_source *source,
                            const bp_wanted *wanted, bp_merge_pair *pair, bp_staging *room,
                            bp_error *error)
{
    static const merge_form form = {".lora_embedding_A", ".lora_embedding_B", NULL};
    char name[NAME_BYTES];
    (void)merge_name_of(wanted->name, weight, form.a, name);
    if (is_tied(source, wanted->name)) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "an adapter of the token embedding is not merged: a head that is tied "
                            "to the table would change with it",
                            name);
    }
    if (lora->magnitudes) {
        return foreign(error, "magnitudes (use_dora) of a token embedding are not implemented",
                       name);
    }
    pair->turned = true;
    return load_factors(lora, set, wanted, &form, pair, room, error);
}

/* Of all experts of a layer: A (experts * r, in), B (out, r * experts). */
static bp_status load_experts(const bp_lora *lora, bp_tensor_set *set, const bp_wanted *wanted,
                              bp_merge_pair *pair, bp_staging *room, bp_error *error)
{
    static const char a[] = ".lora_A.weight", b[] = ".lora_B.weight";
    char name[NAME_BYTES];
    memcpy(name, prefix, sizeof prefix - 1);
    char *module = name + sizeof prefix - 1;
    if (!bp_adapter_experts_module(lora, wanted->name, module,
                                   sizeof name - sizeof prefix - sizeof a)) {
        return BP_OK;
    }
    char *end = module + strlen(module);
    pair->experts = wanted->shape[0];
    const bp_lora_part part = bp_adapter_part_of(lora, wanted->name, strlen(wanted->name));
    pair->rank = part.rank;
    pair->scale = (float)bp_adapter_scale(lora, part);
    pair->turned = wanted->input_major;
    pair->in = wanted->shape[pair->turned ? 1 : 2];
    pair->out = wanted->shape[pair->turned ? 2 : 1];
    memcpy(end, a, sizeof a);
    BP_TRY(load_one(set, name, pair->experts * pair->rank, pair->in, room, &pair->a, error));
    memcpy(end, b, sizeof b);
    BP_TRY(load_one(set, name, pair->out, pair->rank * pair->experts, room, &pair->b, error));
    return (pair->a == NULL) != (pair->b == NULL)
               ? foreign(error, "an adapter has one of its two tensors only", name)
               : BP_OK;
}

static bp_status load_pair(const bp_lora *lora, bool input_major, bp_tensor_set *set,
                           const bp_weight_source *source, size_t index, bp_merge_pair *pair,
                           bp_staging *room, bp_error *error)
{
    const bp_wanted *wanted = &source->list[index];
    char name[NAME_BYTES];
    uint32_t part_number = 0;
    if (wanted->rank == 2 && merge_name_of(wanted->name, weight, ".lora_embedding_A", name) &&
        bp_tensor_set_find(set, name, &part_number) != NULL) {
        return load_table(lora, set, source, wanted, pair, room, error);
    }
    BP_TRY(load_rows(lora, set, wanted, pair, room, error));
    if (wanted->rank == 3) {
        return load_experts(lora, set, wanted, pair, room, error);
    }
    const bool convolution = is_convolution(wanted);
    if ((wanted->rank != 2 && !convolution) ||
        !merge_name_of(wanted->name, weight, ".lora_A.weight", name)) {
        return BP_OK;
    }
    const merge_form form = {".lora_A.weight", ".lora_B.weight",
                             convolution ? wanted->shape + 2 : NULL};
    pair->turned = input_major; /* no net of images is */
    BP_TRY(load_factors(lora, set, wanted, &form, pair, room, error));
    if (convolution && lora->magnitudes && pair->a != NULL) {
        return foreign(error, "magnitudes (use_dora) of convolutions are not implemented", name);
    }
    return lora->magnitudes && pair->a != NULL ? load_magnitude(set, wanted, pair, room, error)
                                               : BP_OK;
}

static void forget_owners(bp_tensor_set *set)
{
    for (uint32_t p = 0; p < set->part_count; p++) {
        for (size_t i = 0; i < set->parts[p].entry_count; i++) {
            set->parts[p].entries[i].handle = 0;
        }
    }
}

/* Every tensor must have been somebody's: the first that was nobody's says what differs. */
static bp_status check_owners(const bp_tensor_set *set, size_t found, bp_error *error)
{
    const char *nobodys = NULL;
    for (uint32_t p = 0; p < set->part_count; p++) {
        for (size_t i = 0; i < set->parts[p].entry_count && nobodys == NULL; i++) {
            const bp_tensor_entry *entry = &set->parts[p].entries[i];
            /* PEFT's copies: of a bias that the file has by its own name, of the table that an
             * adapter of tokens stands beside. */
            const bool spare = merge_ends_with(entry->name, ".modules_to_save.bias") ||
                               merge_ends_with(entry->name, ".original_module.bias") ||
                               merge_ends_with(entry->name, ".base_layer.weight");
            nobodys = entry->handle == 0 && !spare ? entry->name : NULL;
        }
    }
    if (found > 0 && nobodys == NULL) {
        return BP_OK;
    }
    bp_status status = foreign(error,
                               "the adapter is of another base: a tensor of a module that this "
                               "model has not",
                               nobodys);
    bp_error_prefix(error, set->path);
    return status;
}

uint64_t bp_merge_row(const bp_tensor_view *view, uint64_t row)
{
    if (view->heads == 0) {
        return row;
    }
    if (view->thirds && !view->to_halves) {
        const uint64_t size = view->shape[0] / (3 * (uint64_t)view->heads), group = row / size;
        return (group % view->heads * 3 + group / view->heads) * size + row % size;
    }
    uint64_t width = view->shape[0] / view->heads, half = width / 2;
    uint64_t head = row / width, at = row % width;
    return view->to_halves ? row : head * width + at % 2 * half + at / 2;
}

static float product(const bp_merge_pair *pair, uint64_t in, uint64_t out)
{
    float sum = 0.0f;
    for (uint32_t k = 0; k < pair->rank; k++) {
        sum = fmaf(pair->b[out * pair->rank + k], pair->a[k * pair->in + in], sum);
    }
    return sum * pair->scale;
}

/* The squared lengths of rows are added up in double, in the order of the file's elements. */
static bp_status measure_norms(const struct bp_merge *merge, const bp_weight_source *source,
                               size_t index, bp_staging room, bp_error *error)
{
    bp_merge_pair *pair = &merge->pairs[index];
    const bp_tensor_view *view = &source->list[index].view;
    double *squares = bp_room_take(&room, pair->out * sizeof *squares);
    float *values = bp_room_take(&room, PIECE * sizeof *values);
    if (squares == NULL || values == NULL || room.capacity < BP_VIEW_WORK_MIN) {
        return bp_error_set(error, BP_ERR_FIT, where, "the adapters are too large",
                            source->list[index].name);
    }
    memset(squares, 0, pair->out * sizeof *squares);
    const uint64_t elements = pair->in * pair->out;
    for (uint64_t first = 0; first < elements; first += PIECE) {
        const size_t count = elements - first < PIECE ? (size_t)(elements - first) : PIECE;
        BP_TRY(bp_tensor_view_read(source->set, view, first, count, BP_F32, values, room));
        for (size_t i = 0; i < count; i++) {
            const uint64_t row = bp_merge_row(view, (first + i) / view->shape[1]);
            const uint64_t column = (first + i) % view->shape[1];
            const uint64_t in = pair->turned ? row : column;
            const uint64_t out = pair->turned ? column : row;
            const double value = (double)(values[i] + product(pair, in, out));
            squares[out] += value * value;
        }
    }
    for (uint64_t o = 0; o < pair->out; o++) {
        const double norm = sqrt(squares[o]);
        pair->factor[o] = norm > 0.0 ? (float)((double)pair->factor[o] / norm) : 0.0f;
    }
    return BP_OK;
}

bp_status bp_merge_load(struct bp_merge *merge, bp_tensor_set *adapters, const bp_lora *lora,
                        bool input_major, const bp_weight_source *source, bp_staging *room,
                        bp_error *error)
{
    size_t found = 0;
    *merge = (struct bp_merge){.pairs = bp_room_take(room, source->count * sizeof *merge->pairs)};
    if (merge->pairs == NULL) {
        return bp_error_set(error, BP_ERR_FIT, where, "the model has too many tensors", NULL);
    }
    memset(merge->pairs, 0, source->count * sizeof *merge->pairs);
    forget_owners(adapters);
    for (size_t i = 0; i < source->count; i++) {
        BP_TRY(load_pair(lora, input_major, adapters, source, i, &merge->pairs[i], room, error));
        BP_TRY(load_whole(adapters, &source->list[i], &merge->pairs[i], room, error));
        found += merge->pairs[i].a != NULL ? 2 : 0;
        found += merge->pairs[i].whole != NULL ? 1 : 0;
        found += merge->pairs[i].rows != NULL ? 1 : 0;
    }
    BP_TRY(check_owners(adapters, found, error));
    for (size_t i = 0; i < source->count; i++) {
        if (merge->pairs[i].factor != NULL) {
            BP_TRY(measure_norms(merge, source, i, *room, error));
        }
    }
    return BP_OK;
}

bool bp_merge_changes(const struct bp_merge *merge, size_t index)
{
    const bp_merge_pair *pair = &merge->pairs[index];
    return pair->a != NULL || pair->whole != NULL || pair->rows != NULL;
}

/* The same of experts, whose elements of a view may be those of one of several tensors. */
static void merge_add_experts(const bp_merge_pair *pair, const bp_tensor_view *view, uint64_t first,
                              size_t count, float *values)
{
    const bool pieces = view->out.rule != NULL;
    for (size_t i = 0; i < count; i++) {
        uint64_t run = 0, element = first + i;
        element =
            pieces ? bp_tensor_pieces_element(&view->out, view->index, element, &run) : element;
        const uint64_t columns = pair->turned ? pair->out : pair->in;
        const uint64_t rows = pair->turned ? pair->in : pair->out;
        const uint64_t expert = element / columns / rows;
        const uint64_t row = element / columns % rows, column = element % columns;
        const uint64_t in = pair->turned ? row : column, out = pair->turned ? column : row;
        const float *a = pair->a + expert * pair->rank * pair->in + in;
        const float *b = pair->b + out * pair->rank * pair->experts + expert;
        float sum = 0.0f;
        for (uint32_t k = 0; k < pair->rank; k++) {
            sum = fmaf(b[k * pair->experts], a[k * pair->in], sum);
        }
        values[i] += sum * pair->scale;
    }
}

void bp_merge_add(const struct bp_merge *merge, const bp_weight_source *source, size_t index,
                  const bp_tensor_view *view, uint64_t first, size_t count, float *values)
{
    const bp_merge_pair *pair = &merge->pairs[index];
    const bp_wanted *wanted = &source->list[index];
    const float *trained = NULL;
    uint64_t looked = UINT64_MAX; /* the row that `trained` is of */
    if (!bp_merge_changes(merge, index)) {
        return;
    }
    if (pair->experts > 0) {
        merge_add_experts(pair, view, first, count, values);
        return;
    }
    const uint64_t columns = merge_columns(view->rank, view->shape);
    const bool turned = view->transposed != wanted->view.transposed;
    bp_tensor_view order = *view;
    if (view->heads == 0 && wanted->view.heads != 0) { /* a file's rows that go to another file */
        order = wanted->view;
        order.to_halves = !order.to_halves;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t row = bp_merge_row(&order, (first + i) / columns), column = (first + i) % columns;
        uint64_t r = turned ? column : row, c = turned ? row : column;
        uint64_t in = pair->turned ? r : c, out = pair->turned ? c : r;
        if (pair->whole != NULL) {
            values[i] = pair->whole[wanted->rank == 2 ? r * wanted->shape[1] + c : r] +
                        (float)(view->raised - wanted->view.raised);
        }
        if (pair->rows != NULL && r != looked) {
            looked = r;
            trained = trained_row(pair, r, wanted->shape[1]);
        }
        values[i] = trained != NULL ? trained[c] : values[i];
        if (pair->a != NULL) {
            values[i] += product(pair, in, out);
            values[i] *= pair->factor != NULL ? pair->factor[out] : 1.0f;
        }
    }
}
