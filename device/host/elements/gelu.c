/* SPDX-License-Identifier: MIT */
/* GELU in its tanh form (Hendrycks and Gimpel, arXiv 1606.08415), plain form; the arithmetic is in
 * core/base/math_inline.h. */
#include "core/base/math_inline.h"
#include "device/host/vector/element.h"

static uint64_t forward_tasks(const void *scalars)
{
    const bp_gelu_forward_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

static void forward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_gelu_forward_scalars *s = call->scalars;
    const bp_gelu_forward_pointers *p = call->pointers;
    const bp_element *x = p->x;
    bp_element *y = p->y;
    uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i++) {
        bp_put(y, i, bp_gelu_inline(bp_get(x, i)));
    }
}

static uint64_t backward_tasks(const void *scalars)
{
    const bp_gelu_backward_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

static void backward_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_gelu_backward_scalars *s = call->scalars;
    const bp_gelu_backward_pointers *p = call->pointers;
    const bp_element *x = p->x, *d_y = p->d_y;
    bp_element *d_x = p->d_x;
    uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i++) {
        bp_put(d_x, i, bp_get(d_y, i) * bp_gelu_slope_inline(bp_get(x, i)));
    }
}

const bp_host_kernel BP_BUILT(bp_host_gelu_forward) = {forward_tasks, forward_run, NULL};
const bp_host_kernel BP_BUILT(bp_host_gelu_backward) = {backward_tasks, backward_run, NULL};
