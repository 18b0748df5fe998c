/* SPDX-License-Identifier: MIT */
/* The plan of a spec in memory of its own. */
#ifndef BP_TESTS_SUPPORT_PLAN_MADE_H
#define BP_TESTS_SUPPORT_PLAN_MADE_H

#include "core/run/runtime.h"

/* Plans; the test fails with the plan's words where that fails. Returns the plan's memory, for
 * free. */
void *plan_make(bp_runtime *runtime, const bp_spec *spec);

#endif
