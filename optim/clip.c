/* SPDX-License-Identifier: MIT */
/* Gradient norm and decision as ops. */
#include "optim/clip.h"

#include "core/ir/step.h"
#include "optim/partials.h"

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

/* Those of this rank, one behind the other. */
static void clip_norms_owned(bp_emit *emit, bp_partials *partials)
{
    bool first = true;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        const bp_share share = bp_emit_due_share(emit, i, emit->spec->rank);
        if (!emit->parameters[i].due || share.count == 0) {
            continue;
        }
        const bp_norm_partial_scalars scalars = {.count = (int64_t)share.count,
                                                 .chunk = BP_CLIP_CHUNK};
        const bp_norm_partial_operands operands = {.partials = bp_partials_own(emit, partials, i),
                                                   .x = bp_emit_due_gradient(emit, i, share.first)};
        if (first) {
            bp_emit_norm_partial(emit, &operands, &scalars);
        } else {
            bp_emit_tuple(emit, (const bp_ref *)&operands, &scalars);
        }
        first = false;
    }
}

/* Each rank forms the partial sums of what it owns, and all get all of them. */
static void clip_norms_shared(bp_emit *emit)
{
    bp_partials partials;
    uint64_t next = 0;
    bp_partials_begin(emit, &partials, 1);
    clip_norms_owned(emit, &partials);
    bp_partials_gather(emit, &partials);
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        const bp_parameter *parameter = &emit->parameters[i];
        const uint64_t before = next;
        next += counts(emit, parameter) ? partials_of(parameter) : 0;
        if (parameter->due) {
            bp_partials_place(emit, &partials, i,
                              bp_ref_at(emit->norms, clip_place_of(emit, parameter, before)));
            emit->norms_used += bp_size_ceil_div(parameter->due_count, BP_CLIP_CHUNK);
        }
    }
}

/* Elements whose sums go from `place` on, a chunk each. */
typedef struct clip_run {
    uint64_t place;
    uint64_t count;
} clip_run;

static void clip_norm(bp_emit *emit, bp_ref x, const clip_run *run, bool opens)
{
    const bp_norm_partial_scalars scalars = {.count = (int64_t)run->count, .chunk = BP_CLIP_CHUNK};
    const bp_norm_partial_operands operands = {.partials = bp_ref_at(emit->norms, run->place),
                                               .x = x};
    if (opens) {
        bp_emit_norm_partial(emit, &operands, &scalars);
    } else {
        bp_emit_tuple(emit, (const bp_ref *)&operands, &scalars);
    }
}

/* A gradient that is offloaded is brought part by part. */
static void clip_norms_offloaded(bp_emit *emit, uint32_t index, const clip_run *all)
{
    for (uint64_t at = 0; at < all->count; at += BP_ASIDE_ELEMENTS) {
        const uint64_t left = all->count - at;
        const clip_run run = {.place = all->place + at / BP_CLIP_CHUNK,
                              .count = left < BP_ASIDE_ELEMENTS ? left : BP_ASIDE_ELEMENTS};
        const uint64_t first = emit->parameters[index].due_first + at;
        clip_norm(emit, bp_emit_bring_gradient(emit, index, first, run.count), &run, true);
    }
}

void bp_clip_norms(bp_emit *emit)
{
    bool opens = true;
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
        const uint64_t before = next;
        next += counts(emit, parameter) ? partials_of(parameter) : 0;
        if (!parameter->due) {
            continue;
        }
        const clip_run run = {.place = clip_place_of(emit, parameter, before),
                              .count = parameter->due_count};
        const bool below = bp_emit_gradient_offloaded(emit, i);
        if (below) {
            clip_norms_offloaded(emit, i, &run);
        } else {
            clip_norm(emit, bp_emit_due_gradient(emit, i, parameter->due_first), &run, opens);
        }
        opens = below; /* what is brought ends a list */
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
