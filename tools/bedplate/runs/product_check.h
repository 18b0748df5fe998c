/* SPDX-License-Identifier: MIT */
/* What --verify-products has found, told after each step. */
#ifndef BP_BEDPLATE_PRODUCT_CHECK_H
#define BP_BEDPLATE_PRODUCT_CHECK_H

#include "core/ir/device_options.h"
#include "tools/bedplate/record/events.h"

/* Says what was repaired since `told`, which becomes what is there now; nothing where nothing was.
 * `log` may be NULL. */
void product_check_tell(bp_checked *told, const bp_checked *now, events *log, uint64_t step);

#endif
