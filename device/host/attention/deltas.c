/* SPDX-License-Identifier: MIT */
/* What attention's backward needs of its output: a number for each row and head. */
#include "device/host/attention/attention.h"
#include "device/host/vector/element.h"

static uint64_t deltas_tasks(const void *scalars)
{
    const bp_attention_deltas_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* A task is a row. */
static void deltas_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_attention_deltas_scalars *s = call->scalars;
    const bp_attention_deltas_pointers *p = call->pointers;
    const bp_dtype type = bp_call_type(call, BP_OPERAND(attention_deltas, out));
    const uint64_t heads = (uint64_t)s->heads, width = (uint64_t)s->head_width;
    for (uint64_t head = first * heads; head < last * heads; head++) {
        float delta = 0.0f;
        for (uint64_t d = head * width; d < (head + 1) * width; d++) {
            delta =
                fmaf(bp_element_load(p->d_out, d, type), bp_element_load(p->out, d, type), delta);
        }
        ((float *)p->delta)[head] = delta;
    }
}

const bp_host_kernel bp_host_attention_deltas = {deltas_tasks, deltas_run, NULL};
