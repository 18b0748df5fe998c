/* SPDX-License-Identifier: MIT */
/* One tensor and an update row of kernels.def, stepped on a device: what tests of update rules work
 * with. */
#ifndef BP_TESTS_SUPPORT_UPDATE_DESK_H
#define BP_TESTS_SUPPORT_UPDATE_DESK_H

#include "core/number/codec.h"
#include "core/program/device.h"
#include "core/number/master.h"
#include "core/program/step.h"

typedef union update_scalars {
    bp_sgd_scalars sgd;
    bp_adam_scalars adam;
    bp_adamw_scalars adamw;
    bp_lion_scalars lion;
    bp_rmsprop_scalars rmsprop;
    bp_adagrad_scalars adagrad;
    bp_lamb_scalars lamb;
    bp_lars_scalars lars;
    bp_ademamix_scalars ademamix;
} update_scalars;

typedef struct update_setup {
    const bp_device *device; /* NULL: host */
    const char *variant;
    uint32_t threads; /* 0: 1 */
    bp_dtype weight;
    bp_dtype gradient;
    bp_master master;
    bp_codec form;
} update_setup;

enum {
    DESK_WEIGHT,
    DESK_MASTER,
    DESK_STATE,
    DESK_GRADIENT = 5,
    DESK_TRUST,
    DESK_CONTROL,
    DESK_STEP,
    DESK_PARTIALS,
    DESK_TABLE,
    DESK_PLACES
};

typedef struct update_desk {
    update_setup setup;
    bp_kernel kernel;
    update_scalars scalars;
    uint64_t count;
    uint32_t states; /* which there are, bit by bit */
    uint32_t signs;  /* and which of them can be negative */
    uint64_t place[DESK_PLACES];
    uint64_t bytes;
    unsigned char *image; /* a copy of the arena */
    void *arena;          /* the host device's */
    void *context;
    void *link;
    uint64_t link_bytes;
    bp_control_block control;
    bp_step_block step;
} update_desk;

/* scalars: of the row; form and master_form are set here. States start as zeros. */
void update_desk_open(update_desk *d, bp_kernel kernel, const update_scalars *scalars,
                      const update_setup *setup);
void update_desk_close(update_desk *d);

/* Sets weight and master. */
void update_desk_set(update_desk *d, const float *weights);

/* One applied step with these gradients at this rate. A coefficient other than 0 makes the trust
 * ratio of lamb or lars first. */
void update_desk_step(update_desk *d, const float *gradients, double rate, double coefficient,
                      double ratio_decay);

/* The average that schedule_free is evaluated at; gradients are F32, and written over. */
void update_desk_average(update_desk *d, double factor, float *values);

/* The master, and a state, as floats; the weight as it lies there. */
void update_desk_get(const update_desk *d, float *weights);
void update_desk_state(const update_desk *d, uint32_t state, float *values);
const void *update_desk_weight(const update_desk *d);

#endif
