/* SPDX-License-Identifier: MIT */
/* What lanes add to the arena. */
#ifndef BP_BEDPLATE_LANES_COST_H
#define BP_BEDPLATE_LANES_COST_H

#include "core/plan/spec.h"

/* *more becomes the bytes by which the arena of this planned spec is larger than that of one lane
 * on one rank; 0 where it is not larger. Plans once more where there are several. */
bp_status lanes_cost_find(const bp_spec *spec, uint64_t arena_bytes, uint64_t *more,
                          bp_error *error) BP_MUST_CHECK;

#endif
