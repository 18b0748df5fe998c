/* SPDX-License-Identifier: MIT */
/* Gradients added up in 8 bits: full gradients of about a byte per parameter.
 *
 * A stage's gradients are formed in their own type, and as soon as they are complete they are
 * added to sums of 8 bits (kernels.def, accumulate_codes), so that their bytes serve the next
 * stage. The update reads the sums in slices, twice: for the norm, and for the rule. Slices end
 * where the chunks of the norm do. */
#include "core/plan/compile_private.h"

/* What is ready of a parameter, into `sum`; opens: as an op of its own, not one more tuple. */
static void sum_add(bp_builder *builder, uint32_t index, bp_ref sum, bool later, bool opens)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_accumulate_codes_operands operands = {
        .sum = sum, .x = {parameter->gradient, builder->spec->gradient, 0}, .step = builder->step};
    const bp_accumulate_codes_scalars scalars = {.count = (int64_t)parameter->ready_count,
                                                 .first = (int64_t)parameter->ready_first,
                                                 .stream = (int64_t)index,
                                                 .accumulate = later ? 1 : 0};
    if (opens) {
        bp_build_accumulate_codes(builder, &operands, &scalars);
    } else {
        bp_build_tuple(builder, (const bp_ref *)&operands, &scalars);
    }
}

/* The same where the sum is offloaded. */
static void sum_add_offloaded(bp_builder *builder, uint32_t index, bool later)
{
    const bp_parameter *parameter = &builder->parameters[index];
    const bp_ref sum = bp_build_sum(builder, index, parameter->ready_first);
    const uint64_t bytes = bp_codec_bytes(parameter->ready_count, BP_CODEC_COMPANDED8);
    const bp_ref here =
        later ? bp_build_bring(builder, sum.buffer, sum.offset, bytes, "brought_sum")
              : bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_U8, bytes, 1, "sum_here");
    sum_add(builder, index, here, later, true);
    bp_build_put_back(builder, here, sum.buffer, sum.offset, bytes);
}

void compile_sum(bp_builder *builder, bool later)
{
    bool first = true;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *parameter = &builder->parameters[i];
        if (parameter->ready && !parameter->gradient_offloaded) {
            sum_add(builder, i, bp_build_sum(builder, i, parameter->ready_first), later, first);
            first = false;
        }
    }
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        if (builder->parameters[i].ready && builder->parameters[i].gradient_offloaded) {
            sum_add_offloaded(builder, i, later);
        }
    }
}

/* Most elements of a slice: a sixteenth of the largest tensor. */
static uint64_t slice_elements(const bp_builder *builder)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *parameter = &builder->parameters[i];
        most = parameter->trainable && parameter->count > most ? parameter->count : most;
    }
    return bp_size_align(bp_size_ceil_div(most, COMPILE_SLICES_MOST), COMPILE_CHUNK);
}

/* Makes a slice of a parameter due, in a buffer of its own; one whose sum is offloaded is brought
 * first, which ends a list. */
static void expand_slice(bp_builder *builder, uint32_t index, uint64_t first, uint64_t count,
                         bool opens)
{
    bp_parameter *parameter = &builder->parameters[index];
    const bp_expand_codes_scalars scalars = {.count = (int64_t)count};
    const bp_ref sum = bp_build_sum(builder, index, first);
    const uint64_t bytes = bp_codec_bytes(count, BP_CODEC_COMPANDED8);
    const bp_expand_codes_operands operands = {
        .sum = parameter->gradient_offloaded
                   ? bp_build_bring(builder, sum.buffer, sum.offset, bytes, "brought_sum")
                   : sum,
        .x = bp_build_buffer(builder, BP_CLASS_GRADIENTS, builder->spec->gradient, count, 1,
                             "grad")};
    if (opens || parameter->gradient_offloaded) {
        bp_build_expand_codes(builder, &operands, &scalars);
    } else {
        bp_build_tuple(builder, (const bp_ref *)&operands, &scalars);
    }
    parameter->gradient = operands.x.buffer;
    parameter->ready = true;
    parameter->ready_first = first;
    parameter->ready_count = count;
}

/* Emits `part` over all sums, so many tensors or as much of one at a time as a slice holds. */
static void in_slices(bp_builder *builder, void (*part)(bp_builder *builder))
{
    const uint64_t most = slice_elements(builder);
    const bool whole = builder->spec->optimizer->whole_tensors;
    uint32_t i = 0;
    uint64_t first = 0; /* of parameter i */
    while (i < builder->parameter_count && builder->status == BP_OK) {
        uint64_t used = 0;
        for (uint32_t k = 0; k < builder->parameter_count; k++) {
            builder->parameters[k].ready = false;
        }
        while (i < builder->parameter_count && used < most) {
            uint64_t left = builder->parameters[i].sum != BP_NO_BUFFER
                                ? builder->parameters[i].count - first
                                : 0;
            bool ends = left <= most - used || (whole && used == 0);
            if (!ends && used > 0) {
                break;
            }
            if (left > 0) {
                expand_slice(builder, i, first, ends ? left : most, used == 0);
            }
            used += ends ? left : most;
            first = ends ? 0 : first + most;
            i += ends ? 1 : 0;
        }
        if (used > 0) {
            part(builder);
            bp_build_resolved(builder);
        }
    }
}

void compile_sum_update(bp_builder *builder)
{
    const bp_optimizer *optimizer = builder->spec->optimizer;
    in_slices(builder, optimizer->norms);
    optimizer->decide(builder, false, true);
    in_slices(builder, compile_apply);
}
