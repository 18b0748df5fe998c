/* SPDX-License-Identifier: MIT */
/* Frozen weights in 4 or 8 bits, stored as bitsandbytes stores them.
 *
 * NF4 (Dettmers et al., arXiv 2305.14314): a matrix (rows, columns) flattened row by row, in blocks
 * of 64 elements, or 32 to 4096; a 4-bit code per element, two to a byte, the even element in the
 * high half, and one f32 scale per block, its largest magnitude. value = bp_nf4[code] * scale.
 * 0.5625 bytes an element.
 *
 * FP4: the same with bp_fp4, a sign, two bits of exponent and one of fraction.
 *
 * NF4_DOUBLE, FP4_DOUBLE: the scales are quantised again, in blocks of 256: a byte per scale and
 * f32 numbers in one array, nested = {offset, map[256], largest of each block}. scale = map[byte] *
 * largest + offset. The map is bp_nested_map; a file may bring its own. 0.5159 bytes an element.
 *
 * INT8 (Dettmers et al., arXiv 2208.07339): one byte an element and one f32 scale per row, its
 * largest magnitude. value = code * scale * (1 / 127).
 *
 * From BP_QUANTISED_BLOCKS on: GGUF's blocks, which have no scales beside them (blocks.h).
 *
 * Each product and sum is rounded to f32 on its own; the value is then rounded to the working type,
 * to nearest even. */
#ifndef BP_CORE_QUANTISED_H
#define BP_CORE_QUANTISED_H

#include "arena/base.h"
#include "core/ops/blocks.h"
#include "core/ops/storage_format.h"
#include "core/ops/fp8.h"

#define BP_NF4_BLOCK     64 /* elements that share a scale, where nothing else is said */
#define BP_BLOCK_LEAST   32 /* and how few and many may */
#define BP_BLOCK_MOST    4096
#define BP_NESTED_BLOCK  256 /* scales that share a scale */
#define BP_NESTED_MAP    1   /* where the map begins in `nested` */
#define BP_NESTED_SCALES 257 /* and where the scales of scales do */

/* The kind of a form, without the size of its blocks. */
static inline int64_t bp_quantised_kind(int64_t form)
{
    return form & 7;
}

/* Whether it is one of GGUF's blocks. */
static inline bool bp_quantised_packed(int64_t form)
{
    return form >= BP_QUANTISED_BLOCKS;
}

/* Whether it is in 4 bits with scales beside it; and whether its scales are in 8. */
static inline bool bp_quantised_four(int64_t form)
{
    return !bp_quantised_packed(form) && ((form & 3) == 1 || (form & 3) == 2);
}

static inline bool bp_quantised_nests(int64_t form)
{
    return !bp_quantised_packed(form) && (form & 3) == 2;
}

/* Whether products read such codes: a kind, with a size of blocks only in 4 bits. */
static inline bool bp_quantised_valid(int64_t form)
{
    if (bp_quantised_packed(form)) {
        return bp_packed_of_form(form) != NULL;
    }
    return form >= 0 && bp_quantised_kind(form) < BP_QUANTISED_KINDS &&
           form < (bp_quantised_four(form) ? 64 : 8);
}

/* Whether rows of so many elements go in it: in GGUF's blocks they are whole blocks. */
static inline bool bp_quantised_row(uint64_t width, int64_t form)
{
    return !bp_quantised_packed(form) || width % bp_packed_of_form(form)->elements == 0;
}

/* Elements that share a scale, of a form in 4 bits. */
static inline uint64_t bp_quantised_block(int64_t form)
{
    return form >= 56 ? BP_BLOCK_LEAST : UINT64_C(64) << (form >> 3);
}

/* A kind in 4 bits with blocks of so many elements; NONE for a size that there is not. */
bp_quantised bp_quantised_with_block(bp_quantised kind, uint64_t block);

/* "nf4", "nf4 with double quantisation", "int8", "fp4", ..; "" for NONE. The sizes of bitsandbytes'
 * blocks are not named; GGUF's types are: "Q4_K". */
const char *bp_quantised_name(bp_quantised form);

/* The sixteen values of NF4 by code; 0 is number 7. */
extern const float bp_nf4[16];

/* And those of FP4, in the order of their codes; code 8 is 0 as well. */
extern const float bp_fp4[16];

static inline const float *bp_quantised_codebook(int64_t form)
{
    return bp_quantised_kind(form) < BP_QUANTISED_FP4 ? bp_nf4 : bp_fp4;
}

/* The map of nested scales by code, as bitsandbytes makes it: 0 is number 127. */
extern const float bp_nested_map[BP_NESTED_BLOCK];

/* 1 / 127 as a float. */
#define BP_INT8_STEP 7.874015718698502e-3f

/* Scales below this are not divided by; a block of zeros has none. */
#define BP_NF4_LEAST 1e-38f

/* Whether it has scales in a tensor of their own. */
static inline bool bp_quantised_scaled(int64_t form)
{
    return form != BP_QUANTISED_FP8 && !bp_quantised_packed(form);
}

/* Bytes of the codes of `count` elements, of the scales of a matrix of `rows` rows and `count`
 * elements, and the floats of `nested` (0: there is none). All saturate. */
