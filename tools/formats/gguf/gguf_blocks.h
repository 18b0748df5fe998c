/* SPDX-License-Identifier: MIT */
/* The element types of GGUF files that pack numbers in blocks with scales of their own (ggml's
 * Q4_0 to Q8_0, and the K types), read into floats. The formulas are those of ggml-quants.c's
 * dequantize_row_*, in its order of operations, so the floats have its bits. */
#ifndef BP_FORMATS_GGUF_BLOCKS_H
#define BP_FORMATS_GGUF_BLOCKS_H

#include "arena/base.h"

#define BP_GGUF_BLOCK_MOST 256 /* elements of a block, at most */

typedef struct bp_gguf_block {
    const char *name; /* Q4_K */
    uint32_t type;    /* ggml's number */
    uint32_t elements;
    uint32_t bytes;
    void (*read)(const unsigned char *block, float *values);
} bp_gguf_block;

/* The block of a type number; NULL when it is none of these. */
const bp_gguf_block *bp_gguf_block_of(uint64_t type);

#endif
