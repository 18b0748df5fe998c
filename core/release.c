/* SPDX-License-Identifier: MIT */
/* Gradient release: each stage is updated inside backward, as soon as its gradients are complete,
 * so that their bytes serve the next stage and no full gradient ever exists.
 *
 * The whole group is one program. Several micro-batches go stage-major: all of them forward, then
 * each action of the backward part for all of them in order, then the update of what is complete.
 * Sums over micro-batches are thus formed in the order in which they always are. Clipping and loss
 * scaling need the norm over all gradients before the first update: the backward part is written
 * twice, first for the norm alone, then for the updates (LOMO, arXiv 2306.09782, does the same for
 * one micro-batch). Without them one backward is enough: each stage is decided on with the norm so
 * far, so that what is not finite reaches no weight of its stage or of one below. */
#include "core/compile_private.h"

typedef enum purpose { MEASURE, UPDATE, BOTH } purpose;

/* Marks the parameters whose gradients are complete once `stage` has gone backward. */
static bool mark_due(bp_emit *emit, uint32_t stage)
{
    const bp_model *model = emit->spec->model;
    bool any = false;
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        bp_parameter *parameter = &emit->parameters[i];
        uint32_t lowest =
            model->parameter_stage != NULL ? model->parameter_stage(&emit->spec->config, i) : 0;
        parameter->due = parameter->trainable && lowest == stage;
        any = any || parameter->due;
    }
    return any;
}

static void forget_gradients(bp_emit *emit)
{
    for (uint32_t i = 0; i < emit->parameter_count; i++) {
        emit->parameters[i].gradient = BP_NO_BUFFER;
        emit->parameters[i].gradient_written = false;
    }
}

/* What follows the backward of a stage by all micro-batches. */
static void finish_stage(const bp_compile *compile, bp_emit *emit, uint32_t stage, purpose what)
{
    const bp_optimizer *optimizer = emit->spec->optimizer;
    bool any = mark_due(emit, stage);
    if (any && what != UPDATE) {
        optimizer->norms(emit);
    }
    if (what == BOTH) {
        optimizer->decide(emit, stage + 1 < compile->stages);
    }
    if (any && what != MEASURE) {
        optimizer->apply(emit);
    }
}

static void write_backward_part(bp_compile *compile, bp_emit *emit, uint32_t first, purpose what)
{
    forget_gradients(emit);
    for (uint32_t i = first; i < compile->action_count && emit->status == BP_OK; i++) {
        for (uint32_t micro = 0; micro < compile->micros; micro++) {
            compile_action(compile, emit, i, micro);
        }
        if (compile->actions[i].kind == BP_ACTION_BACKWARD) {
            compile_inputs(compile, emit, 0);
            finish_stage(compile, emit, compile->actions[i].stage, what);
        }
    }
}

void compile_released(bp_compile *compile, bp_emit *emit)
{
    uint32_t first = 0;
    compile_begin(compile, emit, BP_PROGRAM_STEP, BP_MODE_TRAIN);
    emit->loss_written = false;
    emit->norms = BP_ABSENT;
    while (compile->actions[first].kind == BP_ACTION_FORWARD) {
        first++; /* the head's backward is in every schedule */
    }
    for (uint32_t micro = 0; micro < compile->micros; micro++) {
        for (uint32_t i = 0; i < first && emit->status == BP_OK; i++) {
            compile_action(compile, emit, i, micro);
        }
    }
    if (!bp_spec_needs_norm(emit->spec)) {
        write_backward_part(compile, emit, first, BOTH);
        return;
    }
    write_backward_part(compile, emit, first, MEASURE);
    emit->spec->optimizer->decide(emit, false);
    emit->loss_counted = true;
    write_backward_part(compile, emit, first, UPDATE);
    emit->loss_counted = false;
}
