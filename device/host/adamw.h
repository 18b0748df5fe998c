/* SPDX-License-Identifier: MIT */
/* The factors of one AdamW step, computed once per call in double and rounded once. */
#ifndef BP_DEVICE_HOST_ADAMW_H
#define BP_DEVICE_HOST_ADAMW_H

typedef struct bp_adamw_factors {
    float clip;    /* of the gradient */
    float keep;    /* 1 - rate * decay */
    float m_gain;  /* 1 - beta1 */
    float v_keep;  /* beta2 */
    float v_gain;  /* 1 - beta2 */
    float v_scale; /* 1 / sqrt(1 - beta2^applied) */
    float epsilon;
    float rate; /* learning rate / (1 - beta1^applied) */
} bp_adamw_factors;

/* scalars: bp_adamw_scalars; the blocks: core/step.h. */
bp_adamw_factors bp_adamw_prepare(const void *scalars, const void *control_block,
                                  const void *step_block);

#endif
