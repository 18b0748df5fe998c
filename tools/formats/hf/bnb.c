/* SPDX-License-Identifier: MIT */
/* Finding, checking and reading what bitsandbytes wrote. */
#include "tools/formats/hf/bnb.h"

#include <string.h>

#include "tools/formats/hf/bnb_state.h"

#define ELEMENTS 1024 /* read at once */
#define SCALES   (ELEMENTS / BP_BLOCK_LEAST + 1)

static const char where[] = "weights";
static const char weight_end[] = "weight";

static bp_status bnb_refuse(const bp_tensor_set *set, const char *text, const char *name)
{
    bp_status status = bp_error_set(set->error, BP_ERR_DATA, where, text, name);
    bp_error_prefix(set->error, set->path);
    return status;
}

bool bp_bnb_possible(const bp_tensor_entry *entry)
{
    return entry->dtype == BP_U8 || entry->dtype == BP_I8;
}

/* The tensor called like the weight with another end; `whole`: behind its name, else in the place
 * of "weight". */
static bp_bnb_tensor look_up(const bp_tensor_set *set, const char *weight, const char *end,
                             bool whole)
{
    bp_bnb_tensor found = {NULL, 0};
    char name[BP_TENSOR_NAME_MAX + 64];
    size_t length = strlen(weight), tail = sizeof weight_end - 1;
    if (length < tail || strcmp(weight + length - tail, weight_end) != 0 ||
        length + strlen(end) >= sizeof name) {
        return found;
    }
    length -= whole ? 0 : tail;
    memcpy(name, weight, length);
    memcpy(name + length, end, strlen(end) + 1);
    found.entry = bp_tensor_set_find(set, name, &found.part);
    return found;
}

/* A tensor that must be there, with that type and that many elements. */
static bp_status bnb_need(const bp_tensor_set *set, const bp_tensor_entry *weight,
                          bp_bnb_tensor found, bp_dtype dtype, uint64_t elements,
                          const char *missing)
{
    if (found.entry == NULL) {
        return bnb_refuse(set, missing, weight->name);
    }
    if (found.entry->dtype != dtype) {
        return bnb_refuse(
            set, "a part of a quantised weight has another type than bitsandbytes gives it",
            found.entry->name);
    }
    uint64_t there = found.entry->bytes / bp_dtype_bytes(dtype);
    if (there != elements) {
        bp_status status = bp_error_numbers(
            set->error, BP_ERR_DATA, where,
            "a part of a quantised weight has another number of elements than its shape asks for",
            found.entry->name, bp_size_signed(there), bp_size_signed(elements));
        bp_error_prefix(set->error, set->path);
        return status;
    }
    return BP_OK;
}

static bp_status check_finite(bp_tensor_set *set, bp_bnb_tensor tensor)
{
    float values[256];
    for (uint64_t at = 0; at < tensor.entry->bytes;) {
        uint64_t left = tensor.entry->bytes - at;
        size_t some = left < sizeof values ? (size_t)left : sizeof values;
        BP_TRY(bp_tensor_set_read(set, tensor.part, tensor.entry, at, values, some));
        for (size_t i = 0; i < some / sizeof *values; i++) {
            uint32_t bits;
            memcpy(&bits, values + i, sizeof bits);
            if ((bits & 0x7f800000u) == 0x7f800000u) {
                return bnb_refuse(set, "a scale is infinite or not a number", tensor.entry->name);
            }
        }
        at += some;
    }
    return BP_OK;
}

static bp_status check_map(bp_tensor_set *set, const bp_bnb *bnb)
{
    float map[16];
    BP_TRY(bp_tensor_set_read(set, bnb->map.part, bnb->map.entry, 0, map, sizeof map));
    return memcmp(map, bp_quantised_codebook(bnb->form), sizeof map) == 0
               ? BP_OK
               : bnb_refuse(set, "the values of the codes are not those of NF4, or of FP4",
                            bnb->map.entry->name);
}

static bp_status read_state(bp_tensor_set *set, bp_bnb *bnb, bp_bnb_state *state)
{
    char text[BP_BNB_STATE_MAX];
    const bp_tensor_entry *entry = bnb->state.entry;
    if (entry->dtype != BP_U8 || entry->bytes > sizeof text) {
        return bnb_refuse(set, "quant_state must be U8 and at most 1024 bytes", entry->name);
    }
    BP_TRY(bp_tensor_set_read(set, bnb->state.part, entry, 0, text, (size_t)entry->bytes));
    bp_error inner = {.code = BP_OK};
    if (bp_bnb_state_read(text, (size_t)entry->bytes, state, &inner) != BP_OK) {
        return bnb_refuse(set, inner.text, entry->name);
    }
    return BP_OK;
}

