/* SPDX-License-Identifier: MIT */
/* Gradient norm and decision as ops. */
#include "optim/clip.h"

#include "core/list.h"

static bool has_gradient(const bp_parameter *parameter)
{
    return parameter->trainable && parameter->gradient != BP_NO_BUFFER;
}

static uint64_t partial_count(const bp_emit *emit)
{
    uint64_t partials = 0;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        if (has_gradient(&emit->parameters[i])) {
            partials += bp_size_ceil_div(emit->parameters[i].count, BP_CLIP_CHUNK);
        }
    }
    return partials;
}

static void emit_partials(bp_emit *emit, bp_ref partials)
{
    uint64_t done = 0;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        const bp_parameter *parameter = &emit->parameters[i];
        if (!has_gradient(parameter)) {
            continue;
        }
        const bp_norm_partial_scalars scalars = {.count = (int64_t)parameter->count,
                                                 .chunk = BP_CLIP_CHUNK};
        const bp_norm_partial_operands operands = {
            .partials = bp_ref_at(partials, done),
            .x = {parameter->gradient, emit->spec->gradient, 0}};
        if (done == 0) {
            bp_emit_norm_partial(emit, &operands, &scalars);
        } else {
            bp_emit_tuple(emit, (const bp_ref *)&operands, &scalars);
        }
        done += bp_size_ceil_div(parameter->count, BP_CLIP_CHUNK);
    }
}

void bp_clip_decide(bp_emit *emit)
{
    const uint64_t count = partial_count(emit);
    const bp_ref partials =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_F64, count, 1, "norm_partials");
    emit_partials(emit, partials);
    const bp_optimizer_options *options = &emit->spec->optimizer_options;
    const bp_scaling *scaling = &emit->spec->scaling;
    const bp_step_decide_scalars scalars = {.partials = (int64_t)count,
                                            .max_norm = options->max_grad_norm,
                                            .beta1 = options->beta1,
                                            .beta2 = options->beta2,
                                            .scaling = (int64_t)scaling->kind,
                                            .growth = scaling->growth,
                                            .backoff = scaling->backoff,
                                            .interval = scaling->interval,
                                            .hysteresis = scaling->hysteresis,
                                            .floor = scaling->floor};
    const bp_step_decide_operands operands = {
        .control = emit->control, .result = emit->result, .sums = partials};
    bp_emit_step_decide(emit, &operands, &scalars);
}

bp_graph_limits bp_clip_limits(uint32_t parameters)
{
    return (bp_graph_limits){.buffers = 1,
                             .ops = 2,
                             .refs = 2 * parameters + 3,
                             .scalars = 2 * parameters + 10,
                             .name_bytes = 64};
}
