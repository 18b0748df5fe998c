/* SPDX-License-Identifier: MIT */
/* Steps in two parts. */
#include "core/run/step_check.h"

#include <string.h>

#include "core/base/digest.h"
#include "core/run/run_private.h"

static const char where[] = "step_check";

/* What an op that decides changes besides the result: put back before it is run again. */
typedef struct step_check_before {
    bp_control_block control;
    float norms[BP_NORM_HISTORY];
} step_check_before;

/* Copies from and to storage are the host device's, which runs parts of such programs too. */
static bool check_offloaded(const bp_linked_op *op)
{
    return bp_address_space(op->offsets[0]) == BP_SPACE_OFFLOAD ||
           bp_address_space(op->offsets[1]) == BP_SPACE_OFFLOAD;
}

/* The op that decides a program's step; UINT32_MAX where there is none, or more than one, or where
 * a call that has begun is not over. */
uint32_t step_check_find(const bp_linked_program *program)
{
    uint32_t found = UINT32_MAX;
    uint32_t under_way = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        const bp_kernel_info *info = bp_kernel_describe(program->ops[i].kernel);
        if (info->pending != BP_PENDING_NONE && info->engine != BP_ENGINE_FABRIC &&
            !check_offloaded(&program->ops[i])) {
            return UINT32_MAX;
        }
        under_way += info->pending == BP_PENDING_BEGIN;
        under_way -= info->pending == BP_PENDING_WAIT;
        if (program->ops[i].kernel == BP_KERNEL_step_decide) {
            if (found != UINT32_MAX || under_way > 0) {
                return UINT32_MAX;
            }
            found = i;
        }
    }
    return found;
}

bp_status bp_runtime_step_check(bp_runtime *runtime, const bp_step_check *step_check)
{
    BP_TRY(bp_runtime_require(runtime, bp_runtime_planned(runtime), "the runtime has no plan"));
    const bp_spec *spec = &runtime->plan->spec;
    const bool single = spec->accumulation == 1 || bp_spec_whole_group(spec);
    const bp_program_kind kind = single ? BP_PROGRAM_STEP : BP_PROGRAM_UPDATE;
    const bool early = spec->gradient_release == BP_RELEASE_PREVIOUS_NORM ||
                       spec->gradient_release == BP_RELEASE_ADAMA;
    if (step_check != NULL &&
        (early || step_check_find(&runtime->link.programs[kind]) == UINT32_MAX)) {
        return bp_error_set(&runtime->error, BP_ERR_USAGE, where,
                            "this plan's steps cannot be judged before their update: gradients "
                            "are released before the norm is known, or copies run beside it",
                            "--gradient-release");
    }
    runtime->step_check = step_check;
    return BP_OK;
}

static bp_status step_check_norms(bp_runtime *runtime, float *norms, bool write)
{
    const bp_ref ref = runtime->plan->builder.norm_history;
    if (runtime->plan->spec.optimizer_options.percentile == 0) {
        return BP_OK;
    }
    const bp_buffer *buffer = &runtime->plan->graph.buffers[ref.buffer];
    const size_t bytes = BP_NORM_HISTORY * sizeof *norms;
    return write ? bp_runtime_write(runtime, buffer, ref.offset, norms, bytes)
                 : bp_runtime_read(runtime, buffer, ref.offset, norms, bytes);
}

static bp_status step_check_control(bp_runtime *runtime, bp_control_block *control, bool write)
{
    const bp_ref ref = runtime->plan->builder.control;
    const bp_buffer *buffer = &runtime->plan->graph.buffers[ref.buffer];
    return write ? bp_runtime_write(runtime, buffer, ref.offset, control, sizeof *control)
                 : bp_runtime_read(runtime, buffer, ref.offset, control, sizeof *control);
}

static bp_status step_check_restore(bp_runtime *runtime, step_check_before *before)
{
    BP_TRY(step_check_control(runtime, &before->control, true));
    return step_check_norms(runtime, before->norms, true);
}

/* Gradients in order, put together to so many sums at most. */
enum { JUDGE_PARTS = 64, JUDGE_RUNS = 3 };

