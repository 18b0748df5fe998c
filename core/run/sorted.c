/* SPDX-License-Identifier: MIT */
/* Samples by length, results in the order of the data. */
#include "core/run/sorted.h"

#include <string.h>

#include "core/base/sort.h"
#include "core/plan/working.h"

static const char where[] = "evaluate";

/* Whether the losses lie in the arena when the eval program has ended: their last use is its last
 * op, and what is dead is not poisoned. */
static bool losses_stay(const bp_runtime *runtime)
{
    const bp_graph *graph = &runtime->plan->graph;
    const bp_buffer *losses = &graph->buffers[runtime->plan->builder.losses_kept.buffer];
    return !runtime->plan->spec.poison &&
           losses->upper ==
               graph->program_first[BP_PROGRAM_EVAL] + graph->program_count[BP_PROGRAM_EVAL];
}

void bp_sorted_place(bp_runtime *runtime, const bp_working *working)
{
    const uint32_t groups = bp_working_sorted_groups(&runtime->plan->spec);
    evaluate_round_place(runtime, working->round, groups > 0);
    if (groups > 0 && runtime->plan->bucket_count > 0 && losses_stay(runtime)) {
        runtime->sorted = (bp_sorted){.groups = groups,
                                      .order = working->order,
                                      .tokens = working->tokens,
                                      .losses = working->losses,
                                      .logits = working->kept,
                                      .windows = working->windows};
    }
}

/* Windows of a stream have one length, and a shuffled feed is not for evaluation. */
uint32_t bp_sorted_groups(const bp_runtime *runtime, const bp_feed *feed)
{
    const bool rows = feed->source->examples > 0 && !feed->shuffle;
    const bool whole =
        feed->group == feed->batch && feed->batch == bp_spec_eval_batch(&runtime->plan->spec);
    const bp_spec *spec = &runtime->plan->spec;
    const bool apart = spec->texts < 2 && !spec->model->compares; /* rows are for themselves */
    return rows && whole && apart && runtime->sorted.groups > 1 ? runtime->sorted.groups : 1;
}

static bool is_shorter(const void *user, uint32_t a, uint32_t b)
{
    const uint32_t *tokens = user;
    return tokens[a] != tokens[b] ? tokens[a] < tokens[b] : a < b;
}

static bp_status sort_samples(bp_runtime *runtime, const bp_feed *feed, uint64_t first,
                              uint32_t count)
{
    bp_sorted *sorted = &runtime->sorted;
    for (uint32_t i = 0; i < count; i++) {
        sorted->order[i] = i;
        BP_TRY(bp_feed_length(feed, first + i, &sorted->tokens[i]));
    }
    bp_order(sorted->order, count, is_shorter, sorted->tokens);
    return BP_OK;
}

/* Samples that follow each other in the order of lengths. */
typedef struct sorted_samples {
    const bp_feed *feed;
    uint64_t first; /* window of the data that sample 0 is */
    const uint32_t *order;
    uint32_t count;
} sorted_samples;

/* How many samples a micro-batch of them has. */
static uint32_t samples_of(const sorted_samples *samples, uint32_t at)
{
    const uint32_t before = at * samples->feed->batch, left = samples->count - before;
    return left < samples->feed->batch ? left : samples->feed->batch;
}

static bp_status stage_sorted(bp_runtime *runtime, const void *user, uint32_t at)
{
    const sorted_samples *samples = user;
    const uint32_t *order = samples->order + (size_t)at * samples->feed->batch;
    const uint32_t count = samples_of(samples, at);
    uint64_t *windows = runtime->sorted.windows;
    for (uint32_t i = 0; i < count; i++) {
        windows[i] = samples->first + order[i];
    }
    const bp_status status =
        bp_feed_stage_windows(samples->feed, windows, count, &runtime->group, runtime->window);
    if (status != BP_OK) {
        return bp_error_set(&runtime->error, status, where, "the feed failed", NULL);
    }
    return run_check_group(runtime, samples->feed);
}

