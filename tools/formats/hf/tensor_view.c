/* SPDX-License-Identifier: MIT */
/* Gathering, permuting and converting elements on their way out of a file. */
#include "tools/formats/hf/tensor_view.h"

#include <string.h>

#include "core/ops/blocks.h"

static const char where[] = "weights";

bool bp_tensor_readable(bp_dtype dtype)
{
    return dtype == BP_F32 || dtype == BP_F16 || dtype == BP_BF16;
}

static bool set_heads(bp_tensor_view *view, uint32_t heads, uint32_t parts, bool to_halves)
{
    bool even = heads != 0 && view->rank >= 1 && view->shape[0] % (parts * (uint64_t)heads) == 0;
    if (even && view->heads == heads && view->thirds == (parts == 3) &&
        view->to_halves != to_halves) {
        view->heads = 0; /* back in the file's order */
        view->thirds = view->to_halves = false;
        return true;
    }
    if (!even || view->transposed || view->heads != 0) {
        return false;
    }
    view->heads = heads;
    view->thirds = parts == 3;
    view->to_halves = to_halves;
    return true;
}

static bool set_transposed(bp_tensor_view *view)
{
    const bool experts = view->rank == 3 && view->in.rule == NULL && view->out.rule == NULL &&
                         view->mx.blocks.entry == NULL; /* each one's matrix */
    if ((view->rank != 2 && !experts) || view->heads != 0) {
        return false;
    }
    uint64_t *shape = view->shape + view->rank - 2, rows = shape[0];
    shape[0] = shape[1];
    shape[1] = rows;
    view->transposed = !view->transposed;
    return true;
}

static bool set_behind(bp_tensor_view *view, uint32_t first, bool of_file)
{
    if (view->rank != 2 || view->transposed || view->heads != 0) {
        return false;
    }
    if (of_file) {
        view->absent += bp_size_mul(first, view->shape[1]);
        view->shape[0] += first;
        return true;
    }
    if (view->shape[0] <= first) {
        return false;
    }
    view->skipped += bp_size_mul(first, view->shape[1]);
    view->shape[0] -= first;
    return true;
}

static bool apply(bp_tensor_view *view, bp_tensor_layout form, bp_tensor_heads heads,
                  bool to_halves)
{
    switch (form) {
    case BP_LAYOUT_TRANSPOSED:
        return set_transposed(view);
    case BP_LAYOUT_QUERY_HEADS:
        return set_heads(view, heads.query, 2, to_halves);
    case BP_LAYOUT_KEY_HEADS:
        return set_heads(view, heads.key, 2, to_halves);
    case BP_LAYOUT_THIRDS:
        return set_heads(view, heads.query, 3, to_halves);
    case BP_LAYOUT_BEHIND:
        return set_behind(view, heads.first, to_halves);
    case BP_LAYOUT_RAISED:
        view->raised += to_halves ? -1 : 1;
        return true;
    default:
        return true;
    }
}

bool bp_tensor_view_of(bp_tensor_view *view, uint32_t part, const bp_tensor_entry *entry,
                       bp_tensor_layout form, bp_tensor_heads heads)
{
    *view = (bp_tensor_view){.entry = entry, .part = part, .rank = entry->rank};
    memcpy(view->shape, entry->shape, entry->rank * sizeof entry->shape[0]);
    if (form == BP_LAYOUT_NUMBER) {
        view->shape[0] = view->rank == 0 ? 1 : view->shape[0];
        view->rank = view->rank == 0 ? 1 : view->rank;
        return true;
    }
    return apply(view, form, heads, true);
}

void bp_tensor_view_codes(bp_tensor_view *view, const bp_bnb *bnb, bool input_major)
{
    *view = (bp_tensor_view){.entry = bnb->codes.entry,
                             .part = bnb->codes.part,
                             .rank = 2,
                             .shape = {bnb->rows, bnb->columns},
                             .bnb = *bnb};
    if (input_major) {
        (void)set_transposed(view); /* a matrix can be */
    }
}

void bp_tensor_view_mxfp4(bp_tensor_view *view, const bp_mxfp4 *mx)
{
    const uint64_t experts = mx->blocks.entry->shape[0];
    *view = (bp_tensor_view){.entry = mx->blocks.entry,
                             .part = mx->blocks.part,
                             .rank = 3,
                             .shape = {experts, mx->in, mx->out},
                             .mx = *mx};
}

