/* SPDX-License-Identifier: MIT */
/* Exported tensors, formed again of weights, of the rest of them beside them, and of the state of
 * schedule-free rules. */
#include "tools/bedplate/record/record_forms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/convert.h"
#include "core/ops/fp8.h"
#include "core/ops/master.h"
#include "tools/formats/family/family.h"
#include "tools/formats/hf/tensor_match.h"
#include "tools/formats/hf/tensor_pieces.h"
#include "tools/formats/peft/peft_names.h"

static const bp_tensor_entry *record_state(const record_saved *saved, const char *name,
                                           const char *part)
{
    char whole[BP_TENSOR_NAME_MAX + 16];
    const size_t length = strlen(name);
    memcpy(whole, name, length);
    memcpy(whole + length, part, strlen(part) + 1);
    return bp_safetensors_find(&saved->state, whole);
}

static bool record_is_float(bp_dtype dtype)
{
    return dtype == BP_F32 || dtype == BP_BF16 || dtype == BP_F16;
}

/* Of n elements; BP_MASTER_COUNT: none that is known. A weight in fp8 has its codes there too. */
static bp_master record_master_form(const bp_tensor_entry *master, uint64_t n)
{
    const bp_master form = master->dtype == BP_F32   ? BP_MASTER_FP32
                           : master->dtype == BP_U16 ? BP_MASTER_SPLIT
                           : master->bytes == n      ? BP_MASTER_SPLIT8
                                                     : BP_MASTER_FP8;
    const uint64_t codes = form == BP_MASTER_FP8 ? bp_fp8_bytes(n) : 0;
    return master->bytes == codes + n * bp_master_bytes(form) ? form : BP_MASTER_COUNT;
}

/* What `mine` is called in the checkpoint by the rules of the family, or the tensor of all experts
 * of which it is the piece of one. */
static const bp_tensor_entry *record_find_renamed(const bp_tensor_entry *mine,
                                                  const record_saved *saved, uint64_t *first)
{
    const char *type = bp_safetensors_metadata(&saved->model, "key.result.config.model_type");
    const bp_family *family = type != NULL ? bp_family_find(type) : NULL;
    const char *expert = strstr(mine->name, "experts.");
    const size_t layer = strcspn(mine->name, "0123456789");
    const size_t prefix = layer + strcspn(mine->name + layer, ".");
    char name[BP_TENSOR_NAME_MAX];
    for (size_t i = 0; family != NULL && i < saved->model.entry_count; i++) {
        const bp_tensor_entry *its = &saved->model.entries[i];
        bp_tensor_pieces pieces;
        uint64_t run;
        if (strncmp(its->name, mine->name, prefix + 1) != 0) {
            continue;
        }
        const bp_tensor_rule *rule = bp_tensor_name(&family->naming, its->name, name);
        if (rule != NULL && rule->form == BP_LAYOUT_PLAIN && strcmp(name, mine->name) == 0) {
            *first = 0;
            return its;
        }
        if (rule == NULL || rule->form != BP_LAYOUT_PIECES || expert == NULL ||
            !bp_tensor_pieces_of(&pieces, rule, its->name, its->rank, its->shape) ||
            !pieces.single) {
            continue;
        }
        const uint64_t number = strtoull(expert + strlen("experts."), NULL, 10);
        for (uint32_t side = 0; number < pieces.experts && side < pieces.sides; side++) {
            const uint64_t index = number * pieces.sides + side;
            if (bp_tensor_pieces_name(&pieces, index, name) && strcmp(name, mine->name) == 0) {
                *first = bp_tensor_pieces_element(&pieces, index, 0, &run);
                return its;
            }
        }
    }
    return NULL;
}

/* Adapters of a table and of experts have a matrix that is transposed in PEFT's files. */
static void record_find_layout(record_forms *f, const bp_tensor_entry *mine)
{
    char name[BP_TENSOR_NAME_MAX];
    const bp_tensor_entry *w = f->weights;
    const bp_tensor_rule *rule = bp_tensor_name(&bp_peft_naming, mine->name, name);
    if (rule != NULL && rule->form == BP_LAYOUT_TRANSPOSED && w->rank == 2) {
        f->columns = w->shape[1];
        f->file_wide = true;
    } else if (rule != NULL && rule->form == BP_LAYOUT_EXPERTS && w->rank == 3) {
        f->columns = w->shape[0]; /* (out * r, experts) in the file, of (experts, out * r) */
    }
}

