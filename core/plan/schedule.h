/* SPDX-License-Identifier: MIT */
/* Schedules: sequences of stage actions. A checkpoint policy is nothing but a generator of them.
 *
 * Stages are 0 .. n-1; the last forms the loss inside its backward and has no forward action.
 * Forward of stage s reads boundary s (the output of s-1) and makes boundary s+1; backward of s
 * reads boundary s, the tape of s and the gradient of boundary s+1. A boundary or tape that a later
 * action reads stays; the first re-computation of it makes a new one. Every schedule gives the same
 * bits. */
#ifndef BP_CORE_SCHEDULE_H
#define BP_CORE_SCHEDULE_H

#include "core/base/error.h"
#include "core/plan/spec.h"

typedef enum bp_action_kind { BP_ACTION_FORWARD, BP_ACTION_BACKWARD } bp_action_kind;

typedef struct bp_action {
    bp_action_kind kind;
    uint32_t stage;
    uint32_t micro;   /* micro-batch within the program: 0 until programs hold several */
    uint32_t variant; /* forward: what it leaves on the tape; backward: what it finds there */
    bool checkpoint;  /* forward: the boundary it makes is an activation checkpoint */
} bp_action;

/* Most actions of a policy over n stages, whatever is frozen (exact when every stage has a tape and
 * is trained; BP_POLICY_ACTIONS: n more than are given); 0 for a policy that
 * makes no sense, UINT32_MAX when the number does not fit. */
uint32_t bp_schedule_count(const bp_policy *policy, uint32_t stages);

/* Writes them. Nothing is trained below stage `first`: the stages before it run forward once and
 * keep nothing, its input is kept, and the policy is applied to the chain from it on
 * (BP_POLICY_ACTIONS numbers stages from it); memory-poor keeps nothing and runs them again.
 * variants[s] is the number of tape variants of stage s. BP_ERR_FIT when `limit` rows are too few,
 * BP_ERR_USAGE for a policy whose k is 0 or that lists a stage that is not there. No policy makes
 * more actions than bp_schedule_count says. */
bp_status bp_schedule_generate(const bp_policy *policy, uint32_t stages, uint32_t first,
                               const uint32_t *variants, bp_action *actions, uint32_t limit,
                               uint32_t *count) BP_MUST_CHECK;

/* "none", "full", "memory-poor", ...; "auto" for BP_POLICY_ACTIONS. */
const char *bp_policy_name(bp_policy_kind kind);

#endif
