/* SPDX-License-Identifier: MIT */
/* Heads of BP_TASK_EMBEDDING: a vector of each sample, of its tokens' rows as config.pooling says.
 */
#ifndef BP_LAYERS_VECTOR_H
#define BP_LAYERS_VECTOR_H

#include "core/plan/model.h"

/* Evaluates x (rows, width): the vectors (batch, width), F32, into builder->logits where they are
 * kept, and the loss that compares them (spec.texts; 0 of vectors alone). In training the vectors
 * go to builder->vectors, and nothing else is computed. */
void bp_vector_forward(bp_builder *builder, uint64_t width, bp_ref x);

/* The gradient (rows, width) of x: from builder->vectors where that is there, else with the loss of
 * the micro-batch's vectors, which is added up in builder->result. */
bp_ref bp_vector_backward(bp_builder *builder, uint64_t width, bp_ref x);

/* bp_model.contrast */
void bp_vector_contrast(bp_builder *builder);

/* BP_ERR_USAGE with `family` as its place: a width of vectors that is not the model's. */
bp_status bp_vector_check(const bp_spec *spec, uint64_t width, const char *family,
                          bp_error *error) BP_MUST_CHECK;

#endif
