/* SPDX-License-Identifier: MIT */
/* Writing config.json as transformers writes it: two spaces, one key a line. */
#include <string.h>

#include "arena/text.h"
#include "core/file/number.h"
#include "tools/formats/hf_config.h"

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
    put_word(text, "activation_function", "\"gelu_new\"");
    put_word(text, "architectures",
             judges(config) ? "[\n    \"GPT2ForSequenceClassification\"\n  ]"
                            : "[\n    \"GPT2LMHeadModel\"\n  ]");
    put_real(text, "attn_pdrop", config->attention_dropout);
    put_real(text, "embd_pdrop", config->embedding_dropout);
    put_real(text, "initializer_range", config->initializer_range);
    put_real(text, "layer_norm_epsilon", config->norm_epsilon);
    put_word(text, "model_type", "\"gpt2\"");
    put_count(text, "n_embd", config->width);
    put_count(text, "n_head", config->heads);
    if (config->inner == 0) {
        put_word(text, "n_inner", "null");
    } else {
        put_count(text, "n_inner", config->inner);
    }
    put_count(text, "n_layer", config->layers);
    put_count(text, "n_positions", config->positions);
    put_word(text, "reorder_and_upcast_attn", "false");
    put_real(text, "resid_pdrop", config->residual_dropout);
    put_word(text, "scale_attn_by_inverse_layer_idx", "false");
    put_word(text, "scale_attn_weights", "true");
    put_flag(text, "tie_word_embeddings", !config->untied);
}

/* Shapes under the names of Llama, Qwen2 and BERT. */
static void put_shapes(bp_text *text, const bp_model_config *config)
{
    put_count(text, "hidden_size", config->width);
    put_real(text, "initializer_range", config->initializer_range);
    put_count(text, "intermediate_size",
              config->inner != 0 ? config->inner : 4 * (uint64_t)config->width);
    put_count(text, "max_position_embeddings", config->positions);
    put_count(text, "num_attention_heads", config->heads);
    put_count(text, "num_hidden_layers", config->layers);
}

/* Both generations of keys: readers of either find theirs. */
static void put_rope(bp_text *text, const bp_model_config *config)
{
    const bp_rope_scaling *s = &config->rope_scaling;
    put_real(text, "rope_theta", config->rope_theta);
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
    const bool qwen = config->family == BP_FAMILY_QWEN2;
    const char *causal =
        qwen ? "[\n    \"Qwen2ForCausalLM\"\n  ]" : "[\n    \"LlamaForCausalLM\"\n  ]";
    const char *judge = qwen ? "[\n    \"Qwen2ForSequenceClassification\"\n  ]"
                             : "[\n    \"LlamaForSequenceClassification\"\n  ]";
    put_word(text, "architectures", judges(config) ? judge : causal);
    if (!qwen) {
        put_flag(text, "attention_bias", config->qkv_bias);
    }
    put_real(text, "attention_dropout", config->attention_dropout);
    if (config->head_width != 0) {
        put_count(text, "head_dim", config->head_width);
    }
    put_word(text, "hidden_act", "\"silu\"");
    put_shapes(text, config);
    if (!qwen) {
        put_flag(text, "mlp_bias", config->mlp_bias);
    }
    put_word(text, "model_type", qwen ? "\"qwen2\"" : "\"llama\"");
    put_count(text, "num_key_value_heads",
              config->kv_heads != 0 ? config->kv_heads : config->heads);
    put_real(text, "rms_norm_eps", config->norm_epsilon);
    put_rope(text, config);
    put_flag(text, "tie_word_embeddings", !config->untied);
}

static void put_bert(bp_text *text, const bp_model_config *config)
{
    put_word(text, "architectures",
             judges(config) ? "[\n    \"BertForSequenceClassification\"\n  ]"
                            : "[\n    \"BertForMaskedLM\"\n  ]");
    put_real(text, "attention_probs_dropout_prob", config->attention_dropout);
    put_real(text, "classifier_dropout", config->classifier_dropout);
    put_word(text, "hidden_act", "\"gelu\"");
    put_real(text, "hidden_dropout_prob", config->residual_dropout);
    put_shapes(text, config);
    put_real(text, "layer_norm_eps", config->norm_epsilon);
    put_word(text, "model_type", "\"bert\"");
    put_word(text, "position_embedding_type", "\"absolute\"");
    put_count(text, "type_vocab_size", config->types);
}

static void put_mlp(bp_text *text, const bp_model_config *config)
{
    static const char *const words[] = {[BP_ACTIVATION_GELU_ERF] = "\"gelu\"",
                                        [BP_ACTIVATION_TANH] = "\"tanh\"",
                                        [BP_ACTIVATION_RELU] = "\"relu\""};
    bool listed = config->layers == 0;
    for (uint32_t i = 0; i < config->layers && i < BP_HIDDEN_SIZES_MAX; i++) {
        listed = listed || config->hidden_sizes[i] != 0;
    }
    put_word(text, "hidden_act", words[config->activation]);
    put_real(text, "hidden_dropout_prob", config->residual_dropout);
    if (!listed) {
        put_count(text, "hidden_size", config->width);
    } else {
        put_key(text, "hidden_sizes");
        bp_text_string(text, "[");
        for (uint32_t i = 0; i < config->layers; i++) {
            const uint32_t own = config->hidden_sizes[i];
            bp_text_string(text, i == 0 ? "" : ", ");
            bp_text_u64(text, own != 0 ? own : config->width);
        }
        bp_text_string(text, "],\n");
    }
    put_real(text, "initializer_range", config->initializer_range);
    put_count(text, "input_size", config->positions);
    put_word(text, "model_type", "\"mlp\"");
    if (!listed) {
        put_count(text, "num_hidden_layers", config->layers);
    }
}

static void put_rnn(bp_text *text, const bp_model_config *config)
{
    put_word(text, "cell", config->cell == BP_CELL_LSTM ? "\"lstm\"" : "\"gru\"");
    put_real(text, "dropout", config->residual_dropout);
    if (config->inner != 0) {
        put_count(text, "embedding_size", config->inner);
    }
    put_count(text, "hidden_size", config->width);
    put_real(text, "initializer_range", config->initializer_range);
    put_count(text, "max_position_embeddings", config->positions);
    put_word(text, "model_type", "\"rnn\"");
    put_count(text, "num_hidden_layers", config->layers);
    put_flag(text, "tie_word_embeddings", !config->untied);
}

bp_status bp_hf_config_text(const bp_model_config *config, const bp_class_names *names, char *json,
                            size_t *length)
{
    static void (*const put[])(bp_text *, const bp_model_config *) = {
        [BP_FAMILY_GPT2] = put_gpt2, [BP_FAMILY_LLAMA] = put_llama, [BP_FAMILY_QWEN2] = put_llama,
        [BP_FAMILY_BERT] = put_bert, [BP_FAMILY_MLP] = put_mlp,     [BP_FAMILY_RNN] = put_rnn};
    bp_text text;
    bp_text_init(&text, NULL, NULL, json, BP_HF_CONFIG_TEXT);
    bp_text_string(&text, "{\n");
    put[config->family](&text, config);
    bool named = names != NULL && names->count == config->classes;
    put_classes(&text, config, named ? names : NULL);
    if (config->family != BP_FAMILY_MLP) {
        put_tokens(&text, config);
        put_count(&text, "vocab_size", config->vocabulary);
    }
    put_key(&text, "torch_dtype");
    bp_text_string(&text, "\"float32\"\n}\n");
    *length = (size_t)text.written;
    return bp_text_flush(&text);
}
