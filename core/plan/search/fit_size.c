/* SPDX-License-Identifier: MIT */
/* The memory of the fit: enough for the plan of any candidate, from one counted emission. */
#include "core/plan/search/chain.h"
#include "core/plan/search/fit_private.h"

uint32_t fit_action_limit(const bp_spec *spec)
{
    const bp_policy poor = {.kind = BP_POLICY_MEMORY_POOR};
    return bp_schedule_count(&poor, spec->model->stages(&spec->config));
}

/* The candidates that are counted. Micro-batches of half the size have programs for the first and
 * for later ones, and of all that do the most chunks of a loss; the least are the most of a group.
 */
typedef enum fit_cut { FIT_WHOLE, FIT_HALF, FIT_SPLIT, FIT_CUTS } fit_cut;

/* One of them: every stage recomputed from its input, so that its backward is the longest, and the
 * shortest chunks of the loss and of the sequence, where these are free. */
static bp_spec dry_run_spec(const bp_fit_request *request, fit_cut cut)
{
    bp_spec spec = request->spec;
    if (request->free_policy) {
        spec.policy = (bp_policy){.kind = BP_POLICY_FULL};
    }
    if (cut != FIT_WHOLE) {
        const uint32_t least = bp_fit_least_batch(&spec), example = bp_fit_example(&spec);
        const uint32_t half = (spec.batch / example + 1) / 2 * example;
        const uint32_t batch = cut == FIT_HALF && half > least ? half : least;
        spec.accumulation *= spec.batch > batch ? (spec.batch - 1) / batch + 1 : 1;
        spec.batch = batch;
    }
    const uint64_t rows = (uint64_t)spec.batch * spec.sequence;
    if (request->free_chunk || (request->free_batch && spec.loss_rows == 0)) {
        spec.loss_rows = FIT_CHUNK_LEAST;
    }
    spec.loss_rows = spec.loss_rows > rows ? (uint32_t)rows : spec.loss_rows;
    for (uint32_t step = 1; request->free_sequence_chunk; step++) {
        const uint32_t chunk = bp_fit_sequence_chunk(&spec, step);
        if (chunk == 0) {
            break;
        }
        spec.sequence_chunk = chunk;
    }
    return spec;
}

static uint32_t scaled(uint32_t rows, uint32_t more, uint64_t times)
{
    const uint64_t sum = bp_size_add(rows, bp_size_mul(more, times));
    return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

/* rows += times x more; what does not fit 32 bits becomes more than any memory. */
static void add_rows(bp_graph_limits *rows, const bp_graph_limits *more, uint64_t times)
{
    rows->buffers = scaled(rows->buffers, more->buffers, times);
    rows->ops = scaled(rows->ops, more->ops, times);
    rows->refs = scaled(rows->refs, more->refs, times);
    rows->scalars = scaled(rows->scalars, more->scalars, times);
    rows->name_bytes = scaled(rows->name_bytes, more->name_bytes, times);
}

/* Bytes for the plan of any candidate with the micro-batches of `spec`: what recomputing every
 * stage takes, and the largest forward for every further action of the longest schedule, once more
 * for each stage. A program that holds many micro-batches is counted with two. */
static bp_status count_plan(const bp_fit_request *request, bp_spec spec, bp_arena *memory,
                            uint64_t *bytes, bp_error *error)
{
    bp_spec small = spec;
    bp_graph_limits rows, forward;
    const bool several = spec.gradient_release != BP_RELEASE_NONE && spec.accumulation > 2 &&
                         bp_spec_virtual_ranks(&spec) == 1;
    small.accumulation = several ? 2 : spec.accumulation;
    BP_TRY(bp_compile_count(&small, memory, &rows, &forward, error));
    if (several) {
        const bp_graph_limits once = rows;
        add_rows(&rows, &once, bp_size_ceil_div(spec.accumulation, 2) - 1);
    }
    if (request->free_policy) {
        const uint32_t stages = spec.model->stages(&spec.config);
        const uint64_t more =
            fit_action_limit(&spec) - bp_schedule_count(&spec.policy, stages) + stages;
        const uint64_t programs = 2; /* first and later micro-batches, or backward for the norm */
        add_rows(&rows, &forward, more * programs * bp_compile_micros(&spec));
        /* only counted, so there need be no actions */
        spec.policy =
            (bp_policy){.kind = BP_POLICY_ACTIONS, .action_count = fit_action_limit(&spec)};
    }
    *bytes = bp_plan_bytes(&spec, &rows);
    return BP_OK;
}

/* Bytes of the tables of the search itself. */
static uint64_t own_bytes(const bp_fit_request *request)
{
    uint64_t stages = request->spec.model->stages(&request->spec.config);
    uint64_t actions = bp_size_mul(fit_action_limit(&request->spec), 2 * sizeof(bp_action));
    uint64_t bytes = bp_size_add(sizeof(bp_plan), stages * sizeof(bp_chain_stage));
    return bp_size_add(bytes, bp_size_add(actions, 8 * FIT_ALIGNMENT));
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t bp_fit_scratch(const bp_fit_request *request)
{
    uint64_t most = 0;
    if (bp_spec_check(&request->spec, NULL) != BP_OK || request->spec.optimizer == NULL) {
        return BP_SIZE_INVALID;
    }
    for (uint32_t cut = FIT_WHOLE; cut < (request->free_batch ? FIT_CUTS : FIT_HALF); cut++) {
        const bp_spec spec = dry_run_spec(request, (fit_cut)cut);
        most = larger(most, bp_compile_scratch(&spec));
    }
    return bp_size_add(most, FIT_ALIGNMENT);
}

/* Measuring takes less than a plan: its tables hold one stage's forward and backward, those of a
 * plan all of them. */
bp_status bp_fit_count(const bp_fit_request *request, void *memory, uint64_t bytes,
                       uint64_t *needed, bp_error *error)
{
    bp_arena arena;
    uint64_t plan = 0, one = 0;
    BP_TRY(bp_spec_check(&request->spec, error));
    const uint32_t stages = request->spec.model->stages(&request->spec.config);
    const bool cuts = request->free_batch && request->spec.batch > 1;
    bp_arena_init(&arena, memory, (size_t)bytes);
    for (uint32_t cut = FIT_WHOLE; cut < (cuts ? FIT_CUTS : FIT_HALF); cut++) {
        BP_TRY(count_plan(request, dry_run_spec(request, (fit_cut)cut), &arena, &one, error));
        plan = larger(plan, one);
    }
    plan = larger(plan, bp_chain_scratch(stages));
    *needed = bp_size_add(own_bytes(request), bp_size_align(plan, FIT_ALIGNMENT));
    return BP_OK;
}
