/* SPDX-License-Identifier: MIT */
/* The tensors of quantised weights, listed and given. */
#include "tools/formats/hf/bnb_write.h"

#include <string.h>

#include "core/ops/cascade.h"
#include "tools/formats/hf/bnb_state.h"

static const char where[] = "export";

enum { PART_FLOATS, PART_CODES, PART_SCALES, PART_MAP, PART_STATE, PART_NESTED, PART_NESTED_MAP };

/* A weight as a matrix (out, in). */
typedef struct matrix {
    const bp_bnb_writing *w;
    size_t index;
    bp_tensor_view view;
    bp_quantised form;
    uint64_t rows;
    uint64_t columns;
    uint64_t count;
    float *values; /* room for `most` of them */
    size_t most;
    bp_staging work;
} matrix;

bool bp_bnb_goes(const bp_bnb_writing *w, size_t index)
{
    const bp_wanted *wanted = &w->source->list[index];
    bool stored = wanted->view.bnb.form != BP_QUANTISED_NONE;
    return w->form != BP_QUANTISED_NONE && (stored || wanted->dense);
}

static bp_status matrix_of(const bp_bnb_writing *w, size_t index, matrix *m)
{
    const bp_wanted *wanted = &w->source->list[index];
    const bp_tensor_heads heads = {1, 1, 0};
    size_t half = w->raw.capacity / 2 / 8 * 8;
    *m = (matrix){.w = w, .index = index, .view = wanted->view, .form = w->form};
    if (wanted->view.bnb.form != BP_QUANTISED_NONE) {
        m->form = wanted->view.bnb.form;
    }
    if (w->source->input_major &&
        !bp_tensor_view_transpose(&m->view, BP_LAYOUT_TRANSPOSED, heads)) {
        return bp_error_set(w->source->set->error, BP_ERR_USAGE, where,
                            "a tensor of this form cannot be quantised", wanted->name);
    }
    m->rows = m->view.shape[0];
    m->columns = m->view.shape[1];
    m->count = bp_size_mul(m->rows, m->columns);
    m->work = (bp_staging){w->raw.memory, half};
    m->values = (float *)(void *)((char *)w->raw.memory + half);
    uint64_t most = half / sizeof(float);
    uint64_t unit = m->form == BP_QUANTISED_INT8 ? m->columns : bp_quantised_block(m->form);
    m->most = (size_t)(most / unit * unit);
    if (half < BP_VIEW_WORK_MIN || m->most == 0) {
        return bp_error_numbers(w->source->set->error, BP_ERR_FIT, where,
                                "the memory for writing weights is too small", wanted->name,
                                bp_size_signed(w->raw.capacity),
                                bp_size_signed(2 * unit * sizeof(float)));
    }
    return BP_OK;
}

/* Elements from `first` on, as many as there is room for; *count of them. */
static bp_status read_some(const matrix *m, uint64_t first, size_t *count)
{
    bp_tensor_set *set = m->w->source->set;
    uint64_t left = m->count - first;
    *count = left < m->most ? (size_t)left : m->most;
    BP_TRY(bp_tensor_view_read(set, &m->view, first, *count, BP_F32, m->values, m->work));
    if (!bp_elements_finite(BP_F32, m->values, *count)) {
        return bp_error_set(set->error, BP_ERR_DATA, where, "a weight is infinite or not a number",
                            m->view.entry->name);
    }
    if (m->form == BP_QUANTISED_INT8) {
        bp_elements_round(BP_F16, m->values, *count);
    }
    if (!bp_elements_finite(BP_F32, m->values, *count)) {
        return bp_error_set(set->error, BP_ERR_DATA, where,
                            "a weight is too large for 8 bits, which are made from fp16",
                            m->view.entry->name);
    }
    return BP_OK;
}

static uint64_t block_at(const matrix *m, size_t count, size_t i)
{
    const uint64_t left = count - i, block = bp_quantised_block(m->form);
    return left < block ? left : block;
}