bool bp_tensor_view_scattered(const bp_tensor_view *view)
{
    return view->transposed || view->mx.blocks.entry != NULL || view->in.turns || view->out.turns;
}

void bp_tensor_view_pieces(bp_tensor_view *view, uint32_t part, const bp_tensor_entry *entry,
                           const bp_tensor_pieces *pieces)
{
    const uint64_t both = pieces->sides * pieces->rows;
    *view = (bp_tensor_view){.entry = entry,
                             .part = part,
                             .rank = pieces->rank,
                             .shape = {pieces->experts, both, pieces->width},
                             .in = *pieces};
    if (pieces->turns && pieces->rank == 3) {
        view->shape[1] = pieces->width;
        view->shape[2] = both;
    }
}

void bp_tensor_view_take(bp_tensor_view *view, const bp_tensor_pieces *pieces, uint64_t index)
{
    view->rank = bp_tensor_pieces_shape(pieces, view->shape);
    view->out = *pieces;
    view->index = index;
}

bool bp_tensor_view_transpose(bp_tensor_view *view, bp_tensor_layout form, bp_tensor_heads heads)
{
    return apply(view, form, heads, false);
}

bp_dtype bp_tensor_view_dtype(const bp_tensor_view *view)
{
    return view->bnb.form != BP_QUANTISED_NONE ? view->bnb.dtype
           : view->mx.blocks.entry != NULL     ? BP_BF16
                                               : view->entry->dtype;
}

uint64_t bp_tensor_view_elements(const bp_tensor_view *view)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < view->rank; i++) {
        count = bp_size_mul(count, view->shape[i]);
    }
    return count;
}

/* One reading, with what every step of it needs. */
typedef struct pull {
    bp_tensor_set *set;
    const bp_tensor_view *view;
    bp_dtype to;
    size_t from_bytes; /* of an element */
    size_t to_bytes;
    bp_staging work;
    uint64_t base;   /* elements of the file before the matrix that is read */
    uint32_t pick;   /* of a row of the file every so many elements, from `side` on; 0: all */
    uint32_t spread; /* rows of the file are every so many columns here, from `side` on; 0: all */
    uint32_t side;
} pull;

static bp_status too_large(const pull *p)
{
    return bp_error_set(p->set->error, BP_ERR_DATA, where,
                        p->to == BP_F16 ? "a value is too large for fp16 (bf16 and fp32 hold it)"
                                        : "a value is too large for bf16 (fp32 holds it)",
                        p->view->entry->name);
}

/* The same of codes. */
static bp_status pull_codes(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    float values[256];
    while (count > 0) {
        size_t piece = count < 256 ? count : 256;
        BP_TRY(bp_bnb_read(p->set, &p->view->bnb, first, piece, values));
        if (!bp_elements_convert(BP_F32, values, p->to, out, piece)) {
            return too_large(p);
        }
        out += piece * p->to_bytes;
        first += piece;
        count -= piece;
    }
    return BP_OK;
}

/* The same of blocks, which are read whole. */
static bp_status pull_blocks(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    const bp_tensor_entry *entry = p->view->entry;
    const bp_packed_type *block = bp_packed_of(entry->packed);
    const unsigned char *from = p->work.memory;
    const uint64_t most = p->work.capacity / block->bytes;
    float values[BP_PACKED_ELEMENTS];
    uint64_t at = 0, read = 0; /* blocks that lie in the work memory */
    while (count > 0) {
        const uint64_t number = first / block->elements, skip = first % block->elements;
        const uint64_t needed = bp_size_ceil_div(skip + count, block->elements);
        if (number >= at + read) {
            at = number;
            read = needed < most ? needed : most;
            BP_TRY(bp_tensor_set_read(p->set, p->view->part, entry, at * block->bytes,
                                      p->work.memory, (size_t)(read * block->bytes)));
        }
        const size_t piece =
            block->elements - skip < count ? (size_t)(block->elements - skip) : count;
        bp_packed_values(block, from + (number - at) * block->bytes, skip, piece, values);
        if (!bp_elements_convert(BP_F32, values, p->to, out, piece)) {
            return too_large(p);
        }
        out += piece * p->to_bytes;
        first += piece;
        count -= piece;
    }
    return BP_OK;
}