static bp_quantised form_of(const bp_bnb_state *state)
{
    const bp_quantised plain = state->fp4 ? BP_QUANTISED_FP4 : BP_QUANTISED_NF4;
    const bp_quantised nested = state->fp4 ? BP_QUANTISED_FP4_DOUBLE : BP_QUANTISED_NF4_DOUBLE;
    return bp_quantised_with_block(state->nested ? nested : plain, state->block);
}

/* The offset's own rounding to f32 is torch's. */
static bp_status find_four(bp_tensor_set *set, bp_tensor_entry *entry, bool fp4, bp_bnb *bnb)
{
    bp_bnb_state state;
    BP_TRY(read_state(set, bnb, &state));
    if (state.fp4 != fp4) {
        return bnb_refuse(set, "quant_type names another format than the tensor",
                          bnb->state.entry->name);
    }
    const bp_quantised form = form_of(&state);
    const uint64_t count = bp_size_mul(state.rows, state.columns);
    bnb->rows = state.rows;
    bnb->columns = state.columns;
    bnb->dtype = state.dtype;
    bnb->offset = (float)state.offset;
    BP_TRY(bnb_need(set, entry, bnb->codes, BP_U8, bp_quantised_codes(count, form), ""));
    bnb->map = look_up(set, entry->name, ".quant_map", true);
    BP_TRY(bnb_need(set, entry, bnb->map, BP_F32, 16, "a quantised weight has no quant_map"));
    bnb->form = form;
    BP_TRY(check_map(set, bnb));
    bnb->scales = look_up(set, entry->name, ".absmax", true);
    uint64_t blocks = bp_size_ceil_div(count, bp_quantised_block(form));
    BP_TRY(bnb_need(set, entry, bnb->scales, state.nested ? BP_U8 : BP_F32, blocks,
                    "a quantised weight has no absmax"));
    if (state.nested) {
        bnb->nested = look_up(set, entry->name, ".nested_absmax", true);
        bnb->nested_map = look_up(set, entry->name, ".nested_quant_map", true);
        BP_TRY(bnb_need(set, entry, bnb->nested, BP_F32, bp_size_ceil_div(blocks, BP_NESTED_BLOCK),
                        "a quantised weight has no nested_absmax"));
        BP_TRY(bnb_need(set, entry, bnb->nested_map, BP_F32, BP_NESTED_BLOCK,
                        "a quantised weight has no nested_quant_map"));
        BP_TRY(check_finite(set, bnb->nested_map));
    }
    return check_finite(set, state.nested ? bnb->nested : bnb->scales);
}

static bp_status find_int8(bp_tensor_set *set, bp_tensor_entry *entry, bp_bnb *bnb)
{
    uint8_t format = 0;
    if (entry->rank != 2 || entry->shape[0] == 0 || entry->shape[1] == 0) {
        return bnb_refuse(set, "a weight in 8 bits must be a matrix", entry->name);
    }
    bnb->rows = entry->shape[0];
    bnb->columns = entry->shape[1];
    bnb->dtype = BP_F16;
    BP_TRY(bnb_need(set, entry, bnb->scales, BP_F32, bnb->rows, "a weight in 8 bits has no SCB"));
    BP_TRY(check_finite(set, bnb->scales));
    bnb->state = look_up(set, entry->name, "weight_format", false);
    if (bnb->state.entry != NULL) {
        BP_TRY(bnb_need(set, entry, bnb->state, BP_U8, 1, ""));
        BP_TRY(bp_tensor_set_read(set, bnb->state.part, bnb->state.entry, 0, &format, 1));
    }
    if (format != 0) {
        return bnb_refuse(set, "this weight_format is not implemented (0, by rows, is)",
                          entry->name);
    }
    bnb->form = BP_QUANTISED_INT8;
    return BP_OK;
}

static void claim(const bp_bnb *bnb, uint64_t handle)
{
    const bp_bnb_tensor all[] = {bnb->codes,      bnb->scales, bnb->nested,
                                 bnb->nested_map, bnb->map,    bnb->state};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].entry != NULL) {
            all[i].entry->handle = handle;
        }
    }
}

bp_status bp_bnb_find(bp_tensor_set *set, bp_tensor_entry *entry, uint32_t part, uint64_t handle,
                      bp_bnb *bnb)
{
    *bnb = (bp_bnb){.form = BP_QUANTISED_NONE, .codes = {entry, part}};
    if (entry->dtype == BP_I8) {
        bnb->scales = look_up(set, entry->name, "SCB", false);
        if (bnb->scales.entry == NULL) {
            return BP_OK;
        }
        BP_TRY(find_int8(set, entry, bnb));
    } else {
        const bp_bnb_tensor fp4 = look_up(set, entry->name, ".quant_state.bitsandbytes__fp4", true);
        const bp_bnb_tensor nf4 = look_up(set, entry->name, ".quant_state.bitsandbytes__nf4", true);
        bnb->state = nf4.entry != NULL ? nf4 : fp4;
        if (bnb->state.entry == NULL) {
            return BP_OK;
        }
        BP_TRY(find_four(set, entry, nf4.entry == NULL, bnb));
    }
    claim(bnb, handle);
    return BP_OK;
}

