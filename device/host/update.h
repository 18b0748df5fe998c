/* SPDX-License-Identifier: MIT */
/* What the forms of the update rules share: a step's factors, computed once per call in double and
 * rounded once, and the view of all rows' scalars and operands as one kind. */
#ifndef BP_DEVICE_HOST_UPDATE_H
#define BP_DEVICE_HOST_UPDATE_H

#include "core/kernel.h"
#include "core/step.h"

#define BP_UPDATE_STATES 3

/* UPDATE_SCALARS of kernels.def: what every update row's scalars begin with. */
typedef struct bp_update_scalars {
    int64_t count;
    int64_t first;
    int64_t stream;
    int64_t form;
    int64_t master_form;
    double decay;
    double rate_scale;
} bp_update_scalars;

/* Every update row's pointers, and what rows of norms have of them. */
typedef struct bp_update_view {
    unsigned char *weight;
    unsigned char *master; /* NULL: none */
    unsigned char *state[BP_UPDATE_STATES];
    const unsigned char *gradient;
    const float *trust; /* NULL: 1 */
    const bp_control_block *control;
    const bp_step_block *step;
    bp_dtype weight_type;
    bp_dtype gradient_type;
} bp_update_view;

typedef struct bp_update_factors {
    float clip;      /* of the gradient */
    float rate;      /* of the step, its bias correction and trust included */
    float keep;      /* 1 - rate * decay, where decay is decoupled */
    float decay;     /* where it is part of the gradient or of the update */
    float m_keep;    /* of the first moment: beta1 or momentum */
    float m_gain;    /* what is added to it of the gradient */
    float m_scale;   /* lamb, ademamix: 1 / (1 - beta1^t) */
    float n_gain;    /* ademamix: 1 - beta3(t) */
    float mix;       /* ademamix: alpha(t) */
    float c_keep;    /* lion: beta1, of what the sign is taken */
    float c_gain;    /* lion: 1 - beta1 */
    float v_keep;    /* of the second moment */
    float v_gain;    /* 1 - v_keep, 1 for adagrad */
    float v_scale;   /* 1 / sqrt(1 - beta2^t) */
    float epsilon;   /* beside the root of the second moment */
    float lookahead; /* sgd with nesterov: the momentum again */
    bool nesterov;
} bp_update_factors;

/* The factors of a row's rule; scalars: of the row. */
bp_update_factors bp_update_prepare(bp_kernel kernel, const void *scalars,
                                    const bp_update_view *view);

#endif