/* Elements [first, first + count) in the file's own order. */
static bp_status pull_run(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    const bp_tensor_entry *entry = p->view->entry;
    size_t most = p->work.capacity / p->from_bytes;
    first += p->base;
    if (p->view->bnb.form != BP_QUANTISED_NONE) {
        return pull_codes(p, first, count, out);
    }
    if (entry->packed != 0) {
        return pull_blocks(p, first, count, out);
    }
    if (entry->dtype == p->to) {
        return bp_tensor_set_read(p->set, p->view->part, entry, first * p->from_bytes, out,
                                  count * p->from_bytes);
    }
    while (count > 0) {
        size_t piece = count < most ? count : most;
        BP_TRY(bp_tensor_set_read(p->set, p->view->part, entry, first * p->from_bytes,
                                  p->work.memory, piece * p->from_bytes));
        if (!bp_elements_convert(entry->dtype, p->work.memory, p->to, out, piece)) {
            return too_large(p);
        }
        out += piece * p->to_bytes;
        first += piece;
        count -= piece;
    }
    return BP_OK;
}

/* Row number `row` of one order of queries, keys and values as a row of the other. */
static uint64_t third_behind(const bp_tensor_view *view, uint64_t row)
{
    const uint64_t heads = view->heads, size = view->shape[0] / (3 * heads);
    const uint64_t group = row / size, at = row % size;
    return view->to_halves ? (group % 3 * heads + group / 3) * size + at
                           : (group % heads * 3 + group / heads) * size + at;
}

/* The file's row behind a row of the view. */
static uint64_t row_behind(const bp_tensor_view *view, uint64_t row)
{
    if (view->thirds) {
        return third_behind(view, row);
    }
    uint64_t size = view->shape[0] / view->heads;
    uint64_t head = row / size;
    uint64_t at = row % size;
    uint64_t half = size / 2;
    uint64_t behind = view->to_halves ? 2 * (at % half) + at / half : at % 2 * half + at / 2;
    return head * size + behind;
}

static bp_status pull_heads(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    uint64_t columns = p->view->rank == 2 ? p->view->shape[1] : 1;
    while (count > 0) {
        uint64_t row = first / columns;
        uint64_t column = first % columns;
        uint64_t left = columns - column;
        size_t piece = left < count ? (size_t)left : count;
        BP_TRY(pull_run(p, row_behind(p->view, row) * columns + column, piece, out));
        out += piece * p->to_bytes;
        first += piece;
        count -= piece;
    }
    return BP_OK;
}

/* A block of whole or cut rows [first, first + count) of the view; every row of the file has one
 * strip of it. */
static bp_status pull_block(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    const size_t pick = p->pick > 0 ? p->pick : 1, spread = p->spread > 0 ? p->spread : 1;
    uint64_t length = p->view->shape[1]; /* of a row of the view */
    uint64_t width = p->view->shape[0] * pick;
    uint64_t top = first / length;
    size_t strip = (size_t)((first + count - 1) / length - top + 1);
    unsigned char *converted = (unsigned char *)p->work.memory + p->work.capacity / 2 / 8 * 8;
    const uint64_t skip = pick > 1 ? p->side : 0, behind = spread > 1 ? p->side : 0;
    pull half = *p;
    half.work.capacity = p->work.capacity / 2 / 8 * 8;
    for (uint64_t j = 0; j < length / spread; j++) {
        BP_TRY(pull_run(&half, j * width + top * pick + skip, (strip - 1) * pick + 1, converted));
        for (size_t i = 0; i < strip; i++) {
            uint64_t at = (top + i) * length + j * spread + behind;
            if (at >= first && at - first < count) {
                memcpy(out + (at - first) * p->to_bytes, converted + i * pick * p->to_bytes,
                       p->to_bytes);
            }
        }
    }
    return BP_OK;
}

static bp_status pull_transposed(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    uint64_t length = p->view->shape[1];
    /* rows of a block, at 4 bytes an element */
    size_t widest = p->work.capacity / 2 / 8 * 8 / 4 / (p->pick > 0 ? p->pick : 1);
    while (count > 0) {
        uint64_t end = bp_size_mul(first / length + widest, length);
        uint64_t left = end - first;
        size_t piece = left < count ? (size_t)left : count;
        BP_TRY(pull_block(p, first, piece, out));
        out += piece * p->to_bytes;
        first += piece;
        count -= piece;
    }
    return BP_OK;
}

