/* SPDX-License-Identifier: MIT */
/* Gates and ups side by side, held within bounds (gpt-oss). */
#include "core/base/math_inline.h"
#include "device/host/vector/element.h"

/* A pair within its bounds, and the gate's sigmoid. */
typedef struct clamped_pair {
    float gate;
    float up;
    float s;
    bool gate_free; /* of a bound: its gradient goes through, */
    bool up_free;
} clamped_pair;

static clamped_pair clamped_at(const bp_element *x, uint64_t i, float alpha, float limit)
{
    const float gate = bp_get(x, 2 * i), up = bp_get(x, 2 * i + 1);
    clamped_pair pair = {.gate = gate > limit ? limit : gate,
                         .up = up > limit    ? limit
                               : up < -limit ? -limit
                                             : up,
                         .gate_free = !(gate > limit),
                         .up_free = !(up > limit || up < -limit)};
    pair.s = 1.0f / (1.0f + bp_expf_inline(-alpha * pair.gate));
    return pair;
}

static uint64_t clamped_tasks(const void *scalars)
{
    const bp_clamped_forward_scalars *s = scalars; /* both rows have the same */
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

/* A task is a run of elements. */
static void clamped_forward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                uint32_t worker)
{
    (void)worker;
    const bp_clamped_forward_scalars *s = call->scalars;
    const bp_clamped_forward_pointers *p = call->pointers;
    const uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i++) {
        const clamped_pair pair = clamped_at(p->x, i, (float)s->alpha, (float)s->limit);
        bp_put((bp_element *)p->y, i, (pair.up + 1.0f) * (pair.gate * pair.s));
    }
}

const bp_host_kernel BP_BUILT(bp_host_clamped_forward) = {clamped_tasks, clamped_forward_run, NULL};

static void clamped_backward_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                 uint32_t worker)
{
    (void)worker;
    const bp_clamped_backward_scalars *s = call->scalars;
    const bp_clamped_backward_pointers *p = call->pointers;
    const float alpha = (float)s->alpha;
    const uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i++) {
        const clamped_pair pair = clamped_at(p->x, i, alpha, (float)s->limit);
        const float d_y = bp_get(p->d_y, i);
        const float slope = pair.s * fmaf(alpha * pair.gate, 1.0f - pair.s, 1.0f);
        const float d_gate = d_y * (pair.up + 1.0f) * slope, d_up = d_y * (pair.gate * pair.s);
        bp_put((bp_element *)p->d_x, 2 * i, pair.gate_free ? d_gate : 0.0f);
        bp_put((bp_element *)p->d_x, 2 * i + 1, pair.up_free ? d_up : 0.0f);
    }
}

const bp_host_kernel BP_BUILT(bp_host_clamped_backward) = {clamped_tasks, clamped_backward_run,
                                                           NULL};
