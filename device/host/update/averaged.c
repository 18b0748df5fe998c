/* SPDX-License-Identifier: MIT */
/* The average that schedule_free is evaluated at. */
#include <math.h>

#include "core/ops/codec.h"
#include "core/ops/convert.h"
#include "core/ops/master.h"
#include "device/host/kernel.h"
#include "device/host/update/update.h"
#include "device/host/vector/half.h"
#include "device/host/vector/lanes.h"

static uint64_t averaged_tasks(const void *scalars)
{
    const bp_averaged_weight_scalars *s = scalars;
    return bp_cut(s->count, BP_RUN_ELEMENTS);
}

static void averaged_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_averaged_weight_scalars *s = call->scalars;
    const bp_averaged_weight_pointers *p = call->pointers;
    const bp_dtype to = bp_call_type(call, 0), from = bp_call_type(call, 1);
    const uint64_t end = bp_least((uint64_t)s->count, last * BP_RUN_ELEMENTS);
    const uint64_t rest = bp_master_bytes(s->master_form);
    const float factor = (float)s->factor;
    for (uint64_t i = first * BP_RUN_ELEMENTS; i < end; i += BP_CODEC_BLOCK) {
        const uint32_t count = (uint32_t)bp_least(end - i, BP_CODEC_BLOCK);
        const uint8_t *weight = (const uint8_t *)p->weight + i * bp_dtype_bytes(from);
        const uint8_t *master = rest > 0 ? (const uint8_t *)p->master + i * rest : NULL;
        const uint8_t *state = (const uint8_t *)p->state1 + bp_codec_bytes(i, s->form);
        float w[BP_CODEC_BLOCK], d[BP_CODEC_BLOCK];
        bp_elements_load(from, (bp_master)s->master_form, weight, master, w, count);
        bp_codec_decode((bp_codec)s->form, true, state, count, d);
        for (uint32_t e = 0; e < count; e++) {
            bp_element_store(p->x, i + e, fmaf(-factor, d[e], w[e]), to);
        }
    }
}

const bp_host_kernel bp_host_averaged_weight = {averaged_tasks, averaged_run, NULL};
