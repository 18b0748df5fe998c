/* SPDX-License-Identifier: MIT */
/* Which update rule, and its numbers: from settings to spec. The one place of the program that
 * names every optimizer. */
#ifndef BP_BEDPLATE_OPTIMIZER_CHOICE_H
#define BP_BEDPLATE_OPTIMIZER_CHOICE_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/settings.h"

/* The optimizer of an --optim, - and _ alike, by Hugging Face's names too; NULL: there is none. */
const bp_optimizer *optimizer_find(const char *name);

/* Puts the rule's own defaults in the place of those of the table for options that were not given,
 * so that the resolved set says what is used. Prints what is wrong. BP_ERR_USAGE. */
bp_status optimizer_resolve(settings *set) BP_MUST_CHECK;

/* Fills spec->optimizer and its options; resolved settings. Prints what is wrong, BP_ERR_USAGE. */
bp_status optimizer_fill(const settings *set, bp_spec *spec) BP_MUST_CHECK;

#endif
