/* SPDX-License-Identifier: MIT */
/* What families and options have beyond those of spec_case.h: kinds of norms, windows, stretched
 * positions, images; vectors, preferences, magnitudes, what is frozen, what lives below. */
#ifndef BP_TESTS_SUPPORT_PLAN_CASE_H
#define BP_TESTS_SUPPORT_PLAN_CASE_H

#include "tests/support/plan_family.h"

#define PLAN_CASE_NAME 48

uint32_t plan_case_count(void);

/* The spec of one combination, rules and all until the next call; false where there is no such. */
bool plan_case(uint32_t index, bp_spec *spec, char name[PLAN_CASE_NAME]);

/* Some of what it makes them of. */
void plan_classes(bp_spec *spec);
void plan_adapters(bp_spec *spec);
void plan_large(bp_spec *spec);

#endif
