/* SPDX-License-Identifier: MIT */
/* Gradient norm and decision as ops. */
#include "optim/clip.h"

#include "core/program/step.h"

static uint64_t partials_of(const bp_parameter *parameter)
{
    return bp_size_ceil_div(parameter->count, BP_CLIP_CHUNK);
}

/* All that this program will have: those due now, or where they come part by part those of every
 * parameter that is trained, for AdamA once for each micro-batch. */
static bool counts(const bp_emit *emit, const bp_parameter *parameter)
{
    bool parts = emit->spec->gradient_release != BP_RELEASE_NONE || emit->spec->gradient_int8;
    return parts ? parameter->trainable : parameter->due;
}

static void make_partials(bp_emit *emit)
{
    uint64_t partials = 0;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        const bp_parameter *parameter = &emit->parameters[i];
        partials += counts(emit, parameter) ? partials_of(parameter) : 0;
    }
    if (emit->spec->gradient_release == BP_RELEASE_ADAMA) {
        partials = bp_size_mul(partials, emit->spec->accumulation);
    }
    emit->norms = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_F64, partials, 1, "norm_partials");
    emit->norms_used = 0;
}

/* Where a parameter's partial sums lie, `before` being those of the parameters before it: in the
 * order of parameters, so that the norm is added up in one order, or, where decisions come stage by
 * stage over what there is, behind those before. */
static uint64_t clip_place_of(const bp_emit *emit, const bp_parameter *parameter, uint64_t before)
{
    if (emit->spec->gradient_release != BP_RELEASE_NONE && !bp_spec_needs_norm(emit->spec)) {
        return emit->norms_used;
    }
    return before + parameter->due_first / BP_CLIP_CHUNK;
}

void bp_clip_declare(bp_emit *emit)
{
    if (emit->spec->optimizer_options.percentile != 0) {
        emit->norm_history = bp_emit_persistent(emit, BP_F32, BP_NORM_HISTORY, "norm_history");
    }
}

/* Partial sums that a rank forms of what is due. */
static uint64_t clip_owned(const bp_emit *emit, uint32_t rank)
{
    uint64_t partials = 0;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        const bool due = emit->parameters[i].due;
        partials +=
            due ? bp_size_ceil_div(bp_emit_due_share(emit, i, rank).count, BP_CLIP_CHUNK) : 0;
    }
    return partials;
}

/* Those of this rank, one behind the other. */
static void clip_norms_owned(bp_emit *emit, bp_ref own)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        const bp_share share = bp_emit_due_share(emit, i, emit->spec->rank);
        if (!emit->parameters[i].due || share.count == 0) {
            continue;
        }
        const bp_norm_partial_scalars scalars = {.count = (int64_t)share.count,
                                                 .chunk = BP_CLIP_CHUNK};
        const bp_norm_partial_operands operands = {.partials = bp_ref_at(own, at),
                                                   .x = bp_emit_due_gradient(emit, i, share.first)};
        if (at == 0) {
            bp_emit_norm_partial(emit, &operands, &scalars);
        } else {
            bp_emit_tuple(emit, (const bp_ref *)&operands, &scalars);
        }
        at += bp_size_ceil_div(share.count, BP_CLIP_CHUNK);
    }
}

/* The partial sums of a parameter from the ranks' pieces to where they lie in the order of
 * parameters, `place` for the first: doubles, copied as pairs of words. at[rank] is the next one of
 * a rank's in `all`. */
static void clip_place_parts(bp_emit *emit, uint32_t index, uint64_t place, bp_ref all,
                             uint64_t *at)
{
    const bp_parameter *parameter = &emit->parameters[index];
    const uint64_t end = parameter->due_first + parameter->due_count;
    for (uint64_t next = parameter->due_first; next < end && emit->status == BP_OK;) {
        const uint32_t rank = bp_shards_owner(&emit->shards, index, parameter->count, next);
        const bp_share share = bp_emit_due_share(emit, index, rank);
        const uint64_t count = bp_size_ceil_div(share.count, BP_CLIP_CHUNK);
        bp_ref to = bp_ref_at(emit->norms, place + (next - parameter->due_first) / BP_CLIP_CHUNK);
        bp_ref from = bp_ref_at(all, at[rank]);
        to.dtype = from.dtype = BP_F32;
        bp_emit_copy(emit, &(bp_copy_operands){.y = to, .x = from},
                     &(bp_copy_scalars){.count = (int64_t)(2 * count)});
        at[rank] += count;
        next = share.first + share.count;
    }
}

