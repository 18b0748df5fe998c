/* SPDX-License-Identifier: MIT */
/* Layer normalisation (Ba, Kiros, Hinton, arXiv 1607.06450) with weight and bias, and
 * root-mean-square normalisation (Zhang and Sennrich, arXiv 1910.07467) with a weight. */
#ifndef BP_LAYERS_NORM_H
#define BP_LAYERS_NORM_H

#include "core/plan/builder.h"

#define BP_NORM_NO_BIAS (BP_NO_PARAMETER - 1)

typedef struct bp_norm {
    uint32_t weight; /* parameter number, (width) */
    uint32_t bias;   /* parameter number, (width); BP_NORM_NO_BIAS: a layer norm without, 0
                        (ModernBERT);   BP_NO_PARAMETER: by the root mean square */
    uint64_t width;
    double epsilon;
    bool offset; /* of an RMS norm: 1 is added to the weight, which is kept about 0 (Gemma) */
} bp_norm;

/* Rows of a norm's statistics, each of builder->rows F32 values: the means, then the reciprocal
 * deviations; of the root mean square the latter only. */
uint64_t bp_norm_statistics(const bp_norm *norm);

/* Whether one of its parameters is trained. */
bool bp_norm_trains(const bp_builder *builder, const bp_norm *norm);

/* y (rows, width) = normalised x (rows, width). `statistics` receives what backward reads; absent
 * where no backward follows. */
void bp_norm_forward(bp_builder *builder, const bp_norm *norm, uint64_t rows, bp_ref x, bp_ref y,
                     bp_ref statistics);

typedef struct bp_norm_backward_call {
    bp_ref x;          /* (rows, width) */
    bp_ref statistics; /* from forward */
    bp_ref d_y;        /* (rows, width); becomes the gradient of x in place */
    bp_ref residual;   /* (rows, width): added to it; may be absent */
    bool input_wanted; /* false: only the parameters' gradients; d_y stays as it is */
    bool over;         /* the gradient of x lies over `residual`, not d_y */
} bp_norm_backward_call;

/* Gradients of the parameters that are trained, then d_y := gradient of x + residual, over
 * builder->rows rows. */
void bp_norm_backward(bp_builder *builder, const bp_norm *norm, const bp_norm_backward_call *call);

/* The same by the root mean square for some of the columns of each row of a larger value: `heads`
 * heads of norm->width each, rows at `pitch`. All operands but the statistics (rows * heads of
 * them) lie so. */
typedef struct bp_head_norm {
    bp_norm norm;
    uint64_t heads;
    uint64_t pitch;
} bp_head_norm;

void bp_head_norm_forward(bp_builder *builder, const bp_head_norm *norm, uint64_t rows, bp_ref x,
                          bp_ref y, bp_ref statistics);
void bp_head_norm_backward(bp_builder *builder, const bp_head_norm *norm,
                           const bp_norm_backward_call *call);

#endif
