/* SPDX-License-Identifier: MIT */
/* A round: staged, run, read, and exchanged. A rank's piece is bp_evaluate_found, then the losses,
 * then the logits, as far as the round has them. */
#include "core/run/evaluate_round.h"

#include <string.h>

#include "core/ir/step.h"
#include "core/plan/parts.h"

void evaluate_round_place(bp_runtime *runtime, void *memory, bool losses)
{
    const bp_spec *spec = &runtime->plan->spec;
    if (spec->evaluate) {
        memset(memory, 0, (size_t)bp_working_round(spec, losses));
        runtime->round =
            (bp_round){.mine = memory, .all = (uint8_t *)memory + bp_working_piece(spec, losses)};
    }
}

uint32_t evaluate_ranks(const bp_runtime *runtime)
{
    return runtime->fabric != NULL ? bp_spec_data_ranks(&runtime->plan->spec) : 1;
}

/* Whether the program asks other ranks for their parts of the weights. */
static bool round_gathers(const bp_runtime *runtime)
{
    return evaluate_ranks(runtime) > 1 && runtime->plan->spec.sharing == BP_SHARING_PARAMETERS;
}

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

/* `rows` rows that each sample has come to lie as those of the padded run; rows that it does not
 * have become 0. */
static void spread(const bp_runtime *runtime, float *room, uint64_t rows, uint64_t padded,
                   uint64_t width)
{
    for (uint32_t s = runtime->group.samples; rows < padded && s-- > 0;) {
        float *to = room + s * padded * width;
        memmove(to, room + s * rows * width, rows * width * sizeof *to);
        memset(to + rows * width, 0, (padded - rows) * width * sizeof *to);
    }
}

static bp_status receive_logits(bp_runtime *runtime, float *to)
{
    const bp_spec *spec = &runtime->plan->spec;
    const bp_length_bucket *bucket = runtime->evaluated;
    const uint64_t padded = bp_compile_logits_rows(spec) / bp_spec_eval_batch(spec);
    const uint64_t per_sample = padded > 1 && bucket != NULL ? bucket->sequence : padded;
    const uint64_t width = bp_compile_logits_width(spec);
    /* Of answers all first tokens come before all last ones. */
    const bool whole = spec->config.task == BP_TASK_ANSWERS;
    const uint64_t samples = whole ? bp_spec_eval_batch(spec) : runtime->group.samples;
    const uint64_t count = samples * per_sample * width;
    const bool narrow = bp_compile_logits_type(spec) != BP_F32;
    if (count == 0) {
        return BP_OK;
    }
    BP_TRY(run_receive(runtime, &runtime->plan->graph, runtime->plan->builder.logits_kept,
                       narrow ? (uint8_t *)to + 2 * count : (uint8_t *)to,
                       (size_t)(count * bp_dtype_bytes(bp_compile_logits_type(spec)))));
    if (narrow) {
        widen(bp_compile_logits_type(spec), to, count);
    }
    spread(runtime, to, per_sample, padded, width);
    return BP_OK;
}

static bp_status receive_losses(bp_runtime *runtime, float *to)
{
    const bp_length_bucket *bucket = runtime->evaluated;
    const size_t padded = runtime->plan->spec.sequence;
    const size_t rows = bucket != NULL ? bucket->sequence : padded;
    const bp_graph *graph = bucket != NULL ? &bucket->graph : &runtime->plan->graph;
    BP_TRY(run_receive(runtime, graph, runtime->plan->builder.losses_kept, to,
                       runtime->group.samples * rows * sizeof(float)));
    spread(runtime, to, rows, padded, 1);
    return BP_OK;
}

/* Runs the program of that length (NULL: the padded run's) over what is staged. */
static bp_status run_staged(bp_runtime *runtime, const bp_length_bucket *bucket)
{
    const bp_step_block block = {
        .seed = runtime->plan->spec.seed, .inverse_valid = 1.0f, .samples = runtime->group.samples};
    run_inputs in = run_inputs_of(runtime, 0, 0);
    in.batch = bp_spec_eval_batch(&runtime->plan->spec);
    in.bucket = bucket;
    runtime->evaluated = bucket;
    *(bucket != NULL ? &bp_length_bucket_run(runtime, bucket)->evaluations
                     : &runtime->padded_evaluations) += 1;
    BP_TRY(run_send(runtime, &block, &in));
    return run_length(runtime, bucket, BP_PROGRAM_EVAL);
}

