/* SPDX-License-Identifier: MIT */
/* The tables of Hugging Face tensor names (transformers, models/<family>/modeling_<family>.py). */
#include "tools/formats/hf_family.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* GPT-2: the hub's own files leave the prefix out. Conv1D weights are (in, out) in the file and in
 * Bedplate. */
static const bp_tensor_rule gpt2_rules[] = {
    {"*", "*", BP_FORM_PLAIN},
    {"transformer.*", "*", BP_FORM_PLAIN},
};

/* The causal masks that old versions saved as buffers. */
static const char *const gpt2_ignored[] = {
    "transformer.h.#.attn.bias",
    "transformer.h.#.attn.masked_bias",
    "h.#.attn.bias",
    "h.#.attn.masked_bias",
};

static const bp_tensor_twin gpt2_twins[] = {
    {"lm_head.weight", "transformer.wte.weight", "score.weight"}};

/* Llama and Qwen2. A bare LlamaModel leaves the prefix out. */
static const bp_tensor_rule llama_rules[] = {
    {"*", "*", BP_FORM_PLAIN},
    {"model.*", "*", BP_FORM_PLAIN},
};

/* Frequencies of the rotary positions, which old versions saved as buffers. */
static const char *const llama_ignored[] = {"*rotary_emb.inv_freq"};

static const bp_tensor_twin llama_twins[] = {
    {"lm_head.weight", "model.embed_tokens.weight", "score.weight"}};

/* BERT. Files made from the first TensorFlow checkpoints call weight and bias of the norms gamma
 * and beta; an encoder by itself leaves the prefix out. */
static const bp_tensor_rule bert_rules[] = {
    {"*", "*", BP_FORM_PLAIN},
    {"*LayerNorm.weight", "*LayerNorm.gamma", BP_FORM_PLAIN},
    {"*LayerNorm.bias", "*LayerNorm.beta", BP_FORM_PLAIN},
    {"bert.*", "*", BP_FORM_PLAIN},
    {"bert.*LayerNorm.weight", "*LayerNorm.gamma", BP_FORM_PLAIN},
    {"bert.*LayerNorm.bias", "*LayerNorm.beta", BP_FORM_PLAIN},
};

/* Position numbers saved as buffers, and the heads of the pre-training tasks that a model for
 * another task has no use for. What a model does want is claimed before it comes to this. */
static const char *const bert_ignored[] = {
    "bert.embeddings.position_ids", "embeddings.position_ids", "cls.*", "bert.pooler.*", "pooler.*",
};

static const bp_tensor_twin bert_twins[] = {
    {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight",
     "classifier.weight"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias", "classifier.weight"},
};

/* Bedplate's own files. */
static const bp_tensor_rule own_rules[] = {{"*", "*", BP_FORM_PLAIN}};

/* Of a tied model PyTorch's state dict holds the table twice. */
static const bp_tensor_twin rnn_twins[] = {{"decoder.weight", "encoder.weight", NULL}};

#define NAMING(family)                                                                             \
    {                                                                                              \
        family##_rules, COUNT(family##_rules), family##_ignored, COUNT(family##_ignored),          \
            family##_twins, COUNT(family##_twins)                                                  \
    }

static const bp_hf_family families[] = {
    {"gpt2", NAMING(gpt2)},
    {"llama", NAMING(llama)},
    {"bert", NAMING(bert)},
    {"mlp", {own_rules, COUNT(own_rules), NULL, 0, NULL, 0}},
    {"rnn", {own_rules, COUNT(own_rules), NULL, 0, rnn_twins, COUNT(rnn_twins)}},
};

const bp_hf_family *bp_hf_family_find(const char *model_type)
{
    for (size_t i = 0; i < COUNT(families); i++) {
        if (strcmp(families[i].model_type, model_type) == 0) {
            return &families[i];
        }
    }
    return NULL;
}
