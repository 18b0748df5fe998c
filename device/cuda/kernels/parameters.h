/* SPDX-License-Identifier: MIT */
/* Structures that kernels take by value: the planner of launches fills them (device/cuda), the
 * kernel reads them. C and CUDA C lay them out alike: fixed widths, the widest first. */
#ifndef BP_DEVICE_KERNELS_PARAMETERS_H
#define BP_DEVICE_KERNELS_PARAMETERS_H

#include <stdint.h>

/* bp_step_decide: the scalars of the row of that name in kernels.def. */
typedef struct bp_step_decide_parameters {
    uint64_t partials;
    double max_norm;
    double beta1;
    double beta2;
    uint32_t scaling;
    float growth;
    float backoff;
    float floor;
    uint32_t interval;
    uint32_t hysteresis;
    uint32_t later;
    uint32_t percentile;
    uint32_t previous;
    uint32_t unused; /* no padding: all bytes have a value */
} bp_step_decide_parameters;

/* bp_direction: likewise, and its factors in single precision. */
typedef struct bp_direction_parameters {
    uint64_t count;
    uint32_t codec;
    float gain;
    float nesterov; /* beta, or 0 */
    float keep2;
    float gain2;
    float epsilon;
    uint32_t form_x;
    uint32_t form_gradient;
} bp_direction_parameters;

/* bp_distill: of distill and distill_columns, the latter with `part`. */
typedef struct bp_distill_parameters {
    uint64_t stride;
    uint64_t rows;
    uint64_t columns;
    uint64_t pitch;
    uint64_t first;
    uint64_t k;
    double alpha;
    double temperature;
    uint32_t part;
    uint32_t scaled;
    uint32_t form;
    uint32_t unused; /* no padding */
} bp_distill_parameters;

/* bp_averaged_weight: likewise. */
typedef struct bp_averaged_weight_parameters {
    uint64_t count;
    uint32_t codec;
    uint32_t master;
    float factor;
    uint32_t form_x;
    uint32_t form_weight;
    uint32_t unused; /* no padding */
} bp_averaged_weight_parameters;

/* bp_moment_factors: likewise. */
typedef struct bp_moment_factors_parameters {
    uint64_t count;
    uint64_t pieces;
    uint64_t group;
    uint64_t kind;
    double divisor;
    double floor;
    double beta2;
    double power;
    double epsilon;
} bp_moment_factors_parameters;

/* The rows of windows over images: the scalars that all of them begin with. */
typedef struct bp_window_parameters {
    uint64_t batch;
    uint64_t height;
    uint64_t width;
    uint64_t channels;
    uint64_t pitch;
    uint64_t out_height;
    uint64_t out_width;
    uint64_t kernel_height;
    uint64_t kernel_width;
    uint64_t stride_height;
    uint64_t stride_width;
    uint64_t top;
    uint64_t left;
    uint64_t dilation;
} bp_window_parameters;

#endif
