/* SPDX-License-Identifier: MIT */
/* --class-weights: what each class of a classification counts for. */
#ifndef BP_BEDPLATE_CLASS_WEIGHTS_H
#define BP_BEDPLATE_CLASS_WEIGHTS_H

#include "core/run/feed.h"
#include "tools/bedplate/session/session.h"

/* Fills session->class_weights and points the spec at them, where the option is given; the number
 * of classes is resolved. balanced: rows / (classes * rows of the class) over the rows of `train`,
 * as scikit-learn has it, or over its labelled tokens; NULL: there is no data, and a plan does not
 * depend on them. BP_ERR_USAGE or BP_ERR_DATA. */
bp_status class_weights_fill(session *s, bp_source *train) BP_MUST_CHECK;

#endif
