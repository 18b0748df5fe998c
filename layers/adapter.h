/* SPDX-License-Identifier: MIT */
/* The adapter of a dense layer as ops (core/compile/adapter.h): what it adds to the layer's
 * results. */
#ifndef BP_LAYERS_ADAPTER_H
#define BP_LAYERS_ADAPTER_H

#include "core/compile/emit.h"

/* A dense layer as its adapter sees it. */
typedef struct bp_adapted {
    uint32_t weight; /* parameter number of the layer's weight */
    uint64_t in;
    uint64_t out;
    uint64_t pitch; /* elements from row to row of y */
} bp_adapted;

/* Whether the layer has an adapter in this plan. */
bool bp_adapter_there(const bp_emit *emit, uint32_t weight);

/* Whether one of its two matrices is trained, where there is one. */
bool bp_adapter_trains(const bp_emit *emit, uint32_t weight);

/* y (rows, out; pitch) += s (dropout(x) A^T) B^T, x (rows, in). */
void bp_adapter_forward(bp_emit *emit, const bp_adapted *layer, bp_ref x, bp_ref y);

/* d_A (+)= s (d_y B)^T dropout(x), d_B (+)= d_y^T (s dropout(x) A^T). */
void bp_adapter_backward_parameters(bp_emit *emit, const bp_adapted *layer, bp_ref x, bp_ref d_y);

/* d_x (rows, in) += mask(s (d_y B) A). */
void bp_adapter_backward_input(bp_emit *emit, const bp_adapted *layer, bp_ref d_y, bp_ref d_x);

#endif
