/* SPDX-License-Identifier: MIT */
/* The curves of the page of runs, the legend of its runs, and memory over one step. */
#ifndef BP_BEDPLATE_RUN_CURVES_H
#define BP_BEDPLATE_RUN_CURVES_H

#include "arena/text.h"
#include "tools/bedplate/record/run_view.h"

/* What the script needs of each run: its name, and the seconds it had run at steps. */
void run_curves_clocks(bp_text *t, const run_view *views, uint32_t count);

/* Loss with evaluations, each other metric of evaluations, norm, rate and speed: those that have
 * something to show. */
void run_curves_put(bp_text *t, const run_view *views, uint32_t count);

/* The bytes of each class over one step; nothing where the run has no plan of it. */
void run_curves_step(bp_text *t, const run_view *v);

#endif