/* Each rank forms the partial sums of what it owns, and all get all of them. */
static void clip_norms_shared(bp_emit *emit)
{
    uint64_t at[BP_LANES_MAX]; /* ranks are no more than lanes */
    uint64_t room = 0, next = 0;
    for (uint32_t rank = 0; rank < emit->spec->ranks; rank++) {
        const uint64_t partials = clip_owned(emit, rank);
        room = partials > room ? partials : room;
    }
    if (room == 0) {
        return;
    }
    const bp_ref own = bp_emit_carried(emit, BP_CLASS_WORKSPACE, BP_F64, room, 1, "own_partials");
    const bp_ref all =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_F64, emit->spec->ranks, room, "all_partials");
    clip_norms_owned(emit, own);
    bp_emit_gather(emit, all, own, room * sizeof(double));
    for (uint32_t rank = 0; rank < emit->spec->ranks; rank++) {
        at[rank] = rank * room;
    }
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        const bp_parameter *parameter = &emit->parameters[i];
        const uint64_t before = next;
        next += counts(emit, parameter) ? partials_of(parameter) : 0;
        if (parameter->due) {
            clip_place_parts(emit, i, clip_place_of(emit, parameter, before), all, at);
            emit->norms_used += bp_size_ceil_div(parameter->due_count, BP_CLIP_CHUNK);
        }
    }
}

void bp_clip_norms(bp_emit *emit)
{
    bool first = true;
    uint64_t before = 0;
    uint64_t next = 0;
    if (!bp_ref_present(emit->norms)) {
        make_partials(emit);
    }
    if (bp_emit_sums_shared(emit)) {
        clip_norms_shared(emit);
        return;
    }
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        const bp_parameter *parameter = &emit->parameters[i];
        before = next;
        next += counts(emit, parameter) ? partials_of(parameter) : 0;
        if (!parameter->due) {
            continue;
        }
        const bp_norm_partial_scalars scalars = {.count = (int64_t)parameter->due_count,
                                                 .chunk = BP_CLIP_CHUNK};
        const bp_norm_partial_operands operands = {
            .partials = bp_ref_at(emit->norms, clip_place_of(emit, parameter, before)),
            .x = bp_emit_due_gradient(emit, i, parameter->due_first)};
        if (first) {
            bp_emit_norm_partial(emit, &operands, &scalars);
        } else {
            bp_emit_tuple(emit, (const bp_ref *)&operands, &scalars);
        }
        first = false;
        emit->norms_used += bp_size_ceil_div(parameter->due_count, BP_CLIP_CHUNK);
    }
}

void bp_clip_decide(bp_emit *emit, bool later, bool last)
{
    const bp_optimizer_options *options = &emit->spec->optimizer_options;
    const bp_scaling *scaling = &emit->spec->scaling;
    if (!bp_ref_present(emit->norms)) {
        make_partials(emit); /* nothing is due yet: the loss alone decides */
    }
    const bool delayed = emit->spec->gradient_release == BP_RELEASE_PREVIOUS_NORM;
    const bp_step_decide_scalars scalars = {.partials = (int64_t)emit->norms_used,
                                            .max_norm = options->max_grad_norm,
                                            .beta1 = options->beta1,
                                            .beta2 = options->beta2,
                                            .scaling = (int64_t)scaling->kind,
                                            .growth = scaling->growth,
                                            .backoff = scaling->backoff,
                                            .interval = scaling->interval,
                                            .hysteresis = scaling->hysteresis,
                                            .floor = scaling->floor,
                                            .later = later ? 1 : 0,
                                            .percentile = (int64_t)options->percentile,
                                            .previous = !delayed ? 0
                                                        : last   ? 2
                                                                 : 1};
    const bp_step_decide_operands operands = {.control = emit->control,
                                              .result = emit->result,
                                              .norms = options->percentile != 0 ? emit->norm_history
                                                                                : BP_ABSENT,
                                              .sums = emit->norms};
    bp_emit_step_decide(emit, &operands, &scalars);
}
