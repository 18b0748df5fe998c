/* SPDX-License-Identifier: MIT */
/* The memory techniques that are one option each, in the order in which they depart from what was
 * asked: what to offer when nothing fits. */
#ifndef BP_BEDPLATE_TECHNIQUE_H
#define BP_BEDPLATE_TECHNIQUE_H

#include "arena/text.h"
#include "core/plan/spec.h"

enum { TECHNIQUES = 5 };

/* Changes the spec as technique number `i` would and appends " --its-option value"; false, and
 * nothing done, where it is on already or the spec cannot have it. */
bool technique_apply(uint32_t i, bp_spec *spec, bp_text *options);

#endif
