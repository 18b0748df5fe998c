/* SPDX-License-Identifier: MIT */
/* The loss over pairs of rows as an op. */
#ifndef BP_LAYERS_PREFERENCE_H
#define BP_LAYERS_PREFERENCE_H

#include "core/plan/emit.h"

/* Adds the loss of the micro-batch's pairs to the result, from emit->losses, labels and sides;
 * weights (rows) F32: what each token's gradient is to be multiplied by; logps (sequences) F32: the
 * log-probability of each row's completion. Both may be absent. Of a second backward the sum stays
 * as it is. */
void bp_preference_emit(bp_emit *emit, bp_ref weights, bp_ref logps);

#endif
