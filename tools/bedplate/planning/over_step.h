/* SPDX-License-Identifier: MIT */
/* The bytes of each class over one step, for the events of a run. */
#ifndef BP_BEDPLATE_OVER_STEP_H
#define BP_BEDPLATE_OVER_STEP_H

#include "core/plan/planned.h"
#include "tools/bedplate/record/json_line.h"

enum { OVER_STEP_COLUMNS = 60 };

/* A member "over_step": the ops that stand for equal parts of the program, of which one is the
 * peak's, and for each class that is used its bytes alive there in the arena. */
void over_step_put(json_line *line, const bp_plan *plan);

#endif
