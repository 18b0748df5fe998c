/* SPDX-License-Identifier: MIT */
/* The portable form of delta.h, and what follows from the derivatives by its gates. */
#define BP_PLAIN(name) BP_BUILT(bp_host_##name)

#include "device/host/cells/delta.h"

/* The gradient by a_t: that by -g times the slope of -g. */
static float delta_d_a(const float *d_steps, const bp_element *gates, uint64_t at, float a_log,
                       float dt_bias)
{
    return d_steps[at] * (-bp_expf_inline(a_log) * delta_beta(bp_get(gates, at) + dt_bias));
}

static uint64_t delta_gates_tasks(const void *scalars)
{
    const bp_delta_gates_backward_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* A task is a row. */
static void delta_gates_run(const bp_host_call *call, uint64_t first, uint64_t last,
                            uint32_t worker)
{
    (void)worker;
    const bp_delta_gates_backward_scalars *s = call->scalars;
    const bp_delta_gates_backward_pointers *p = call->pointers;
    const uint64_t heads = (uint64_t)s->value_heads;
    for (uint64_t row = first; row < last; row++) {
        for (uint64_t head = 0; head < heads; head++) {
            const uint64_t at = row * 2 * heads + head;
            const float beta = delta_beta(bp_get(p->gates, at));
            bp_put(p->d_gates, at, ((const float *)p->d_steps)[at] * (beta * (1.0f - beta)));
            bp_put(p->d_gates, at + heads,
                   delta_d_a(p->d_steps, p->gates, at + heads, bp_get(p->a_log, head),
                             bp_get(p->dt_bias, head)));
        }
    }
}

static uint64_t delta_parameters_tasks(const void *scalars)
{
    const bp_delta_gates_parameters_scalars *s = scalars;
    return (uint64_t)s->value_heads;
}

/* A task is a head. */
static void delta_parameters_run(const bp_host_call *call, uint64_t first, uint64_t last,
                                 uint32_t worker)
{
    (void)worker;
    const bp_delta_gates_parameters_scalars *s = call->scalars;
    const bp_delta_gates_parameters_pointers *p = call->pointers;
    const bp_dtype log_type = bp_call_type(call, BP_OPERAND(delta_gates_parameters, d_a_log));
    const bp_dtype bias_type = bp_call_type(call, BP_OPERAND(delta_gates_parameters, d_dt_bias));
    const uint64_t heads = (uint64_t)s->value_heads;
    for (uint64_t head = first; head < last; head++) {
        const float a_log = bp_get(p->a_log, head), dt_bias = bp_get(p->dt_bias, head);
        float log_sum = s->accumulate != 0 ? bp_element_load(p->d_a_log, head, log_type) : 0.0f;
        float bias_sum = s->accumulate != 0 ? bp_element_load(p->d_dt_bias, head, bias_type) : 0.0f;
        for (uint64_t row = 0; row < (uint64_t)s->rows; row++) {
            const uint64_t at = (row * 2 + 1) * heads + head;
            log_sum +=
                ((const float *)p->d_steps)[at] * delta_step(bp_get(p->gates, at), a_log, dt_bias);
            bias_sum += delta_d_a(p->d_steps, p->gates, at, a_log, dt_bias);
        }
        bp_element_store(p->d_a_log, head, log_sum, log_type);
        bp_element_store(p->d_dt_bias, head, bias_sum, bias_type);
    }
}

const bp_host_kernel BP_BUILT(bp_host_delta_gates_backward) = {delta_gates_tasks, delta_gates_run,
                                                               NULL};
const bp_host_kernel BP_BUILT(bp_host_delta_gates_parameters) = {delta_parameters_tasks,
                                                                 delta_parameters_run, NULL};
