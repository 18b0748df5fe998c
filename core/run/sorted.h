/* SPDX-License-Identifier: MIT */
/* Evaluation in the order of lengths: the samples of some groups go through the programs from the
 * shortest to the longest, so that most of them find a short one. What a caller sees, and the sums,
 * are as in the order of the data: losses and logits are kept until their turn comes. */
#ifndef BP_CORE_SORTED_H
#define BP_CORE_SORTED_H

#include "core/run/evaluate_round.h"

/* What an evaluation was asked. */
typedef struct bp_evaluation {
    const bp_feed *feed;
    bp_evaluated watch; /* NULL: none */
    void *user;
} bp_evaluation;

typedef struct evaluate_sums {
    double loss;
    uint64_t targets;
    double weight; /* of the targets */
    double metrics[BP_METRIC_NUMBERS];
} evaluate_sums;

/* Gives it, and rounds, their memory; the programs are made. */
void bp_sorted_place(bp_runtime *runtime, const bp_working *working);

/* How many groups of a feed can be sorted together; 1: none. */
uint32_t bp_sorted_groups(const bp_runtime *runtime, const bp_feed *feed);

/* Evaluates groups first .. first + count - 1, of which there are no more than that. */
bp_status bp_sorted_evaluate(bp_runtime *runtime, const bp_evaluation *all, uint64_t first,
                             uint32_t count, evaluate_sums *sums) BP_MUST_CHECK;

/* Of evaluate.c: stages a group; calls the watcher. */
bp_status evaluate_stage(bp_runtime *runtime, const bp_feed *feed, uint64_t number) BP_MUST_CHECK;
bp_status evaluate_shown(bp_runtime *runtime, bp_evaluated watch, void *user) BP_MUST_CHECK;

#endif
