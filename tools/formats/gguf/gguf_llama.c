/* SPDX-License-Identifier: MIT */
/* Names, keys and rotary frequencies as convert_hf_to_gguf.py has them (LlamaModel, Qwen2Model). */
#include "tools/formats/gguf/gguf_llama.h"

#include "arena/text.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_rope.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The bounds of config.json's fields (hf_fields.c). */
enum {
    POSITIONS_MOST = 1 << 24,
    WIDTH_MOST = 1 << 20,
    INNER_MOST = 1 << 22,
    LAYERS_MOST = 1 << 12,
    HEADS_MOST = 1 << 16
};

static const bp_tensor_rule llama_rules[] = {
    BP_GGUF_LLAMA_RULES(BP_LAYOUT_QUERY_HEADS, BP_LAYOUT_KEY_HEADS)};
static const bp_tensor_rule qwen2_rules[] = {BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)};

/* A tied head may be written out. */
const bp_tensor_twin bp_gguf_llama_twins[1] = {
    {"output.weight", "model.embed_tokens.weight", NULL}};

/* The factors of the rotary frequencies are the configuration's. */
static const char *const llama_ignored[] = {"rope_freqs.weight"};
static const bp_tensor_naming llama_naming = {llama_rules, COUNT(llama_rules),  llama_ignored,
                                              1,           bp_gguf_llama_twins, 1};
static const bp_tensor_naming qwen2_naming = {qwen2_rules, COUNT(qwen2_rules),  llama_ignored,
                                              1,           bp_gguf_llama_twins, 1};

bp_gguf_key_name bp_gguf_key_of(const char *architecture, const char *rest)
{
    bp_gguf_key_name key;
    bp_text text;
    bp_text_init(&text, NULL, NULL, key.text, sizeof key.text);
    bp_text_string(&text, architecture);
    bp_text_char(&text, '.');
    bp_text_string(&text, rest);
    bp_status fits = bp_text_flush(&text);
    (void)fits; /* the longest has 46 characters */
    return key;
}

uint32_t bp_gguf_llama_head_width(const bp_llama_config *own)
{
    return own->head_width != 0 ? own->head_width : own->stack.width / own->stack.heads;
}

static uint32_t kv_heads_of(const bp_llama_config *own)
{
    return own->kv_heads != 0 ? own->kv_heads : own->stack.heads;
}

static void put_count(bp_gguf_writer *w, const char *architecture, const char *rest, uint32_t value)
{
    bp_gguf_put_u32(w, bp_gguf_key_of(architecture, rest).text, value);
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
    bp_gguf_put_f32(w, bp_gguf_key_of(a, "rope.freq_base").text, (float)own.rope_theta);
    bp_gguf_put_f32(w,
                    bp_gguf_key_of(a, own.centred ? "attention.layer_norm_epsilon"
                                                  : "attention.layer_norm_rms_epsilon")
                        .text,
                    (float)own.stack.norm_epsilon);
    if (own.head_width != 0) {
        put_count(w, a, "attention.key_length", own.head_width);
        put_count(w, a, "attention.value_length", own.head_width);
    }
    bp_gguf_rope_put(w, a, &own);
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
    put_count(w, architecture, "rope.dimension_count", bp_gguf_llama_head_width(&own));
}

/* ---- reading ---- */

static bp_status take_count(const bp_gguf_file *f, const char *architecture, const char *rest,
                            uint64_t most, uint32_t *value)
{
    return bp_gguf_take_count(f, bp_gguf_key_of(architecture, rest).text, 1, most, value);
}

/* A key that may be missing: then the value is `other`. */
static bp_status take_or(const bp_gguf_file *f, const char *architecture, const char *rest,
                         uint64_t most, uint32_t other, uint32_t *value)
{
    *value = other;
    return bp_gguf_find(f, bp_gguf_key_of(architecture, rest).text) == NULL
               ? BP_OK
               : take_count(f, architecture, rest, most, value);
}

static bool has_tensor(const bp_gguf_file *f, const char *name)
{
    return bp_gguf_tensor(f, name) != NULL;
}