/* A run of forward and backward: how, and one number for all that the update will read. */
typedef struct step_check_run {
    bp_device_move move;
    const char *kernels;
    uint64_t value;
    uint64_t part[JUDGE_PARTS];
} step_check_run;

static uint32_t step_check_part(const bp_builder *builder, uint32_t parameter)
{
    return (uint32_t)((uint64_t)parameter * JUDGE_PARTS / builder->parameter_count);
}

/* Result, decision, and every gradient. Gradients that are released have no place of their own; of
 * them the sums of squares are in the norm. */
static bp_status step_check_digest(bp_runtime *runtime, const bp_result_block *result,
                                   step_check_run *run)
{
    const bp_builder *builder = &runtime->plan->builder;
    const bp_length_bucket *bucket = runtime->decided.bucket; /* whose places the gradients have */
    const bp_graph *graph = bucket != NULL ? &bucket->graph : &runtime->plan->graph;
    bp_digest digest;
    bp_control_block control;
    uint64_t words = 0;
    memset(run->part, 0, sizeof run->part);
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const bp_parameter *parameter = &builder->parameters[i];
        const bool summed = parameter->sum != BP_NO_BUFFER;
        const uint32_t buffer = summed ? parameter->sum : parameter->gradient;
        if (runtime->plan->spec.gradient_release == BP_RELEASE_NONE && parameter->trainable &&
            buffer != BP_NO_BUFFER) {
            uint64_t sum;
            BP_TRY(run_word_sum(runtime, graph, buffer, words, &sum));
            run->part[step_check_part(builder, i)] += sum;
            words += runtime->plan->graph.buffers[buffer].bytes / sizeof(uint32_t) + 1;
        }
    }
    BP_TRY(step_check_control(runtime, &control, false));
    bp_digest_begin(&digest, 0);
    bp_digest_add(&digest, result, sizeof *result);
    bp_digest_add(&digest, &control, sizeof control);
    bp_digest_add(&digest, run->part, sizeof run->part);
    run->value = bp_digest_end(&digest);
    run->kernels = runtime->plan->spec.device->variant(runtime->device);
    return BP_OK;
}

static bp_status step_check_once(bp_runtime *runtime, bp_step_block *block, bp_result_block *result)
{
    runtime->places = 0;
    BP_TRY(run_group(runtime, block));
    return run_receive(runtime, &runtime->plan->graph, runtime->plan->builder.result, result,
                       sizeof *result);
}

/* A fault before the exchange comes to all ranks, one after it stays on its own. */
static bp_status step_check_any(const bp_step_check *step_check, bool mine, bool *holds)
{
    *holds = mine;
    return step_check->any != NULL ? step_check->any(step_check->user, mine, holds) : BP_OK;
}

/* A step that is being computed again. */
typedef struct check_case {
    bp_runtime *runtime;
    bp_step_block *block;
    step_check_before *before;
    bp_result_block *result;
    uint16_t processor[BP_RECOMPUTED_PROCESSORS];
    uint32_t processors;
    step_check_run run[JUDGE_RUNS];
} check_case;

/* Forward and backward once more, in the way of run->move. */
static bp_status step_check_repeat(check_case *c, step_check_run *run)
{
    const bp_device *device = c->runtime->plan->spec.device;
    if (device->move != NULL) {
        device->move(c->runtime->device, &run->move);
    }
    BP_TRY(step_check_restore(c->runtime, c->before));
    BP_TRY(step_check_once(c->runtime, c->block, c->result));
    return step_check_digest(c->runtime, c->result, run);
}

/* Processors first .. first + count - 1, of which each has a worker in a run. */
typedef struct check_set {
    uint32_t first;
    uint32_t count; /* 0: none */
} check_set;

/* Set number `index` of those that all processors are cut into: as many as there are workers, and
 * halves where there are workers for all. */
static check_set step_check_cut(const check_case *c, uint32_t index)
{
    const uint32_t all = c->processors;
    const uint32_t half = all - all / 2;
    const uint32_t threads = c->runtime->plan->spec.device_options.threads;
    const uint32_t width = threads < half ? (threads > 0 ? threads : 1) : half;
    const uint32_t first = index * width < all ? index * width : all;
    return (check_set){first, all - first < width ? all - first : width};
}

