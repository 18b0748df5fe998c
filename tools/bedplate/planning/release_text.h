/* SPDX-License-Identifier: MIT */
/* Forms of gradients: from --gradient-release to spec, and what `plan` says of them. */
#ifndef BP_BEDPLATE_RELEASE_TEXT_H
#define BP_BEDPLATE_RELEASE_TEXT_H

#include "arena/text.h"
#include "core/plan/spec.h"
#include "tools/bedplate/app/output.h"
#include "tools/bedplate/planning/release_cost.h"
#include "tools/bedplate/app/settings.h"

/* The form that the settings name. */
bp_release release_find(const settings *set);

/* The name of a form, as an option has it. */
const char *release_name(bp_release form);

/* A line for sums in 8 bits, and one for gradient release: its form, mathematics and passes, and
 * one more where it enlarges the arena. */
void release_put(bp_text *text, const bp_spec *spec, const release_cost *cost);

/* The same as an object: form, mathematics, backward_passes (of each micro-batch), moment_passes
 * (how often a step reads and writes the optimizer's state), and what release_cost_json says; and
 * gradient_sums: sums in 8 bits. */
void release_json(output *out, const bp_spec *spec, const release_cost *cost);

#endif
