/* SPDX-License-Identifier: MIT */
/* Weights packed in blocks that bring their own scales, as GGUF files hold them (ggml's Q4_0 to
 * Q8_0, the K types, IQ4_NL, MXFP4): forms of frozen weights beside those of quantised.h.
 *
 * A row is a whole number of blocks. Element i of a block, with d and m in half precision, and q
 * the unsigned code of the element, s and t the scales of its group:
 *
 *   Q4_0, Q5_0      (q - 8) d, (q - 16) d          Q4_K, Q5_K  d s q - m t     groups of 32
 *   Q4_1, Q5_1      q d + m                        Q2_K        d s q - m t     groups of 16
 *   Q8_0            d q, q signed                  Q3_K        d s (q - 4)     groups of 16
 *   IQ4_NL          d c[q], c: a table             Q6_K        d s (q - 32)    groups of 16
 *   MXFP4           2^(e - 128) c[q], c: e2m1 doubled
 *
 * These are ggml-quants.c's dequantize_row_* in its order of operations, each rounded to f32 on its
 * own: from left to right above, with the code as a float. The portable functions are the
 * specification; products on every device give these bits, rounded to the working type. */
#ifndef BP_CORE_BLOCKS_H
#define BP_CORE_BLOCKS_H

#include "arena/base.h"
#include "core/ops/storage_format.h"

#define BP_PACKED_GROUP    32  /* elements that are read at once */
#define BP_PACKED_ELEMENTS 256 /* of a block, at most */

typedef struct bp_packed_type {
    const char *name; /* Q4_K */
    uint32_t type;    /* ggml's number */
    uint32_t elements;
    uint32_t bytes;
    /* Elements 32 group .. 32 group + 31 of a block. */
    void (*read)(const uint8_t *block, uint32_t group, float values[BP_PACKED_GROUP]);
} bp_packed_type;

/* The block of ggml's number; NULL when it is none of these. */
const bp_packed_type *bp_packed_of(uint64_t type);

/* The block of a form; NULL for a form of another kind. */
static inline const bp_packed_type *bp_packed_of_form(int64_t form)
{
    return form >= BP_QUANTISED_BLOCKS ? bp_packed_of((uint64_t)form - BP_QUANTISED_BLOCKS) : NULL;
}

/* Bytes of `count` elements, which are whole blocks; saturates. */
static inline uint64_t bp_packed_bytes(const bp_packed_type *block, uint64_t count)
{
    return bp_size_mul(bp_size_ceil_div(count, block->elements), block->bytes);
}

/* Elements first .. first + count - 1 of packed rows that begin at `codes`. */
void bp_packed_values(const bp_packed_type *block, const uint8_t *codes, uint64_t first,
                      uint64_t count, float *values);

#endif
