/* SPDX-License-Identifier: MIT */
/* SwiGLU and the activations of core/ops/activation.h; portable form. */
#include "core/ops/activation.h"
#include "core/base/math_inline.h"
#include "device/host/elements/gated.h"
#include "device/host/elements/plain.h"

static uint64_t swiglu_forward_tasks(const void *scalars)
{
    const bp_swiglu_forward_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

static inline float gate_active(int64_t kind, float x)
{
    return kind == BP_GATE_SILU        ? bp_silu_inline(x)
           : kind == BP_GATE_GELU_TANH ? bp_gelu_inline(x)
                                       : bp_gelu_erf_inline(x);
}

/* A task is a run of elements. */
static void swiglu_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                               uint32_t worker)
{
    (void)worker;
    const bp_swiglu_forward_scalars *s = call->scalars;
    const bp_swiglu_forward_pointers *p = call->pointers;
    uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    bp_gated_position at = bp_gated_begin(s, first * BP_RUN_ELEMENTS);
    for (uint64_t count; at.i < end; bp_gated_next(&at, count)) {
        count = bp_gated_count(&at, end, BP_LANES);
        bp_plain_block gate = bp_plain_load((const bp_element *)p->gate + at.from, count);
        bp_plain_block up = bp_plain_load((const bp_element *)p->up + at.from, count);
        for (int l = 0; l < BP_LANES; l++) {
            up.lane[l] *= gate_active(s->kind, gate.lane[l]);
        }
        bp_plain_store((bp_element *)p->y + at.i, count, &up);
    }
}

static uint64_t swiglu_backward_tasks(const void *scalars)
{
    const bp_swiglu_backward_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

/* With q = 1 / (1 + e), e = exp(-gate): silu = gate q, and its slope q (1 + gate (e q)), where
 * e q = 1 - q without its cancellation. For gates below -80 both are 0 in every bit that counts,
 * and e q would be an infinity times 0. */
static inline void swiglu_slopes(float gate, float *active, float *slope)
{
    float g = gate < -80.0f ? -80.0f : gate;
    float e = bp_expf_inline(-g);
    float q = 1.0f / (1.0f + e);
    *active = gate * q;
    *slope = q * fmaf(g, e * q, 1.0f);
}

static inline void gate_slopes(int64_t kind, float gate, float *active, float *slope)
{
    if (kind == BP_GATE_SILU) {
        swiglu_slopes(gate, active, slope);
    } else {
        *active = gate_active(kind, gate);
        *slope =
            kind == BP_GATE_GELU_TANH ? bp_gelu_slope_inline(gate) : bp_gelu_erf_slope_inline(gate);
    }
}

static void swiglu_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                uint32_t worker)
{
    (void)worker;
    const bp_swiglu_backward_scalars *s = call->scalars;
    const bp_swiglu_backward_pointers *p = call->pointers;
    uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    bp_gated_position at = bp_gated_begin(call->scalars, first * BP_RUN_ELEMENTS);
    for (uint64_t count; at.i < end; bp_gated_next(&at, count)) {
        count = bp_gated_count(&at, end, BP_LANES);
        bp_plain_block gate = bp_plain_load((const bp_element *)p->gate + at.from, count);
        bp_plain_block up = bp_plain_load((const bp_element *)p->up + at.from, count);
        bp_plain_block d_y = bp_plain_load((const bp_element *)p->d_y + at.i, count);
        for (int l = 0; l < BP_LANES; l++) {
            float active, slope;
            gate_slopes(s->kind, gate.lane[l], &active, &slope);
            gate.lane[l] = (d_y.lane[l] * up.lane[l]) * slope;
            up.lane[l] = d_y.lane[l] * active;
        }
        bp_plain_store((bp_element *)p->d_gate + at.from, count, &gate);
        bp_plain_store((bp_element *)p->d_up + at.from, count, &up);
    }
}

/* With u = 1.702 x as swiglu_slopes of its gate, whose active / u is q. */
static inline float quick_slope(float x)
{
    float u = BP_GELU_QUICK * x, active, slope;
    swiglu_slopes(u, &active, &slope);
    return slope;
}

static inline float activate(int64_t kind, float x)
{
    return kind == BP_ACTIVATION_GELU_ERF     ? bp_gelu_erf_inline(x)
           : kind == BP_ACTIVATION_GELU_QUICK ? x / (1.0f + bp_expf_inline(-(BP_GELU_QUICK * x)))
           : kind == BP_ACTIVATION_TANH       ? bp_tanhf_inline(x)
           : kind == BP_ACTIVATION_RELU6 && x > 6.0f ? 6.0f
           : x <= 0.0f                               ? 0.0f
           : kind == BP_ACTIVATION_RELU_SQUARED      ? x * x
                                                     : x;
}

