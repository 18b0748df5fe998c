/* SPDX-License-Identifier: MIT */
/* Element types, masters, loss scaling, and rules for parameters by name: from settings to spec. */
#ifndef BP_BEDPLATE_PRECISION_H
#define BP_BEDPLATE_PRECISION_H

#include "core/plan/spec.h"
#include "tools/bedplate/app/settings.h"

#define PRECISION_RULES_MAX 256

/* What the spec refers to; must outlive it and not move. */
typedef struct precision_rules {
    bp_parameter_rule rule[PRECISION_RULES_MAX];
    uint32_t count;
    char globs[PRECISION_RULES_MAX][96]; /* patterns cut out of overrides */
} precision_rules;

/* Fills spec->working, gradient, master, scaling and rules: the defaults (split
 * with --bf16, fp32 with --fp16, gradients as wide as the master needs), or what was said. Prints
 * what contradicts itself with what would be right, BP_ERR_USAGE. */
bp_status precision_fill(const settings *set, precision_rules *rules, bp_spec *spec) BP_MUST_CHECK;

#endif
