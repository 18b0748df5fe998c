/* SPDX-License-Identifier: MIT */
/* Evaluation in rounds. In a round each rank runs one micro-batch, the first rank the first, and
 * all get the results of all; one rank has rounds of one. What is added up of them, and what a
 * watcher sees, is the same on every rank and for any number of them. Where weights are shared out
 * the ranks that have no micro-batch run the round's last one too, and all the program of the
 * longest: every rank is asked for its part of the weights as often. */
#ifndef BP_CORE_EVALUATE_ROUND_H
#define BP_CORE_EVALUATE_ROUND_H

#include "core/plan/working.h"
#include "core/run/run_private.h"

/* Stages a micro-batch of a round. */
typedef bp_status (*evaluate_stager)(bp_runtime *runtime, const void *user, uint32_t at);

/* A round of up to evaluate_ranks micro-batches. All ranks say the same. */
typedef struct evaluate_round {
    uint32_t count;
    bool losses; /* those of every token too: where a plan has room for sorting (sorted.h) */
    bool logits; /* those that are kept */
    evaluate_stager stage;
    const void *user;
} evaluate_round;

/* Gives it its memory, where a token's loss has a place in it (`losses`) or not. */
void evaluate_round_place(bp_runtime *runtime, void *memory, bool losses);

/* Micro-batches of a round, at most. */
uint32_t evaluate_ranks(const bp_runtime *runtime);

/* Runs a round. BP_ERR_FABRIC: a rank is lost. */
bp_status evaluate_run(bp_runtime *runtime, const evaluate_round *round) BP_MUST_CHECK;

/* Of the round that ran last, micro-batch `at`: what it came to; the loss of every token, (batch,
 * sequence), 0 behind a sample's end; its logits, as the padded run has them. */
const bp_evaluate_found *evaluate_found_of(const bp_runtime *runtime, uint32_t at);
const float *evaluate_losses_of(const bp_runtime *runtime, uint32_t at);
const float *evaluate_logits_of(const bp_runtime *runtime, uint32_t at);

#endif
