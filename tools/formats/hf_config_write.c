/* SPDX-License-Identifier: MIT */
/* Writing config.json as transformers writes it: two spaces, one key a line. */
#include <string.h>

#include "arena/text.h"
#include "core/file/number.h"
#include "layers/bert.h"
#include "layers/llama.h"
#include "layers/mlp_model.h"
#include "layers/rnn.h"
#include "tools/formats/hf_config.h"
#include "tools/formats/hf_fields.h"

static void put_key(bp_text *text, const char *key)
{
    bp_text_string(text, "  ");
    bp_text_json(text, key);
    bp_text_string(text, ": ");
}

static void put_count(bp_text *text, const char *key, uint64_t value)
{
    put_key(text, key);
    bp_text_u64(text, value);
    bp_text_string(text, ",\n");
}

static void put_word(bp_text *text, const char *key, const char *word)
{
    put_key(text, key);
    bp_text_string(text, word);
    bp_text_string(text, ",\n");
}

static void put_token(bp_text *text, const char *key, int64_t value)
{
    if (value < 0) {
        put_word(text, key, "null");
    } else {
        put_count(text, key, (uint64_t)value);
    }
}

/* The shortest digits that read back as the same double, with a point or an exponent, so that no
 * reader takes it for an integer. */
static void put_real(bp_text *text, const char *key, double value)
{
    char digits[40];
    bp_number number = {.real = -1.0};
    for (unsigned significant = 1; significant <= 17 && number.real != value; significant++) {
        bp_text one;
        bp_text_init(&one, NULL, NULL, digits, sizeof digits);
        bp_text_general(&one, value, significant);
        bp_status fits = bp_text_flush(&one);
        bp_status reads = bp_number_parse(digits, strlen(digits), &number);
        (void)fits; /* 17 digits fit, and what was written is a number */
        (void)reads;
    }
    put_key(text, key);
    bp_text_string(text, digits);
    if (strchr(digits, '.') == NULL && strchr(digits, 'e') == NULL) {
        bp_text_string(text, ".0");
    }
    bp_text_string(text, ",\n");
}

static void put_flag(bp_text *text, const char *key, bool value)
{
    put_word(text, key, value ? "true" : "false");
}

/* One token that ends a text, or a list. */
static void put_ends(bp_text *text, const bp_model_config *config)
{
    if (config->more_eos_count == 0) {
        put_token(text, "eos_token_id", config->eos_token);
        return;
    }
    put_key(text, "eos_token_id");
    bp_text_string(text, "[");
    bp_text_i64(text, config->eos_token);
    for (uint32_t i = 0; i < config->more_eos_count; i++) {
        bp_text_string(text, ", ");
        bp_text_i64(text, config->more_eos[i]);
    }
    bp_text_string(text, "],\n");
}

/* What every family writes, sorted among the rest by the callers. */
static void put_tokens(bp_text *text, const bp_model_config *config)
{
    put_token(text, "bos_token_id", config->bos_token);
    put_ends(text, config);
    put_token(text, "pad_token_id", config->pad_token);
}

static void put_label(bp_text *text, const bp_class_names *names, uint32_t number)
{
    if (names != NULL) {
        bp_text_json(text, names->text + names->start[number]);
        return;
    }
    bp_text_string(text, "\"LABEL_");
    bp_text_u64(text, number);
    bp_text_string(text, "\"");
}

static void put_number_key(bp_text *text, uint32_t number)
{
    bp_text_string(text, "\"");
    bp_text_u64(text, number);
    bp_text_string(text, "\"");
}

/* id2label and label2id, and what kind of problem it is. */
static void put_classes(bp_text *text, const bp_model_config *config, const bp_class_names *names)
{
    static const char *const problems[] = {[BP_TASK_CLASSES] = "\"single_label_classification\"",
                                           [BP_TASK_LABELS] = "\"multi_label_classification\"",
                                           [BP_TASK_REGRESSION] = "\"regression\""};
    if (config->task < BP_TASK_CLASSES) {
        return;
    }
    put_key(text, "id2label");
    for (uint32_t i = 0; i < config->classes; i++) {
        bp_text_string(text, i == 0 ? "{" : ", ");
        put_number_key(text, i);
        bp_text_string(text, ": ");
        put_label(text, names, i);
    }
    bp_text_string(text, "},\n");
    put_key(text, "label2id");
    for (uint32_t i = 0; i < config->classes; i++) {
        bp_text_string(text, i == 0 ? "{" : ", ");
        put_label(text, names, i);
        bp_text_string(text, ": ");
        bp_text_u64(text, i);
    }
    bp_text_string(text, "},\n");
    put_word(text, "problem_type", problems[config->task]);
}