/* The mean of all scales. */
static bp_status bnb_write_measure(const matrix *m, float *offset)
{
    bp_cascade sum;
    size_t count;
    bp_cascade_begin(&sum, bp_size_ceil_div(m->count, bp_quantised_block(m->form)));
    for (uint64_t first = 0; first < m->count; first += count) {
        BP_TRY(read_some(m, first, &count));
        for (size_t i = 0; i < count; i += (size_t)bp_quantised_block(m->form)) {
            bp_cascade_add(&sum, bp_four_scale(m->form, m->values + i, block_at(m, count, i)));
        }
    }
    *offset = bp_cascade_mean(&sum);
    return BP_OK;
}

static size_t put_state(const matrix *m, char text[BP_BNB_STATE_MAX])
{
    const bool nested = bp_quantised_nests(m->form);
    const bp_bnb_state state = {.fp4 = bp_quantised_kind(m->form) >= BP_QUANTISED_FP4,
                                .block = bp_quantised_block(m->form),
                                .rows = m->rows,
                                .columns = m->columns,
                                .dtype = m->view.entry->dtype,
                                .nested = nested,
                                .offset = nested ? (double)m->w->offsets[m->index] : 0.0};
    return bp_bnb_state_write(&state, text);
}

/* A name with another end, from the room. */
static const char *name_with(const char *name, const char *end, size_t cut, bp_staging *room)
{
    size_t length = strlen(name) - cut, tail = strlen(end) + 1;
    char *text = bp_room_take(room, length + tail);
    if (text != NULL) {
        memcpy(text, name, length);
        memcpy(text + length, end, tail);
    }
    return text;
}

/* What a part is: its end of the name, type and shape. */
typedef struct part_row {
    const char *end;
    size_t cut; /* characters of the weight's name that it replaces */
    uint32_t part;
    bp_dtype dtype;
    uint32_t rank;
    uint64_t shape[2];
} part_row;

static size_t four_rows(const matrix *m, size_t state_bytes, part_row rows[BP_BNB_PARTS])
{
    const bool nested = bp_quantised_nests(m->form);
    const bool fp4 = bp_quantised_kind(m->form) >= BP_QUANTISED_FP4;
    const char *state = fp4 ? ".quant_state.bitsandbytes__fp4" : ".quant_state.bitsandbytes__nf4";
    const uint64_t blocks = bp_size_ceil_div(m->count, bp_quantised_block(m->form));
    const part_row all[BP_BNB_PARTS] = {
        {"", 0, PART_CODES, BP_U8, 2, {bp_size_ceil_div(m->count, 2), 1}},
        {".absmax", 0, PART_SCALES, nested ? BP_U8 : BP_F32, 1, {blocks, 0}},
        {".quant_map", 0, PART_MAP, BP_F32, 1, {16, 0}},
        {state, 0, PART_STATE, BP_U8, 1, {state_bytes, 0}},
        {".nested_absmax", 0, PART_NESTED, BP_F32, 1, {bp_size_ceil_div(blocks, BP_NESTED_BLOCK)}},
        {".nested_quant_map", 0, PART_NESTED_MAP, BP_F32, 1, {BP_NESTED_BLOCK, 0}}};
    memcpy(rows, all, sizeof all);
    return nested ? 6 : 4;
}

static size_t int8_rows(const matrix *m, part_row rows[BP_BNB_PARTS])
{
    const size_t weight = strlen("weight");
    const part_row all[3] = {{"", 0, PART_CODES, BP_I8, 2, {m->rows, m->columns}},
                             {"SCB", weight, PART_SCALES, BP_F32, 1, {m->rows, 0}},
                             {"weight_format", weight, PART_STATE, BP_U8, 0, {0, 0}}};
    memcpy(rows, all, sizeof all);
    return 3;
}

/* Bytes of the state: as the source has it, or as it is going to be written. */
static bp_status find_state(bp_bnb_writing *w, const matrix *m, size_t *bytes)
{
    char text[BP_BNB_STATE_MAX];
    const bp_bnb *bnb = &m->view.bnb;
    if (bnb->form != BP_QUANTISED_NONE) {
        *bytes = bnb->state.entry != NULL ? (size_t)bnb->state.entry->bytes : 0;
        return BP_OK;
    }
    if (bp_quantised_nests(m->form)) {
        BP_TRY(bnb_write_measure(m, &w->offsets[m->index]));
    }
    *bytes = put_state(m, text);
    return BP_OK;
}

