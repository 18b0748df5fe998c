/* SPDX-License-Identifier: MIT */
/* The language-model head with its cross entropy, chunk by chunk: logits = x table^T exist for
 * spec->loss_rows tokens at a time and become their own gradient. */
#ifndef BP_LAYERS_LOSS_H
#define BP_LAYERS_LOSS_H

#include "core/emit.h"

typedef struct bp_head {
    uint32_t table; /* parameter number, (vocabulary, width): the token embedding, tied */
    uint64_t vocabulary;
    uint64_t width;
} bp_head;

/* Tokens per chunk for this spec: loss_rows or the default, at most the micro-batch. */
uint64_t bp_loss_rows(const bp_spec *spec);

/* Chunks per micro-batch; BP_SIZE_INVALID when the spec has no sizes. */
uint64_t bp_loss_chunks(const bp_spec *spec);

/* emit->losses from x (rows, width), and their sum into emit->result. */
void bp_loss_forward(bp_emit *emit, const bp_head *head, bp_ref x);

/* The same with gradients: adds the table's, and x (rows, width) becomes its own gradient in place.
 */
void bp_loss_backward(bp_emit *emit, const bp_head *head, bp_ref x);

/* emit->logits (1, vocabulary) of one row x (1, width). */
void bp_head_logits(bp_emit *emit, const bp_head *head, bp_ref x);

#endif
