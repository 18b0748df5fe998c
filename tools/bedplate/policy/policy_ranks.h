/* SPDX-License-Identifier: MIT */
/* Completions of a step on several ranks: each generates those of some prompts, then all have all.
 * Rank 0 alone asks the reward command. A completion depends on the weights and on random numbers
 * named by step, row, generation and position, so the number of ranks changes nothing. */
#ifndef BP_BEDPLATE_POLICY_RANKS_H
#define BP_BEDPLATE_POLICY_RANKS_H

#include "tools/bedplate/policy/policy_run.h"

/* Bytes that ranks give each other; 0: there is one rank. */
uint64_t policy_ranks_bytes(const policy_run *p);

/* Generates the completions of the prompts that were chosen: this rank's part of them, where ranks
 * have all weights, and gets the others'. Called by all ranks. */
bp_status policy_ranks_generate(policy_run *p) BP_MUST_CHECK;

/* Opens the rewards. Called by all ranks; what rank 0 finds wrong with its command ends all. */
bp_status policy_ranks_open_rewards(policy_run *p) BP_MUST_CHECK;

/* Scores the completions: functions and models on every rank, the command on rank 0. */
bp_status policy_ranks_score(policy_run *p) BP_MUST_CHECK;

#endif
