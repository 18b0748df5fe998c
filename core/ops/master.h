/* SPDX-License-Identifier: MIT */
/* Master forms: how the exact value of a weight is kept beside, or inside, its working copy.
 *
 * SPLIT: of a master with bits b, weight = (b + 0x8000) >> 16 and remainder =
 * b & 0xffff; the master's high half is weight - 1 where remainder >= 0x8000, else weight. Exact
 * for every finite value. SPLIT8: b24 = (b + 0x80) >> 8, weight = (b24 + 0x80) >> 8, remainder =
 * the low 8 bits of b24: a master of 24 bits. With FP32 a bf16 weight is rounded as in SPLIT, so
 * that both give the same bits; an f16 weight is rounded to nearest even. A non-finite master is
 * never stored: an update that would make one is skipped as a whole. FP8, whose weights go in
 * blocks, is in core/ops/fp8.h. */
#ifndef BP_CORE_MASTER_H
#define BP_CORE_MASTER_H

#include "core/base/dtype.h"
#include "core/ops/fp8.h"
#include "core/ops/storage_format.h"

/* Bytes per element of the tensor beside the weight; 0 where there is none. */
static inline uint64_t bp_master_bytes(int64_t form)
{
    return form == BP_MASTER_FP32                             ? 4
           : form == BP_MASTER_SPLIT || form == BP_MASTER_FP8 ? 2
                                                              : form == BP_MASTER_SPLIT8;
}

/* Bytes of a weight of so many elements, the first of a tensor or of a block of FP8; saturates. */
static inline uint64_t bp_master_weight_bytes(bp_dtype dtype, int64_t form, uint64_t count)
{
    return form == BP_MASTER_FP8 ? bp_fp8_bytes(count) : bp_size_mul(count, bp_dtype_bytes(dtype));
}

/* Stores `value` as element i of a weight of element type `dtype` and of its master, which may be
 * NULL where the form has none. STOCHASTIC rounds half away from zero here: loading is no update.
 * Not for FP8. */
void bp_master_store(bp_dtype dtype, bp_master form, void *weight, void *master, uint64_t i,
                     float value);

/* Element i of the master: exact, but for STOCHASTIC and for SPLIT8's lost bits. Not for FP8. */
float bp_master_load(bp_dtype dtype, bp_master form, const void *weight, const void *master,
                     uint64_t i);

/* "fp32", "split", "split8", "none", "fp8"; "" for WEIGHT. */
const char *bp_master_name(bp_master form);

#endif
