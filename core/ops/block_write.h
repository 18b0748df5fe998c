/* SPDX-License-Identifier: MIT */
/* Floats to the blocks of core/ops/blocks.h, with the bytes of ggml's quantize_row_*_ref where it
 * is built without fused multiplication and addition. Q4_0 to Q8_0 do not depend on how it is
 * built. */
#ifndef BP_CORE_BLOCK_WRITE_H
#define BP_CORE_BLOCK_WRITE_H

#include "core/ops/blocks.h"

/* Writes one block. values: type->elements of them, each finite and at most 65,504 times the type's
 * largest code in magnitude (what half precision holds). Q4_0 to Q8_0 take 5 ns a
 * value, MXFP4 37, Q6_K 80, Q4_K 110 (measured on one x86-64 core). */
typedef void (*bp_block_writer)(const float *values, uint8_t *block);

/* NULL: blocks of this type are not made here (Q2_K, Q3_K, IQ4_NL). */
bp_block_writer bp_block_writer_of(const bp_packed_type *type);

#endif
