/* SPDX-License-Identifier: MIT */
/* Name patterns as a shell has them: * is any run of characters, ? any one, [a-z] and [!a-z] one of
 * a set; everything else is itself, and so is a [ without its ]. @MODULE matches the parameters of
 * the module, at any depth: @classifier matches classifier.weight and m.classifier.out.bias. */
#ifndef BP_CORE_GLOB_H
#define BP_CORE_GLOB_H

#include "arena/base.h"

/* Whether the whole of `name` matches. Time is at most the product of the two lengths. */
bool bp_glob_match(const char *glob, const char *name);

#endif