static bool judges(const bp_model_config *config)
{
    return config->task >= BP_TASK_CLASSES;
}

static void put_gpt2(bp_text *text, const bp_model_config *config)
{
    const bp_transformer own = bp_transformer_of(config);
    put_word(text, "activation_function", "\"gelu_new\"");
    put_word(text, "architectures",
             judges(config) ? "[\n    \"GPT2ForSequenceClassification\"\n  ]"
                            : "[\n    \"GPT2LMHeadModel\"\n  ]");
    put_real(text, "attn_pdrop", own.attention_dropout);
    put_real(text, "embd_pdrop", own.embedding_dropout);
    put_real(text, "initializer_range", own.initializer_range);
    put_real(text, "layer_norm_epsilon", own.norm_epsilon);
    put_word(text, "model_type", "\"gpt2\"");
    put_count(text, "n_embd", own.width);
    put_count(text, "n_head", own.heads);
    if (own.inner == 0) {
        put_word(text, "n_inner", "null");
    } else {
        put_count(text, "n_inner", own.inner);
    }
    put_count(text, "n_layer", own.layers);
    put_count(text, "n_positions", config->positions);
    put_word(text, "reorder_and_upcast_attn", "false");
    put_real(text, "resid_pdrop", own.residual_dropout);
    put_word(text, "scale_attn_by_inverse_layer_idx", "false");
    put_word(text, "scale_attn_weights", "true");
    put_flag(text, "tie_word_embeddings", !own.untied);
}

/* Shapes under the names of Llama, Qwen2 and BERT. */
static void put_shapes(bp_text *text, const bp_model_config *config)
{
    const bp_transformer own = bp_transformer_of(config);
    put_count(text, "hidden_size", own.width);
    put_real(text, "initializer_range", own.initializer_range);
    put_count(text, "intermediate_size", own.inner != 0 ? own.inner : 4 * (uint64_t)own.width);
    put_count(text, "max_position_embeddings", config->positions);
    put_count(text, "num_attention_heads", own.heads);
    put_count(text, "num_hidden_layers", own.layers);
}

/* Both generations of keys: readers of either find theirs. */
static void put_rope(bp_text *text, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const bp_rope_scaling *s = &own.rope_scaling;
    put_real(text, "rope_theta", own.rope_theta);
    if (!(s->factor > 0.0)) {
        put_word(text, "rope_scaling", "null");
        return;
    }
    put_key(text, "rope_scaling");
    bp_text_string(text, "{\n  ");
    put_real(text, "factor", s->factor);
    bp_text_string(text, "  ");
    put_real(text, "high_freq_factor", s->high);
    bp_text_string(text, "  ");
    put_real(text, "low_freq_factor", s->low);
    bp_text_string(text, "  ");
    put_count(text, "original_max_position_embeddings", s->original);
    bp_text_string(text, "    \"rope_type\": \"llama3\"\n  },\n");
}

static void put_llama(bp_text *text, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const bool qwen = config->family == &bp_family_qwen2;
    const char *causal =
        qwen ? "[\n    \"Qwen2ForCausalLM\"\n  ]" : "[\n    \"LlamaForCausalLM\"\n  ]";
    const char *judge = qwen ? "[\n    \"Qwen2ForSequenceClassification\"\n  ]"
                             : "[\n    \"LlamaForSequenceClassification\"\n  ]";
    put_word(text, "architectures", judges(config) ? judge : causal);
    if (!qwen) {
        put_flag(text, "attention_bias", own.qkv_bias);
    }
    put_real(text, "attention_dropout", own.stack.attention_dropout);
    if (own.head_width != 0) {
        put_count(text, "head_dim", own.head_width);
    }
    put_word(text, "hidden_act", "\"silu\"");
    put_shapes(text, config);
    if (!qwen) {
        put_flag(text, "mlp_bias", own.mlp_bias);
    }
    put_word(text, "model_type", qwen ? "\"qwen2\"" : "\"llama\"");
    put_count(text, "num_key_value_heads", own.kv_heads != 0 ? own.kv_heads : own.stack.heads);
    put_real(text, "rms_norm_eps", own.stack.norm_epsilon);
    put_rope(text, config);
    put_flag(text, "tie_word_embeddings", !own.stack.untied);
}

