/* SPDX-License-Identifier: MIT */
/* What --per-device-eval-batch-size adds to the arena. */
#ifndef BP_BEDPLATE_EVAL_COST_H
#define BP_BEDPLATE_EVAL_COST_H

#include "core/plan/spec.h"

/* *more becomes the bytes by which the arena of this planned spec is larger than with evaluations
 * in the batch of training: 0 where the steps are what needs most. Where it is not 0, that is said
 * on stderr unless `quiet`. Plans once more where evaluations have the larger batch. */
bp_status eval_cost_find(const bp_spec *spec, uint64_t arena_bytes, bool quiet, uint64_t *more,
                         bp_error *error) BP_MUST_CHECK;

#endif
