/* SPDX-License-Identifier: MIT */
/* The language-model head with its cross entropy, chunk by chunk: logits = x table^T exist for
 * spec->loss_rows tokens at a time and become their own gradient. */
#ifndef BP_LAYERS_LOSS_H
#define BP_LAYERS_LOSS_H

#include "core/plan/model.h"
#include "layers/nodes/linear.h"
#include "core/plan/builder.h"

typedef struct bp_head {
    uint32_t table; /* parameter number, (vocabulary, width): the token embedding, where tied */
    uint32_t bias;  /* parameter number, (vocabulary); BP_NO_PARAMETER: none */
    uint64_t vocabulary;
    uint64_t width;
    double cap; /* c tanh(logit / c) is taken for a logit; 0: the logit */
} bp_head;

/* builder->losses from x (rows, width), and their sum into builder->result. */
void bp_loss_forward(bp_builder *builder, const bp_head *head, bp_ref x);

/* The same with gradients: adds the table's, and d_x (rows, width) becomes that of x, in place
 * where it is x. With `statistics` (2, rows; of pairs 3) F32 present the table's gradient is left
 * out: bp_loss_slice_of forms it later from them and from x, which then has to stay. */
void bp_loss_backward(bp_builder *builder, const bp_head *head, bp_ref x, bp_ref d_x,
                      bp_ref statistics);

/* Where backward leaves the gradient of x (rows, width): x itself, or with a deferred table a new
 * buffer; kept[0] and kept[1] are then x and the statistics, else absent. */
bp_ref bp_loss_keep(bp_builder *builder, uint64_t width, bp_ref x, bool deferred, bp_ref kept[2]);

/* Rows of the table's gradient (call->first, call->rows) into call's slice, from what bp_loss_keep
 * kept: the sums of the whole gradient, in its order. */
void bp_loss_slice_of(bp_builder *builder, const bp_head *head, const bp_slice_call *call);

/* Adds builder->losses to the group's sum, as the functions above do. */
void bp_loss_sum(bp_builder *builder);

/* The same of other losses (rows), F32. */
void bp_loss_sum_of(bp_builder *builder, bp_ref losses, uint64_t rows);

/* builder->logits (rows, vocabulary) of x (rows, width). */
void bp_head_logits(bp_builder *builder, const bp_head *head, uint64_t rows, bp_ref x);

/* The loss over pairs of rows as an op. */

#endif
