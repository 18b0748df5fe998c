/* SPDX-License-Identifier: MIT */
/* Calls of a fabric whose pieces differ in size, as plain loops have them. */
#ifndef BP_TESTS_UNEQUAL_H
#define BP_TESTS_UNEQUAL_H

#include "core/program/fabric.h"

#define UNEQUAL_RANKS 8

/* Gathers and exchanges pieces among all ranks: member m's has m * 100 bytes, and that of member 1
 * lies first. Adds the number of wrong bytes to *wrong. */
bp_status unequal_calls(const bp_fabric *fabric, void *context, bp_error *error, int64_t *wrong);

#endif