/* The same of matrices, each by itself. */
static bp_status pull_matrices(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    const uint64_t each = p->view->shape[1] * p->view->shape[2];
    bp_tensor_view one = *p->view;
    one.rank = 2;
    one.shape[0] = p->view->shape[1];
    one.shape[1] = p->view->shape[2];
    while (count > 0) {
        pull matrix = *p;
        const uint64_t at = first % each, left = each - at;
        const size_t piece = left < count ? (size_t)left : count;
        matrix.view = &one;
        matrix.base = (first - at) * (p->pick > 0 ? p->pick : 1) / (p->spread > 0 ? p->spread : 1);
        BP_TRY(pull_transposed(&matrix, at, piece, out));
        out += piece * p->to_bytes;
        first += piece;
        count -= piece;
    }
    return BP_OK;
}

static bp_status pull_any(const pull *p, uint64_t first, size_t count, void *out)
{
    if (p->view->transposed && p->view->rank == 3) {
        return pull_matrices(p, first, count, out);
    }
    if (p->view->transposed) {
        return pull_transposed(p, first, count, out);
    }
    return p->view->heads != 0 ? pull_heads(p, first, count, out) : pull_run(p, first, count, out);
}

/* As floats, to which something is added. */
static bp_status pull_raised(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    float values[256];
    pull floats = *p;
    floats.to = BP_F32;
    floats.to_bytes = sizeof values[0];
    while (count > 0) {
        const size_t piece = count < 256 ? count : 256;
        BP_TRY(pull_any(&floats, first, piece, values));
        for (size_t i = 0; i < piece; i++) {
            values[i] += (float)p->view->raised;
        }
        if (!bp_elements_convert(BP_F32, values, p->to, out, piece)) {
            return too_large(p);
        }
        out += piece * p->to_bytes;
        first += piece;
        count -= piece;
    }
    return BP_OK;
}

/* Elements from `first` on of a list of which `side` says every second, or back into such a list.
 */
static bp_status pull_second(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    unsigned char *converted = (unsigned char *)p->work.memory + p->work.capacity / 2 / 8 * 8;
    const size_t most = p->work.capacity / 2 / 8 * 8 / 4 / 2, pick = p->pick, spread = p->spread;
    pull half = *p;
    half.work.capacity = p->work.capacity / 2 / 8 * 8;
    /* the first element that is of this side */
    size_t at = pick > 0 ? 0 : (size_t)((p->side + spread - first % spread) % spread);
    while (at < count) {
        const size_t all = pick > 0 ? count - at : (count - at + spread - 1) / spread;
        const size_t some = all < most ? all : most;
        BP_TRY(pick > 0 ? pull_run(&half, (first + at) * pick + p->side, (some - 1) * pick + 1,
                                   converted)
                        : pull_run(&half, (first + at) / spread, some, converted));
        for (size_t i = 0; i < some; i++) {
            memcpy(out + (at + i * (pick > 0 ? 1 : spread)) * p->to_bytes,
                   converted + i * (pick > 0 ? pick : 1) * p->to_bytes, p->to_bytes);
        }
        at += some * (pick > 0 ? 1 : spread);
    }
    return BP_OK;
}

/* Elements [first, first + count) of a parameter whose numbers alternate between two tensors. */
static bp_status pull_turns(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    const bp_tensor_pieces *pieces = &p->view->in;
    for (uint32_t side = 0; side < pieces->sides; side++) {
        char name[BP_TENSOR_NAME_MAX] = "";
        bp_tensor_view view = *p->view;
        view.in.rule = NULL;
        view.entry = bp_tensor_pieces_name(pieces, side, name)
                         ? bp_tensor_set_find(p->set, name, &view.part)
                         : NULL;
        if (view.entry == NULL) {
            return bp_error_set(p->set->error, BP_ERR_DATA, where, "a tensor is missing", name);
        }
        pull one = *p;
        one.view = &view;
        one.from_bytes = bp_dtype_bytes(view.entry->dtype);
        one.spread = pieces->sides;
        one.side = side;
        BP_TRY(pieces->rank == 3 ? pull_matrices(&one, first, count, out)
                                 : pull_second(&one, first, count, out));
    }
    return BP_OK;
}

/* The same of one of the two tensors. */
static bp_status pull_turned(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    bp_tensor_view view = *p->view;
    pull one = *p;
    view.out.rule = NULL;
    one.view = &view;
    one.pick = p->view->out.sides;
    one.side = (uint32_t)p->view->index;
    return p->view->out.rank == 3 ? pull_matrices(&one, first, count, out)
                                  : pull_second(&one, first, count, out);
}