static bp_status take_reals(const bp_gguf_file *f, const char *a, bool centred,
                            bp_llama_config *own)
{
    const bp_gguf_key_name base = bp_gguf_key_of(a, "rope.freq_base");
    const bp_gguf_key_name epsilon = bp_gguf_key_of(
        a, centred ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon");
    own->rope_theta = 10000.0;
    if (bp_gguf_find(f, base.text) != NULL) {
        BP_TRY(bp_gguf_take_real(f, base.text, &own->rope_theta));
    }
    BP_TRY(bp_gguf_take_real(f, epsilon.text, &own->stack.norm_epsilon));
    if (!(own->stack.norm_epsilon >= 0.0 && own->stack.norm_epsilon < 1.0)) {
        return bp_gguf_refuse(f, "a value is out of range (0 to 1)", epsilon.text);
    }
    if (!(own->rope_theta >= 1.0 && own->rope_theta < 1e12)) {
        return bp_gguf_refuse(f, "a value is out of range (1 to 1e12)", base.text);
    }
    return BP_OK;
}

/* Heads must fit together as the model wants them. */
static bp_status check_heads(const bp_gguf_file *f, const char *a, const bp_llama_config *own)
{
    bool divides = own->head_width != 0 || own->stack.width % own->stack.heads == 0;
    if (!divides || own->stack.heads % own->kv_heads != 0 ||
        bp_gguf_llama_head_width(own) % 2 != 0) {
        return bp_gguf_refuse(
            f, "the heads do not divide the width, or the key-value heads not the heads",
            bp_gguf_key_of(a, "attention.head_count").text);
    }
    return BP_OK;
}

static bp_status take_own(const bp_gguf_file *f, const char *a, bool centred, bp_llama_config *own)
{
    BP_TRY(take_count(f, a, "block_count", LAYERS_MOST, &own->stack.layers));
    BP_TRY(take_count(f, a, "embedding_length", WIDTH_MOST, &own->stack.width));
    BP_TRY(take_count(f, a, "feed_forward_length", INNER_MOST, &own->stack.inner));
    BP_TRY(take_count(f, a, "attention.head_count", HEADS_MOST, &own->stack.heads));
    BP_TRY(take_or(f, a, "attention.head_count_kv", HEADS_MOST, own->stack.heads, &own->kv_heads));
    BP_TRY(take_or(f, a, "attention.key_length", WIDTH_MOST, 0, &own->head_width));
    BP_TRY(take_reals(f, a, centred, own));
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

/* The share of a head that turns; the whole where no key says it. */
static bp_status take_rotary(const bp_gguf_file *f, const char *a, bool partial,
                             bp_llama_config *own)
{
    const uint32_t width = bp_gguf_llama_head_width(own);
    uint32_t turned;
    BP_TRY(take_or(f, a, "rope.dimension_count", WIDTH_MOST, width, &turned));
    if (turned > width || turned % 2 != 0 || (!partial && turned != width)) {
        return bp_gguf_refuse(f, "heads of this architecture turn as a whole",
                              bp_gguf_key_of(a, "rope.dimension_count").text);
    }
    if (partial) {
        own->rotary_share = (double)turned / (double)width;
        if (bp_llama_rotary_width(own, width) < turned) {
            own->rotary_share = ((double)turned + 0.5) / (double)width; /* rounded to below it */
        }
    }
    return BP_OK;
}

static bp_status take_window(const bp_gguf_file *f, const char *a, bool known,
                             const bp_model_config *config, bp_llama_config *own)
{
    const bp_gguf_key_name key = bp_gguf_key_of(a, "attention.sliding_window");
    uint32_t window = own->window;
    own->window = known ? window : 0;
    if (bp_gguf_find(f, key.text) == NULL) {
        return BP_OK;
    }
    BP_TRY(bp_gguf_take_count(f, key.text, 0, POSITIONS_MOST, &window));
    own->window = known ? window : 0; /* one that sees all is none */
    return known || window == 0 || window >= config->positions
               ? BP_OK
               : bp_gguf_refuse(f, "a window is not implemented of this architecture", key.text);
}

bp_status bp_gguf_llama_take_more(const bp_gguf_file *f, const char *architecture,
                                  bp_model_config *config, unsigned more)
{
    bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(take_count(f, architecture, "context_length", POSITIONS_MOST, &config->positions));
    BP_TRY(take_own(f, architecture, (more & BP_GGUF_CENTRED) != 0, &own));
    BP_TRY(take_rotary(f, architecture, (more & BP_GGUF_PARTIAL) != 0, &own));
    BP_TRY(take_window(f, architecture, (more & BP_GGUF_WINDOW) != 0, config, &own));
    if ((more & BP_GGUF_LONG) == 0) {
        BP_TRY(bp_gguf_rope_take(f, architecture, config, &own));
    }
    bp_family_config_set(config, &own, sizeof own);
    return BP_OK;
}

bp_status bp_gguf_llama_take(const bp_gguf_file *f, const char *architecture,
                             bp_model_config *config)
{
    return bp_gguf_llama_take_more(f, architecture, config, 0);
}

bp_status bp_gguf_refuse_export(bp_error *error, const char *text, const char *name)
{
    return bp_error_set(error, BP_ERR_USAGE, "gguf", text, name);
}

bp_status bp_gguf_refuse_window(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    return own.window == 0 || own.window >= config->positions
               ? BP_OK
               : bp_gguf_refuse_export(error,
                                       "readers of this architecture know no window, and would "
                                       "look at all positions",
                                       "sliding_window");
}

static bp_status exports_kinds(const bp_model_config *config, unsigned kinds, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(bp_gguf_refuse_window(config, error));
    return bp_gguf_rope_exports(&own, kinds, error);
}

/* Of Llama and Granite alone readers take rope_freqs.weight. */
static bp_status llama_exports(const bp_model_config *config, bp_error *error)
{
    return exports_kinds(config, BP_GGUF_ROPE_FREQS, error);
}

bp_status bp_gguf_llama_exports(const bp_model_config *config, bp_error *error)
{
    return exports_kinds(config, BP_GGUF_ROPE_KEYS, error);
}

static bp_status olmo2_exports(const bp_model_config *config, bp_error *error)
{
    if (!bp_llama_config_of(config).stack.untied) {
        return bp_gguf_refuse_export(
            error, "readers of this architecture want a head with separate weights",
            "tie_word_embeddings");
    }
    return bp_gguf_llama_exports(config, error);
}

static bp_status smollm3_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        if (bp_layer_in(&own.still, i) != (i % 4 == 3)) {
            return bp_gguf_refuse_export(
                error, "readers take every fourth layer for one that does not turn",
                "no_rope_layers");
        }
    }
    return bp_gguf_llama_exports(config, error);
}

