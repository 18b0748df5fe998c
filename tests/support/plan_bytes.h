/* SPDX-License-Identifier: MIT */
/* How much memory planning takes, counted in memory of its own. */
#ifndef BP_TESTS_SUPPORT_PLAN_BYTES_H
#define BP_TESTS_SUPPORT_PLAN_BYTES_H

#include "core/compile/fit.h"

/* Bytes for bp_runtime_plan of this spec; those for counting where it cannot be counted, and
 * BP_SIZE_INVALID where the spec makes no sense. */
uint64_t plan_bytes(const bp_spec *spec);

/* The same for the fit of a request. */
uint64_t fit_bytes(const bp_fit_request *request);

#endif
