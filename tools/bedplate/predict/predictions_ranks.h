/* SPDX-License-Identifier: MIT */
/* How well texts are ranked: rows whose first texts are the same are one query's candidates.
 * A row is relevant where its label is at least a half. */
#ifndef BP_BEDPLATE_PREDICTIONS_RANKS_H
#define BP_BEDPLATE_PREDICTIONS_RANKS_H

#include "tools/bedplate/predict/predictions.h"
#include "tools/bedplate/session/session.h"

/* Makes room for every row of the source. BP_ERR_FIT: there is no memory. */
bp_status predictions_ranks_begin(predictions *p, session *s) BP_MUST_CHECK;

/* The next row with a label, in the order of the source. */
void predictions_ranks_take(predictions *p, double logit, double label);

/* Counts what was taken: average precision of all rows, and over queries the means of average
 * precision, of the reciprocal rank among ten, and of nDCG at ten. Of equal scores precision and
 * gains are shared, as scikit-learn has it, and the reciprocal rank takes the first of the data.
 * A query without a relevant row counts 0. Reads the source's first texts. */
bp_status predictions_ranks_end(predictions *p) BP_MUST_CHECK;

#endif
