/* SPDX-License-Identifier: MIT */
/* Weights that are evaluated, and saved for others, at an average of their update rule: it is
 * formed of one parameter after the other while it is held, and never written over what training
 * goes on with. */
#include "core/plan/compile_private.h"
#include "core/plan/optimizer.h"

static bool average_takes(const bp_builder *builder, const bp_parameter *parameter)
{
    const bp_optimizer *optimizer = builder->spec->optimizer;
    return optimizer != NULL && optimizer->average != NULL && parameter->trainable &&
           builder->mode != BP_MODE_TRAIN && builder->graph->program != BP_PROGRAM_INITIALIZE;
}

void compile_average(bp_builder *builder, uint32_t index)
{
    const bp_spec *spec = builder->spec;
    bp_parameter *parameter = &builder->parameters[index];
    if (parameter->acquired.held > 1 || !average_takes(builder, parameter)) {
        return;
    }
    const bool master = parameter->master != BP_NO_BUFFER;
    const bp_ref x = bp_build_tensor(builder, BP_CLASS_WORKSPACE, spec->working, parameter->rank,
                                     parameter->shape, "averaged");
    const bp_averaged_weight_operands operands = {
        .x = x,
        .weight = {parameter->weight, spec->working, 0},
        .master = master ? (bp_ref){parameter->master, BP_U8, 0} : BP_ABSENT,
        .state1 = {parameter->state[0], BP_U8, 0}};
    const bp_averaged_weight_scalars scalars = {
        .count = (int64_t)parameter->count,
        .form = (int64_t)spec->optimizer->state_form(spec, parameter),
        .master_form = (int64_t)parameter->master_form,
        .factor = spec->optimizer->average(&spec->optimizer_options)};
    bp_build_averaged_weight(builder, &operands, &scalars);
    parameter->acquired.weight = x.buffer;
}
