/* SPDX-License-Identifier: MIT */
/* What models that read from left to right have in common: the token embedding, blocks, the last
 * norm, and a head over the vocabulary (with the embedding's table or its own) or a classifier of
 * each sample's last token. A family describes its parameters and its blocks; see gpt2.c, llama.c.
 *
 * Stages: 0 the embedding, 1 .. layers the blocks, layers + 1 the last norm, the head and the loss.
 */
#ifndef BP_LAYERS_CAUSAL_H
#define BP_LAYERS_CAUSAL_H

#include "core/plan/model.h"
#include "layers/blocks/block.h"
#include "layers/nodes/embedding.h"
#include "layers/nodes/norm.h"
#include "layers/families/transformer.h"

#define BP_CAUSAL_TABLE 0 /* number of the token embedding's parameter: a family's first */

typedef struct bp_causal {
    bp_embedding embedding;
    bp_norm norm;    /* the last */
    uint32_t output; /* number of the head's or the classifier's weight, where the model has one;
                        behind that of a classifier of tokens comes its bias */
    double embedding_scale; /* of the first stage's output; 0: 1 */
    double logit_divisor;   /* 0: 1 */
    bp_dropout dropout[2];  /* of the last norm's output, one behind the other */
    double logit_cap;       /* c tanh(logit / c) is taken for a logit; 0: the logit */
    bp_experts experts;     /* of a balancing loss, where there is one: what the blocks have, */
    double balance;         /* and what it is multiplied by */
} bp_causal;

/* bp_model.self of such a family. */
typedef struct bp_causal_family {
    bp_block_family blocks; /* its blocks' lists of nodes */
    bp_causal (*describe)(const bp_builder *builder);
} bp_causal_family;

/* Whether the task judges samples; whether a weight of the head's or the classifier's own follows
 * the last norm. */
bool bp_causal_classifies(const bp_model_config *config);
bool bp_causal_has_output(const bp_model_config *config);

/* Functions of bp_model that no family needs to write. */
uint32_t bp_causal_stages(const bp_model_config *config);
uint32_t bp_causal_variants(const bp_model_config *config, uint32_t stage);

/* The same, of the family that bp_model.self describes. The head's own weight is the last
 * parameter.
 */
void bp_causal_sliced_tables(const bp_spec *spec, uint32_t tables[2]);
void bp_causal_forward(bp_builder *builder, bp_stage_call *call);
void bp_causal_backward(bp_builder *builder, bp_stage_call *call);
void bp_causal_decode(bp_builder *builder, bp_stage_call *call);
void bp_causal_slice(bp_builder *builder, bp_slice_call *call);

/* bp_model.stage_name with the family's names of the first stage and of blocks. */
void bp_causal_stage_name(const bp_model_config *config, uint32_t stage, const char *embedding,
                          const char *block, char text[32]);

/* BP_ERR_USAGE for tasks that no such model has, with `family` as the error's place. */
bp_status bp_causal_check(const bp_spec *spec, const char *family, bp_error *error) BP_MUST_CHECK;

#endif
