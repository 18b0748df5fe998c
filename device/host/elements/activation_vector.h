/* SPDX-License-Identifier: MIT */
/* SwiGLU and the activations in vectors: the operations of activation.c, and of math_inline.h where
 * those are of one number. Included after a vector header, once per form and working type. */
#include "device/host/elements/gated.h"
#include "core/ops/activation.h"
#include "device/host/isa.h"
#include "device/host/vector/element_vector.h"
#include "device/host/vector/lanes.h"

/* x * c + b */
static inline bp_v activation_term(bp_v x, bp_v c, float b)
{
    return bp_v_fma(x, c, bp_v_set(b));
}

/* erf(a) for |a| <= 1. */
static inline bp_v activation_central(bp_v a)
{
    bp_v s = bp_v_mul(a, a);
    bp_v q = activation_term(bp_v_set(BP_ERF_C6), s, BP_ERF_C5);
    q = activation_term(q, s, BP_ERF_C4);
    q = activation_term(q, s, BP_ERF_C3);
    q = activation_term(q, s, BP_ERF_C2);
    q = activation_term(q, s, BP_ERF_C1);
    q = activation_term(q, s, BP_ERF_C0);
    return bp_v_mul(q, a);
}

/* erfc(a) for a >= 1. */
static inline bp_v activation_tail(bp_v a)
{
    const bp_v reach = bp_v_set(BP_ERFC_REACH);
    a = bp_v_min(reach, a);
    bp_v q = activation_term(bp_v_set(BP_ERFC_C8), a, BP_ERFC_C7);
    q = activation_term(q, a, BP_ERFC_C6);
    q = activation_term(q, a, BP_ERFC_C5);
    q = activation_term(q, a, BP_ERFC_C4);
    q = activation_term(q, a, BP_ERFC_C3);
    q = activation_term(q, a, BP_ERFC_C2);
    q = activation_term(q, a, BP_ERFC_C1);
    q = activation_term(q, a, BP_ERFC_C0);
    bp_v e = bp_v_exp(bp_v_fnma(a, a, q));
    return bp_v_clear(bp_v_reaches(a, reach), e);
}

/* The normal distribution. Inlined by order: two registers by way of memory cost more than what
 * happens to them. */
static inline __attribute__((always_inline)) bp_v activation_normal(bp_v x)
{
    const bp_v zero = bp_v_set(0.0f), half = bp_v_set(0.5f), one = bp_v_set(1.0f);
    bp_part negative = bp_v_less(x, zero);
    bp_v a = bp_v_mul(bp_v_max(bp_v_sub(zero, x), x), bp_v_set(BP_SQRT_HALF));
    bp_part near = bp_v_less(a, one);
    bp_v inner = bp_v_mul(half, activation_central(bp_v_min(one, a)));
    bp_v tail = bp_v_mul(half, activation_tail(bp_v_max(one, a)));
    bp_v below = bp_v_choose(near, bp_v_sub(half, inner), tail);
    bp_v above = bp_v_choose(near, bp_v_add(half, inner), bp_v_sub(one, tail));
    return bp_v_choose(negative, below, above);
}

static inline __attribute__((always_inline)) bp_v activation_gelu(bp_v x)
{
    return bp_v_mul(x, activation_normal(x));
}

static inline __attribute__((always_inline)) bp_v activation_gelu_slope(bp_v x)
{
    const bp_v reach = bp_v_set(BP_GELU_REACH);
    bp_v square = bp_v_mul(bp_v_mul(bp_v_set(-0.5f), x), x);
    bp_v density = bp_v_mul(bp_v_set(BP_NORMAL_TOP), bp_v_exp(square));
    bp_v inside = bp_v_clear(bp_v_less(reach, x), x);
    inside = bp_v_clear(bp_v_less(x, bp_v_set(-BP_GELU_REACH)), inside);
    return bp_v_fma(inside, density, activation_normal(x));
}

/* x where it is above 0 or no number; the sum makes a negative zero a zero. */
static inline bp_v activation_relu(bp_v x)
{
    const bp_v zero = bp_v_set(0.0f);
    return bp_v_add(bp_v_max(zero, x), zero);
}

static inline bp_v activation_relu_slope(bp_v x)
{
    const bp_v zero = bp_v_set(0.0f);
    return bp_v_choose(bp_v_less(zero, x), bp_v_set(1.0f), zero);
}

static inline bp_v activation_relu6(bp_v x)
{
    return bp_v_min(bp_v_set(6.0f), activation_relu(x));
}

static inline bp_v activation_relu6_slope(bp_v x)
{
    const bp_v zero = bp_v_set(0.0f);
    return bp_v_choose(bp_v_less(x, bp_v_set(6.0f)), activation_relu_slope(x), zero);
}

static inline bp_v activation_squared(bp_v x)
{
    const bp_v kept = activation_relu(x);
    return bp_v_mul(kept, kept);
}

static inline bp_v activation_squared_slope(bp_v x)
{
    const bp_v kept = activation_relu(x);
    return bp_v_add(kept, kept);
}

