/* SPDX-License-Identifier: MIT */
/* Heads of BP_TASK_EMBEDDING: a vector of each sample, of its tokens' rows as config.pooling says,
 * through the dense layers of config.dense. Their parameters are the model's last. */
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
/* The same two of rows y (batch, classes) that are vectors already, and their gradient. */
void bp_vector_rows_forward(bp_builder *builder, bp_ref y);
bp_ref bp_vector_rows_backward(bp_builder *builder, bp_ref y);

void bp_vector_contrast(bp_builder *builder);

/* How many parameters the dense layers have, 0 of other tasks; and their publication behind all
 * others: "2_Dense.linear.weight" and so on, as the modules' directories are written. `width`: of
 * tokens. */
uint32_t bp_vector_parameters(const bp_model_config *config);
void bp_vector_publish(bp_builder *builder, const bp_model_config *config, uint64_t width);

/* BP_ERR_USAGE with `family` as its place: a width of vectors that is not the model's, dense layers
 * out of range, and ways of pooling that have none behind them. */
bp_status bp_vector_check(const bp_spec *spec, uint64_t width, const char *family,
                          bp_error *error) BP_MUST_CHECK;

#endif
