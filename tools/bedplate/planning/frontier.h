/* SPDX-License-Identifier: MIT */
/* Time against bytes: what more arena buys. */
#ifndef BP_BEDPLATE_FRONTIER_H
#define BP_BEDPLATE_FRONTIER_H

#include "core/plan/search/fit.h"
#include "tools/bedplate/app/output.h"

#define FRONTIER_POINTS 40
#define FRONTIER_GAINS  10

typedef struct frontier {
    uint32_t count;
    bp_fit_point point[FRONTIER_POINTS]; /* in increasing bytes and decreasing time */
    bp_fit_gain gain[FRONTIER_GAINS];    /* at ten budgets between the curve's ends */
} frontier;

/* The curve at the spec's shapes. Uses the heap. */
bp_status frontier_find(frontier *f, const bp_fit_request *request, bp_error *error) BP_MUST_CHECK;

/* A table, members "frontier" of an open JSON object, a section of a page. */
void frontier_put_table(bp_text *text, const frontier *f);
void frontier_json(output *out, const frontier *f);
void frontier_page(bp_text *text, const frontier *f);

/* The largest micro-batch that some policy fits into the budget, loss chunks at their shortest when
 * they are free; 0 when none. Uses the heap. */
bp_status frontier_largest_batch(const bp_fit_request *request, uint32_t *batch,
                                 bp_error *error) BP_MUST_CHECK;

#endif
