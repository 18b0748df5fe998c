/* SPDX-License-Identifier: MIT */
/* Gradient norm and decision as ops. */
#include "optim/clip.h"

#include "core/ir/step.h"
#include "optim/partials.h"

static uint64_t partials_of(const bp_parameter *parameter)
{
    return bp_size_ceil_div(bp_build_trained(parameter).count, BP_CLIP_CHUNK);
}

/* All that this program will have: those due now, or where they come part by part those of every
 * parameter that is trained, for AdamA once for each micro-batch. */
static bool counts(const bp_builder *builder, const bp_parameter *parameter)
{
    bool parts = builder->spec->gradient_release != BP_RELEASE_NONE || builder->spec->gradient_int8;
    return parts ? parameter->trainable : parameter->ready;
}

static void make_partials(bp_builder *builder)
{
    uint64_t partials = 0;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *parameter = &builder->parameters[i];
        partials += counts(builder, parameter) ? partials_of(parameter) : 0;
    }
    if (builder->spec->gradient_release == BP_RELEASE_ADAMA) {
        partials = bp_size_mul(partials, builder->spec->accumulation);
    }
    builder->norms =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F64, partials, 1, "norm_partials");
    builder->norms_used = 0;
}

/* Where a parameter's partial sums lie, `before` being those of the parameters before it: in the
 * order of parameters, so that the norm is added up in one order, or, where decisions come stage by
 * stage over what there is, behind those before. */
static uint64_t clip_place_of(const bp_builder *builder, const bp_parameter *parameter,
                              uint64_t before)
{
    if (builder->spec->gradient_release != BP_RELEASE_NONE && !bp_spec_needs_norm(builder->spec)) {
        return builder->norms_used;
    }
    return before + (parameter->ready_first - bp_build_trained(parameter).first) / BP_CLIP_CHUNK;
}

void bp_clip_declare(bp_builder *builder)
{
    if (builder->spec->optimizer_options.percentile != 0) {
        builder->norm_history =
            bp_build_persistent(builder, BP_F32, BP_NORM_HISTORY, "norm_history");
    }
}

/* Those of this rank, one behind the other. */
static void clip_norms_owned(bp_builder *builder, bp_partials *partials)
{
    bool first = true;
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_share share = bp_build_ready_share(builder, i, builder->spec->rank);
        if (!builder->parameters[i].ready || share.count == 0) {
            continue;
        }
        const bp_norm_partial_scalars scalars = {.count = (int64_t)share.count,
                                                 .chunk = BP_CLIP_CHUNK};
        const bp_norm_partial_operands operands = {
            .partials = bp_partials_own(builder, partials, i),
            .x = bp_build_ready_gradient(builder, i, share.first)};
        if (first) {
            bp_build_norm_partial(builder, &operands, &scalars);
        } else {
            bp_build_tuple(builder, (const bp_ref *)&operands, &scalars);
        }
        first = false;
    }
}

/* Each rank forms the partial sums of what it owns, and all get all of them. */
static void clip_norms_shared(bp_builder *builder)
{
    bp_partials partials;
    uint64_t next = 0;
    bp_partials_begin(builder, &partials, 1);
    clip_norms_owned(builder, &partials);
    bp_partials_gather(builder, &partials);
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *parameter = &builder->parameters[i];
        const uint64_t before = next;
        next += counts(builder, parameter) ? partials_of(parameter) : 0;
        if (parameter->ready) {
            bp_partials_place(builder, &partials, i,
                              bp_ref_at(builder->norms, clip_place_of(builder, parameter, before)));
            builder->norms_used += bp_size_ceil_div(parameter->ready_count, BP_CLIP_CHUNK);
        }
    }
}

/* Elements whose sums go from `place` on, a chunk each. */
typedef struct clip_run {
    uint64_t place;
    uint64_t count;
} clip_run;

static void clip_norm(bp_builder *builder, bp_ref x, const clip_run *run, bool opens)
{
    const bp_norm_partial_scalars scalars = {.count = (int64_t)run->count, .chunk = BP_CLIP_CHUNK};
    const bp_norm_partial_operands operands = {.partials = bp_ref_at(builder->norms, run->place),
                                               .x = x};
    if (opens) {
        bp_build_norm_partial(builder, &operands, &scalars);
    } else {
        bp_build_tuple(builder, (const bp_ref *)&operands, &scalars);
    }
}

/* A gradient that is offloaded is brought part by part. */
static void clip_norms_offloaded(bp_builder *builder, uint32_t index, const clip_run *all)
{
    for (uint64_t at = 0; at < all->count; at += BP_ASIDE_ELEMENTS) {
        const uint64_t left = all->count - at;
        const clip_run run = {.place = all->place + at / BP_CLIP_CHUNK,
                              .count = left < BP_ASIDE_ELEMENTS ? left : BP_ASIDE_ELEMENTS};
        const uint64_t first = builder->parameters[index].ready_first + at;
        clip_norm(builder, bp_build_bring_gradient(builder, index, first, run.count), &run, true);
    }
}

void bp_clip_norms(bp_builder *builder)
{
    bool opens = true;
    uint64_t next = 0;
    if (!bp_ref_present(builder->norms)) {
        make_partials(builder);
    }
    if (bp_build_sums_shared(builder)) {
        clip_norms_shared(builder);
        return;
    }
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *parameter = &builder->parameters[i];
        const uint64_t before = next;
        next += counts(builder, parameter) ? partials_of(parameter) : 0;
        if (!parameter->ready) {
            continue;
        }
        const clip_run run = {.place = clip_place_of(builder, parameter, before),
                              .count = parameter->ready_count};
        const bool below = bp_build_gradient_offloaded(builder, i);
        if (below) {
            clip_norms_offloaded(builder, i, &run);
        } else {
            clip_norm(builder, bp_build_ready_gradient(builder, i, parameter->ready_first), &run,
                      opens);
        }
        opens = below; /* what is brought ends a list */
        builder->norms_used += bp_size_ceil_div(parameter->ready_count, BP_CLIP_CHUNK);
    }
}

void bp_clip_decide(bp_builder *builder, bool later, bool last)
{
    const bp_optimizer_options *options = &builder->spec->optimizer_options;
    const bp_scaling *scaling = &builder->spec->scaling;
    if (!bp_ref_present(builder->norms)) {
        make_partials(builder); /* nothing is due yet: the loss alone decides */
    }
    const bool delayed = builder->spec->gradient_release == BP_RELEASE_PREVIOUS_NORM;
    const bp_step_decide_scalars scalars = {.partials = (int64_t)builder->norms_used,
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
    const bp_step_decide_operands operands = {
        .control = builder->control,
        .result = builder->result,
        .norms = options->percentile != 0 ? builder->norm_history : BP_ABSENT,
        .sums = builder->norms};
    bp_build_step_decide(builder, &operands, &scalars);
}