static bp_status step_check_on(check_case *c, check_set set, uint32_t form, uint64_t *value)
{
    step_check_run run = {.move = {.form = form, .first = set.first, .count = set.count}};
    BP_TRY(step_check_repeat(c, &run));
    *value = run.value;
    return BP_OK;
}

/* Which processors give another result than `right` with kernels `form`: a set that does so, then
 * halves of it, as long as exactly one of them does. */
static bp_status check_halve(check_case *c, uint32_t form, uint64_t right, check_set *found)
{
    uint64_t value = right;
    for (uint32_t i = 0; value == right; i++) {
        *found = step_check_cut(c, i);
        if (found->count == 0) {
            return BP_OK;
        }
        BP_TRY(step_check_on(c, *found, form, &value));
    }
    while (found->count > 1) {
        const check_set low = {found->first, found->count / 2};
        const check_set high = {found->first + low.count, found->count - low.count};
        uint64_t values[2];
        BP_TRY(step_check_on(c, low, form, &values[0]));
        BP_TRY(step_check_on(c, high, form, &values[1]));
        if ((values[0] == right) == (values[1] == right)) {
            break;
        }
        *found = values[0] == right ? high : low;
    }
    return BP_OK;
}

/* Of three results none is right by two votes: processors that do not all take part may agree with
 * themselves, by two forms. */
static bp_status step_check_agree(check_case *c, step_check_run *run)
{
    uint64_t value = 0;
    for (check_set set = step_check_cut(c, 0); set.count > 0 && set.count < c->processors;
         set = step_check_cut(c, set.first / set.count + 1)) {
        run->move = (bp_device_move){.form = 0, .first = set.first, .count = set.count};
        BP_TRY(step_check_on(c, set, 1, &value));
        BP_TRY(step_check_repeat(c, run));
        if (run->value == value) {
            return BP_OK;
        }
    }
    run->kernels = NULL;
    return BP_OK;
}

/* The first tensor whose gradient one of two runs has otherwise. */
static const char *step_check_tensor(const bp_builder *builder, const step_check_run *a,
                                     const step_check_run *b)
{
    for (uint32_t i = 0; i < builder->parameter_count; i++) {
        const uint32_t part = step_check_part(builder, i);
        if (builder->parameters[i].trainable && a->part[part] != b->part[part]) {
            return bp_build_name(builder, i);
        }
    }
    return "";
}

/* Two runs differ: a third votes, and the way of the one that is alone is tried on sets of
 * processors; at last the result that is right is there again. */
static bp_status step_check_vote(check_case *c, bp_recompute_found *found)
{
    step_check_run *run = c->run;
    check_set set = {0, 0};
    BP_TRY(step_check_repeat(c, &run[2]));
    const uint32_t odd = run[2].value == run[0].value ? 1 : 0;
    found->result = BP_RECOMPUTED_MISMATCH;
    found->kernels = run[odd].kernels;
    found->tensor =
        step_check_tensor(&c->runtime->plan->builder, &run[odd], &run[odd == 0 ? 1 : 2]);
    if (run[2].value != run[1 - odd].value) {
        BP_TRY(step_check_agree(c, &run[2]));
    }
    if (run[2].kernels == NULL) {
        return BP_OK;
    }
    const uint64_t right = run[2].value;
    if (c->processors > 0) {
        BP_TRY(check_halve(c, run[odd].move.form, right, &set));
    }
    BP_TRY(step_check_repeat(c, &run[2]));
    if (run[2].value != right) {
        return BP_OK;
    }
    found->result = set.count == 0 ? BP_RECOMPUTED_TRANSIENT : BP_RECOMPUTED_PERSISTENT;
    found->processors = set.count;
    memcpy(found->processor, c->processor + set.first, set.count * sizeof *found->processor);
    return BP_OK;
}

/* The same of several ranks: all of them make the third run, and none is right alone. Which
 * processors are sick is not looked for, as ranks may have different ones. */
static bp_status step_check_vote_together(check_case *c, bp_recompute_found *found)
{
    step_check_run *run = c->run;
    bool doubt;
    BP_TRY(step_check_repeat(c, &run[2]));
    const bool first = run[2].value == run[0].value;
    const bool either = first || run[2].value == run[1].value;
    BP_TRY(step_check_any(c->runtime->step_check, !either, &doubt));
    found->result = doubt ? BP_RECOMPUTED_MISMATCH : BP_RECOMPUTED_TRANSIENT;
    found->kernels = run[first ? 1 : 0].kernels;
    found->tensor = step_check_tensor(&c->runtime->plan->builder, &run[0], &run[1]);
    return BP_OK;
}

