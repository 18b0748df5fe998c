/* SPDX-License-Identifier: MIT */
/* What to say when nothing fits. */
#ifndef BP_BEDPLATE_SHORTAGE_H
#define BP_BEDPLATE_SHORTAGE_H

#include "tools/bedplate/planning/choice.h"

/* Prints to stderr: the least arena that would do, the largest buffer at the peak, and the cheapest
 * single change of options that fits. `runtime` is planned with the spec that needs the fewest
 * bytes; `c` is the choice that did not fit, or was not made (a model that only runs forward).
 * Uses the heap. */
void shortage_print(const choice *c, const bp_runtime *runtime, uint64_t limit);

#endif
