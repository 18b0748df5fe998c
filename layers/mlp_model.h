/* SPDX-License-Identifier: MIT */
/* A chain of dense layers over rows of numbers: x -> f(x W1 + b1) -> ... -> x W + b, which judges
 * each row (one class, any of several, a number). */
#ifndef BP_LAYERS_MLP_MODEL_H
#define BP_LAYERS_MLP_MODEL_H

#include "core/compile/model.h"

/* Stages: one per hidden layer, and the last layer with the loss. Parameters: layers.<i>.weight
 * (out, in) and layers.<i>.bias, then classifier.weight and classifier.bias, as nn.Linear has them.
 * The ids of a row are the bits of its numbers as float32. */
extern const bp_model bp_model_mlp;

#endif
