/* SPDX-License-Identifier: MIT */
/* Weights as evaluations use them and files for others hold them. */
#include <math.h>

#include "core/plan/optimizer.h"
#include "core/ops/codec.h"
#include "core/run/runtime.h"

bp_status bp_runtime_get_trained(bp_runtime *runtime, uint32_t parameter, uint64_t first,
                                 float *values, uint64_t count)
{
    const bp_spec *spec = &runtime->spec;
    const bp_optimizer *optimizer = spec->optimizer;
    const bp_parameter *p = &runtime->emit.parameters[parameter];
    BP_TRY(bp_runtime_get_weight(runtime, parameter, first, values, count));
    if (optimizer == NULL || optimizer->average == NULL || !p->trainable) {
        return BP_OK;
    }
    const bp_buffer *buffer = &runtime->graph.buffers[p->state[0]];
    const bp_codec form = optimizer->state_form(spec, p);
    const float factor = (float)optimizer->average(&spec->optimizer_options);
    for (uint64_t done = 0; done < count;) {
        unsigned char codes[BP_CODEC_BLOCK * sizeof(float)];
        float d[BP_CODEC_BLOCK];
        const uint64_t skipped = (first + done) % BP_CODEC_BLOCK, block = first + done - skipped;
        const uint64_t rest = p->count - block;
        const uint64_t some = rest < BP_CODEC_BLOCK ? rest : BP_CODEC_BLOCK;
        const uint64_t at = bp_codec_bytes(block, form);
        BP_TRY(bp_runtime_read_whole(runtime, buffer, at, codes,
                                     (size_t)(bp_codec_bytes(block + some, form) - at)));
        bp_codec_decode(form, true, codes, (uint32_t)some, d);
        for (uint64_t i = skipped; i < some && done < count; i++, done++) {
            values[done] = fmaf(-factor, d[i], values[done]);
        }
    }
    return BP_OK;
}
