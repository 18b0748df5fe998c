/* SPDX-License-Identifier: MIT */
/* BERT, RoBERTa, XLM-R and DistilBERT in GGUF as llama.cpp's converter has them (BertModel and its
 * kin): the encoder, and how a text's vector is made of its tokens'. No head has a place there. */
#include "tools/formats/gguf/gguf_bert.h"

#include <math.h>

#include "layers/families/bert.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_rope.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The bounds of config.json's fields (hf_config.c). */
enum {
    POSITIONS_MOST = 1 << 24,
    WIDTH_MOST = 1 << 20,
    LAYERS_MOST = 1 << 12,
    HEADS_MOST = 1 << 16,
    TYPES_MOST = 1 << 16
};

#define BLOCK(prefix, ours, theirs)                                                                \
    {                                                                                              \
        prefix ours, "blk.#." theirs, BP_LAYOUT_PLAIN                                              \
    }
#define BERT_RULES(model, positions)                                                               \
    {model ".embeddings.word_embeddings.weight", "token_embd.weight", BP_LAYOUT_PLAIN},            \
        {model ".embeddings.position_embeddings.weight", "position_embd.weight", positions},       \
        {model ".embeddings.token_type_embeddings.weight", "token_types.weight", BP_LAYOUT_PLAIN}, \
        {model ".embeddings.LayerNorm.*", "token_embd_norm.*", BP_LAYOUT_PLAIN},                   \
        BLOCK(model ".encoder.layer.#.", "attention.self.query.*", "attn_q.*"),                    \
        BLOCK(model ".encoder.layer.#.", "attention.self.key.*", "attn_k.*"),                      \
        BLOCK(model ".encoder.layer.#.", "attention.self.value.*", "attn_v.*"),                    \
        BLOCK(model ".encoder.layer.#.", "attention.output.dense.*", "attn_output.*"),             \
        BLOCK(model ".encoder.layer.#.", "attention.output.LayerNorm.*", "attn_output_norm.*"),    \
        BLOCK(model ".encoder.layer.#.", "intermediate.dense.*", "ffn_up.*"),                      \
        BLOCK(model ".encoder.layer.#.", "output.dense.*", "ffn_down.*"),                          \
        BLOCK(model ".encoder.layer.#.", "output.LayerNorm.*", "layer_output_norm.*")

static const bp_tensor_rule bert_rules[] = {BERT_RULES("bert", BP_LAYOUT_PLAIN)};
static const bp_tensor_rule roberta_rules[] = {BERT_RULES("roberta", BP_LAYOUT_BEHIND)};
static const bp_tensor_rule distilbert_rules[] = {
    {"distilbert.embeddings.word_embeddings.weight", "token_embd.weight", BP_LAYOUT_PLAIN},
    {"distilbert.embeddings.position_embeddings.weight", "position_embd.weight", BP_LAYOUT_PLAIN},
    {"distilbert.embeddings.LayerNorm.*", "token_embd_norm.*", BP_LAYOUT_PLAIN},
    BLOCK("distilbert.transformer.layer.#.", "attention.q_lin.*", "attn_q.*"),
    BLOCK("distilbert.transformer.layer.#.", "attention.k_lin.*", "attn_k.*"),
    BLOCK("distilbert.transformer.layer.#.", "attention.v_lin.*", "attn_v.*"),
    BLOCK("distilbert.transformer.layer.#.", "attention.out_lin.*", "attn_output.*"),
    BLOCK("distilbert.transformer.layer.#.", "sa_layer_norm.*", "attn_output_norm.*"),
    BLOCK("distilbert.transformer.layer.#.", "ffn.lin1.*", "ffn_up.*"),
    BLOCK("distilbert.transformer.layer.#.", "ffn.lin2.*", "ffn_down.*"),
    BLOCK("distilbert.transformer.layer.#.", "output_layer_norm.*", "layer_output_norm.*")};

/* What a head of another task, which converters may leave, is called. */
static const char *const heads[] = {"cls.*", "cls_norm.*"};

#define NAMING(rules)                                                                              \
    {                                                                                              \
        rules, COUNT(rules), heads, COUNT(heads), NULL, 0                                          \
    }
static const bp_tensor_naming bert_naming = NAMING(bert_rules);
static const bp_tensor_naming roberta_naming = NAMING(roberta_rules);
static const bp_tensor_naming distilbert_naming = NAMING(distilbert_rules);

