/* SPDX-License-Identifier: MIT */
/* Time against bytes: what more arena buys, and the largest micro-batch of a budget, both searched
 * in borrowed memory. */
#ifndef BP_CORE_FRONTIER_H
#define BP_CORE_FRONTIER_H

#include "core/plan/search/choice.h"

#define BP_FRONTIER_POINTS 40
#define BP_FRONTIER_GAINS  10

typedef struct bp_frontier {
    uint32_t count;
    bp_fit_point point[BP_FRONTIER_POINTS]; /* in increasing bytes and decreasing time */
    bp_fit_gain gain[BP_FRONTIER_GAINS];    /* at ten budgets between the curve's ends */
} bp_frontier;

/* The curve of the request's shapes, whose budget and choices but the policy are not looked at.
 * Errors are those of planning, and the lender's. Nothing stays borrowed. Cost: some hundred plans
 * at most, and measuring the stages three times. */
bp_status bp_frontier_find(bp_frontier *f, const bp_fit_request *request, const bp_lender *memory,
                           bp_error *error) BP_MUST_CHECK;

/* The largest micro-batch that some policy fits into the request's budget, loss chunks at
 * their shortest where they are free; 0 where none fits. `width`: fp32 elements that the model
 * keeps for each token (0: unknown), which bounds the search. Else as bp_frontier_find. Cost: a
 * plan for each policy at each of at most 32 sizes. */
bp_status bp_frontier_largest_batch(const bp_fit_request *request, uint32_t width,
                                    const bp_lender *memory, uint32_t *batch,
                                    bp_error *error) BP_MUST_CHECK;

#endif
