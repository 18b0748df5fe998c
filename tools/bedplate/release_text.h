/* SPDX-License-Identifier: MIT */
/* Forms of gradient release: from --gradient-release to spec, and what `plan` says of them. */
#ifndef BP_BEDPLATE_RELEASE_TEXT_H
#define BP_BEDPLATE_RELEASE_TEXT_H

#include "arena/text.h"
#include "core/spec.h"
#include "tools/bedplate/output.h"
#include "tools/bedplate/settings.h"

/* The form that the settings name. */
bp_release release_find(const settings *set);

/* One line: the form, its mathematics, and its cost in passes; nothing without gradient release. */
void release_put(bp_text *text, const bp_spec *spec);

/* The same as an object: form, mathematics, backward_passes (of each micro-batch), moment_passes
 * (how often a step reads and writes the optimizer's state). */
void release_json(output *out, const bp_spec *spec);

#endif
