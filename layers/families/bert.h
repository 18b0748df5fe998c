/* SPDX-License-Identifier: MIT */
/* BERT (Devlin et al., arXiv 1810.04805) as the Hugging Face classes BertForMaskedLM,
 * BertForSequenceClassification, BertForTokenClassification and BertForQuestionAnswering compute
 * it: the same names, layouts and numerics. Tokens have type 0, but where the spec has pairs.
 * RoBERTa (Liu et al., arXiv 1907.11692), DistilBERT (Sanh et al., arXiv 1910.01108), ELECTRA
 * (Clark et al., arXiv 2003.10555) and MPNet (Song et al., arXiv 2004.09297) are the same blocks
 * with other names and heads, and so is DeBERTa (He et al., arXiv 2006.03654, 2111.09543).
 * nomic-bert (Nussbaum et al., arXiv 2402.01613) has blocks of its own.
 */
/* Installed as part of <bedplate/spec.h>. */
#ifndef BP_LAYERS_BERT_H
#define BP_LAYERS_BERT_H

#include "layers/families/transformer.h"

typedef enum bp_bert_kind {
    BP_BERT,
    BP_ROBERTA, /* positions begin behind the padding's; two dense layers judge the first token */
    BP_DISTILBERT, /* no types; dropout behind the mlp alone */
    BP_ELECTRA,    /* embeddings of another width, which a dense layer brings to the blocks' */
    BP_MPNET,      /* RoBERTa's without types, and with a table of distances for all blocks */
    BP_NOMIC,      /* rotary positions, a gate, no biases but of norms (nomic-embed-text) */
    BP_DEBERTA,    /* no table of positions: scores have parts of distances (v2 and v3) */
    BP_BERT_KINDS
} bp_bert_kind;

typedef struct bp_bert_config {
    bp_transformer stack;
    uint32_t types;            /* type_vocab_size; 0: tokens have none */
    double classifier_dropout; /* of what the classifier reads */
    uint32_t kind;             /* bp_bert_kind */
    uint32_t position_rows;    /* of the table of positions; 0: as many as positions */
    uint32_t position_first;   /* row of the first position */
    uint32_t embedding;        /* embedding_size; 0: width */
    uint32_t buckets;          /* relative_attention_num_buckets, or position_buckets, of which the
                                  table has two rows each; 0: no table of distances */
    int64_t distance;          /* max_relative_positions; below 1: as many as positions */
    double pooler_dropout;     /* of what DeBERTa's pooler, or DistilBERT's ends of answers, read */
    double rope_theta;         /* of rotary positions; 0: a table of positions */
    uint32_t head_width;       /* of nomic-bert; 0: width / heads */
} bp_bert_config;

bp_bert_config bp_bert_config_of(const bp_model_config *config);

/* From this distance on tokens have the last bucket of a table of distances. */
#define BP_BERT_DISTANCE 128

/* Stages: 0 the embeddings with their norm, 1 .. num_hidden_layers the blocks, then the head of
 * config.task: pooler and classifier, a classifier of tokens, the ends of answers, or transform and
 * vocabulary; and the loss. */
extern const bp_model bp_model_bert;

#endif
