/* SPDX-License-Identifier: MIT */
/* A schedule as a line that a person can read. */
#ifndef BP_BEDPLATE_SCHEDULE_TEXT_H
#define BP_BEDPLATE_SCHEDULE_TEXT_H

#include "arena/text.h"
#include "core/plan/schedule.h"

/* Bytes of scratch for schedule_put. */
size_t schedule_scratch(uint32_t actions);

/* Writes which stages run forward ("forward"; "again" when they have run before), what they keep
 * for backward, which inputs stay as checkpoints, and what backward computes again:
 *
 *     forward 0-4 dropping all but the inputs of 2, 4; backward 5-4 recomputing all;
 *     again 2 keeping all; backward 3 recomputing all; backward 2; ..
 *
 * Steps that repeat with other stages are written once for the first and once for the last of them,
 * with their number. What is kept of a stage is told by classes ("keeping all but norm, gelu") or,
 * of a set, by slots ("keeping qkv, middle"). variants[s] is the number of tape variants of stage
 * s. No line ending. */
void schedule_put(bp_text *text, const bp_spec *spec, const bp_action *actions, uint32_t count,
                  const uint32_t *variants, void *scratch);

#endif
