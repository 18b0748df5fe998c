/* SPDX-License-Identifier: MIT */
/* Small specs of every family with every option that changes what its stages emit. */
#ifndef BP_TESTS_SUPPORT_SPEC_CASE_H
#define BP_TESTS_SUPPORT_SPEC_CASE_H

#include "core/compile/spec.h"

#define SPEC_CASE_NAME 64

/* Families times options. */
uint32_t spec_case_count(void);

/* Case number `index`, called "<family> <option>". False where the family does not have the option:
 * bp_spec_check refuses it. */
bool spec_case(uint32_t index, bp_spec *spec, char name[SPEC_CASE_NAME]);

#endif
