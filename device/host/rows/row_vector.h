/* SPDX-License-Identifier: MIT */
/* Sums and exponentials along a row of floats in vectors. A row sum is one vector, whose lanes are
 * the 16 lanes of lanes.h. Included after a vector header. */
#ifndef BP_DEVICE_HOST_ROW_VECTOR_H
#define BP_DEVICE_HOST_ROW_VECTOR_H

#include "device/host/vector/lanes.h"

/* Runs STEP(i, part) for whole vectors and then for the rest of `count` elements. */
#define BP_FOR_VECTORS(i, count, STEP)                                                             \
    uint64_t i = 0;                                                                                \
    for (; i + BP_V <= (count); i += BP_V) {                                                       \
        STEP(bp_part_whole())                                                                      \
    }                                                                                              \
    if (i < (count)) {                                                                             \
        STEP(bp_part_first((count)-i))                                                             \
    }

/* x = e^(x - most), which is added to sum. */
static inline bp_v bp_v_exp_step(float *x, bp_v most, bp_v sum, bp_part part)
{
    bp_v e = bp_v_exp(bp_v_sub(bp_v_load(x, part), most));
    bp_v_store(x, e, part);
    return bp_v_choose(part, bp_v_add(sum, e), sum);
}

static inline float bp_v_row_exp(float *x, uint64_t count, float most)
{
    bp_v sum = bp_v_set(0.0f), top = bp_v_set(most);
#define STEP(part) sum = bp_v_exp_step(x + i, top, sum, part);
    BP_FOR_VECTORS(i, count, STEP)
#undef STEP
    return bp_v_sum(sum);
}

static inline void bp_v_scale_step(float *x, bp_v factor, bp_part part)
{
    bp_v_store(x, bp_v_mul(bp_v_load(x, part), factor), part);
}

static inline void bp_v_row_scale(float *x, uint64_t count, float by)
{
    bp_v factor = bp_v_set(by);
#define STEP(part) bp_v_scale_step(x + i, factor, part);
    BP_FOR_VECTORS(i, count, STEP)
#undef STEP
}

#endif
