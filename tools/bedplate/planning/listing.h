/* SPDX-License-Identifier: MIT */
/* The memory map of a plan. */
#ifndef BP_BEDPLATE_LISTING_H
#define BP_BEDPLATE_LISTING_H

#include "core/plan/planned.h"
#include "tools/bedplate/app/output.h"

/* The map of a plan as text, or as a JSON object, on `out`; that of the host arena after
 * it, when something lives there. Uses the heap. */
bp_status listing_map(bp_text *out, const bp_plan *plan, const char *title,
                      bool json) BP_MUST_CHECK;

/* The map as a page: `details` has how was planned; `section` writes what stands between the
 * drawings and the table of buffers. */
bp_status listing_page(bp_text *out, const bp_plan *plan, const char *title, const char *details,
                       void (*section)(bp_text *out, const void *user),
                       const void *user) BP_MUST_CHECK;

#endif