bp_status bp_bnb_list(bp_bnb_writing *w, size_t index, const char *name, bp_staging *room,
                      bp_tensor_entry entries[BP_BNB_PARTS], size_t *count)
{
    part_row rows[BP_BNB_PARTS];
    size_t state_bytes = 0;
    matrix m;
    BP_TRY(matrix_of(w, index, &m));
    BP_TRY(find_state(w, &m, &state_bytes));
    *count = m.form == BP_QUANTISED_INT8 ? int8_rows(&m, rows) : four_rows(&m, state_bytes, rows);
    for (size_t i = 0; i < *count; i++) {
        entries[i] = (bp_tensor_entry){.name = name_with(name, rows[i].end, rows[i].cut, room),
                                       .dtype = rows[i].dtype,
                                       .rank = rows[i].rank,
                                       .shape = {rows[i].shape[0], rows[i].shape[1]},
                                       .handle = BP_BNB_HANDLE(index, rows[i].part)};
        if (entries[i].name == NULL) {
            return bp_error_set(w->source->set->error, BP_ERR_FIT, where,
                                "the model has too many tensors", name);
        }
    }
    return BP_OK;
}

/* What of a chunk of values goes into `to`, which begins at byte `offset` of the part and ends at
 * `end`: a chunk's output begins at a multiple of what a group makes, as every piece does. */
typedef struct piece {
    uint64_t offset;
    uint64_t end;
    unsigned char *to;
} piece;

static void bnb_write_put(const piece *p, uint64_t at, const void *bytes, size_t count)
{
    const unsigned char *from = bytes;
    for (size_t i = 0; i < count; i++) {
        if (at + i >= p->offset && at + i < p->end) {
            p->to[at + i - p->offset] = from[i];
        }
    }
}

static void put_codes(const matrix *m, const piece *p, uint64_t first, size_t count)
{
    const uint64_t block = bp_quantised_block(m->form);
    uint8_t packed[BP_BLOCK_MOST / 2];
    for (size_t i = 0; i < count; i += (size_t)block) {
        const uint64_t some = block_at(m, count, i);
        (void)bp_four_block(m->form, m->values + i, some, packed);
        bnb_write_put(p, (first + i) / 2, packed, (size_t)(some + 1) / 2);
    }
}

/* Scales of blocks that wait until there are as many as share one. */
typedef struct waiting {
    float scales[BP_NESTED_BLOCK];
    uint32_t kept;
} waiting;

/* Those up to number `block`, which is their last, or the matrix's. */
static void put_nested(const matrix *m, const piece *p, uint32_t part, waiting *w, uint64_t block)
{
    uint8_t codes[BP_NESTED_BLOCK];
    const float scale = bp_nested_block(w->scales, w->kept, m->w->offsets[m->index], codes);
    if (part == PART_SCALES) {
        bnb_write_put(p, block + 1 - w->kept, codes, w->kept);
    } else {
        bnb_write_put(p, block / BP_NESTED_BLOCK * sizeof scale, &scale, sizeof scale);
    }
    w->kept = 0;
}

/* Scales, whatever of them is wanted; values begin a block. */
static void put_scales(const matrix *m, const piece *p, uint32_t part, uint64_t first, size_t count,
                       waiting *w)
{
    const uint64_t size = bp_quantised_block(m->form);
    for (size_t i = 0; i < count; i += (size_t)size) {
        const uint64_t block = (first + i) / size, some = block_at(m, count, i);
        const float scale = bp_four_scale(m->form, m->values + i, some);
        if (!bp_quantised_nests(m->form)) {
            bnb_write_put(p, block * sizeof scale, &scale, sizeof scale);
            continue;
        }
        w->scales[w->kept++] = scale;
        if (w->kept == BP_NESTED_BLOCK || first + i + some == m->count) {
            put_nested(m, p, part, w, block);
        }
    }
}

