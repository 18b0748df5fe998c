/* SPDX-License-Identifier: MIT */
/* Dropout (Srivastava et al., JMLR 2014) with masks that are functions of the place in the model.
 */
#ifndef BP_LAYERS_DROPOUT_H
#define BP_LAYERS_DROPOUT_H

#include "core/plan/builder.h"

typedef struct bp_dropout {
    uint32_t site;      /* number of the place in the model, below 2^20, unique in it */
    double probability; /* [0, 1) */
} bp_dropout;

/* The probability that holds in the program being written: 0 outside training. */
double bp_dropout_probability(const bp_builder *builder, const bp_dropout *dropout);

/* y (rows, width) = residual + mask x / (1 - p); residual may be absent; y may be x or residual.
 * The backward of x is the same call without residual. */
void bp_dropout_apply(bp_builder *builder, const bp_dropout *dropout, uint64_t width, bp_ref x,
                      bp_ref residual, bp_ref y);

#endif
