/* SPDX-License-Identifier: MIT */
/* The gated feed-forward sublayer (Shazeer, arXiv 2002.05202):
 * out = stream + (silu(x gate) * (x up)) down. */
#ifndef BP_LAYERS_SWIGLU_H
#define BP_LAYERS_SWIGLU_H

#include "layers/residual.h"

typedef struct bp_swiglu {
    bp_linear gate;   /* (width, inner) */
    bp_linear up;     /* (width, inner) */
    bp_residual down; /* (inner, width) */
} bp_swiglu;

/* active (rows, inner) = silu(gate) * up; may be either. */
void bp_swiglu_activate(bp_emit *emit, const bp_swiglu *mlp, bp_ref gate, bp_ref up, bp_ref active);

/* What backward starts from; becomes what the gate's and the up product's gradients are. */
typedef struct bp_swiglu_backward_call {
    bp_ref gate;   /* (rows, inner) */
    bp_ref up;     /* (rows, inner) */
    bp_ref active; /* (rows, inner) */
    bool up_spare; /* nobody reads `up` afterwards: its gradient takes its place */
    bp_ref d_out;  /* (rows, width) */
    bp_ref d_gate; /* out: (rows, inner) */
    bp_ref d_up;   /* out: (rows, inner) */
} bp_swiglu_backward_call;

/* Gradients of the down projection, and those of gate and up. */
void bp_swiglu_backward_down(bp_emit *emit, const bp_swiglu *mlp, bp_swiglu_backward_call *call);

/* Gradients of the gate and up projections, and the gradient (rows, width) of x. */
bp_ref bp_swiglu_backward_up(bp_emit *emit, const bp_swiglu *mlp, bp_ref x,
                             const bp_swiglu_backward_call *call);

#endif