static void put_rows(const matrix *m, const piece *p, uint32_t part, uint64_t first, size_t count)
{
    for (size_t i = 0; i < count; i += m->columns) {
        float scale = bp_quantised_largest(m->values + i, m->columns, 0.0f);
        uint64_t row = (first + i) / m->columns;
        if (part == PART_SCALES) {
            bnb_write_put(p, row * sizeof scale, &scale, sizeof scale);
            continue;
        }
        for (uint64_t k = 0; k < m->columns; k++) {
            int8_t code = bp_int8_code(m->values[i + k], scale);
            bnb_write_put(p, first + i + k, &code, 1);
        }
    }
}

/* Elements behind one byte of a part, so that only they are read. */
static uint64_t elements_of(const matrix *m, uint32_t part)
{
    if (m->form == BP_QUANTISED_INT8) {
        return part == PART_CODES ? 1 : m->columns / sizeof(float);
    }
    const uint64_t block = bp_quantised_block(m->form);
    if (part == PART_CODES) {
        return 2;
    }
    if (part == PART_NESTED) {
        return block * BP_NESTED_BLOCK / sizeof(float);
    }
    return bp_quantised_nests(m->form) ? block : block / sizeof(float);
}

static bp_status quantise(const matrix *m, uint32_t part, const piece *p)
{
    const uint64_t block = m->form == BP_QUANTISED_INT8 ? m->columns : bp_quantised_block(m->form);
    const uint64_t unit = bp_quantised_nests(m->form) && part != PART_CODES
                              ? block * BP_NESTED_BLOCK /* whose scales share a scale */
                              : block;
    const uint64_t each = elements_of(m, part);
    waiting w = {.kept = 0};
    size_t count;
    uint64_t first = p->offset * each / unit * unit;
    uint64_t end = bp_size_mul(p->end, each + 1); /* each was rounded down */
    end = end < m->count ? (end + unit - 1) / unit * unit : m->count;
    for (end = end < m->count ? end : m->count; first < end; first += count) {
        BP_TRY(read_some(m, first, &count));
        if (m->form == BP_QUANTISED_INT8) {
            put_rows(m, p, part, first, count);
        } else if (part == PART_CODES) {
            put_codes(m, p, first, count);
        } else {
            put_scales(m, p, part, first, count, &w);
        }
    }
    return BP_OK;
}

/* A part of fixed content. */
static bp_status give_fixed(const matrix *m, uint32_t part, const piece *p)
{
    char text[BP_BNB_STATE_MAX];
    if (part == PART_MAP) {
        bnb_write_put(p, 0, bp_quantised_codebook(m->form), 16 * sizeof(float));
    } else if (part == PART_NESTED_MAP) {
        bnb_write_put(p, 0, bp_nested_map, sizeof bp_nested_map);
    } else if (m->form == BP_QUANTISED_INT8) {
        bnb_write_put(p, 0, "", 1); /* weight_format 0 */
    } else {
        size_t length = put_state(m, text);
        bnb_write_put(p, 0, text, length);
    }
    return BP_OK;
}

/* The source's own tensor, as it is. A file may leave weight_format out. */
static bp_status give_stored(const matrix *m, uint32_t part, const piece *p)
{
    const bp_bnb *bnb = &m->view.bnb;
    const bp_bnb_tensor *from = part == PART_CODES    ? &bnb->codes
                                : part == PART_SCALES ? &bnb->scales
                                : part == PART_MAP    ? &bnb->map
                                : part == PART_NESTED ? &bnb->nested
                                : part == PART_STATE  ? &bnb->state
                                                      : &bnb->nested_map;
    if (from->entry == NULL) {
        return give_fixed(m, part, p);
    }
    return bp_tensor_set_read(m->w->source->set, from->part, from->entry, p->offset, p->to,
                              (size_t)(p->end - p->offset));
}

bp_status bp_bnb_give(const bp_bnb_writing *w, uint64_t handle, uint64_t offset, void *to,
                      size_t bytes)
{
    const uint32_t part = BP_BNB_PART(handle);
    const piece p = {offset, offset + bytes, to};
    matrix m;
    BP_TRY(matrix_of(w, BP_BNB_INDEX(handle), &m));
    if (m.view.bnb.form != BP_QUANTISED_NONE) {
        return give_stored(&m, part, &p);
    }
    bool fixed = part == PART_MAP || part == PART_NESTED_MAP || part == PART_STATE;
    return fixed ? give_fixed(&m, part, &p) : quantise(&m, part, &p);
}