bp_status bp_bnb_nested(bp_tensor_set *set, const bp_bnb *bnb, float head[BP_NESTED_SCALES])
{
    head[0] = bnb->offset;
    return bp_tensor_set_read(set, bnb->nested_map.part, bnb->nested_map.entry, 0,
                              head + BP_NESTED_MAP, BP_NESTED_BLOCK * sizeof(float));
}

/* The scales of blocks first .. first + count - 1 as floats; count <= SCALES. */
static bp_status read_scales(bp_tensor_set *set, const bp_bnb *bnb, uint64_t first, size_t count,
                             float *scales)
{
    const bp_bnb_tensor *in = &bnb->scales;
    if (!bp_quantised_nests(bnb->form)) {
        return bp_tensor_set_read(set, in->part, in->entry, first * sizeof(float), scales,
                                  count * sizeof(float));
    }
    uint8_t bytes[SCALES];
    float nested[BP_NESTED_SCALES + 1];
    uint64_t group = UINT64_MAX;
    BP_TRY(bp_bnb_nested(set, bnb, nested));
    BP_TRY(bp_tensor_set_read(set, in->part, in->entry, first, bytes, count));
    for (size_t i = 0; i < count; i++) {
        if ((first + i) / BP_NESTED_BLOCK != group) {
            group = (first + i) / BP_NESTED_BLOCK;
            BP_TRY(bp_tensor_set_read(set, bnb->nested.part, bnb->nested.entry,
                                      group * sizeof(float), nested + BP_NESTED_SCALES,
                                      sizeof(float)));
        }
        const bp_quantised_matrix one = {bnb->form, 1, NULL, bytes + i, nested};
        scales[i] = bp_quantised_scale(&one, 0);
    }
    return BP_OK;
}

static bp_status read_four(bp_tensor_set *set, const bp_bnb *bnb, uint64_t first, size_t count,
                           float *values)
{
    uint8_t codes[ELEMENTS / 2 + 1];
    float scales[SCALES];
    const uint64_t size = bp_quantised_block(bnb->form);
    const uint64_t end = first + count, block = first / size;
    const float *book = bp_quantised_codebook(bnb->form);
    BP_TRY(bp_tensor_set_read(set, bnb->codes.part, bnb->codes.entry, first / 2, codes,
                              (size_t)((end + 1) / 2 - first / 2)));
    BP_TRY(read_scales(set, bnb, block, (size_t)((end - 1) / size - block + 1), scales));
    for (size_t i = 0; i < count; i++) {
        uint64_t at = first + i;
        const unsigned pair = codes[at / 2 - first / 2];
        values[i] = book[at % 2 == 0 ? pair >> 4 : pair & 15] * scales[at / size - block];
    }
    return BP_OK;
}

static bp_status read_int8(bp_tensor_set *set, const bp_bnb *bnb, uint64_t first, size_t count,
                           float *values)
{
    uint8_t codes[ELEMENTS];
    float scale;
    BP_TRY(bp_tensor_set_read(set, bnb->codes.part, bnb->codes.entry, first, codes, count));
    BP_TRY(bp_tensor_set_read(set, bnb->scales.part, bnb->scales.entry,
                              first / bnb->columns * sizeof scale, &scale, sizeof scale));
    const bp_quantised_matrix row = {BP_QUANTISED_INT8, bnb->columns, codes, &scale, NULL};
    for (size_t i = 0; i < count; i++) {
        values[i] = bp_quantised_value(&row, i);
    }
    return BP_OK;
}

bp_status bp_bnb_read(bp_tensor_set *set, const bp_bnb *bnb, uint64_t first, size_t count,
                      float *values)
{
    const bool bytes = bnb->form == BP_QUANTISED_INT8;
    while (count > 0) {
        uint64_t row = bytes ? bnb->columns - first % bnb->columns : ELEMENTS; /* left of it */
        size_t most = row < ELEMENTS ? (size_t)row : ELEMENTS;
        size_t some = count < most ? count : most;
        BP_TRY(bytes ? read_int8(set, bnb, first, some, values)
                     : read_four(set, bnb, first, some, values));
        values += some;
        first += some;
        count -= some;
    }
    return BP_OK;
}
