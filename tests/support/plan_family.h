/* SPDX-License-Identifier: MIT */
/* Small models of the families, as configurations of a spec: parts of plan_case.c. */
#ifndef BP_TESTS_SUPPORT_PLAN_FAMILY_H
#define BP_TESTS_SUPPORT_PLAN_FAMILY_H

#include "core/compile/spec.h"

uint32_t plan_family_count(void);

/* Makes a spec one of a family; rig_spec()'s is what it begins with. */
void plan_family(uint32_t index, bp_spec *spec);

/* Two of them, which other tests begin with too. */
void plan_llama(bp_spec *spec);
void plan_dense(bp_spec *spec);

#endif