/* Elements [first, first + count) of a parameter that the file has in pieces. */
static bp_status pull_pieces(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    char name[BP_TENSOR_NAME_MAX];
    if (p->view->in.turns) {
        return pull_turns(p, first, count, out);
    }
    while (count > 0) {
        const bp_tensor_place place = bp_tensor_pieces_place(&p->view->in, first);
        const size_t run = place.run < count ? (size_t)place.run : count;
        bp_tensor_view view = {.entry = NULL};
        if (bp_tensor_pieces_name(&p->view->in, place.index, name)) {
            view.entry = bp_tensor_set_find(p->set, name, &view.part);
        }
        if (view.entry == NULL) {
            return bp_error_set(p->set->error, BP_ERR_DATA, where, "a tensor is missing", name);
        }
        pull one = *p;
        one.view = &view;
        one.from_bytes = bp_dtype_bytes(view.entry->dtype);
        BP_TRY(pull_run(&one, place.first, run, out));
        out += run * p->to_bytes;
        first += run;
        count -= run;
    }
    return BP_OK;
}

/* The same of one of the pieces into which a parameter goes. */
static bp_status pull_taken(const pull *p, uint64_t first, size_t count, unsigned char *out)
{
    if (p->view->out.turns && p->view->in.rule == NULL) {
        return pull_turned(p, first, count, out);
    }
    while (count > 0) {
        uint64_t run;
        const uint64_t at = bp_tensor_pieces_element(&p->view->out, p->view->index, first, &run);
        const size_t some = run < count ? (size_t)run : count;
        BP_TRY(p->view->in.rule != NULL ? pull_pieces(p, at, some, out)
                                        : pull_run(p, at, some, out));
        out += some * p->to_bytes;
        first += some;
        count -= some;
    }
    return BP_OK;
}

bp_status bp_tensor_view_read(bp_tensor_set *set, const bp_tensor_view *view, uint64_t first,
                              size_t count, bp_dtype to, void *out, bp_staging work)
{
    const pull p = {.set = set,
                    .view = view,
                    .to = to,
                    .from_bytes = bp_dtype_bytes(view->entry->dtype),
                    .to_bytes = bp_dtype_bytes(to),
                    .work = work};
    uint64_t elements = bp_tensor_view_elements(view);
    bool inside = first <= elements && count <= elements - first;
    if (!inside || work.capacity < BP_VIEW_WORK_MIN) {
        return bp_error_set(set->error, BP_ERR_USAGE, where,
                            "a stretch is not inside the tensor, or the work memory is too small",
                            view->entry->name);
    }
    if (view->mx.blocks.entry != NULL) {
        bool fits;
        BP_TRY(bp_mxfp4_read(set, &view->mx, first, count, to, out, &fits));
        return fits ? BP_OK : too_large(&p);
    }
    if (view->out.rule != NULL) {
        return pull_taken(&p, first, count, out);
    }
    if (view->in.rule != NULL) {
        return pull_pieces(&p, first, count, out);
    }
    first += view->skipped;
    if (first < view->absent && count > 0) {
        const uint64_t most = view->absent - first;
        const size_t zeros = most < count ? (size_t)most : count;
        memset(out, 0, zeros * p.to_bytes); /* is 0.0 in each type */
        out = (char *)out + zeros * p.to_bytes;
        first += zeros;
        count -= zeros;
    }
    if (count == 0) {
        return BP_OK;
    }
    first -= view->absent;
    return view->raised != 0 ? pull_raised(&p, first, count, out) : pull_any(&p, first, count, out);
}

bp_status bp_tensor_view_rows(bp_tensor_set *set, const bp_tensor_view *view, uint64_t first,
                              uint64_t count, void *out)
{
    const bp_tensor_entry *entry = view->entry;
    const bp_packed_type *block = bp_packed_of(entry->packed);
    const bool pieces = view->in.rule != NULL || view->out.rule != NULL;
    const bool other = view->skipped != 0 || view->absent != 0 || view->raised != 0;
    if (block == NULL || entry->rank != 2 || pieces || other) {
        return bp_error_set(set->error, BP_ERR_USAGE, where,
                            "a tensor of this form has no rows of blocks", entry->name);
    }
    const uint64_t bytes = bp_packed_bytes(block, entry->shape[1]);
    unsigned char *to = out;
    if (view->heads == 0) {
        return bp_tensor_set_read(set, view->part, entry, first * bytes, out,
                                  (size_t)(count * bytes));
    }
    for (uint64_t i = 0; i < count; i++) {
        BP_TRY(bp_tensor_set_read(set, view->part, entry, row_behind(view, first + i) * bytes,
                                  to + i * bytes, (size_t)bytes));
    }
    return BP_OK;
}
