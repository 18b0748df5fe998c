/* SPDX-License-Identifier: MIT */
/* The learning-rate schedule that a user asks for. */
#ifndef BP_BEDPLATE_RATE_CHOICE_H
#define BP_BEDPLATE_RATE_CHOICE_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/settings.h"

/* Looks at --lr-scheduler-kwargs without a run: what a plan can say of it. Prints what is wrong.
 * BP_ERR_USAGE. */
bp_status rate_check(const settings *set) BP_MUST_CHECK;

/* Fills spec->rate and spec->rate_options for a run of `total` steps. BP_ERR_USAGE, printed. */
bp_status rate_fill(const settings *set, uint64_t total, bp_spec *spec) BP_MUST_CHECK;

#endif
