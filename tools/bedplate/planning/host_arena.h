/* SPDX-License-Identifier: MIT */
/* The host arena's part of a plan: what is printed when something lives there, and nothing when
 * nothing does. */
#ifndef BP_BEDPLATE_HOST_ARENA_H
#define BP_BEDPLATE_HOST_ARENA_H

#include "core/ir/report.h"
#include "tools/bedplate/app/output.h"

/* `fixed`: it is the read-only memory of a board, "flash". A member "host_arena" of the plan's JSON
 * object: arena_bytes, lower_bound_bytes, waste_bytes, classes, classes_at_peak, peak_op_index. */
void host_arena_json(output *out, const bp_report *report, bool fixed);

/* Its lines of the plan's table: bytes, lower bound, waste, and most of each class at one time. */
void host_arena_put(bp_text *text, const bp_report *report, bool fixed);

#endif
