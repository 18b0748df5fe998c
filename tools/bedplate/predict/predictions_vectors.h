/* SPDX-License-Identifier: MIT */
/* How well vectors tell which texts belong together: cosines against scores, and whether an anchor
 * finds its positive among those of all rows. */
#ifndef BP_BEDPLATE_PREDICTIONS_VECTORS_H
#define BP_BEDPLATE_PREDICTIONS_VECTORS_H

#include "tools/bedplate/predict/predictions.h"

struct session;

/* Takes room for the vectors of all texts of p->source. BP_ERR_FIT. */
bp_status predictions_vectors_begin(predictions *p, struct session *s) BP_MUST_CHECK;

/* Takes room for the numbers of all rows of p->source, and the ranks by which they are compared.
 * BP_ERR_FIT. */
bp_status predictions_numbers_begin(predictions *p, struct session *s) BP_MUST_CHECK;

/* How well predicted numbers are ordered as the given ones are: p->numbers.spearman (of equal
 * numbers the mean of their ranks). Cost: sorting. */
void predictions_numbers_end(predictions *p);

/* Keeps those of an evaluated group, made as long as 1. */
bp_status predictions_vectors_take(predictions *p, const bp_runtime *runtime) BP_MUST_CHECK;

/* Counts: p->vectors. Cost: rows^2 * width, where rows have no scores. */
bp_status predictions_vectors_end(predictions *p) BP_MUST_CHECK;

/* NaN where the data does not say: with scores there are no recalls, and the reverse. */
double predictions_pearson_cosine(const predictions *p);
double predictions_spearman_cosine(const predictions *p);
double predictions_recall_1(const predictions *p);
double predictions_recall_3(const predictions *p);
double predictions_recall_5(const predictions *p);
double predictions_recall_10(const predictions *p);
/* Number `which` of 1, 3, 5, 10 of images that search for their texts; NAN of others. */
double predictions_recall_back(const predictions *p, uint32_t which);
double predictions_mrr_10(const predictions *p);

#endif
