/* SPDX-License-Identifier: MIT */
/* Weights that are evaluated at an average: it is formed of one parameter after the other while it
 * is held, and never written over what training goes on with. */
#include "core/plan/compile_private.h"
#include "core/plan/optimizer.h"

bool compile_averages(const bp_emit *emit, uint32_t index)
{
    const bp_optimizer *optimizer = emit->spec->optimizer;
    return optimizer != NULL && optimizer->average != NULL && emit->parameters[index].trainable &&
           emit->mode != BP_MODE_TRAIN && emit->graph->program != BP_PROGRAM_INITIALIZE;
}

void compile_average(bp_emit *emit, uint32_t index)
{
    const bp_spec *spec = emit->spec;
    bp_parameter *parameter = &emit->parameters[index];
    const bool master = parameter->master != BP_NO_BUFFER;
    const bp_ref x = bp_emit_tensor(emit, BP_CLASS_WORKSPACE, spec->working, parameter->rank,
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
    parameter->held++; /* what it is made of is read */
    bp_emit_averaged_weight(emit, &operands, &scalars);
    parameter->held--;
    parameter->whole = x.buffer;
}
