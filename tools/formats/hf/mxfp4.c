/* SPDX-License-Identifier: MIT */
/* Finding blocks of MXFP4, and reading them as what they stand for. */
#include "tools/formats/hf/mxfp4.h"

#include <string.h>

#include "core/ops/blocks.h"
#include "core/ops/convert.h"

enum {
    GROUP = 32,
    CODES = GROUP / 2,
    OUTPUT = 64 /* blocks of an output */,
    GROUPS = 1024 /* scales read at once */
};

static bp_bnb_tensor look_up(const bp_tensor_set *set, const char *name, const char *end)
{
    bp_bnb_tensor found = {NULL, 0};
    char whole[BP_TENSOR_NAME_MAX];
    const size_t length = strlen(name);
    if (length + strlen(end) < sizeof whole) {
        memcpy(whole, name, length);
        memcpy(whole + length, end, strlen(end) + 1);
        found.entry = bp_tensor_set_find(set, whole, &found.part);
    }
    return found;
}

static bool is_shaped(const bp_tensor_entry *entry, uint32_t rank, const uint64_t shape[4])
{
    return entry != NULL && entry->dtype == BP_U8 && entry->rank == rank &&
           memcmp(entry->shape, shape, rank * sizeof *shape) == 0;
}

bool bp_mxfp4_find(bp_tensor_set *set, const char *name, const uint64_t shape[3], uint64_t handle,
                   bp_mxfp4 *mx)
{
    const uint64_t blocks[4] = {shape[0], shape[2], shape[1] / GROUP, CODES};
    *mx = (bp_mxfp4){.blocks = look_up(set, name, "_blocks"),
                     .scales = look_up(set, name, "_scales"),
                     .in = shape[1],
                     .out = shape[2]};
    if (shape[1] % GROUP != 0 || !is_shaped(mx->blocks.entry, 4, blocks) ||
        !is_shaped(mx->scales.entry, 3, blocks)) {
        mx->blocks.entry = NULL;
        return false;
    }
    mx->blocks.entry->handle = mx->scales.entry->handle = handle;
    return true;
}

/* One block of a file as GGUF has it, where codes lie otherwise. */
static void turn_block(const uint8_t *codes, uint8_t scale, uint8_t block[1 + CODES])
{
    memset(block + 1, 0, CODES);
    block[0] = scale;
    for (uint32_t i = 0; i < GROUP; i++) {
        const uint32_t code = codes[i / 2] >> 4 * (i % 2) & 15;
        block[1 + i % CODES] = (uint8_t)(block[1 + i % CODES] | code << (i < CODES ? 0 : 4));
    }
}

bp_status bp_mxfp4_blocks(bp_tensor_set *set, const bp_mxfp4 *mx, uint64_t first, size_t count,
                          uint8_t *to, uint8_t *work)
{
    uint8_t scales[GROUPS];
    BP_TRY(bp_tensor_set_read(set, mx->blocks.part, mx->blocks.entry, first * CODES, work,
                              count * CODES));
    for (size_t i = 0; i < count; i += GROUPS) {
        const size_t some = count - i < GROUPS ? count - i : GROUPS;
        BP_TRY(bp_tensor_set_read(set, mx->scales.part, mx->scales.entry, first + i, scales, some));
        for (size_t k = 0; k < some; k++) {
            turn_block(work + (i + k) * CODES, scales[k], to + (i + k) * (1 + CODES));
        }
    }
    return BP_OK;
}

/* The values of one block of a file. */
static void read_block(const uint8_t *codes, uint8_t scale, float values[GROUP])
{
    uint8_t block[1 + CODES];
    turn_block(codes, scale, block);
    bp_packed_of_form(BP_QUANTISED_MXFP4)->read(block, 0, values);
}

/* A part of one expert's matrix: elements first .. first + count - 1 of it. */
typedef struct stretch {
    uint64_t expert;
    uint64_t first;
    uint64_t count;
    bp_dtype dtype;
    unsigned char *to;
} stretch;

/* What blocks `from` .. `from + groups - 1` of output `out` have of it. */
static bp_status read_output(bp_tensor_set *set, const bp_mxfp4 *mx, const stretch *s, uint64_t out,
                             const uint64_t from[2], bool *fits)
{
    uint8_t codes[OUTPUT * CODES], scales[OUTPUT];
    const uint64_t at = (s->expert * mx->out + out) * (mx->in / GROUP) + from[0];
    const size_t size = bp_dtype_bytes(s->dtype);
    BP_TRY(bp_tensor_set_read(set, mx->blocks.part, mx->blocks.entry, at * CODES, codes,
                              (size_t)from[1] * CODES));
    BP_TRY(bp_tensor_set_read(set, mx->scales.part, mx->scales.entry, at, scales, (size_t)from[1]));
    for (uint64_t g = 0; g < from[1]; g++) {
        float values[GROUP];
        read_block(codes + g * CODES, scales[g], values);
        for (uint64_t i = 0; i < GROUP; i++) {
            const uint64_t element = ((from[0] + g) * GROUP + i) * mx->out + out;
            if (element >= s->first && element - s->first < s->count) {
                *fits = bp_elements_convert(BP_F32, values + i, s->dtype,
                                            s->to + (element - s->first) * size, 1) &&
                        *fits;
            }
        }
    }
    return BP_OK;
}

static bp_status read_stretch(bp_tensor_set *set, const bp_mxfp4 *mx, const stretch *s, bool *fits)
{
    const uint64_t first = s->first / mx->out / GROUP;
    const uint64_t end = (s->first + s->count - 1) / mx->out / GROUP + 1;
    for (uint64_t out = 0; out < mx->out; out++) {
        for (uint64_t g = first; g < end; g += OUTPUT) {
            const uint64_t groups = end - g < OUTPUT ? end - g : OUTPUT;
            BP_TRY(read_output(set, mx, s, out, (const uint64_t[]){g, groups}, fits));
        }
    }
    return BP_OK;
}

bp_status bp_mxfp4_read(bp_tensor_set *set, const bp_mxfp4 *mx, uint64_t first, size_t count,
                        bp_dtype dtype, void *to, bool *fits)
{
    const uint64_t whole = mx->in * mx->out;
    unsigned char *at = to;
    *fits = true;
    while (count > 0) {
        const uint64_t left = whole - first % whole;
        const stretch s = {first / whole, first % whole, left < count ? left : count, dtype, at};
        BP_TRY(read_stretch(set, mx, &s, fits));
        at += s.count * bp_dtype_bytes(dtype);
        first += s.count;
        count -= (size_t)s.count;
    }
    return BP_OK;
}
