/* SPDX-License-Identifier: MIT */
/* A rig against a file of reference values: weights in, gradients compared. */
#ifndef BP_TESTS_SUPPORT_REFERENCE_H
#define BP_TESTS_SUPPORT_REFERENCE_H

#include "tests/support/golden.h"
#include "tests/support/rig.h"

/* Puts the file's tensors of the parameters' names into the rig. */
void reference_weights(const golden *g, rig *r);

/* The same for the model's own parameters, beside adapters, which keep what they have. */
void reference_base_weights(const golden *g, rig *r);

/* Number `index` of a tensor of doubles. */
double reference_number(const golden *g, const char *name, size_t index);

/* The largest magnitude among floats. */
double reference_largest(const float *values, uint64_t count);

/* The worst error of all trained gradients that lie in the arena after a step, against the tensors
 * "grad.<parameter>", relative to max(the tensor's largest, 1e-3 x the model's largest), or, of a
 * tensor that is 0, to the model's largest. Fails the test above 1e-5; `name` is for the message.
 */
double reference_gradients(const golden *g, rig *r, const char *name);

/* Feeds a generating rig `count` tokens, at_once at a time, from the beginning, and requires the
 * logits that follow each piece to be within 1e-5 of the largest of the file's "logits" (count,
 * vocabulary). */
void reference_logits(const golden *g, rig *r, const int32_t *tokens, uint32_t count,
                      uint32_t at_once);

/* Evaluates a rig whose spec keeps logits, and requires those of the tokens or samples that the
 * file's "logits" has to be within 1e-5 of the largest of them. With `lengths` (samples) and rows
 * of tokens, those of padding are not compared. Returns the mean loss. */
double reference_kept_logits(const golden *g, rig *r, const int32_t *lengths);

#endif
