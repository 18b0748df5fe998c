/* SPDX-License-Identifier: MIT */
/* What the forms of the update rules share on the host: a step's factors, and the view of all rows'
 * operands as one kind. */
#ifndef BP_DEVICE_HOST_UPDATE_H
#define BP_DEVICE_HOST_UPDATE_H

#include "core/ops/kernel.h"
#include "core/ops/update.h"

/* Every update row's pointers, and what rows of norms have of them. */
typedef struct bp_update_view {
    unsigned char *weight;
    unsigned char *master; /* NULL: none */
    unsigned char *state[BP_UPDATE_STATES];
    const unsigned char *gradient;
    const float *trust; /* NULL: 1; scaled: two of them */
    const float *rows;  /* scaled's factors, or NULL */
    const float *columns;
    const bp_control_block *control;
    const bp_step_block *step;
    bp_dtype weight_type;
    bp_dtype gradient_type;
} bp_update_view;

/* A row of scaled has rows and columns where others have their second and third state. */
void bp_update_take_factors(bp_update_view *view);

/* Of elements first .. first + count - 1 of a tensor of rows of `width`, each one's row's times its
 * column's. */
void bp_update_fill_factors(const bp_update_view *view, uint64_t width, uint64_t first,
                            uint32_t count, float *to);

/* The factors of a rule; scalars: of its row, or of its row of norms. */
bp_update_factors bp_update_factors_of(uint32_t rule, const bp_update_scalars *scalars,
                                       const bp_update_view *view);

#endif
