/* SPDX-License-Identifier: MIT */
/* The page of one run or several: HTML with its pictures inside, so that it opens anywhere and asks
 * no network. Its one script changes scales and shows values; without it the page has the same
 * curves. */
#ifndef BP_BEDPLATE_RUN_PAGE_H
#define BP_BEDPLATE_RUN_PAGE_H

#include "arena/text.h"
#include "tools/bedplate/record/run_view.h"

enum { RUN_PAGE_MOST = 8 };

/* The page in a file that is replaced by rename. BP_ERR_STORE. */
bp_status run_page_write(const run_view *views, uint32_t count, const char *path,
                         bp_error *error) BP_MUST_CHECK;

#endif
