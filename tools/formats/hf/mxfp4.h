/* SPDX-License-Identifier: MIT */
/* Experts' matrices in blocks of MXFP4, as gpt-oss' files have them: X_blocks U8 (experts, out, in
 * / 32, 16), a byte of which has the element 2 i in its low half and 2 i + 1 in its high one, and
 * X_scales U8 (experts, out, in / 32). What they mean is core/ops/blocks.h's. */
#ifndef BP_FORMATS_MXFP4_H
#define BP_FORMATS_MXFP4_H

#include "tools/formats/hf/bnb.h"

typedef struct bp_mxfp4 {
    bp_bnb_tensor blocks; /* entry is NULL where there are none */
    bp_bnb_tensor scales;
    uint64_t in; /* of one expert's matrix */
    uint64_t out;
} bp_mxfp4;

/* The blocks of the tensor of that name, a parameter (experts, in, out). Sets the handles of both
 * tensors to `handle`. False: the file has none, or not of this shape. */
bool bp_mxfp4_find(bp_tensor_set *set, const char *name, const uint64_t shape[3], uint64_t handle,
                   bp_mxfp4 *mx);

/* Elements [first, first + count) of the parameter, as `dtype`, F32, F16 or BF16. *fits: none is
 * too large for it. Cost: two reads of the file for each output of the experts that they are of, so
 * long stretches are read faster. */
bp_status bp_mxfp4_read(bp_tensor_set *set, const bp_mxfp4 *mx, uint64_t first, size_t count,
                        bp_dtype dtype, void *to, bool *fits) BP_MUST_CHECK;

/* Blocks [first, first + count) of all experts' outputs, each with its scale in front, in the order
 * of core/ops/blocks.h's MXFP4, 17 bytes each. `work`: 16 bytes for each. */
bp_status bp_mxfp4_blocks(bp_tensor_set *set, const bp_mxfp4 *mx, uint64_t first, size_t count,
                          uint8_t *to, uint8_t *work) BP_MUST_CHECK;

#endif
