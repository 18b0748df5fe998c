/* SPDX-License-Identifier: MIT */
/* The adapter of a dense layer as ops (core/plan/adapter.h): what it adds to the layer's
 * results. */
#ifndef BP_LAYERS_ADAPTER_H
#define BP_LAYERS_ADAPTER_H

#include "core/plan/builder.h"

/* A dense layer as its adapter sees it. */
typedef struct bp_adapted {
    uint32_t weight; /* parameter number of the layer's weight */
    uint64_t in;
    uint64_t out;
    uint64_t pitch; /* elements from row to row of y */
    bool dropped;   /* x has what the adapter's dropout left of it already */
} bp_adapted;

/* Whether the dense layer of this weight, which is no table, has an adapter in this plan. */
bool bp_adapter_there(const bp_builder *builder, uint32_t weight);

/* Whether one of its parameters is trained, where there is one. */
bool bp_adapter_trains(const bp_builder *builder, uint32_t weight);

/* Whether the layer's outputs have magnitudes (layers/nodes/magnitude.h). */
bool bp_adapter_magnitudes(const bp_builder *builder, uint32_t weight);

/* What A reads: x (rows, in), or where dropout takes elements a copy without them. */
bp_ref bp_adapter_dropped(bp_builder *builder, const bp_adapted *layer, bp_ref x);

/* y (rows, in) = residual + mask(x): the derivative of that. */
void bp_adapter_undropped(bp_builder *builder, const bp_adapted *layer, bp_ref x, bp_ref residual,
                          bp_ref y);

/* Whether dropout takes elements in the program being emitted. */
bool bp_adapter_drops(const bp_builder *builder, const bp_adapted *layer);

/* y (rows, out; pitch) = s (dropout(x) A^T) B^T, x (rows, in), or with `add` is added to. */
void bp_adapter_forward(bp_builder *builder, const bp_adapted *layer, bp_ref x, bp_ref y, bool add);

/* d_A (+)= s (d_y B)^T dropout(x), d_B (+)= d_y^T (s dropout(x) A^T). Returns s d_y B (rows, r),
 * which the gradient of x takes too; absent where A is not trained. */
bp_ref bp_adapter_backward_parameters(bp_builder *builder, const bp_adapted *layer, bp_ref x,
                                      bp_ref d_y);

/* d_x (rows, in) += mask(s (d_y B) A). d_u: s d_y B; absent: it is made here. */
void bp_adapter_backward_input(bp_builder *builder, const bp_adapted *layer, bp_ref d_y, bp_ref d_u,
                               bp_ref d_x);

/* ---- Its parts, each over builder->rows rows, for a layer whose rows are not written down all at
 * once (layers/images/image.c) ---- */

/* A buffer (rows, r). */
bp_ref bp_adapter_narrow(bp_builder *builder, const bp_adapted *layer, const char *name);

/* u (rows, r) = x A^T, x (rows, in); then u = s u; then y (rows, out; pitch) = u B^T, or with `add`
 * is added to. */
void bp_adapter_project(bp_builder *builder, const bp_adapted *layer, bp_ref x, bp_ref u);
void bp_adapter_apply_scale(bp_builder *builder, const bp_adapted *layer, bp_ref u);
void bp_adapter_spread(bp_builder *builder, const bp_adapted *layer, bp_ref u, bp_ref y, bool add);

/* s d_y B, a buffer (rows, r); d_x (rows, in) = d_u A, or with `add` is added to. */
bp_ref bp_adapter_project_gradient(bp_builder *builder, const bp_adapted *layer, bp_ref d_y);
void bp_adapter_widen(bp_builder *builder, const bp_adapted *layer, bp_ref d_u, bp_ref d_x,
                      bool add);

/* d_a (r, in), the gradient of A, = d_u^T x, or with `accumulate` is added to; d_B (+)= d_y^T u. */
void bp_adapter_outer_a(bp_builder *builder, const bp_adapted *layer, bp_ref d_u, bp_ref x,
                        bp_ref d_a, int64_t accumulate);
void bp_adapter_backward_b(bp_builder *builder, const bp_adapted *layer, bp_ref d_y, bp_ref u);

#endif