/* Forward and backward once more, elsewhere; *result is that of the majority. */
static bp_status step_check_again(bp_runtime *runtime, bp_step_block *block,
                                  step_check_before *before, bp_result_block *result,
                                  bp_recompute_found *found)
{
    const bp_device *device = runtime->plan->spec.device;
    check_case c = {.runtime = runtime, .block = block, .before = before, .result = result};
    if (device->processors != NULL) {
        c.processors = device->processors(runtime->device, c.processor, BP_RECOMPUTED_PROCESSORS);
    }
    const uint32_t all = c.processors > 0 ? c.processors : 1;
    for (uint32_t i = 1; i < JUDGE_RUNS; i++) {
        c.run[i].move = (bp_device_move){.form = i, .count = all, .turn = 1};
    }
    *found = (bp_recompute_found){.result = BP_RECOMPUTED_EQUAL, .tensor = "", .kernels = ""};
    bool differs = false;
    bp_status status = step_check_digest(runtime, result, &c.run[0]);
    if (status == BP_OK) {
        status = step_check_repeat(&c, &c.run[1]);
    }
    if (status == BP_OK) {
        status = step_check_any(runtime->step_check, c.run[0].value != c.run[1].value, &differs);
    }
    if (status == BP_OK && differs) {
        status = runtime->step_check->any != NULL ? step_check_vote_together(&c, found)
                                                  : step_check_vote(&c, found);
    }
    if (device->move != NULL) {
        device->move(runtime->device, &(bp_device_move){.form = 0});
    }
    return status;
}

/* The control block that the update reads. */
static bp_status step_check_carry_out(bp_runtime *runtime, step_check_before *before,
                                      bp_step_verdict judgement, double factor)
{
    bp_control_block control = before->control;
    if (judgement == BP_STEP_CLIP) {
        BP_TRY(step_check_control(runtime, &control, false));
        control.clip = (float)((double)control.clip * factor);
        return step_check_control(runtime, &control, true);
    }
    if (judgement >= BP_STEP_SKIP) {
        control.skip = 1;
        BP_TRY(step_check_norms(runtime, before->norms, true));
        return step_check_control(runtime, &control, true);
    }
    return BP_OK;
}

bp_status step_check_step(bp_runtime *runtime, bp_step_block *block, bp_result_block *result,
                          bp_outcome *outcome)
{
    const bp_step_check *step_check = runtime->step_check;
    step_check_before before;
    bp_recompute_found found;
    double factor = 1.0;
    BP_TRY(step_check_control(runtime, &before.control, false));
    BP_TRY(step_check_norms(runtime, before.norms, false));
    BP_TRY(step_check_once(runtime, block, result));
    run_outcome(runtime, result, outcome);
    if (step_check->again(step_check->user, outcome) && !runtime->plan->builder.moves) {
        BP_TRY(step_check_again(runtime, block, &before, result, &found));
        run_outcome(runtime, result, outcome);
        step_check->found(step_check->user, outcome, &found);
        if (found.result == BP_RECOMPUTED_MISMATCH || found.result == BP_RECOMPUTED_PERSISTENT) {
            const bool unusable = found.result == BP_RECOMPUTED_MISMATCH;
            return bp_error_set(&runtime->error, BP_ERR_DEVICE, where,
                                unusable ? "three runs of the same step gave three results"
                                         : "a step comes out otherwise each time it is computed so",
                                unusable ? runtime->plan->spec.device->name : found.kernels);
        }
    }
    const bp_step_verdict judgement =
        outcome->skipped ? BP_STEP_APPLY : step_check->decide(step_check->user, outcome, &factor);
    BP_TRY(step_check_carry_out(runtime, &before, judgement, factor));
    outcome->verdict = (uint32_t)judgement;
    outcome->nonfinite = outcome->nonfinite && judgement < BP_STEP_SKIP;
    return run_rest(runtime);
}
