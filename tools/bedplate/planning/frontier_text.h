/* SPDX-License-Identifier: MIT */
/* Time against bytes, as it is shown: a table, members "frontier" of an open JSON object, a section
 * of a page. */
#ifndef BP_BEDPLATE_FRONTIER_TEXT_H
#define BP_BEDPLATE_FRONTIER_TEXT_H

#include "core/plan/search/frontier.h"
#include "tools/bedplate/app/output.h"

void frontier_put_table(bp_text *text, const bp_frontier *f);
void frontier_json(output *out, const bp_frontier *f);
void frontier_page(bp_text *text, const bp_frontier *f);

#endif
