/* SPDX-License-Identifier: MIT */
/* Names, keys and rotary frequencies as convert_hf_to_gguf.py has them (LlamaModel, Qwen2Model). */
#include "tools/formats/gguf_llama.h"

#include <string.h>

#include "arena/text.h"
#include "core/number/math.h"
#include "layers/llama.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define TWO_PI       6.283185307179586

/* The bounds of config.json's fields (hf_fields.c). */
enum {
    POSITIONS_MOST = 1 << 24,
    WIDTH_MOST = 1 << 20,
    INNER_MOST = 1 << 22,
    LAYERS_MOST = 1 << 12,
    HEADS_MOST = 1 << 16
};

static const bp_tensor_rule llama_rules[] = {
    BP_GGUF_LLAMA_RULES(BP_FORM_QUERY_HEADS, BP_FORM_KEY_HEADS)};
static const bp_tensor_rule qwen2_rules[] = {BP_GGUF_LLAMA_RULES(BP_FORM_PLAIN, BP_FORM_PLAIN)};

/* A tied head may be written out. */
const bp_tensor_twin bp_gguf_llama_twins[1] = {
    {"output.weight", "model.embed_tokens.weight", NULL}};

static const bp_tensor_naming llama_naming = {llama_rules, COUNT(llama_rules),  NULL,
                                              0,           bp_gguf_llama_twins, 1};
static const bp_tensor_naming qwen2_naming = {qwen2_rules, COUNT(qwen2_rules),  NULL,
                                              0,           bp_gguf_llama_twins, 1};

/* "<architecture>.<rest>" */
typedef struct key_name {
    char text[64];
} key_name;

static key_name key_of(const char *architecture, const char *rest)
{
    key_name key;
    bp_text text;
    bp_text_init(&text, NULL, NULL, key.text, sizeof key.text);
    bp_text_string(&text, architecture);
    bp_text_char(&text, '.');
    bp_text_string(&text, rest);
    bp_status fits = bp_text_flush(&text);
    (void)fits; /* the longest has 40 characters */
    return key;
}

static uint32_t kv_heads_of(const bp_llama_config *own)
{
    return own->kv_heads != 0 ? own->kv_heads : own->stack.heads;
}

static uint32_t head_width_of(const bp_llama_config *own)
{
    return own->head_width != 0 ? own->head_width : own->stack.width / own->stack.heads;
}

static void put_count(bp_gguf_writer *w, const char *architecture, const char *rest, uint32_t value)
{
    bp_gguf_put_u32(w, key_of(architecture, rest).text, value);
}

static void put_keys(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    put_count(w, a, "block_count", own.stack.layers);
    put_count(w, a, "context_length", config->positions);
    put_count(w, a, "embedding_length", own.stack.width);
    put_count(w, a, "feed_forward_length", own.stack.inner);
    put_count(w, a, "attention.head_count", own.stack.heads);
    put_count(w, a, "attention.head_count_kv", kv_heads_of(&own));
    bp_gguf_put_f32(w, key_of(a, "rope.freq_base").text, (float)own.rope_theta);
    bp_gguf_put_f32(w, key_of(a, "attention.layer_norm_rms_epsilon").text,
                    (float)own.stack.norm_epsilon);
    if (own.head_width != 0) {
        put_count(w, a, "attention.key_length", own.head_width);
        put_count(w, a, "attention.value_length", own.head_width);
    }
}

void bp_gguf_llama_put(bp_gguf_writer *w, const char *architecture, const bp_model_config *config)
{
    put_keys(w, architecture, config);
}

/* What llama.cpp reads of this architecture besides. */
static void llama_put(bp_gguf_writer *w, const char *architecture, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    put_keys(w, architecture, config);
    put_count(w, architecture, "vocab_size", config->vocabulary);
    put_count(w, architecture, "rope.dimension_count", head_width_of(&own));
}

/* modeling_rope_utils.py, _compute_llama3_parameters: long waves are slowed by the factor, short
 * ones are left alone, and those between go over smoothly. */
size_t bp_gguf_llama_frequencies(const bp_model_config *config, float *factors, size_t room)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const bp_rope_scaling *s = &own.rope_scaling;
    size_t count = head_width_of(&own) / 2;
    if (s->factor == 0.0) {
        return 0;
    }
    for (size_t i = 0; i < count && i < room; i++) {
        double wave = TWO_PI * bp_pow(own.rope_theta, (double)i / (double)count);
        double turns = (double)s->original / wave;
        double share = (turns - s->low) / (s->high - s->low);
        double factor = turns > s->high  ? 1.0
                        : turns < s->low ? s->factor
                                         : 1.0 / ((1.0 - share) / s->factor + share);
        factors[i] = (float)factor;
    }
    return count;
}

/* ---- reading ---- */

static bp_status take_count(const bp_gguf_file *f, const char *architecture, const char *rest,
                            uint64_t most, uint32_t *value)
{
    return bp_gguf_take_count(f, key_of(architecture, rest).text, 1, most, value);
}

