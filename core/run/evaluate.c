/* SPDX-License-Identifier: MIT */
/* Evaluation: group after group in the order of the data, or sorted by length (sorted.c). */
#include <string.h>

#include "core/run/run_private.h"
#include "core/run/sorted.h"

static const char where[] = "evaluate";

/* `count` values of 16 bits that fill the room's second half become fp32 in its order. */
static void widen(bp_dtype dtype, float *room, uint64_t count)
{
    const uint8_t *narrow = (const uint8_t *)room + count * sizeof(uint16_t);
    for (uint64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, narrow + i * sizeof bits, sizeof bits);
        room[i] = dtype == BP_BF16 ? bp_f32_from_bf16(bits) : bp_f32_from_f16(bits);
    }
}

/* Rows of logits that each sample has come to lie as those of the padded run; rows that it does not
 * have become 0. */
static void spread_logits(const bp_runtime *runtime, uint64_t rows, uint64_t padded)
{
    const size_t width = (size_t)bp_compile_logits_width(&runtime->spec);
    for (uint32_t s = runtime->group.samples; rows < padded && s-- > 0;) {
        float *to = runtime->logits_host + s * padded * width;
        memmove(to, runtime->logits_host + s * rows * width, rows * width * sizeof *to);
        memset(to + rows * width, 0, (padded - rows) * width * sizeof *to);
    }
}

bp_status evaluate_logits(bp_runtime *runtime)
{
    const bp_spec *spec = &runtime->spec;
    const bp_shorter *shorter = runtime->evaluated;
    const uint64_t padded = bp_compile_logits_rows(spec) / bp_spec_eval_batch(spec);
    const bool tokens = padded > 1;
    const uint64_t per_sample =
        tokens && padded > 1 && shorter != NULL ? shorter->sequence : padded;
    /* Of answers all first tokens come before all last ones. */
    const bool whole = spec->config.task == BP_TASK_ANSWERS;
    const uint64_t samples = whole ? bp_spec_eval_batch(spec) : runtime->group.samples;
    const uint64_t count = samples * per_sample * bp_compile_logits_width(spec);
    const bool narrow = bp_compile_logits_type(spec) != BP_F32;
    uint8_t *room = (uint8_t *)runtime->logits_host;
    if (count == 0) {
        return BP_OK;
    }
    BP_TRY(run_receive(runtime, &runtime->graph, runtime->emit.logits_kept,
                       narrow ? room + 2 * count : room,
                       (size_t)(count * bp_dtype_bytes(bp_compile_logits_type(spec)))));
    if (narrow) {
        widen(bp_compile_logits_type(spec), runtime->logits_host, count);
    }
    spread_logits(runtime, per_sample, padded);
    return BP_OK;
}

bp_status evaluate_staged(bp_runtime *runtime)
{
    const bp_step_block block = {
        .seed = runtime->spec.seed, .inverse_valid = 1.0f, .samples = runtime->group.samples};
    run_inputs in = run_inputs_of(runtime, 0, 0);
    in.batch = bp_spec_eval_batch(&runtime->spec);
    in.shorter = run_shortest(runtime, 0, 0);
    runtime->evaluated = in.shorter;
    *(in.shorter != NULL ? &in.shorter->evaluations : &runtime->padded_evaluations) += 1;
    BP_TRY(run_send(runtime, &block, &in));
    return run_length(runtime, in.shorter, BP_PROGRAM_EVAL);
}

bp_status evaluate_shown(bp_runtime *runtime, bp_evaluated watch, void *user)
{
    bp_status status = watch(user, runtime);
    if (status != BP_OK) {
        return bp_error_set(&runtime->error, status, where, "the evaluation was ended", NULL);
    }
    return BP_OK;
}

bp_status evaluate_stage(bp_runtime *runtime, const bp_feed *feed, uint64_t number)
{
    bp_status status = bp_feed_stage(feed, number, &runtime->group, runtime->window);
    if (status != BP_OK) {
        return bp_error_set(&runtime->error, status, where, "the feed failed", NULL);
    }
    return BP_OK;
}

/* One group: its loss and targets are added to the sums. */
static bp_status evaluate_group(bp_runtime *runtime, const bp_evaluation *all, uint64_t number,
                                evaluate_sums *sums)
{
    bp_result_block result;
    BP_TRY(evaluate_stage(runtime, all->feed, number));
    BP_TRY(evaluate_staged(runtime));
    BP_TRY(run_receive(runtime, &runtime->graph, runtime->emit.result, &result, sizeof result));
    sums->loss += result.loss_sum;
    sums->targets += runtime->group.valid;
    sums->weight += runtime->group.weight;
    float told[BP_TOLD_NUMBERS];
    memcpy(told, result.unused, sizeof told);
    for (uint32_t i = 0; i < BP_TOLD_NUMBERS; i++) {
        sums->told[i] += (double)told[i];
    }
    if (all->watch == NULL) {
        return BP_OK;
    }
    BP_TRY(evaluate_logits(runtime));
    return evaluate_shown(runtime, all->watch, all->user);
}

bp_status bp_runtime_evaluate(bp_runtime *runtime, const bp_feed *feed, uint64_t steps,
                              double *loss, uint64_t *targets)
{
    return bp_runtime_evaluate_each(runtime, feed, steps, NULL, NULL, loss, targets);
}

bp_status bp_runtime_evaluate_each(bp_runtime *runtime, const bp_feed *feed, uint64_t steps,
                                   bp_evaluated watch, void *user, double *loss, uint64_t *targets)
{
    BP_TRY(run_require(runtime, BP_PROGRAM_EVAL, "the plan has no evaluation program"));
    const bp_evaluation all = {feed, watch, user};
    const uint32_t most = bp_sorted_groups(runtime, feed);
    uint64_t groups = feed->steps_per_epoch;
    groups = steps != 0 && steps < groups ? steps : groups;
    evaluate_sums sums = {.targets = 0};
    for (uint64_t g = 0, some; g < groups; g += some) {
        some = groups - g < most ? groups - g : most;
        BP_TRY(some > 1 ? bp_sorted_evaluate(runtime, &all, g, (uint32_t)some, &sums)
                        : evaluate_group(runtime, &all, g, &sums));
    }
    *targets = sums.targets;
    memcpy(runtime->told, sums.told, sizeof runtime->told);
    *loss = sums.weight > 0.0 ? sums.loss / sums.weight : 0.0;
    return BP_OK;
}
