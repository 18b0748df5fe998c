/* SPDX-License-Identifier: MIT */
/* Whether gradient release saves what it is for. Clipping makes backward run twice, and the tape
 * then waits for the second time while the first forms a stage's gradients: where one tensor is
 * most of the model, that can take more bytes than all gradients. */
#ifndef BP_BEDPLATE_RELEASE_COST_H
#define BP_BEDPLATE_RELEASE_COST_H

#include "arena/text.h"
#include "core/plan/spec.h"
#include "tools/bedplate/app/output.h"

typedef struct release_cost {
    bool known; /* gradients are released, and the other forms have been planned */
    bool enlarges;
    uint64_t arena_bytes; /* of the spec as it is */
    uint64_t without;     /* of the same spec without gradient release */
    uint64_t previous;    /* of the same with previous-norm; 0: it is that, or cannot be */
} release_cost;

/* Plans the spec, whose arena is `arena_bytes`, again in the forms that it is compared with. Does
 * nothing where gradients are not released. */
bp_status release_cost_find(const bp_spec *spec, uint64_t arena_bytes, release_cost *cost,
                            bp_error *error) BP_MUST_CHECK;

/* "N bytes more than without it (M bytes; with --gradient-release previous-norm L)", where the
 * arena is enlarged. */
void release_cost_put(bp_text *text, const release_cost *cost);

/* Members "enlarges", "arena_bytes_without" and, where it can be, "arena_bytes_previous_norm". */
void release_cost_json(output *out, const release_cost *cost);

/* What --per-device-eval-batch-size adds to the arena. */
/* *more becomes the bytes by which the arena of this planned spec is larger than with evaluations
 * in the batch of training: 0 where the steps are what needs most. Where it is not 0, that is said
 * on stderr unless `quiet`. Plans once more where evaluations have the larger batch. */
bp_status eval_cost_find(const bp_spec *spec, uint64_t arena_bytes, bool quiet, uint64_t *more,
                         bp_error *error) BP_MUST_CHECK;

/* What virtual ranks add to the arena. */
/* *more becomes the bytes by which the arena of this planned spec is larger than that of one lane
 * on one rank; 0 where it is not larger. Plans once more where there are several. */
bp_status virtual_ranks_cost_find(const bp_spec *spec, uint64_t arena_bytes, uint64_t *more,
                                  bp_error *error) BP_MUST_CHECK;

#endif