/* A key that may be missing: then the value is `other`. */
static bp_status take_or(const bp_gguf_file *f, const char *architecture, const char *rest,
                         uint64_t most, uint32_t other, uint32_t *value)
{
    *value = other;
    return bp_gguf_find(f, key_of(architecture, rest).text) == NULL
               ? BP_OK
               : take_count(f, architecture, rest, most, value);
}

static bool has_tensor(const bp_gguf_file *f, const char *name)
{
    for (size_t i = 0; i < f->part.entry_count; i++) {
        if (strcmp(f->part.entries[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bp_status gguf_llama_refuse(const bp_gguf_file *f, const char *text, const char *name)
{
    bp_status status = bp_error_set(f->error, BP_ERR_DATA, "gguf", text, name);
    bp_error_prefix(f->error, f->path);
    return status;
}

static bp_status take_reals(const bp_gguf_file *f, const char *a, bp_llama_config *own)
{
    const key_name base = key_of(a, "rope.freq_base");
    own->rope_theta = 10000.0;
    if (bp_gguf_find(f, base.text) != NULL) {
        BP_TRY(bp_gguf_take_real(f, base.text, &own->rope_theta));
    }
    BP_TRY(bp_gguf_take_real(f, key_of(a, "attention.layer_norm_rms_epsilon").text,
                             &own->stack.norm_epsilon));
    if (!(own->stack.norm_epsilon >= 0.0 && own->stack.norm_epsilon < 1.0)) {
        return gguf_llama_refuse(f, "a value is out of range (0 to 1)",
                                 "attention.layer_norm_rms_epsilon");
    }
    if (!(own->rope_theta >= 1.0 && own->rope_theta < 1e12)) {
        return gguf_llama_refuse(f, "a value is out of range (1 to 1e12)", base.text);
    }
    return BP_OK;
}

/* Heads must fit together as the model wants them. */
static bp_status check_heads(const bp_gguf_file *f, const char *a, const bp_llama_config *own)
{
    bool divides = own->head_width != 0 || own->stack.width % own->stack.heads == 0;
    if (!divides || own->stack.heads % own->kv_heads != 0 || head_width_of(own) % 2 != 0) {
        return gguf_llama_refuse(
            f, "the heads do not divide the width, or the key-value heads not the heads",
            key_of(a, "attention.head_count").text);
    }
    if (bp_gguf_find(f, key_of(a, "rope.scaling.type").text) != NULL ||
        has_tensor(f, "rope_freqs.weight")) {
        return gguf_llama_refuse(f, "rotary scaling in a GGUF file is not implemented",
                                 "rope_freqs.weight");
    }
    return BP_OK;
}

static bp_status take_own(const bp_gguf_file *f, const char *a, bp_llama_config *own)
{
    BP_TRY(take_count(f, a, "block_count", LAYERS_MOST, &own->stack.layers));
    BP_TRY(take_count(f, a, "embedding_length", WIDTH_MOST, &own->stack.width));
    BP_TRY(take_count(f, a, "feed_forward_length", INNER_MOST, &own->stack.inner));
    BP_TRY(take_count(f, a, "attention.head_count", HEADS_MOST, &own->stack.heads));
    BP_TRY(take_or(f, a, "attention.head_count_kv", HEADS_MOST, own->stack.heads, &own->kv_heads));
    BP_TRY(take_or(f, a, "attention.key_length", WIDTH_MOST, 0, &own->head_width));
    BP_TRY(take_reals(f, a, own));
    BP_TRY(check_heads(f, a, own));
    if (own->head_width == own->stack.width / own->stack.heads) {
        own->head_width = 0; /* what it is anyway */
    }
    own->qkv_bias = has_tensor(f, "blk.0.attn_q.bias");
    own->output_bias = has_tensor(f, "blk.0.attn_output.bias");
    own->mlp_bias = has_tensor(f, "blk.0.ffn_gate.bias");
    own->stack.untied = has_tensor(f, "output.weight");
    own->stack.initializer_range = 0.02;
    return BP_OK;
}

bp_status bp_gguf_llama_take(const bp_gguf_file *f, const char *architecture,
                             bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(take_count(f, architecture, "context_length", POSITIONS_MOST, &config->positions));
    BP_TRY(take_own(f, architecture, &own));
    bp_config_set_own(config, &own, sizeof own);
    return BP_OK;
}

const bp_gguf_family bp_gguf_llama = {
    "llama", "llama", &llama_naming, llama_put, bp_gguf_llama_take, bp_gguf_llama_frequencies};
const bp_gguf_family bp_gguf_qwen2 = {"qwen2",
                                      "qwen2",
                                      &qwen2_naming,
                                      bp_gguf_llama_put,
                                      bp_gguf_llama_take,
                                      bp_gguf_llama_frequencies};
