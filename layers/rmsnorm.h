/* SPDX-License-Identifier: MIT */
/* Root-mean-square normalisation (Zhang and Sennrich, arXiv 1910.07467) with a weight. */
#ifndef BP_LAYERS_RMSNORM_H
#define BP_LAYERS_RMSNORM_H

#include "core/emit.h"

typedef struct bp_rmsnorm {
    uint32_t weight; /* parameter number, (width) */
    uint64_t width;
    double epsilon;
} bp_rmsnorm;

/* y (rows, width) = normalised x (rows, width). `rstd` (rows), F32, receives the reciprocal
 * deviations; absent where no backward follows. */
void bp_rmsnorm_forward(bp_emit *emit, const bp_rmsnorm *norm, uint64_t rows, bp_ref x, bp_ref y,
                        bp_ref rstd);

typedef struct bp_rmsnorm_backward_call {
    bp_ref x;          /* (rows, width) */
    bp_ref rstd;       /* (rows) from forward */
    bp_ref d_y;        /* (rows, width); becomes the gradient of x in place */
    bp_ref residual;   /* (rows, width): added to it; may be absent */
    bool input_wanted; /* false: only the weight's gradient; d_y stays as it is */
} bp_rmsnorm_backward_call;

/* Gradient of the weight if it is trained, then d_y := gradient of x + residual, over emit->rows
 * rows. */
void bp_rmsnorm_backward(bp_emit *emit, const bp_rmsnorm *norm,
                         const bp_rmsnorm_backward_call *call);

#endif
