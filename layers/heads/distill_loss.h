/* SPDX-License-Identifier: MIT */
/* A teacher's part of the loss as ops: what it says, and what is learned from that. */
#ifndef BP_LAYERS_DISTILL_LOSS_H
#define BP_LAYERS_DISTILL_LOSS_H

#include "core/plan/builder.h"

/* Rows `first` .. `first` + rows - 1 of a micro-batch, and the columns from `column` on of their
 * logits (rows, columns; pitch). */
typedef struct bp_distill_rows {
    uint64_t first;
    uint64_t rows;
    uint64_t pitch;
    uint64_t column;
    uint64_t columns;
    bp_ref logits;
    bp_ref losses;
    bp_ref labels;
    bp_ref statistics; /* (3, rows of the micro-batch) F32, of these rows on; or absent */
} bp_distill_rows;

/* Whether the student's loss has a teacher. */
bool bp_distills(const bp_builder *builder);

/* Logits, all columns of them, become their gradient (distill of kernels.def). */
void bp_distill_loss_build(bp_builder *builder, const bp_distill_rows *rows);

/* Some columns of them, from statistics that the function above left; losses are not asked for. */
void bp_distill_loss_columns(bp_builder *builder, const bp_distill_rows *rows);

/* builder->logits of these rows as a teacher says them: of each sample tokens (sequence, top_k),
 * then log-probabilities. */
void bp_distill_loss_report(bp_builder *builder, const bp_distill_rows *rows);

#endif
