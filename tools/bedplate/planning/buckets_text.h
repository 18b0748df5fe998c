/* SPDX-License-Identifier: MIT */
/* --length-buckets: which shorter sequences get programs of their own. */
#ifndef BP_BEDPLATE_BUCKETS_TEXT_H
#define BP_BEDPLATE_BUCKETS_TEXT_H

#include "core/run/feed.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/session/session.h"

#define BUCKETS_WORDS "auto|none|N|L1,L2,.."

/* Fills s->spec.lengths. `feed` is over what the run reads, initialised, and `samples` of it go
 * through a program together; NULL: the data is not looked at (plan), and lengths at even distances
 * stand for those that it will give (core/plan/search/lengths.h). */
bp_status lengths_fill(session *s, const bp_feed *feed, uint32_t samples) BP_MUST_CHECK;

/* What `plan` says of them: a line where there are several, and why there are fewer than could be;
 * the same as members. */
void buckets_put(bp_text *text, const session *s);
void buckets_json(output *out, const session *s);

/* A list of objects {"length", "micro_batches", "eval_batches"}: what each has run. */
void buckets_json_runs(output *out, const bp_runtime *runtime);
void buckets_put_runs(bp_text *text, const bp_runtime *runtime);

#endif