uint32_t bp_gguf_position_first(const bp_model_config *config)
{
    return config->family->model == &bp_model_bert ? bp_bert_config_of(config).position_first : 0;
}

/* llama.cpp's numbers; 0: it has none. */
static const uint32_t poolings[BP_POOLINGS] = {
    [BP_POOLING_MEAN] = 1, [BP_POOLING_CLS] = 2, [BP_POOLING_LAST] = 3};

static void put_count(bp_gguf_writer *w, const char *a, const char *rest, uint32_t value)
{
    bp_gguf_put_u32(w, bp_gguf_key_of(a, rest).text, value);
}

void bp_gguf_encoder_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_transformer stack = bp_transformer_of(config);
    put_count(w, a, "block_count", stack.layers);
    put_count(w, a, "context_length", config->positions);
    put_count(w, a, "embedding_length", stack.width);
    put_count(w, a, "feed_forward_length", (uint32_t)bp_transformer_inner(&stack));
    put_count(w, a, "attention.head_count", stack.heads);
    bp_gguf_put_f32(w, bp_gguf_key_of(a, "attention.layer_norm_epsilon").text,
                    (float)stack.norm_epsilon);
    bp_gguf_put_bool(w, bp_gguf_key_of(a, "attention.causal").text, false);
    put_count(w, a, "pooling_type", poolings[config->pooling]);
}

/* How many rows of the table of positions the file leaves out: a RoBERTa's padding and what is
 * before it. A key of Bedplate's own; without it the tokenizer tells what the model is. */
static const char position_offset[] = "position_offset";

static void bert_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_bert_config own = bp_bert_config_of(config);
    bp_gguf_encoder_put(w, a, config);
    put_count(w, a, position_offset, own.position_first);
    bp_gguf_put_u32(w, "tokenizer.ggml.token_type_count", own.types > 0 ? own.types : 1);
}

bp_status bp_gguf_encoder_exports(const bp_model_config *config, bp_error *error)
{
    if (config->task != BP_TASK_EMBEDDING) {
        return bp_gguf_refuse_export(error,
                                     "GGUF has no place for this model's head; what can be written "
                                     "is a model of vectors: a directory with modules.json, as "
                                     "--task embedding trains it",
                                     config->family->model_type);
    }
    if (bp_transformer_of(config).activation == BP_HIDDEN_RELU) {
        const bool other = bp_family_row(config->family, "activation") != NULL;
        return bp_gguf_refuse_export(error, "readers know GELU alone",
                                     other ? "activation" : "hidden_act");
    }
    return poolings[config->pooling] != 0
               ? BP_OK
               : bp_gguf_refuse_export(error,
                                       "readers know the mean, the first and the last token alone",
                                       "pooling_mode");
}

static bp_status take(const bp_gguf_file *f, const char *a, const char *rest, uint64_t most,
                      uint32_t *value)
{
    return bp_gguf_take_count(f, bp_gguf_key_of(a, rest).text, 1, most, value);
}

/* The mean where the file says none of those that there are. */
static bp_status take_pooling(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    const bp_gguf_key_name key = bp_gguf_key_of(a, "pooling_type");
    uint32_t number = 0;
    config->pooling = BP_POOLING_MEAN;
    if (bp_gguf_find(f, key.text) != NULL) {
        BP_TRY(bp_gguf_take_count(f, key.text, 0, 4, &number));
    }
    for (uint32_t i = 0; i < BP_POOLINGS; i++) {
        config->pooling = number != 0 && poolings[i] == number ? (bp_pooling)i : config->pooling;
    }
    return BP_OK;
}

bp_status bp_gguf_encoder_take(const bp_gguf_file *f, const char *a, bp_model_config *config,
                               bp_transformer *stack)
{
    const bp_gguf_key_name epsilon = bp_gguf_key_of(a, "attention.layer_norm_epsilon");
    BP_TRY(take(f, a, "block_count", LAYERS_MOST, &stack->layers));
    BP_TRY(take(f, a, "context_length", POSITIONS_MOST, &config->positions));
    BP_TRY(take(f, a, "embedding_length", WIDTH_MOST, &stack->width));
    BP_TRY(take(f, a, "feed_forward_length", 4 * WIDTH_MOST, &stack->inner));
    BP_TRY(take(f, a, "attention.head_count", HEADS_MOST, &stack->heads));
    BP_TRY(bp_gguf_take_real(f, epsilon.text, &stack->norm_epsilon));
    if (stack->width % stack->heads != 0) {
        return bp_gguf_refuse(f, "the heads do not divide the width",
                              bp_gguf_key_of(a, "attention.head_count").text);
    }
    if (!(stack->norm_epsilon >= 0.0 && stack->norm_epsilon < 1.0)) {
        return bp_gguf_refuse(f, "a value is out of range (0 to 1)", epsilon.text);
    }
    config->task = BP_TASK_EMBEDDING;
    config->classes = stack->width;
    return take_pooling(f, a, config);
}

