/* SPDX-License-Identifier: MIT */
/* Token lanes of a spec (core/plan/passes/token_lanes.h). */
#ifndef BP_CORE_SPEC_LANES_H
#define BP_CORE_SPEC_LANES_H

#include "core/plan/spec.h"

/* What was asked for, as the option is called. */
const char *bp_token_lanes_option(const bp_spec *spec);

/* BP_ERR_USAGE: what of a spec cannot go with token lanes, or cannot be split into them. */
bp_status bp_token_lanes_check(const bp_spec *spec, bp_error *error) BP_MUST_CHECK;

#endif
