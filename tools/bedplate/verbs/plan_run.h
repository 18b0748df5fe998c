/* SPDX-License-Identifier: MIT */
/* A plan in parts: what `plan` does with one, and --adapters with several. */
#ifndef BP_BEDPLATE_PLAN_RUN_H
#define BP_BEDPLATE_PLAN_RUN_H

#include "tools/bedplate/session/session.h"

/* Of a session that has begun: what train would refuse at once, and the spec, but for what
 * session_choose finds. */
bp_status plan_read(session *s) BP_MUST_CHECK;

/* Once that is found: the plan, and the tokenizer's bytes. */
bp_status plan_make(session *s) BP_MUST_CHECK;

#endif
