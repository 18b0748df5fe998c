/* SPDX-License-Identifier: MIT */
/* Names, keys and rotary frequencies as convert_hf_to_gguf.py has them (LlamaModel, Qwen2Model). */
#include "tools/formats/gguf_llama.h"

#include <string.h>

#include "arena/text.h"
#include "core/file/storage.h"
#include "core/number/math.h"
#include "layers/llama.h"
#include "tools/formats/family.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define TWO_PI       6.283185307179586

/* The bounds of config.json's fields (hf_fields.c). */
enum {
    POSITIONS_MOST = 1 << 24,
    WIDTH_MOST = 1 << 20,
    INNER_MOST = 1 << 22,
    LAYERS_MOST = 1 << 12,
    HEADS_MOST = 1 << 16,
    FACTORS_MOST = 512,
    ORIGINAL_FIRST = 13, /* 8192 */
    ORIGINAL_BITS = 20
};

static const bp_tensor_rule llama_rules[] = {
    BP_GGUF_LLAMA_RULES(BP_FORM_QUERY_HEADS, BP_FORM_KEY_HEADS)};
static const bp_tensor_rule qwen2_rules[] = {BP_GGUF_LLAMA_RULES(BP_FORM_PLAIN, BP_FORM_PLAIN)};

/* A tied head may be written out. */
const bp_tensor_twin bp_gguf_llama_twins[1] = {
    {"output.weight", "model.embed_tokens.weight", NULL}};

/* The factors of the rotary frequencies are the configuration's. */
static const char *const llama_ignored[] = {"rope_freqs.weight"};
static const bp_tensor_naming llama_naming = {llama_rules, COUNT(llama_rules),  llama_ignored,
                                              1,           bp_gguf_llama_twins, 1};
static const bp_tensor_naming qwen2_naming = {qwen2_rules, COUNT(qwen2_rules),  llama_ignored,
                                              1,           bp_gguf_llama_twins, 1};

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
    if (s->factor == 0.0 || s->kind != BP_ROPE_LLAMA3) {
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

static const bp_tensor_entry *find_tensor(const bp_gguf_file *f, const char *name)
{
    for (size_t i = 0; i < f->part.entry_count; i++) {
        if (strcmp(f->part.entries[i].name, name) == 0) {
            return &f->part.entries[i];
        }
    }
    return NULL;
}

static bool has_tensor(const bp_gguf_file *f, const char *name)
{
    return find_tensor(f, name) != NULL;
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

static bool has_factors(const bp_model_config *config, const float *found, size_t count)
{
    float right[FACTORS_MOST];
    bool same = bp_gguf_llama_frequencies(config, right, FACTORS_MOST) == count;
    for (size_t i = 0; same && i < count; i++) {
        const float off = found[i] - right[i];
        same = off <= 1e-4f * right[i] && -off <= 1e-4f * right[i];
    }
    return same;
}

/* Files hold the factors of the frequencies, and config.json the numbers that they follow from:
 * Llama 3's 1 and 4, the largest factor, and the first power of two, from Llama 3's 8192 on, whose
 * factors are those of the file. */
static bp_status find_scaling(const bp_gguf_file *f, const float *found, size_t count,
                              bp_model_config *config, bp_llama_config *own)
{
    own->rope_scaling = (bp_rope_scaling){.factor = 1.0, .low = 1.0, .high = 4.0};
    for (size_t i = 0; i < count; i++) {
        const double factor = (double)found[i];
        own->rope_scaling.factor =
            factor > own->rope_scaling.factor ? factor : own->rope_scaling.factor;
    }
    for (uint32_t turn = 0; turn <= ORIGINAL_BITS; turn++) {
        own->rope_scaling.original = UINT32_C(1) << (ORIGINAL_FIRST + turn) % (ORIGINAL_BITS + 1);
        bp_config_set_own(config, own, sizeof *own);
        if (has_factors(config, found, count)) {
            return BP_OK;
        }
    }
    return gguf_llama_refuse(f, "these factors of the rotary frequencies are not Llama 3's",
                             "rope_freqs.weight");
}

static bp_status take_scaling(const bp_gguf_file *f, const char *a, bp_model_config *config,
                              bp_llama_config *own)
{
    float found[FACTORS_MOST];
    const bp_tensor_entry *entry = find_tensor(f, "rope_freqs.weight");
    const size_t count = head_width_of(own) / 2;
    char type[16] = "none";
    if (bp_gguf_find(f, key_of(a, "rope.scaling.type").text) != NULL) {
        BP_TRY(bp_gguf_take_string(f, key_of(a, "rope.scaling.type").text, type, sizeof type));
    }
    if (strcmp(type, "none") != 0) {
        return gguf_llama_refuse(f, "this rotary scaling is not implemented", "rope.scaling.type");
    }
    if (entry == NULL) {
        return BP_OK;
    }
    if (entry->dtype != BP_F32 || entry->packed != 0 || entry->rank != 1 ||
        entry->shape[0] != count || count > FACTORS_MOST) {
        return gguf_llama_refuse(f,
                                 "the factors of the rotary frequencies are no floats, one for "
                                 "two of a head",
                                 "rope_freqs.weight");
    }
    if (f->store->read_at(f->store, f->file, f->part.data_at + entry->offset, found,
                          count * sizeof *found) != BP_OK) {
        return bp_storage_failed(f->error, f->store, "read", f->path);
    }
    return find_scaling(f, found, count, config, own);
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
    BP_TRY(take_scaling(f, architecture, config, &own));
    bp_config_set_own(config, &own, sizeof own);
    return BP_OK;
}

static bp_status gguf_llama_refuse_export(bp_error *error, const char *text, const char *name)
{
    return bp_error_set(error, BP_ERR_USAGE, "gguf", text, name);
}

/* Readers know no window of this architecture, and of scalings none but those of rope_freqs. */
static bp_status llama_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    if (own.window != 0 && own.window < config->positions) {
        return gguf_llama_refuse_export(
            error, "readers of this architecture know no window, and would look at all positions",
            "sliding_window");
    }
    if (own.rope_scaling.factor > 0.0 && own.rope_scaling.kind != BP_ROPE_LLAMA3) {
        return gguf_llama_refuse_export(
            error, "this scaling of rotary positions is not written to GGUF files", "rope_scaling");
    }
    return BP_OK;
}

static bp_status olmo2_exports(const bp_model_config *config, bp_error *error)
{
    if (!bp_llama_config_of(config).stack.untied) {
        return gguf_llama_refuse_export(
            error, "readers of this architecture want a head with weights of its own",
            "tie_word_embeddings");
    }
    return llama_exports(config, error);
}

static bp_status smollm3_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        if (bp_layer_in(&own.still, i) != (i % 4 == 3)) {
            return gguf_llama_refuse_export(
                error, "readers take every fourth layer for one that does not turn",
                "no_rope_layers");
        }
    }
    return llama_exports(config, error);
}

