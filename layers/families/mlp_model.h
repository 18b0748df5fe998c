/* SPDX-License-Identifier: MIT */
/* A chain of dense layers over rows of numbers: x -> f(x W1 + b1) -> ... -> x W + b, which judges
 * each row (one class, any of several, a number). */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_MLP_MODEL_H
#define BP_LAYERS_MLP_MODEL_H

#include "core/plan/spec.h"
#include "core/ops/activation.h"

#define BP_HIDDEN_SIZES_MAX 16 /* layers that may each have a width of its own */

/* Keys of config.json that only this family has. A row's numbers are config.positions. */
typedef struct bp_mlp_config {
    uint32_t width;
    uint32_t layers;
    uint32_t hidden_sizes[BP_HIDDEN_SIZES_MAX]; /* widths of the layers; 0: width */
    bp_activation activation;                   /* hidden_act */
    double dropout;                             /* hidden_dropout_prob */
    double initializer_range;                   /* 0: as the layers' sizes have it */
} bp_mlp_config;

bp_mlp_config bp_mlp_config_of(const bp_model_config *config);

/* Stages: one per hidden layer, and the last layer with the loss. Parameters: layers.<i>.weight
 * (out, in) and layers.<i>.bias, then classifier.weight and classifier.bias, as nn.Linear has them.
 * The ids of a row are the bits of its numbers as float32. */
extern const bp_model bp_model_mlp;

#endif
