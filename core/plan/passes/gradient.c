/* SPDX-License-Identifier: MIT */
/* Where gradients go: buffers that backward adds to and the update reads.
 *
 * What is added up over a group may wait below the arena. Then a backward stage adds to a buffer
 * that it has for itself, which begins with what is there, and goes there at the stage's end; the
 * norm and the update bring it part by part. */
#include "core/plan/compile_private.h"

static uint32_t gradient_buffer(bp_emit *emit, uint32_t index, const bp_buffer *prototype,
                                const char *name)
{
    uint32_t buffer = BP_NO_BUFFER;
    if (emit->status == BP_OK) {
        emit->status =
            bp_graph_buffer_of(emit->graph, prototype, bp_emit_name(emit, index), name, &buffer);
    }
    return buffer;
}

/* And not its sum in 8 bits. */
bool bp_emit_gradient_below(const bp_emit *emit, uint32_t index)
{
    return emit->parameters[index].gradient_below && !emit->spec->gradient_int8;
}

bp_ref bp_emit_bring_gradient(bp_emit *emit, uint32_t index, uint64_t first, uint64_t count)
{
    const bp_dtype dtype = emit->spec->gradient;
    const uint64_t width = bp_dtype_bytes(dtype);
    bp_ref part = bp_emit_bring(emit, emit->parameters[index].gradient, first * width,
                                count * width, "brought_gradient");
    part.dtype = dtype;
    return part;
}

/* With one micro-batch per group gradients are born in backward, used by the update, and gone;
 * with several they live from the first micro-batch to the update. */
void compile_make_gradient(bp_emit *emit, uint32_t index)
{
    bp_parameter *parameter = &emit->parameters[index];
    const bool grouped = emit->spec->accumulation > 1 && !emit->spec->gradient_int8 &&
                         !bp_spec_whole_group(emit->spec);
    const bool below = bp_emit_gradient_below(emit, index);
    const bp_buffer prototype = {.class_of = BP_CLASS_GRADIENTS,
                                 .scope = grouped ? BP_SCOPE_GROUP : BP_SCOPE_PROGRAM,
                                 .space = below ? compile_below_space(emit) : BP_SPACE_DEVICE,
                                 .dtype = emit->spec->gradient,
                                 .rank = parameter->rank,
                                 .shape = {parameter->shape[0], parameter->shape[1],
                                           parameter->shape[2], parameter->shape[3]}};
    parameter->gradient = gradient_buffer(emit, index, &prototype, "grad");
}

/* The buffer that this stage adds to, of a gradient that lives below. */
static bp_ref gradient_here(bp_emit *emit, uint32_t index, bool written)
{
    bp_parameter *parameter = &emit->parameters[index];
    const bp_dtype dtype = emit->spec->gradient;
    if (parameter->gradient_here == BP_NO_BUFFER) {
        const bp_ref here = written ? bp_emit_bring_gradient(emit, index, 0, parameter->count)
                                    : bp_emit_buffer(emit, BP_CLASS_WORKSPACE, dtype,
                                                     parameter->count, 1, "gradient_here");
        parameter->gradient_here = here.buffer;
    }
    return (bp_ref){parameter->gradient_here, dtype, 0};
}

void compile_leave_gradients(bp_emit *emit)
{
    for (uint32_t i = 0; i < emit->parameter_count && emit->spec->below.gradients > 0; i++) {
        bp_parameter *parameter = &emit->parameters[i];
        if (emit->status == BP_OK && parameter->gradient_here != BP_NO_BUFFER) {
            bp_emit_put_back(emit, (bp_ref){parameter->gradient_here, BP_U8, 0},
                             parameter->gradient, 0,
                             parameter->count * bp_dtype_bytes(emit->spec->gradient));
        }
        parameter->gradient_here = BP_NO_BUFFER;
    }
}

bp_ref bp_emit_gradient(bp_emit *emit, uint32_t index, int64_t *accumulate)
{
    *accumulate = 0;
    if (emit->status != BP_OK) {
        return BP_ABSENT;
    }
    bp_parameter *parameter = &emit->parameters[index];
    if (parameter->gradient == BP_NO_BUFFER) {
        compile_make_gradient(emit, index);
    }
    const bool written = parameter->gradient_written;
    *accumulate = written ? 1 : 0;
    if (written && parameter->gradient_stage != emit->stage && compile_orders_stages(emit->spec)) {
        emit->status = bp_error_set(
            emit->graph->error, BP_ERR_USAGE, "shard",
            "two stages share this parameter, whose gradient would be added up in another order; "
            "take as many --lanes as --gradient-accumulation-steps, or --shard none or optimizer",
            bp_emit_name(emit, index));
        return BP_ABSENT;
    }
    parameter->gradient_stage = emit->stage;
    parameter->gradient_written = true;
    return bp_emit_gradient_below(emit, index)
               ? gradient_here(emit, index, written)
               : (bp_ref){parameter->gradient, emit->spec->gradient, 0};
}

bp_ref bp_emit_sum(bp_emit *emit, uint32_t index, uint64_t first)
{
    if (emit->status != BP_OK) {
        return BP_ABSENT;
    }
    bp_parameter *parameter = &emit->parameters[index];
    if (parameter->sum == BP_NO_BUFFER) {
        const bool below = parameter->gradient_below;
        const bp_buffer prototype = {
            .class_of = BP_CLASS_GRADIENTS,
            .scope = emit->spec->accumulation > 1 ? BP_SCOPE_GROUP : BP_SCOPE_PROGRAM,
            .space = below ? compile_below_space(emit) : BP_SPACE_DEVICE,
            .dtype = BP_U8,
            .rank = 1,
            .shape = {bp_codec_bytes(parameter->count, BP_CODEC_COMPANDED8)}};
        parameter->sum = gradient_buffer(emit, index, &prototype, "grad8");
    }
    return (bp_ref){parameter->sum, BP_U8, bp_codec_bytes(first, BP_CODEC_COMPANDED8)};
}