const bp_gguf_family *bp_gguf_bert_of(const bp_gguf_file *f)
{
    const bp_gguf_key *offset = bp_gguf_find(f, bp_gguf_key_of("bert", position_offset).text);
    const bool unigram = bp_gguf_says(f, "tokenizer.ggml.model", "t5");
    const bool spells = bp_gguf_says(f, "tokenizer.ggml.model", "gpt2") &&
                        bp_gguf_find(f, "tokenizer.ggml.pre") != NULL &&
                        !bp_gguf_says(f, "tokenizer.ggml.pre", "gpt-2");
    if (offset != NULL ? offset->bits != 0 : unigram || spells) {
        return unigram ? &bp_gguf_xlm_roberta : &bp_gguf_roberta;
    }
    return bp_gguf_tensor(f, "token_types.weight") == NULL ? &bp_gguf_distilbert : &bp_gguf_bert;
}

/* Positions begin behind the padding's row, which is the family's where the file does not say. */
static bp_status bert_take_offset(const bp_gguf_file *f, const char *a, bp_model_config *config,
                                  bp_bert_config *own)
{
    const bp_gguf_key_name key = bp_gguf_key_of(a, position_offset);
    uint32_t offset = config->pad_token < 0 ? 2 : (uint32_t)config->pad_token + 1;
    if (bp_gguf_find(f, key.text) != NULL) {
        BP_TRY(bp_gguf_take_count(f, key.text, 1, POSITIONS_MOST, &offset));
    }
    if (offset > POSITIONS_MOST) {
        return bp_gguf_refuse(f, "a RoBERTa has a row of positions for each token up to this one",
                              "tokenizer.ggml.padding_token_id");
    }
    config->pad_token = (int64_t)offset - 1;
    own->position_rows = config->positions + offset;
    return BP_OK;
}

/* Sizes and what is no other model. */
static bp_status bert_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    bp_bert_config own = bp_bert_config_of(config);
    const bp_gguf_key_name epsilon = bp_gguf_key_of(a, "attention.layer_norm_epsilon");
    const bp_tensor_entry *types = bp_gguf_tensor(f, "token_types.weight");
    BP_TRY(bp_gguf_encoder_take(f, a, config, &own.stack));
    const bool roberta = config->family->gguf->naming == &roberta_naming;
    if (roberta) {
        BP_TRY(bert_take_offset(f, a, config, &own));
    }
    if (types != NULL && (types->rank != 2 || types->shape[0] > TYPES_MOST)) {
        return bp_gguf_refuse(f, "this is no table of a few types", "token_types.weight");
    }
    if (types == NULL && !roberta && fabs(own.stack.norm_epsilon - 1e-12) > 1e-18) {
        return bp_gguf_refuse(f, "a model without types of tokens is a DistilBERT, whose is 1e-12",
                              epsilon.text);
    }
    own.types = types != NULL ? (uint32_t)types->shape[0] : 0;
    own.stack.initializer_range = 0.02;
    own.stack.embedding_dropout = 0.1;
    own.stack.residual_dropout = 0.1;
    own.stack.attention_dropout = 0.1;
    own.classifier_dropout = types != NULL || roberta ? -1.0 : 0.2;
    bp_family_config_set(config, &own, sizeof own);
    config->family->resolve(config);
    return BP_OK;
}

#define BERT_FAMILY(type, naming)                                                                  \
    {                                                                                              \
        type, "bert", naming, bert_put, bert_take, NULL, bp_gguf_encoder_exports                   \
    }
const bp_gguf_family bp_gguf_bert = BERT_FAMILY("bert", &bert_naming);
const bp_gguf_family bp_gguf_roberta = BERT_FAMILY("roberta", &roberta_naming);
const bp_gguf_family bp_gguf_xlm_roberta = BERT_FAMILY("xlm-roberta", &roberta_naming);
const bp_gguf_family bp_gguf_distilbert = BERT_FAMILY("distilbert", &distilbert_naming);