static const bp_length_bucket *longer_of(const bp_length_bucket *a, const bp_length_bucket *b)
{
    if (a == NULL || b == NULL) {
        return NULL;
    }
    return a->sequence > b->sequence ? a : b;
}

/* Stages micro-batch `own` and finds the program that it goes through. */
static bp_status stage_own(bp_runtime *runtime, const evaluate_round *round, uint32_t own,
                           const bp_length_bucket **program)
{
    bool any = false;
    for (uint32_t i = 0;
         round_gathers(runtime) && runtime->plan->bucket_count > 0 && i < round->count; i++) {
        BP_TRY(round->stage(runtime, round->user, i));
        const bp_length_bucket *fits = run_shortest(runtime, 0, 0);
        *program = any ? longer_of(*program, fits) : fits;
        any = true;
    }
    BP_TRY(round->stage(runtime, round->user, own));
    *program = any ? *program : run_shortest(runtime, 0, 0);
    return BP_OK;
}

static float *losses_at(uint8_t *piece)
{
    return (float *)(void *)(piece + sizeof(bp_evaluate_found));
}

/* This rank's micro-batch, into its piece. */
static bp_status run_own(bp_runtime *runtime, const evaluate_round *round, uint32_t own)
{
    bp_evaluate_found *found = (void *)runtime->round.mine;
    const bp_length_bucket *program = NULL;
    BP_TRY(stage_own(runtime, round, own, &program));
    BP_TRY(run_staged(runtime, program));
    BP_TRY(run_receive(runtime, &runtime->plan->graph, runtime->plan->builder.result,
                       &found->result, sizeof found->result));
    found->targets = runtime->group.valid;
    found->weight = runtime->group.weight;
    if (round->losses) {
        BP_TRY(receive_losses(runtime, losses_at(runtime->round.mine)));
    }
    if (round->logits) {
        float *piece = (float *)(void *)(runtime->round.mine + runtime->round.logits);
        BP_TRY(receive_logits(runtime, evaluate_ranks(runtime) > 1 ? piece : runtime->logits_host));
    }
    return BP_OK;
}

bp_status evaluate_run(bp_runtime *runtime, const evaluate_round *round)
{
    const bp_spec *spec = &runtime->plan->spec;
    const uint32_t ranks = evaluate_ranks(runtime);
    const uint32_t own = ranks > 1 ? bp_spec_data_rank(spec) : 0;
    const uint64_t logits =
        bp_size_mul(bp_compile_logits_rows(spec), bp_compile_logits_width(spec) * sizeof(float));
    bp_round *at = &runtime->round;
    at->logits = sizeof(bp_evaluate_found) + (round->losses ? (size_t)bp_working_losses(spec) : 0);
    at->bytes = at->logits + (round->logits ? (size_t)bp_size_align(logits, sizeof(uint64_t)) : 0);
    /* Ranks that share a sample's tokens run the same micro-batch, together. */
    if (own < round->count || round_gathers(runtime)) {
        BP_TRY(run_own(runtime, round, own < round->count ? own : round->count - 1));
    }
    return ranks > 1 ? run_gather(runtime, at->mine, at->bytes, at->all) : BP_OK;
}

static const uint8_t *piece_of(const bp_runtime *runtime, uint32_t at)
{
    const bp_round *round = &runtime->round;
    const size_t of_group = bp_spec_sequence_ranks(&runtime->plan->spec) * round->bytes;
    return evaluate_ranks(runtime) > 1 ? round->all + at * of_group : round->mine;
}

const bp_evaluate_found *evaluate_found_of(const bp_runtime *runtime, uint32_t at)
{
    return (const void *)piece_of(runtime, at);
}

const float *evaluate_losses_of(const bp_runtime *runtime, uint32_t at)
{
    return (const void *)(piece_of(runtime, at) + sizeof(bp_evaluate_found));
}

const float *evaluate_logits_of(const bp_runtime *runtime, uint32_t at)
{
    return evaluate_ranks(runtime) > 1
               ? (const void *)(piece_of(runtime, at) + runtime->round.logits)
               : runtime->logits_host;
}
