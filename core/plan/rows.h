/* SPDX-License-Identifier: MIT */
/* Trained rows of a frozen token embedding (trainable_token_indices of PEFT,
 * peft/tuners/trainable_tokens/layer.py): rows tokens[0], tokens[1], .. of the table are those of a
 * parameter R (tokens, width) of their own, "base_model.model.<module>.token_adapter.
 * trainable_tokens_delta", which begins as what it takes the place of. A head that is tied to the
 * table multiplies by R as well, as in PEFT, and adds to its gradient.
 *
 * The table in the arena is the model's with R's rows in it: whatever reads it reads those. They
 * are put in at the beginning of each group of programs that do, so that nobody who gives R values
 * has to; the table is therefore neither constant nor state (BP_SCOPE_RESIDENT), and stays whole
 * where frozen weights are shared out or are offloaded. */
#ifndef BP_CORE_ROWS_H
#define BP_CORE_ROWS_H

#include "core/plan/model.h"

#define BP_TRAINED_ROWS_MAX 4096 /* most trained rows */

/* Rows that lie together in the table and in R. */
typedef struct bp_rows_run {
    uint64_t token; /* the first one's row of the table */
    uint64_t at;    /* and of R */
    uint64_t count;
} bp_rows_run;

/* Where the spec has adapters: whether parameter `index`, published or being published, is the
 * table that has trained rows. */
bool bp_rows_table(const bp_builder *builder, uint32_t index);

/* The scope of a frozen weight of a base, published or being published. */
bp_scope bp_rows_scope(const bp_builder *builder, const bp_parameter *parameter);

/* The parameter R of a table; BP_NO_PARAMETER: none that is trained. */
uint32_t bp_rows_of(const bp_builder *builder, uint32_t table);

/* The run behind *run, the first one behind {0}; false: it was the last. */
bool bp_rows_next(const bp_builder *builder, bp_rows_run *run);

/* Emits what puts R's rows into the table; nothing where there are none. */
void bp_rows_put(bp_builder *builder);

/* Emits the table's rows as floats (tokens, width), what R begins as. */
void bp_rows_values(bp_builder *builder, uint32_t table, bp_ref values);

/* BP_ERR_USAGE when the tokens of a spec are none of its model's, or come twice. */
bp_status bp_rows_check(const bp_spec *spec, bp_error *error) BP_MUST_CHECK;

#endif