/* One by one: only a pooler's few rows ask for it. */
static inline bp_v activation_tanh(bp_v x)
{
    float lane[BP_V];
    bp_v_spill(x, lane);
    for (int i = 0; i < BP_V; i++) {
        lane[i] = bp_tanhf_inline(lane[i]);
    }
    return bp_v_load(lane, bp_part_whole());
}

static inline bp_v activation_tanh_slope(bp_v x)
{
    bp_v t = activation_tanh(x);
    return bp_v_fnma(t, t, bp_v_set(1.0f));
}

static inline bp_v activation_silu(bp_v x)
{
    bp_v e = bp_v_exp(bp_v_sub(bp_v_set(0.0f), x));
    return bp_v_div(x, bp_v_add(bp_v_set(1.0f), e));
}

static inline bp_v activation_quick(bp_v x)
{
    bp_v u = bp_v_mul(bp_v_set(BP_GELU_QUICK), x);
    bp_v e = bp_v_exp(bp_v_sub(bp_v_set(0.0f), u));
    return bp_v_div(x, bp_v_add(bp_v_set(1.0f), e));
}

/* The slope of SiLU at u = 1.702 x: activation.c. */
static inline bp_v activation_quick_slope(bp_v x)
{
    const bp_v one = bp_v_set(1.0f);
    bp_v u = bp_v_max(bp_v_set(-80.0f), bp_v_mul(bp_v_set(BP_GELU_QUICK), x));
    bp_v e = bp_v_exp(bp_v_sub(bp_v_set(0.0f), u));
    bp_v q = bp_v_div(one, bp_v_add(one, e));
    return bp_v_mul(q, bp_v_fma(u, bp_v_mul(e, q), one));
}

/* Elements of a run of tasks, a vector at a time: `step(call, i, part)` does those from i on. */
typedef void activation_step(const bp_host_call *call, uint64_t i, bp_part part);

static inline __attribute__((always_inline)) void activation_each(const bp_host_call *call,
                                                                  int64_t count,
                                                                  const uint64_t task[2],
                                                                  activation_step *step)
{
    uint64_t i = task[0] * BP_RUN_ELEMENTS;
    const uint64_t end = bp_least((uint64_t)count, task[1] * BP_RUN_ELEMENTS);
    for (; i + BP_V <= end; i += BP_V) {
        step(call, i, bp_part_whole());
    }
    if (i < end) {
        step(call, i, bp_part_first(end - i));
    }
}

static inline bp_v activation_get(const void *x, uint64_t i, bp_part part)
{
    bp_v_ask((const bp_element *)x + i);
    return bp_v_get((const bp_element *)x + i, part);
}

static inline void activation_put(void *y, uint64_t i, bp_v value, bp_part part)
{
    bp_v_put((bp_element *)y + i, value, part);
}

/* f(gate) and, in backward, its slope. */
static inline __attribute__((always_inline)) bp_v gate_active(int64_t kind, bp_v gate)
{
    return kind == BP_GATE_SILU        ? activation_silu(gate)
           : kind == BP_GATE_GELU_TANH ? bp_v_gelu(gate)
                                       : activation_gelu(gate);
}

static inline __attribute__((always_inline)) void gated_forward_step(const bp_host_call *call,
                                                                     const bp_gated_position *at,
                                                                     int64_t kind, bp_part part)
{
    const bp_swiglu_forward_pointers *p = call->pointers;
    bp_v active = gate_active(kind, activation_get(p->gate, at->from, part));
    activation_put(p->y, at->i, bp_v_mul(activation_get(p->up, at->from, part), active), part);
}

/* See activation.c. */
static inline __attribute__((always_inline)) void gated_backward_step(const bp_host_call *call,
                                                                      const bp_gated_position *at,
                                                                      int64_t kind, bp_part part)
{
    const bp_swiglu_backward_pointers *p = call->pointers;
    const bp_v one = bp_v_set(1.0f);
    bp_v gate = activation_get(p->gate, at->from, part), d_y = activation_get(p->d_y, at->i, part);
    bp_v up = activation_get(p->up, at->from, part), active, slope;
    if (kind == BP_GATE_SILU) {
        bp_v g = bp_v_max(bp_v_set(-80.0f), gate);
        bp_v e = bp_v_exp(bp_v_sub(bp_v_set(0.0f), g));
        bp_v q = bp_v_div(one, bp_v_add(one, e));
        slope = bp_v_mul(q, bp_v_fma(g, bp_v_mul(e, q), one));
        active = bp_v_mul(gate, q);
    } else {
        active = gate_active(kind, gate);
        slope = kind == BP_GATE_GELU_TANH ? bp_v_gelu_slope(gate) : activation_gelu_slope(gate);
    }
    activation_put(p->d_gate, at->from, bp_v_mul(bp_v_mul(d_y, up), slope), part);
    activation_put(p->d_up, at->from, bp_v_mul(d_y, active), part);
}