/* Puts the results of a micro-batch where its samples are in the order of the data. */
static void keep_results(bp_runtime *runtime, const sorted_samples *samples, uint32_t at)
{
    const size_t padded = runtime->plan->spec.sequence,
                 logits = (size_t)bp_working_sample_logits(&runtime->plan->spec);
    const uint32_t *order = samples->order + (size_t)at * samples->feed->batch;
    bp_sorted *sorted = &runtime->sorted;
    for (uint32_t i = 0; i < samples_of(samples, at); i++) {
        memcpy(sorted->losses + order[i] * padded, evaluate_losses_of(runtime, at) + i * padded,
               padded * sizeof(float));
        memcpy(sorted->logits + order[i] * logits, evaluate_logits_of(runtime, at) + i * logits,
               logits * sizeof(float));
    }
}

static bp_status run_sorted(bp_runtime *runtime, const bp_feed *feed, uint64_t first,
                            uint32_t count, evaluate_sums *sums)
{
    const uint32_t most = evaluate_ranks(runtime) * feed->batch;
    for (uint32_t at = 0, some; at < count; at += some) {
        some = count - at < most ? count - at : most;
        const sorted_samples samples = {feed, first, runtime->sorted.order + at, some};
        const evaluate_round round = {.count = (uint32_t)bp_size_ceil_div(some, feed->batch),
                                      .losses = true,
                                      .logits = true,
                                      .stage = stage_sorted,
                                      .user = &samples};
        BP_TRY(evaluate_run(runtime, &round));
        for (uint32_t i = 0; i < round.count; i++) {
            sums->targets += evaluate_found_of(runtime, i)->targets;
            sums->weight += evaluate_found_of(runtime, i)->weight;
            keep_results(runtime, &samples, i);
        }
    }
    return BP_OK;
}

/* What loss_sum adds up in a group: row after row from 0. */
static double group_loss(const bp_sorted *sorted, size_t first, size_t rows)
{
    double sum = 0.0;
    for (size_t i = first; i < first + rows; i++) {
        sum += (double)sorted->losses[i];
    }
    return sum;
}

/* The groups in the order of the data, staged again for who watches. */
static bp_status show_groups(bp_runtime *runtime, const bp_evaluation *all, uint64_t first,
                             uint32_t samples, evaluate_sums *sums)
{
    const bp_spec *spec = &runtime->plan->spec;
    const size_t logits = (size_t)bp_working_sample_logits(spec);
    for (uint32_t at = 0, some; at < samples; at += some) {
        some = samples - at < bp_spec_eval_batch(spec) ? samples - at : bp_spec_eval_batch(spec);
        sums->loss += group_loss(&runtime->sorted, (size_t)at * spec->sequence,
                                 (size_t)some * spec->sequence);
        if (all->watch == NULL) {
            continue;
        }
        BP_TRY(evaluate_stage(runtime, all->feed, first + at / bp_spec_eval_batch(spec)));
        memcpy(runtime->logits_host, runtime->sorted.logits + at * logits,
               some * logits * sizeof(float));
        BP_TRY(evaluate_shown(runtime, all->watch, all->user));
    }
    return BP_OK;
}

bp_status bp_sorted_evaluate(bp_runtime *runtime, const bp_evaluation *all, uint64_t first,
                             uint32_t count, evaluate_sums *sums)
{
    const bp_feed *feed = all->feed;
    const uint64_t window = first * feed->batch, left = feed->windows - window;
    const uint64_t most = (uint64_t)count * feed->batch;
    const uint32_t samples = (uint32_t)(left < most ? left : most);
    const bp_status status = sort_samples(runtime, feed, window, samples);
    if (status != BP_OK) {
        return bp_error_set(&runtime->error, status, where, "the feed failed", NULL);
    }
    BP_TRY(run_sorted(runtime, feed, window, samples, sums));
    return show_groups(runtime, all, first, samples, sums);
}
