/* SPDX-License-Identifier: MIT */
/* Whether a spec can learn from a teacher, or be one. */
#ifndef BP_CORE_SPEC_DISTILL_H
#define BP_CORE_SPEC_DISTILL_H

#include "core/plan/spec.h"

/* A part of bp_spec_check: BP_ERR_USAGE with the option that is wrong. */
bp_status bp_spec_check_distill(const bp_spec *spec, bp_error *error) BP_MUST_CHECK;

#endif
