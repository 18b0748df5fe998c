/* SPDX-License-Identifier: MIT */
/* Room of the arena in which stays what was brought from below. */
#ifndef BP_BEDPLATE_BELOW_KEEP_H
#define BP_BEDPLATE_BELOW_KEEP_H

#include "core/run/runtime.h"

/* Of a step, below. */
typedef struct below_bytes {
    uint64_t moved; /* read and written */
    uint64_t written;
} below_bytes;

/* Bytes that a step moves for each buffer of a plan: moved[buffers], which is zero before. Returns
 * how many of them all are written. */
uint64_t below_moved(const bp_runtime *runtime, uint64_t *moved);

/* What a step of a spec moves, were its plan to have no waste. */
bp_status below_moves(const bp_spec *spec, below_bytes *moved, bp_error *error) BP_MUST_CHECK;

/* Sets spec->below.room so that the plan has at most `budget` bytes, as that of the spec without it
 * has: to 0 where no room is found that leads there. *moved as above, *arena the plan's bytes or
 * more. */
bp_status below_keep(bp_spec *spec, uint64_t budget, uint64_t *arena, below_bytes *moved,
                     bp_error *error) BP_MUST_CHECK;

#endif