/* What Granite has besides. */
static void granite_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    llama_put(w, a, config);
    bp_gguf_put_f32(w, key_of(a, "attention.scale").text, (float)own.attention_scale);
    bp_gguf_put_f32(w, key_of(a, "embedding_scale").text, (float)own.embedding_scale);
    bp_gguf_put_f32(w, key_of(a, "residual_scale").text, (float)own.residual_scale);
    bp_gguf_put_f32(w, key_of(a, "logit_scale").text, (float)own.logit_divisor);
}

static bp_status granite_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    BP_TRY(bp_gguf_llama_take(f, a, config));
    bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(bp_gguf_take_real(f, key_of(a, "attention.scale").text, &own.attention_scale));
    BP_TRY(bp_gguf_take_real(f, key_of(a, "embedding_scale").text, &own.embedding_scale));
    BP_TRY(bp_gguf_take_real(f, key_of(a, "residual_scale").text, &own.residual_scale));
    BP_TRY(bp_gguf_take_real(f, key_of(a, "logit_scale").text, &own.logit_divisor));
    bp_config_set_own(config, &own, sizeof own);
    return BP_OK;
}

/* Settles what the family's files leave to its name. */
static bp_status settled_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    BP_TRY(bp_gguf_llama_take(f, a, config));
    if (config->family->settle != NULL) {
        config->family->settle(config);
    }
    return BP_OK;
}

/* Norms follow the sublayers; queries and keys as in Hugging Face's files. */
static const bp_tensor_rule olmo2_rules[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", BP_FORM_PLAIN},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", BP_FORM_PLAIN},
    {"model.layers.#.post_attention_layernorm.*", "blk.#.post_attention_norm.*", BP_FORM_PLAIN},
    {"model.layers.#.post_feedforward_layernorm.*", "blk.#.post_ffw_norm.*", BP_FORM_PLAIN},
    BP_GGUF_LLAMA_RULES(BP_FORM_PLAIN, BP_FORM_PLAIN)};
static const bp_tensor_naming olmo2_naming = {olmo2_rules, COUNT(olmo2_rules),  NULL,
                                              0,           bp_gguf_llama_twins, 1};

const bp_gguf_family bp_gguf_llama = {
    "llama",      "llama", &llama_naming, llama_put, bp_gguf_llama_take, bp_gguf_llama_frequencies,
    llama_exports};
const bp_gguf_family bp_gguf_qwen2 = {"qwen2",
                                      "qwen2",
                                      &qwen2_naming,
                                      bp_gguf_llama_put,
                                      bp_gguf_llama_take,
                                      bp_gguf_llama_frequencies,
                                      llama_exports};
/* Files of Mistral's are Llama's, and are read as such. */
const bp_gguf_family bp_gguf_mistral = {
    "mistral",    "llama", &llama_naming, llama_put, bp_gguf_llama_take, bp_gguf_llama_frequencies,
    llama_exports};
const bp_gguf_family bp_gguf_smollm3 = {"smollm3",      "smollm3",    &llama_naming,
                                        llama_put,      settled_take, bp_gguf_llama_frequencies,
                                        smollm3_exports};
const bp_gguf_family bp_gguf_granite = {"granite",    "granite",    &llama_naming,
                                        granite_put,  granite_take, bp_gguf_llama_frequencies,
                                        llama_exports};
const bp_gguf_family bp_gguf_olmo2 = {"olmo2",           "olmo2",      &olmo2_naming,
                                      bp_gguf_llama_put, settled_take, bp_gguf_llama_frequencies,
                                      olmo2_exports};