/* What Granite has besides. */
static void granite_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    llama_put(w, a, config);
    bp_gguf_put_f32(w, bp_gguf_key_of(a, "attention.scale").text, (float)own.attention_scale);
    bp_gguf_put_f32(w, bp_gguf_key_of(a, "embedding_scale").text, (float)own.embedding_scale);
    bp_gguf_put_f32(w, bp_gguf_key_of(a, "residual_scale").text, (float)own.residual_scale);
    bp_gguf_put_f32(w, bp_gguf_key_of(a, "logit_scale").text, (float)own.logit_divisor);
}

static bp_status granite_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    BP_TRY(bp_gguf_llama_take(f, a, config));
    bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(bp_gguf_take_real(f, bp_gguf_key_of(a, "attention.scale").text, &own.attention_scale));
    BP_TRY(bp_gguf_take_real(f, bp_gguf_key_of(a, "embedding_scale").text, &own.embedding_scale));
    BP_TRY(bp_gguf_take_real(f, bp_gguf_key_of(a, "residual_scale").text, &own.residual_scale));
    BP_TRY(bp_gguf_take_real(f, bp_gguf_key_of(a, "logit_scale").text, &own.logit_divisor));
    bp_family_config_set(config, &own, sizeof own);
    return BP_OK;
}

/* Resolves what the family's files leave to its name. */
static bp_status resolved_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    BP_TRY(bp_gguf_llama_take(f, a, config));
    if (config->family->resolve != NULL) {
        config->family->resolve(config);
    }
    return BP_OK;
}

/* Every fourth layer does not turn, as readers take it. */
static bp_status smollm3_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    BP_TRY(bp_gguf_llama_take(f, a, config));
    bp_llama_config own = bp_llama_config_of(config);
    own.still = (bp_layer_set){.listed = 0};
    for (uint32_t i = 3; i < own.stack.layers; i += 4) {
        bp_layer_put(&own.still, i);
    }
    own.still.listed = own.stack.layers;
    bp_family_config_set(config, &own, sizeof own);
    return BP_OK;
}

/* Norms follow the sublayers; queries and keys as in Hugging Face's files. */
static const bp_tensor_rule olmo2_rules[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", BP_LAYOUT_PLAIN},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", BP_LAYOUT_PLAIN},
    {"model.layers.#.post_attention_layernorm.*", "blk.#.post_attention_norm.*", BP_LAYOUT_PLAIN},
    {"model.layers.#.post_feedforward_layernorm.*", "blk.#.post_ffw_norm.*", BP_LAYOUT_PLAIN},
    BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)};
static const bp_tensor_naming olmo2_naming = {olmo2_rules, COUNT(olmo2_rules),  NULL,
                                              0,           bp_gguf_llama_twins, 1};

const bp_gguf_family bp_gguf_llama = {
    "llama",      "llama", &llama_naming, llama_put, bp_gguf_llama_take, bp_gguf_llama_factors,
    llama_exports};
const bp_gguf_family bp_gguf_qwen2 = {"qwen2",
                                      "qwen2",
                                      &qwen2_naming,
                                      bp_gguf_llama_put,
                                      bp_gguf_llama_take,
                                      NULL,
                                      bp_gguf_llama_exports};
/* Files of Mistral's are Llama's, and are read as such. */
const bp_gguf_family bp_gguf_mistral = {
    "mistral",    "llama", &llama_naming, llama_put, bp_gguf_llama_take, bp_gguf_llama_factors,
    llama_exports};
const bp_gguf_family bp_gguf_smollm3 = {"smollm3",    "smollm3", &llama_naming,  llama_put,
                                        smollm3_take, NULL,      smollm3_exports};
const bp_gguf_family bp_gguf_granite = {"granite",    "granite",    &llama_naming,
                                        granite_put,  granite_take, bp_gguf_llama_factors,
                                        llama_exports};
const bp_gguf_family bp_gguf_olmo2 = {"olmo2",       "olmo2", &olmo2_naming, bp_gguf_llama_put,
                                      resolved_take, NULL,    olmo2_exports};
