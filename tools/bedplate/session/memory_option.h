/* SPDX-License-Identifier: MIT */
/* The memory memory options that are one option each, in the order in which they depart from what
 * was asked: what to offer when nothing fits. */
#ifndef BP_BEDPLATE_MEMORY_OPTION_H
#define BP_BEDPLATE_MEMORY_OPTION_H

#include "arena/text.h"
#include "core/plan/spec.h"

enum {
    MEMORY_OPTION_ADAPTERS =
        4, /* from here on another model is learned: adapters, and their base */
    MEMORY_OPTION_8BIT = 5,
    MEMORY_OPTION_4BIT = 6,
    MEMORY_OPTIONS = 7
};

/* Changes the spec as memory option number `i` would and appends " --its-option value"; false, and
 * nothing done, where it is on already or the spec cannot have it. */
bool memory_option_apply(uint32_t i, bp_spec *spec, bp_text *options);

#endif
