/* SPDX-License-Identifier: MIT */
/* What a place's two gates make of the gated delta rule's state (core/ops/delta.def). */
#ifndef BP_DEVICE_HOST_DELTA_GATES_H
#define BP_DEVICE_HOST_DELTA_GATES_H

#include "core/base/math.h"
#include "core/base/math_inline.h"

static inline float delta_beta(float b)
{
    return 1.0f / (1.0f + bp_expf_inline(-b));
}

/* log(1 + e^x), where e^x may be very large or very small. */
static inline float delta_softplus(float x)
{
    const double rest = bp_log(1.0 + bp_exp(x > 0.0f ? -(double)x : (double)x));
    return x > 0.0f ? (float)((double)x + rest) : (float)rest;
}

/* -g: the logarithm of what the state is multiplied by. */
static inline float delta_step(float a, float a_log, float dt_bias)
{
    return -bp_expf_inline(a_log) * delta_softplus(a + dt_bias);
}

#endif
