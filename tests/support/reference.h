/* SPDX-License-Identifier: MIT */
/* A rig against a file of reference values: weights in, gradients compared. */
#ifndef BP_TESTS_SUPPORT_REFERENCE_H
#define BP_TESTS_SUPPORT_REFERENCE_H

#include "tests/support/golden.h"
#include "tests/support/rig.h"

/* Puts the file's tensors of the parameters' names into the rig. */
void reference_weights(const golden *g, rig *r);

/* Number `index` of a tensor of doubles. */
double reference_number(const golden *g, const char *name, size_t index);

/* The largest magnitude among floats. */
double reference_largest(const float *values, uint64_t count);

/* The worst error of all trained gradients that lie in the arena after a step, against the tensors
 * "grad.<parameter>", relative to max(the tensor's largest, 1e-3 x the model's largest). Fails the
 * test above 1e-5; `name` is for the message. */
double reference_gradients(const golden *g, rig *r, const char *name);

#endif