/* Adapters of vectors, whose names in PEFT's files lack what stands before a family's modules. */
static const bp_tensor_entry *record_find_bare(const bp_tensor_entry *mine,
                                               const record_saved *saved)
{
    static const char first[] = "base_model.model.";
    const char *type = bp_safetensors_metadata(&saved->model, "key.result.config.model_type");
    const bp_family *family = type != NULL ? bp_family_find(type) : NULL;
    char name[2 * BP_TENSOR_NAME_MAX] = "";
    size_t length = 0;
    const char *stem = family != NULL ? bp_peft_stem(&family->naming, &length) : NULL;
    if (length == 0 || strncmp(mine->name, first, sizeof first - 1) != 0 ||
        strlen(mine->name) >= BP_TENSOR_NAME_MAX) {
        return NULL;
    }
    memcpy(name, first, sizeof first - 1);
    memcpy(name + sizeof first - 1, stem, length);
    memcpy(name + sizeof first - 1 + length, mine->name + sizeof first - 1,
           strlen(mine->name) - (sizeof first - 1));
    return bp_safetensors_find(&saved->model, name);
}

bool record_forms_find(record_forms *f, const bp_tensor_entry *mine, const record_saved *saved)
{
    const bp_tensor_entry *w = bp_safetensors_find(&saved->model, mine->name);
    w = w != NULL ? w : record_find_bare(mine, saved);
    *f = (record_forms){.weights = w};
    if (w == NULL) {
        w = f->weights = record_find_renamed(mine, saved, &f->first);
    }
    if (w == NULL) {
        return false;
    }
    const bp_tensor_entry *m = f->master = record_state(saved, w->name, ".master");
    const bp_tensor_entry *d = f->rest =
        saved->averaged ? record_state(saved, w->name, ".z_less_y") : NULL;
    record_find_layout(f, mine);
    f->other = f->columns != 0 || strcmp(w->name, mine->name) != 0;
    if (!record_is_float(mine->dtype) || !record_is_float(w->dtype)) {
        return false;
    }
    const uint64_t n = f->total = w->bytes / bp_dtype_bytes(w->dtype);
    f->count = mine->bytes / bp_dtype_bytes(mine->dtype);
    f->master_form = m != NULL ? record_master_form(m, n) : BP_MASTER_WEIGHT;
    if (f->first + f->count > n || (strcmp(w->name, mine->name) == 0 && f->count != n) ||
        f->master_form == BP_MASTER_COUNT) {
        return false;
    }
    const bool blocks = d != NULL || f->master_form == BP_MASTER_FP8;
    if (blocks && (f->columns != 0 || f->first % BP_CODEC_BLOCK != 0)) {
        return false; /* it begins within a block */
    }
    while (d != NULL && f->rest_form < BP_CODEC_COUNT &&
           d->bytes != bp_codec_bytes(n, f->rest_form)) {
        f->rest_form++;
    }
    return d == NULL || (saved->factor > 0 && f->rest_form < BP_CODEC_COUNT);
}

/* Codes and remainders of fp8 from a block's beginning on, which lie in one tensor. */
static bp_status record_read_fp8(const record_forms *f, const record_saved *saved, uint64_t at,
                                 size_t count, unsigned char *const raw[3])
{
    const uint64_t first = bp_fp8_bytes(at), end = bp_fp8_bytes(at + count);
    const uint64_t rest = bp_fp8_bytes(f->total) + at * sizeof(uint16_t);
    BP_TRY(bp_safetensors_read(&saved->state, f->master, first, raw[0], (size_t)(end - first)));
    return bp_safetensors_read(&saved->state, f->master, rest, raw[1], count * sizeof(uint16_t));
}

static bp_status record_read_weights(const record_forms *f, const record_saved *saved, uint64_t at,
                                     size_t count, unsigned char *const raw[3])
{
    const size_t width = bp_dtype_bytes(f->weights->dtype);
    const uint64_t rest = bp_master_bytes(f->master_form);
    BP_TRY(bp_safetensors_read(&saved->model, f->weights, at * width, raw[0], count * width));
    return f->master == NULL ? BP_OK
                             : bp_safetensors_read(&saved->state, f->master, at * rest, raw[1],
                                                   (size_t)(count * rest));
}

/* From element `at` on, as many as `room` says, as the run forms them; raw is where they are read.
 */
