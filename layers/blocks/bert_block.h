/* SPDX-License-Identifier: MIT */
/* One BERT block as a stage: h = norm(x + attention(x)), out = norm(h + mlp(h)). */
#ifndef BP_LAYERS_BERT_BLOCK_H
#define BP_LAYERS_BERT_BLOCK_H

#include "layers/families/bert.h"
#include "layers/blocks/block.h"

/* Where a block's parameters lie, counted from its first: the order of the file. */
typedef enum bp_bert_parameter {
    BP_BERT_Q_WEIGHT,
    BP_BERT_Q_BIAS,
    BP_BERT_K_WEIGHT,
    BP_BERT_K_BIAS,
    BP_BERT_V_WEIGHT,
    BP_BERT_V_BIAS,
    BP_BERT_O_WEIGHT,
    BP_BERT_O_BIAS,
    BP_BERT_NORM_1_WEIGHT,
    BP_BERT_NORM_1_BIAS,
    BP_BERT_UP_WEIGHT,
    BP_BERT_UP_BIAS,
    BP_BERT_DOWN_WEIGHT,
    BP_BERT_DOWN_BIAS,
    BP_BERT_NORM_2_WEIGHT,
    BP_BERT_NORM_2_BIAS,
    BP_BERT_BLOCK_PARAMETERS
} bp_bert_parameter;

/* The same of BP_NOMIC. */
typedef enum bp_nomic_parameter {
    BP_NOMIC_QKV,
    BP_NOMIC_O,
    BP_NOMIC_NORM_1_WEIGHT,
    BP_NOMIC_NORM_1_BIAS,
    BP_NOMIC_UP,
    BP_NOMIC_GATE,
    BP_NOMIC_DOWN,
    BP_NOMIC_NORM_2_WEIGHT,
    BP_NOMIC_NORM_2_BIAS,
    BP_NOMIC_BLOCK_PARAMETERS
} bp_nomic_parameter;

/* How many parameters a block has, and the number of the first of block `index`: after those of the
 * embeddings. */
uint32_t bp_bert_block_parameters(const bp_bert_config *own);
uint32_t bp_bert_block_first(const bp_model_config *config, uint32_t index);

/* Whether there is a table of positions; how many parameters are behind the embeddings' own: a
 * table of distances, of DeBERTa with a norm. */
bool bp_bert_has_positions(const bp_bert_config *own);
uint32_t bp_bert_distances(const bp_bert_config *own);

/* Numbers of a head. */
uint64_t bp_bert_head_width(const bp_bert_config *own);

/* Width of the embeddings, and whether a dense layer brings them to the blocks'. */
uint64_t bp_bert_embedding_width(const bp_bert_config *own);
bool bp_bert_projects(const bp_bert_config *own);

/* Parameters of the embeddings: tables, a norm, and where there is one a dense layer or, last, the
 * table of distances, which all blocks read. */
uint32_t bp_bert_embeddings(const bp_model_config *config);

/* The list of nodes of block `index` = call->stage - 1. */
void bp_bert_block_describe(const bp_builder *builder, const bp_stage_call *call, bp_block *block);

#endif
