/* SPDX-License-Identifier: MIT */
/* What families are fed, as declarations. */
#ifndef BP_LAYERS_INPUTS_H
#define BP_LAYERS_INPUTS_H

#include "core/plan/input.h"

/* Windows of tokens, each labelled by its successor. */
uint32_t bp_inputs_windows(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX]);

/* The same for causal-lm, with the sides of rows where the loss is over pairs; for other tasks
 * texts with their lengths: labels of tokens, or one of the sample, or where an answer in it begins
 * and ends; of those that become vectors no labels. */
uint32_t bp_inputs_texts(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX]);

/* The same for a model that learns places: with each token's place in its document where documents
 * are packed. */
uint32_t bp_inputs_document_positions(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX]);

/* Texts that may be pairs, for a model that tells the two apart: with the types of their tokens
 * where the spec says that there are pairs. */
uint32_t bp_inputs_pairs(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX]);

/* How many tokens each sample has. */
bp_input bp_inputs_lengths(const bp_spec *spec);

/* Windows of tokens, each with the text that its text is made of. */
uint32_t bp_inputs_sources(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX]);

/* Rows of numbers, each with one label. */
uint32_t bp_inputs_numbers(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX]);

#endif
