/* SPDX-License-Identifier: MIT */
/* Disentangled attention as ops: what attention.c calls for attention with bp_attention.positions.
 */
#ifndef BP_LAYERS_DISENTANGLED_H
#define BP_LAYERS_DISENTANGLED_H

#include "layers/nodes/attention.h"

/* Whether scores have parts of positions. */
bool bp_disentangled(const bp_attention *attention);

/* Whether it has a parameter that is trained: the layers of queries and keys are among them. */
bool bp_disentangled_trains(const bp_builder *builder, const bp_attention *attention);

/* The calls of attention_forward and attention_backward of such attention, whose operands and
 * scalars say the rest. Backward also writes the gradients of the table, its norm and the two
 * layers, as far as they are trained. */
void bp_disentangled_forward(bp_builder *builder, const bp_attention *attention,
                             const bp_attention_forward_operands *from,
                             const bp_attention_forward_scalars *scalars);
void bp_disentangled_backward(bp_builder *builder, const bp_attention *attention,
                              const bp_attention_backward_operands *from,
                              const bp_attention_backward_scalars *scalars);

#endif