/* The steps of one activation. */
#define ACTIVATION_STEPS(name)                                                                     \
    static inline void name##_forward_step(const bp_host_call *call, uint64_t i, bp_part part)     \
    {                                                                                              \
        const bp_activation_forward_pointers *p = call->pointers;                                  \
        activation_put(p->y, i, activation_##name(activation_get(p->x, i, part)), part);           \
    }                                                                                              \
    static inline void name##_backward_step(const bp_host_call *call, uint64_t i, bp_part part)    \
    {                                                                                              \
        const bp_activation_backward_pointers *p = call->pointers;                                 \
        bp_v slope = activation_##name##_slope(activation_get(p->x, i, part));                     \
        activation_put(p->d_x, i, bp_v_mul(activation_get(p->d_y, i, part), slope), part);         \
    }

ACTIVATION_STEPS(gelu)
ACTIVATION_STEPS(relu)
ACTIVATION_STEPS(relu6)
ACTIVATION_STEPS(squared)
ACTIVATION_STEPS(quick)
ACTIVATION_STEPS(tanh)

#define ACTIVATION_TASKS(name)                                                                     \
    static uint64_t name##_tasks(const void *scalars)                                              \
    {                                                                                              \
        return bp_cut(((const bp_##name##_scalars *)scalars)->count, BP_RUN_ELEMENTS);             \
    }

/* A loop of its own for SiLU, and a smaller one for the others. */
#define GATED_RUN(way)                                                                             \
    ACTIVATION_TASKS(swiglu_##way)                                                                 \
    static inline __attribute__((always_inline)) void gated_##way##_each(                          \
        const bp_host_call *call, const uint64_t task[2], bool silu)                               \
    {                                                                                              \
        const bp_swiglu_##way##_scalars *s = call->scalars;                                        \
        const int64_t kind = s->kind;                                                              \
        const uint64_t end = bp_least((uint64_t)s->count, task[1] * BP_RUN_ELEMENTS);              \
        bp_gated_position at = bp_gated_begin(call->scalars, task[0] * BP_RUN_ELEMENTS);           \
        for (uint64_t count; at.i < end; bp_gated_next(&at, count)) {                              \
            count = bp_gated_count(&at, end, BP_V);                                                \
            if (silu && count == BP_V) {                                                           \
                gated_##way##_step(call, &at, BP_GATE_SILU, bp_part_whole());                      \
            } else {                                                                               \
                gated_##way##_step(call, &at, silu ? BP_GATE_SILU : kind, bp_part_first(count));   \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void swiglu_##way##_run(const bp_host_call *call, uint64_t first, uint64_t last,        \
                                   uint32_t worker)                                                \
    {                                                                                              \
        const uint64_t task[2] = {first, last};                                                    \
        (void)worker;                                                                              \
        if (((const bp_swiglu_##way##_scalars *)call->scalars)->kind == BP_GATE_SILU) {            \
            gated_##way##_each(call, task, true);                                                  \
        } else {                                                                                   \
            gated_##way##_each(call, task, false);                                                 \
        }                                                                                          \
    }                                                                                              \
    const bp_host_kernel BP_BUILT(BP_ISA(bp_swiglu_##way)) = {swiglu_##way##_tasks,                \
                                                              swiglu_##way##_run, NULL};

GATED_RUN(forward)
GATED_RUN(backward)

/* A loop of its own for each kind. */
#define ACTIVATION_RUN(way)                                                                        \
    ACTIVATION_TASKS(activation_##way)                                                             \
    static void activation_##way##_run(const bp_host_call *call, uint64_t first, uint64_t last,    \
                                       uint32_t worker)                                            \
    {                                                                                              \
        const bp_activation_##way##_scalars *s = call->scalars;                                    \
        const uint64_t task[2] = {first, last};                                                    \
        (void)worker;                                                                              \
        switch (s->kind) {                                                                         \
        case BP_ACTIVATION_GELU_ERF:                                                               \
            activation_each(call, s->count, task, gelu_##way##_step);                              \
            break;                                                                                 \
        case BP_ACTIVATION_TANH:                                                                   \
            activation_each(call, s->count, task, tanh_##way##_step);                              \
            break;                                                                                 \
        case BP_ACTIVATION_RELU6:                                                                  \
            activation_each(call, s->count, task, relu6_##way##_step);                             \
            break;                                                                                 \
        case BP_ACTIVATION_RELU_SQUARED:                                                           \
            activation_each(call, s->count, task, squared_##way##_step);                           \
            break;                                                                                 \
        case BP_ACTIVATION_GELU_QUICK:                                                             \
            activation_each(call, s->count, task, quick_##way##_step);                             \
            break;                                                                                 \
        default:                                                                                   \
            activation_each(call, s->count, task, relu_##way##_step);                              \
            break;                                                                                 \
        }                                                                                          \
    }                                                                                              \
    const bp_host_kernel BP_BUILT(BP_ISA(bp_activation_##way)) = {activation_##way##_tasks,        \
                                                                  activation_##way##_run, NULL};

ACTIVATION_RUN(forward)
ACTIVATION_RUN(backward)
