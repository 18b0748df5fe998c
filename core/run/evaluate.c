/* SPDX-License-Identifier: MIT */
/* Evaluation: group after group in the order of the data, or sorted by length (sorted.c), as many
 * at a time as there are ranks (evaluate_round.c). */
#include <string.h>

#include "core/run/run_private.h"
#include "core/run/sorted.h"

static const char where[] = "evaluate";

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
    return run_check_group(runtime, feed);
}

/* Groups that follow each other. */
typedef struct evaluate_groups {
    const bp_feed *feed;
    uint64_t first;
} evaluate_groups;

static bp_status stage_group(bp_runtime *runtime, const void *user, uint32_t at)
{
    const evaluate_groups *groups = user;
    return evaluate_stage(runtime, groups->feed, groups->first + at);
}

static void add_found(evaluate_sums *sums, const bp_evaluate_found *found)
{
    float metrics[BP_METRIC_NUMBERS];
    sums->loss += found->result.loss_sum;
    sums->targets += found->targets;
    sums->weight += found->weight;
    memcpy(metrics, found->result.metrics, sizeof metrics);
    for (uint32_t i = 0; i < BP_METRIC_NUMBERS; i++) {
        sums->metrics[i] += (double)metrics[i];
    }
}

/* One round of groups: their losses and targets are added to the sums, in order. */
static bp_status evaluate_some(bp_runtime *runtime, const bp_evaluation *all, uint64_t first,
                               uint32_t count, evaluate_sums *sums)
{
    const evaluate_groups groups = {all->feed, first};
    const evaluate_round round = {
        .count = count, .logits = all->watch != NULL, .stage = stage_group, .user = &groups};
    const size_t logits = (size_t)bp_compile_logits_rows(&runtime->plan->spec) *
                          (size_t)bp_compile_logits_width(&runtime->plan->spec) * sizeof(float);
    BP_TRY(evaluate_run(runtime, &round));
    for (uint32_t i = 0; i < count; i++) {
        add_found(sums, evaluate_found_of(runtime, i));
        if (all->watch == NULL) {
            continue;
        }
        if (evaluate_ranks(runtime) > 1) {
            BP_TRY(stage_group(runtime, &groups, i));
            memcpy(runtime->logits_host, evaluate_logits_of(runtime, i), logits);
        }
        BP_TRY(evaluate_shown(runtime, all->watch, all->user));
    }
    return BP_OK;
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
    const uint32_t batch = bp_spec_eval_batch(&runtime->plan->spec);
    BP_TRY(run_check_feed(runtime, feed, batch, batch));
    const bp_evaluation all = {feed, watch, user};
    const uint32_t sorted = bp_sorted_groups(runtime, feed);
    const uint32_t most = sorted > 1 ? sorted : evaluate_ranks(runtime);
    uint64_t groups = feed->steps_per_epoch;
    groups = steps != 0 && steps < groups ? steps : groups;
    evaluate_sums sums = {.targets = 0};
    for (uint64_t g = 0, some; g < groups; g += some) {
        some = groups - g < most ? groups - g : most;
        const bool by_length = sorted > 1 && some > 1;
        BP_TRY(by_length ? bp_sorted_evaluate(runtime, &all, g, (uint32_t)some, &sums)
                         : evaluate_some(runtime, &all, g, (uint32_t)some, &sums));
    }
    *targets = sums.targets;
    memcpy(runtime->metrics, sums.metrics, sizeof runtime->metrics);
    *loss = sums.weight > 0.0 ? sums.loss / sums.weight : 0.0;
    return BP_OK;
}
