/* SPDX-License-Identifier: MIT */
/* Sums, maxima and exponentials along a row in vectors. A row sum is one vector, whose lanes are
 * the 16 lanes of lanes.h. Included after a vector header. */
#ifndef BP_DEVICE_HOST_ROW_VECTOR_H
#define BP_DEVICE_HOST_ROW_VECTOR_H

#include "device/host/lanes.h"

static inline float bp_v_sum(bp_v x)
{
    float lane[BP_LANES];
    bp_v_spill(x, lane);
    return bp_lanes_sum(lane);
}

/* Runs STEP(i, part) for whole vectors and then for the rest of `count` elements. */
#define BP_FOR_VECTORS(i, count, STEP)                                                             \
    uint64_t i = 0;                                                                                \
    for (; i + BP_V <= (count); i += BP_V) {                                                       \
        STEP(bp_part_whole())                                                                      \
    }                                                                                              \
    STEP(bp_part_first((count)-i))

static inline bp_v bp_v_max_step(const float *x, bp_v most, bp_part part)
{
    return bp_v_choose(part, bp_v_max(bp_v_load(x, part), most), most);
}

static inline float bp_v_row_max(const float *x, uint64_t count)
{
    float lane[BP_LANES];
    bp_v most = bp_v_set(-INFINITY);
#define STEP(part) most = bp_v_max_step(x + i, most, part);
    BP_FOR_VECTORS(i, count, STEP)
#undef STEP
    bp_v_spill(most, lane);
    return bp_row_max(lane, BP_LANES);
}

/* sum += e^(x - most), which goes to `out` unless that is NULL. */
static inline bp_v bp_v_exp_step(const float *x, float *out, bp_v most, bp_v sum, bp_part part)
{
    bp_v e = bp_v_exp(bp_v_sub(bp_v_load(x, part), most));
    if (out != NULL) {
        bp_v_store(out, e, part);
    }
    return bp_v_choose(part, bp_v_add(sum, e), sum);
}

static inline float bp_v_row_exp_sum(const float *x, uint64_t count, float most)
{
    bp_v sum = bp_v_set(0.0f), top = bp_v_set(most);
#define STEP(part) sum = bp_v_exp_step(x + i, NULL, top, sum, part);
    BP_FOR_VECTORS(i, count, STEP)
#undef STEP
    return bp_v_sum(sum);
}

static inline float bp_v_row_exp(float *x, uint64_t count, float most)
{
    bp_v sum = bp_v_set(0.0f), top = bp_v_set(most);
#define STEP(part) sum = bp_v_exp_step(x + i, x + i, top, sum, part);
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
