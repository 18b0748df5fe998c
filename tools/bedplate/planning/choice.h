/* SPDX-License-Identifier: MIT */
/* What the fit chose for --arena, in words. */
#ifndef BP_BEDPLATE_CHOICE_H
#define BP_BEDPLATE_CHOICE_H

#include "core/plan/search/choice.h"
#include "tools/bedplate/app/output.h"

/* --per-device-train-batch-size of a micro-batch of `batch` sequences: a pair, or a row of several
 * texts, is one example. */
uint32_t choice_examples(const bp_spec *spec, uint32_t batch);

/* One line: the options chosen, bytes, estimated seconds. */
void choice_put_line(bp_text *text, const bp_choice *c);

/* The chosen one, the runner-up, and what each other one would need. */
void choice_put_table(bp_text *text, const bp_choice *c);

/* Members "choice", "runner_up" and "rejected" of an open JSON object; "choice" alone when not
 * `all`. */
void choice_json(output *out, const bp_choice *c, bool all);

#endif
