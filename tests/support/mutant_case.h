/* SPDX-License-Identifier: MIT */
/* One small program of each family with each option that changes programs: what mutants are made
 * of. */
#ifndef BP_TESTS_SUPPORT_MUTANT_CASE_H
#define BP_TESTS_SUPPORT_MUTANT_CASE_H

#include "tests/support/rig.h"

typedef struct mutant_case {
    const char *family;
    const char *option;
    bp_spec spec;
} mutant_case;

uint32_t mutant_family_count(void);
uint32_t mutant_option_count(void);

/* A family with an option on the given device; false where the family has no such option. */
bool mutant_case_get(uint32_t family, uint32_t option, const bp_device *device, mutant_case *out);

/* A rig of it with its data, open and initialised. */
void mutant_case_open(const mutant_case *c, rig *r);

#endif
