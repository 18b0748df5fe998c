/* SPDX-License-Identifier: MIT */
/* Predictions about data that is looked at once more: words with their classes, answers in their
 * texts. For other tasks these do nothing. */
#ifndef BP_BEDPLATE_PREDICTIONS_DATA_H
#define BP_BEDPLATE_PREDICTIONS_DATA_H

#include "tools/bedplate/sources/data_set.h"
#include "tools/bedplate/predict/predictions.h"

/* Before an evaluation of one of the data's sources, and after predictions_begin: makes room. */
bp_status predictions_data_begin(predictions *p, session *s, bp_source *source) BP_MUST_CHECK;

/* The rows that the source has are counted as in the data: of a part, from where it begins. */
bp_status predictions_data_rows(predictions *p, data_set *data) BP_MUST_CHECK;

/* After it: writes and counts what needs the data, and gives the room back. */
bp_status predictions_data_end(predictions *p, session *s, data_set *data) BP_MUST_CHECK;

#endif