static inline float activation_slope(int64_t kind, float x)
{
    if (kind == BP_ACTIVATION_GELU_ERF) {
        return bp_gelu_erf_slope_inline(x);
    }
    if (kind == BP_ACTIVATION_GELU_QUICK) {
        return quick_slope(x);
    }
    if (kind == BP_ACTIVATION_TANH) {
        float t = bp_tanhf_inline(x);
        return fmaf(-t, t, 1.0f);
    }
    if (kind == BP_ACTIVATION_RELU_SQUARED) {
        return x <= 0.0f ? 0.0f : x + x;
    }
    const bool above = kind == BP_ACTIVATION_RELU6 && x >= 6.0f;
    return x > 0.0f && !above ? 1.0f : 0.0f;
}

static uint64_t activation_forward_tasks(const void *scalars)
{
    const bp_activation_forward_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

/* Calls run with kind a constant, so that each loop is one function's; once where code is to be
 * small. */
#ifdef __OPTIMIZE_SIZE__
#define BY_KIND(run, kind, p, i, end) run(p, i, end, kind)
#else
#define BY_KIND(run, kind, p, i, end)                                                              \
    switch (kind) {                                                                                \
    case BP_ACTIVATION_GELU_ERF:                                                                   \
        run(p, i, end, BP_ACTIVATION_GELU_ERF);                                                    \
        break;                                                                                     \
    case BP_ACTIVATION_TANH:                                                                       \
        run(p, i, end, BP_ACTIVATION_TANH);                                                        \
        break;                                                                                     \
    case BP_ACTIVATION_RELU6:                                                                      \
        run(p, i, end, BP_ACTIVATION_RELU6);                                                       \
        break;                                                                                     \
    case BP_ACTIVATION_RELU_SQUARED:                                                               \
        run(p, i, end, BP_ACTIVATION_RELU_SQUARED);                                                \
        break;                                                                                     \
    case BP_ACTIVATION_GELU_QUICK:                                                                 \
        run(p, i, end, BP_ACTIVATION_GELU_QUICK);                                                  \
        break;                                                                                     \
    default:                                                                                       \
        run(p, i, end, BP_ACTIVATION_RELU);                                                        \
        break;                                                                                     \
    }
#endif

static inline void activate_run(const bp_activation_forward_pointers *p, uint64_t i, uint64_t end,
                                int64_t kind)
{
    for (; i < end; i += BP_LANES) {
        uint64_t count = bp_least(end - i, BP_LANES);
        bp_plain_block x = bp_plain_load((const bp_element *)p->x + i, count);
        for (int l = 0; l < BP_LANES; l++) {
            x.lane[l] = activate(kind, x.lane[l]);
        }
        bp_plain_store((bp_element *)p->y + i, count, &x);
    }
}

static void activation_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                   uint32_t worker)
{
    (void)worker;
    const bp_activation_forward_scalars *s = call->scalars;
    uint64_t i = first * BP_RUN_ELEMENTS;
    uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    BY_KIND(activate_run, s->kind, call->pointers, i, end);
}

static uint64_t activation_backward_tasks(const void *scalars)
{
    const bp_activation_backward_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

static inline void slope_run(const bp_activation_backward_pointers *p, uint64_t i, uint64_t end,
                             int64_t kind)
{
    for (; i < end; i += BP_LANES) {
        uint64_t count = bp_least(end - i, BP_LANES);
        bp_plain_block x = bp_plain_load((const bp_element *)p->x + i, count);
        bp_plain_block d_y = bp_plain_load((const bp_element *)p->d_y + i, count);
        for (int l = 0; l < BP_LANES; l++) {
            d_y.lane[l] *= activation_slope(kind, x.lane[l]);
        }
        bp_plain_store((bp_element *)p->d_x + i, count, &d_y);
    }
}

static void activation_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                    uint32_t worker)
{
    (void)worker;
    const bp_activation_backward_scalars *s = call->scalars;
    uint64_t i = first * BP_RUN_ELEMENTS;
    uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    BY_KIND(slope_run, s->kind, call->pointers, i, end);
}

const bp_host_kernel BP_BUILT(bp_host_swiglu_forward) = {swiglu_forward_tasks, swiglu_forward_run,
                                                         NULL};
const bp_host_kernel BP_BUILT(bp_host_swiglu_backward) = {swiglu_backward_tasks,
                                                          swiglu_backward_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_activation_forward) = {activation_forward_tasks,
                                                             activation_forward_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_activation_backward) = {activation_backward_tasks,
                                                              activation_backward_run, NULL};
