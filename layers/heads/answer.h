/* SPDX-License-Identifier: MIT */
/* The head that finds an answer in a text: a dense layer with two outputs for each token, whose
 * columns are the logits of where the answer begins and where it ends, each over all places of the
 * row, padding included, as transformers' classes for question answering have it. The loss is the
 * cross entropy of both, whose labels may be smoothed over all places of the row. */
#ifndef BP_LAYERS_ANSWER_H
#define BP_LAYERS_ANSWER_H

#include "core/plan/builder.h"

typedef struct bp_answer {
    uint32_t weight; /* parameter number, (2, width) */
    uint32_t bias;   /* parameter number, (2) */
    uint64_t width;
} bp_answer;

/* The losses from x (rows, width), both summed into builder->result; builder->losses has those of
 * the ends afterwards. The logits that evaluation keeps are (2, batch, sequence). */
void bp_answer_forward(bp_builder *builder, const bp_answer *head, bp_ref x);

/* The same with gradients: adds those of the parameters, and d_x (rows, width) becomes that of x,
 * unless it is absent; the two may not overlap. */
void bp_answer_backward(bp_builder *builder, const bp_answer *head, bp_ref x, bp_ref d_x);

#endif