static void put_bert(bp_text *text, const bp_model_config *config)
{
    const bp_bert_config own = bp_bert_config_of(config);
    put_word(text, "architectures",
             judges(config) ? "[\n    \"BertForSequenceClassification\"\n  ]"
                            : "[\n    \"BertForMaskedLM\"\n  ]");
    put_real(text, "attention_probs_dropout_prob", own.stack.attention_dropout);
    put_real(text, "classifier_dropout", own.classifier_dropout);
    put_word(text, "hidden_act", "\"gelu\"");
    put_real(text, "hidden_dropout_prob", own.stack.residual_dropout);
    put_shapes(text, config);
    put_real(text, "layer_norm_eps", own.stack.norm_epsilon);
    put_word(text, "model_type", "\"bert\"");
    put_word(text, "position_embedding_type", "\"absolute\"");
    put_count(text, "type_vocab_size", own.types);
}

static void put_mlp(bp_text *text, const bp_model_config *config)
{
    const bp_mlp_config own = bp_mlp_config_of(config);
    static const char *const words[] = {[BP_ACTIVATION_GELU_ERF] = "\"gelu\"",
                                        [BP_ACTIVATION_TANH] = "\"tanh\"",
                                        [BP_ACTIVATION_RELU] = "\"relu\""};
    bool listed = own.layers == 0;
    for (uint32_t i = 0; i < own.layers && i < BP_HIDDEN_SIZES_MAX; i++) {
        listed = listed || own.hidden_sizes[i] != 0;
    }
    put_word(text, "hidden_act", words[own.activation]);
    put_real(text, "hidden_dropout_prob", own.dropout);
    if (!listed) {
        put_count(text, "hidden_size", own.width);
    } else {
        put_key(text, "hidden_sizes");
        bp_text_string(text, "[");
        for (uint32_t i = 0; i < own.layers; i++) {
            const uint32_t size = own.hidden_sizes[i];
            bp_text_string(text, i == 0 ? "" : ", ");
            bp_text_u64(text, size != 0 ? size : own.width);
        }
        bp_text_string(text, "],\n");
    }
    put_real(text, "initializer_range", own.initializer_range);
    put_count(text, "input_size", config->positions);
    put_word(text, "model_type", "\"mlp\"");
    if (!listed) {
        put_count(text, "num_hidden_layers", own.layers);
    }
}

static void put_rnn(bp_text *text, const bp_model_config *config)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    put_word(text, "cell", own.cell == BP_CELL_LSTM ? "\"lstm\"" : "\"gru\"");
    put_real(text, "dropout", own.dropout);
    if (own.embedding != 0) {
        put_count(text, "embedding_size", own.embedding);
    }
    put_count(text, "hidden_size", own.width);
    put_real(text, "initializer_range", own.initializer_range);
    put_count(text, "max_position_embeddings", config->positions);
    put_word(text, "model_type", "\"rnn\"");
    put_count(text, "num_hidden_layers", own.layers);
    put_flag(text, "tie_word_embeddings", !own.untied);
}

bp_status bp_hf_config_text(const bp_model_config *config, const bp_class_names *names, char *json,
                            size_t *length)
{
    static const struct {
        const bp_family *family;
        void (*put)(bp_text *, const bp_model_config *);
    } writers[] = {{&bp_family_gpt2, put_gpt2},   {&bp_family_llama, put_llama},
                   {&bp_family_qwen2, put_llama}, {&bp_family_bert, put_bert},
                   {&bp_family_mlp, put_mlp},     {&bp_family_rnn, put_rnn}};
    bp_text text;
    bp_text_init(&text, NULL, NULL, json, BP_HF_CONFIG_TEXT);
    bp_text_string(&text, "{\n");
    for (size_t i = 0; i < sizeof writers / sizeof writers[0]; i++) {
        if (writers[i].family == config->family) {
            writers[i].put(&text, config);
        }
    }
    bool named = names != NULL && names->count == config->classes;
    put_classes(&text, config, named ? names : NULL);
    if (config->family != &bp_family_mlp) {
        put_tokens(&text, config);
        put_count(&text, "vocab_size", config->vocabulary);
    }
    put_key(&text, "torch_dtype");
    bp_text_string(&text, "\"float32\"\n}\n");
    *length = (size_t)text.written;
    return bp_text_flush(&text);
}
