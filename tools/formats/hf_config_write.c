/* SPDX-License-Identifier: MIT */
/* Writing config.json as transformers writes it: sorted keys, two spaces. */
#include <string.h>

#include "arena/text.h"
#include "core/number.h"
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

static void put_shapes(bp_text *text, const bp_model_config *config)
{
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
}

bp_status bp_hf_config_text(const bp_model_config *config, char *json, size_t *length)
{
    bp_text text;
    bp_text_init(&text, NULL, NULL, json, BP_HF_CONFIG_TEXT);
    bp_text_string(&text, "{\n");
    put_word(&text, "activation_function", "\"gelu_new\"");
    put_word(&text, "architectures", "[\n    \"GPT2LMHeadModel\"\n  ]");
    put_real(&text, "attn_pdrop", config->attention_dropout);
    put_token(&text, "bos_token_id", config->bos_token);
    put_real(&text, "embd_pdrop", config->embedding_dropout);
    put_token(&text, "eos_token_id", config->eos_token);
    put_real(&text, "initializer_range", config->initializer_range);
    put_real(&text, "layer_norm_epsilon", config->norm_epsilon);
    put_shapes(&text, config);
    put_word(&text, "reorder_and_upcast_attn", "false");
    put_real(&text, "resid_pdrop", config->residual_dropout);
    put_word(&text, "scale_attn_by_inverse_layer_idx", "false");
    put_word(&text, "scale_attn_weights", "true");
    put_word(&text, "tie_word_embeddings", "true");
    put_word(&text, "torch_dtype", "\"float32\"");
    put_key(&text, "vocab_size");
    bp_text_u64(&text, config->vocabulary);
    bp_text_string(&text, "\n}\n");
    *length = (size_t)text.written;
    return bp_text_flush(&text);
}