static inline uint64_t bp_quantised_codes(uint64_t count, int64_t form)
{
    if (bp_quantised_packed(form)) {
        return bp_packed_bytes(bp_packed_of_form(form), count);
    }
    return form == BP_QUANTISED_FP8    ? bp_fp8_bytes(count)
           : form == BP_QUANTISED_INT8 ? count
                                       : bp_size_ceil_div(count, 2);
}

static inline uint64_t bp_quantised_scales(uint64_t rows, uint64_t count, int64_t form)
{
    if (form == BP_QUANTISED_INT8 || !bp_quantised_scaled(form)) {
        return form == BP_QUANTISED_INT8 ? bp_size_mul(rows, sizeof(float)) : 0;
    }
    uint64_t blocks = bp_size_ceil_div(count, bp_quantised_block(form));
    return bp_quantised_nests(form) ? blocks : bp_size_mul(blocks, sizeof(float));
}

static inline uint64_t bp_quantised_nested(uint64_t count, int64_t form)
{
    if (!bp_quantised_nests(form)) {
        return 0;
    }
    uint64_t blocks = bp_size_ceil_div(count, bp_quantised_block(form));
    return bp_size_add(BP_NESTED_SCALES, bp_size_ceil_div(blocks, BP_NESTED_BLOCK));
}

/* A stored matrix. */
typedef struct bp_quantised_matrix {
    int64_t form;
    uint64_t columns;
    const uint8_t *codes;
    const void *scales;  /* f32, or bytes where they are nested */
    const float *nested; /* NULL where there is none */
} bp_quantised_matrix;

/* Of a form that is scaled: the scale of the block (of the row for INT8) that element number
 * `index` belongs to.
 */
static inline float bp_quantised_scale(const bp_quantised_matrix *matrix, uint64_t index)
{
    if (matrix->form == BP_QUANTISED_INT8) {
        return ((const float *)matrix->scales)[index / matrix->columns];
    }
    uint64_t block = index / bp_quantised_block(matrix->form);
    if (!bp_quantised_nests(matrix->form)) {
        return ((const float *)matrix->scales)[block];
    }
    const float *nested = matrix->nested;
    float value = nested[BP_NESTED_MAP + ((const uint8_t *)matrix->scales)[block]] *
                  nested[BP_NESTED_SCALES + block / BP_NESTED_BLOCK];
    return value + nested[0];
}

/* Element number `index`, in f32. */
static inline float bp_quantised_value(const bp_quantised_matrix *matrix, uint64_t index)
{
    if (matrix->form == BP_QUANTISED_FP8) {
        return bp_fp8_read(matrix->codes, index);
    }
    if (bp_quantised_packed(matrix->form)) {
        float value;
        bp_packed_values(bp_packed_of_form(matrix->form), matrix->codes, index, 1, &value);
        return value;
    }
    const float scale = bp_quantised_scale(matrix, index);
    if (matrix->form == BP_QUANTISED_INT8) {
        const int code =
            matrix->codes[index] < 128 ? matrix->codes[index] : (int)matrix->codes[index] - 256;
        return (float)code * scale * BP_INT8_STEP;
    }
    const unsigned pair = matrix->codes[index / 2];
    return bp_quantised_codebook(matrix->form)[index % 2 == 0 ? pair >> 4 : pair & 15] * scale;
}

/* How a stored matrix comes to be: quantising in passes over all its elements, in order. */

/* Passes that a form needs: what the first ones measure, the last one uses. */
uint32_t bp_quantised_passes(bp_quantised form);

/* The largest magnitude of some values, `so_far` included. */
float bp_quantised_largest(const float *values, uint64_t count, float so_far);

/* The scale of a block in 4 bits. */
float bp_four_scale(int64_t form, const float *values, uint64_t count);

/* One block of a form in 4 bits, at most as many values as it has: their codes, the first of two in
 * the high half of a byte, an odd one followed by that of 0, and its scale, which is returned. The
 * code is that of the number of midpoints between neighbours of the codebook's values that are
 * below value / scale. A whole block multiplies by 1 / scale, a short one divides, as bitsandbytes
 * does on CPUs. */
float bp_four_block(int64_t form, const float *values, uint64_t count, uint8_t *codes);

/* Whole blocks, one behind the other: the scale of each, and their codes. codes may be NULL: then
 * only scales are made. */
void bp_four_blocks(int64_t form, const float *values, uint64_t blocks, float *scales,
                    uint8_t *codes);

/* The codebook's values from the least to the largest, and their codes. */
void bp_four_sorted(int64_t form, float values[16], uint8_t codes[16]);

/* One block of scales, count <= 256, less the offset (bp_cascade_mean of all scales): their codes,
 * and their own scale, which is returned. As bitsandbytes 0.50 does it on CPUs: the quotient is
 * rounded to one of 65,536 steps, and that to the nearest of the map, ties to the lower; the codes
 * of a block of zeros are 0. */
float bp_nested_block(const float *scales, uint32_t count, float offset, uint8_t *codes);

/* One value of a row whose largest magnitude is `scale`: round(value * (1 / scale * 127)), ties to
 * even; 0 in a row of zeros. Value and scale are fp16's, as in bitsandbytes. */
int8_t bp_int8_code(float value, float scale);

/* The same of `count` values of a row. */
void bp_int8_codes(const float *values, uint64_t count, float scale, uint8_t *codes);

#endif
