/* SPDX-License-Identifier: MIT */
/* Events of a run as sentences. */
#ifndef BP_BEDPLATE_RUN_EVENTS_H
#define BP_BEDPLATE_RUN_EVENTS_H

#include "arena/text.h"
#include "tools/bedplate/record/run_view.h"

/* Whether curves mark the event: not what each run has, such as a good end, nor saves, which are
 * many. */
bool run_events_marked(const view_event *e);

/* What happened, as HTML: "Saved a checkpoint in 0.25 s." */
void run_events_sentence(bp_text *t, const view_event *e);

/* The same as plain text. */
void run_events_line(bp_text *t, const view_event *e);

/* The section of a run's events, with its evaluations between them. */
void run_events_put(bp_text *t, const run_view *v);

#endif