static bp_status record_form(const record_forms *f, const record_saved *saved, uint64_t at,
                             size_t count, unsigned char *const raw[3], float *values)
{
    at += f->first;
    BP_TRY(f->master_form == BP_MASTER_FP8 ? record_read_fp8(f, saved, at, count, raw)
                                           : record_read_weights(f, saved, at, count, raw));
    bp_elements_load(f->weights->dtype, f->master_form, raw[0], raw[1], values, count);
    if (f->rest == NULL) {
        return BP_OK;
    }
    const uint64_t first = bp_codec_bytes(at, f->rest_form);
    const uint64_t end = bp_codec_bytes(at + count, f->rest_form);
    BP_TRY(bp_safetensors_read(&saved->state, f->rest, first, raw[2], (size_t)(end - first)));
    for (size_t i = 0; i < count; i += BP_CODEC_BLOCK) {
        float d[BP_CODEC_BLOCK];
        const size_t some = count - i < BP_CODEC_BLOCK ? count - i : BP_CODEC_BLOCK;
        bp_codec_decode(f->rest_form, true, raw[2] + bp_codec_bytes(i, f->rest_form),
                        (uint32_t)some, d);
        for (size_t k = 0; k < some; k++) {
            values[i + k] = fmaf(-saved->factor, d[k], values[i + k]);
        }
    }
    return BP_OK;
}

/* Two files, and memory for pieces of them. */
typedef struct record_pair {
    const bp_safetensors *made;
    const bp_tensor_entry *mine;
    const record_saved *saved;
    float *x, *y;
    unsigned char *raw[3];
} record_pair;

/* Of `rows` rows of the one that is (rows, columns), from row `at` on, which fit the memory. */
static bp_status record_compare_turned(const record_forms *f, const record_pair *p, uint64_t at,
                                       size_t rows, bool *same)
{
    const uint64_t columns = f->columns, all = f->count / columns;
    const size_t width = bp_dtype_bytes(p->mine->dtype), count = rows * (size_t)columns;
    unsigned char *file = p->raw[2];
    if (f->file_wide) {
        BP_TRY(record_form(f, p->saved, at * columns, count, p->raw, p->y));
        (void)bp_elements_convert(BP_F32, p->y, p->mine->dtype, p->x, count);
    } else {
        BP_TRY(bp_safetensors_read(p->made, p->mine, at * columns * width, file, count * width));
    }
    for (uint64_t k = 0; *same && k < columns; k++) {
        if (f->file_wide) {
            const uint64_t from = (k * all + at) * width;
            BP_TRY(bp_safetensors_read(p->made, p->mine, from, file, rows * width));
        } else {
            BP_TRY(record_form(f, p->saved, k * all + at, rows, p->raw, p->y));
            (void)bp_elements_convert(BP_F32, p->y, p->mine->dtype, p->x, rows);
        }
        for (size_t i = 0; *same && i < rows; i++) {
            const size_t turned = i * (size_t)columns + (size_t)k;
            *same = memcmp((const char *)p->x + (f->file_wide ? turned : i) * width,
                           file + (f->file_wide ? i : turned) * width, width) == 0;
        }
    }
    return BP_OK;
}

bp_status record_forms_compare(const bp_staging *staging, const bp_safetensors *made,
                               const bp_tensor_entry *mine, const record_saved *saved,
                               const record_forms *f, bool *same)
{
    enum {
        PARTS = 6
    }; /* the codes of a block and its header are no more bytes than two floats each */
    const size_t room = staging->capacity / PARTS / sizeof(float) / BP_CODEC_BLOCK * BP_CODEC_BLOCK;
    const size_t width = bp_dtype_bytes(mine->dtype);
    float *x = (void *)staging->memory, *y = x + room;
    unsigned char *const raw[3] = {(void *)(y + room), (void *)(y + 2 * room),
                                   (void *)(y + 3 * room)};
    const record_pair pair = {made, mine, saved, x, y, {raw[0], raw[1], raw[2]}};
    if (f->columns > room) {
        return BP_OK; /* of more experts than there can be */
    }
    for (uint64_t at = 0; f->columns > 0 && *same && at < f->count / f->columns;) {
        const uint64_t left = f->count / f->columns - at, most = room / f->columns;
        const size_t rows = (size_t)(left < most ? left : most);
        BP_TRY(record_compare_turned(f, &pair, at, rows, same));
        at += rows;
    }
    for (uint64_t at = 0; f->columns == 0 && *same && at < f->count; at += room) {
        const size_t count = f->count - at < room ? (size_t)(f->count - at) : room;
        BP_TRY(record_form(f, saved, at, count, raw, y));
        (void)bp_elements_convert(BP_F32, y, mine->dtype, x, count); /* as it was exported */
        BP_TRY(bp_safetensors_read(made, mine, at * width, y, count * width));
        *same = memcmp(x, y, count * width) == 0;
    }
    return BP_OK;
}
