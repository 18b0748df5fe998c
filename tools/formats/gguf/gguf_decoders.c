/* SPDX-License-Identifier: MIT */
/* Names and keys as llama.cpp's converter writes them; heads that turn by neighbours do so in its
 * readers, too, so queries and keys lie as in Hugging Face's files. */
#include "tools/formats/gguf/gguf_decoders.h"

#include "core/base/math.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_rope.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define NAMING(rules)                                                                              \
    {                                                                                              \
        (rules), COUNT(rules), NULL, 0, bp_gguf_llama_twins, 1                                     \
    }

static const bp_tensor_rule plain_rules[] = {BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)};
static const bp_tensor_rule seed_rules[] = {
    {"model.layers.#.post_attention_layernorm.*", "blk.#.post_attention_norm.*", BP_LAYOUT_PLAIN},
    BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)};
static const bp_tensor_rule glm_rules[] = {
    {"model.layers.#.post_self_attn_layernorm.*", "blk.#.post_attention_norm.*", BP_LAYOUT_PLAIN},
    {"model.layers.#.post_mlp_layernorm.*", "blk.#.post_ffw_norm.*", BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.gate_up_proj.*", "blk.#.ffn_up.*", BP_LAYOUT_PLAIN},
    BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)};

static const bp_tensor_rule permuted_rules[] = {
    BP_GGUF_LLAMA_RULES(BP_LAYOUT_QUERY_HEADS, BP_LAYOUT_KEY_HEADS)};
static const bp_tensor_rule after_rules[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", BP_LAYOUT_PLAIN},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", BP_LAYOUT_PLAIN},
    {"model.layers.#.post_attention_layernorm.*", "blk.#.post_attention_norm.*", BP_LAYOUT_PLAIN},
    {"model.layers.#.post_feedforward_layernorm.*", "blk.#.post_ffw_norm.*", BP_LAYOUT_PLAIN},
    BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)};
static const bp_tensor_rule hunyuan_rules[] = {
    {"model.layers.#.self_attn.query_layernorm.*", "blk.#.attn_q_norm.*", BP_LAYOUT_PLAIN},
    {"model.layers.#.self_attn.key_layernorm.*", "blk.#.attn_k_norm.*", BP_LAYOUT_PLAIN},
    BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)};
static const bp_tensor_rule starcoder_rules[] = {
    {"model.norm.bias", "output_norm.bias", BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.c_fc.*", "blk.#.ffn_up.*", BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.c_proj.*", "blk.#.ffn_down.*", BP_LAYOUT_PLAIN},
    BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)};

static const bp_tensor_naming plain_naming = NAMING(plain_rules);
static const bp_tensor_naming seed_naming = NAMING(seed_rules);
static const bp_tensor_naming glm_naming = NAMING(glm_rules);
static const char *const frequencies[] = {"rope_freqs.weight"};
static const bp_tensor_naming permuted_naming = {
    permuted_rules, COUNT(permuted_rules), frequencies, 1, bp_gguf_llama_twins, 1};
static const bp_tensor_naming after_naming = {after_rules, COUNT(after_rules),  frequencies,
                                              1,           bp_gguf_llama_twins, 1};
static const bp_tensor_naming hunyuan_naming = NAMING(hunyuan_rules);
static const bp_tensor_naming starcoder_naming = NAMING(starcoder_rules);

/* Reads the rest as Llama's, and resolves what the family's name says. */
static bp_status take_more(const bp_gguf_file *f, const char *a, bp_model_config *config,
                           unsigned more)
{
    BP_TRY(bp_gguf_llama_take_more(f, a, config, more));
    if (config->family->resolve != NULL) {
        config->family->resolve(config);
    }
    return BP_OK;
}

static bp_status decoders_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    return take_more(f, a, config, 0);
}

/* Readers of these have biases of queries, keys and values at most. */
static bp_status refuse_biases(const bp_llama_config *own, const char *output, bp_error *error)
{
    if (own->output_bias || own->mlp_bias) {
        return bp_gguf_refuse_export(error,
                                     "readers of this architecture know no biases behind attention "
                                     "and in the perceptron",
                                     own->output_bias ? output : "mlp_bias");
    }
    return BP_OK;
}

static bp_status ernie_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(refuse_biases(&own, "use_bias", error));
    return bp_gguf_llama_exports(config, error);
}

static bp_status seed_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(refuse_biases(&own, "attention_out_bias", error));
    return bp_gguf_llama_exports(config, error);
}

/* GLM, of whose heads a part turns. */
static void glm_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    bp_gguf_llama_put(w, a, config);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "rope.dimension_count").text,
                    (uint32_t)bp_llama_rotary_width(&own, bp_gguf_llama_head_width(&own)));
}

static bp_status glm_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    return take_more(f, a, config, BP_GGUF_PARTIAL);
}

/* ---- layers with windows ---- */

static void put_windows(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    if (own.window == 0) {
        return;
    }
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "attention.sliding_window").text, own.window);
    bp_gguf_put_array(w, bp_gguf_key_of(a, "attention.sliding_window_pattern").text, BP_GGUF_BOOL,
                      own.stack.layers);
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        bp_gguf_item_u8(w, bp_layer_in(&own.near, i) ? 1 : 0);
    }
}

static void windows_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    bp_gguf_llama_put(w, a, config);
    put_windows(w, a, config);
}

/* The layers of sliding_window_pattern: every so many, a list, or every fourth without the key. */
static bp_status take_pattern(const bp_gguf_file *f, const char *a, bp_llama_config *own)
{
    const bp_gguf_key_name name = bp_gguf_key_of(a, "attention.sliding_window_pattern");
    const bp_gguf_key *key = bp_gguf_find(f, name.text);
    bp_gguf_items items;
    own->near = (bp_layer_set){.listed = 0};
    own->turn_every = 4;
    if (key == NULL) {
        return BP_OK;
    }
    if (key->type != BP_GGUF_ARRAY) {
        return bp_gguf_take_count(f, name.text, 1, 1 << 12, &own->turn_every);
    }
    BP_TRY(bp_gguf_items_begin(&items, f, name.text, BP_GGUF_BOOL));
    if (key->count != own->stack.layers || key->count > BP_LAYERS_LISTED) {
        return bp_gguf_refuse(f, "the list has another number of items than there are layers",
                              name.text);
    }
    for (uint32_t i = 0; i < own->stack.layers; i++) {
        bool near = false;
        BP_TRY(bp_gguf_items_flag(&items, &near));
        if (near) {
            bp_layer_put(&own->near, i);
        }
    }
    own->near.listed = own->stack.layers;
    return BP_OK;
}

static bp_status windows_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    const bool centred = config->family->gguf == &bp_gguf_cohere2;
    bp_llama_config own = bp_llama_config_of(config);
    own.window = 0; /* that of a file that does not say one */
    bp_family_config_set(config, &own, sizeof own);
    BP_TRY(bp_gguf_llama_take_more(f, a, config, BP_GGUF_WINDOW | (centred ? BP_GGUF_CENTRED : 0)));
    own = bp_llama_config_of(config);
    if (own.window != 0) {
        BP_TRY(take_pattern(f, a, &own));
    } else if (centred) {
        return bp_gguf_refuse(f, "the key is missing",
                              bp_gguf_key_of(a, "attention.sliding_window").text);
    }
    bp_family_config_set(config, &own, sizeof own);
    config->family->resolve(config);
    return BP_OK;
}

/* Readers take every fourth layer for one that sees all. */
static bp_status decoders_refuse_pattern(const bp_llama_config *own, bp_error *error)
{
    for (uint32_t i = 0; i < own->stack.layers; i++) {
        if (bp_layer_in(&own->near, i) != (i % 4 != 3)) {
            return bp_gguf_refuse_export(
                error, "readers take every fourth layer for one without a window", "layer_types");
        }
    }
    return BP_OK;
}

static bp_status refuse_head_width(const bp_llama_config *own, bp_error *error)
{
    return bp_gguf_llama_head_width(own) * own->stack.heads == own->stack.width
               ? BP_OK
               : bp_gguf_refuse_export(error,
                                       "readers of this architecture want heads that are as wide "
                                       "together as the model",
                                       "head_dim");
}

/* Readers of these have no biases at all. */
static bp_status refuse_all_biases(const bp_llama_config *own, bp_error *error)
{
    return own->qkv_bias
               ? bp_gguf_refuse_export(error, "readers of this architecture know no biases",
                                       "attention_bias")
               : BP_OK;
}

const bp_gguf_family *bp_gguf_olmo_of(const bp_gguf_file *f)
{
    const bp_gguf_key *window = bp_gguf_find(f, "olmo2.attention.sliding_window");
    return window != NULL && window->bits != 0 ? &bp_gguf_olmo3 : &bp_gguf_olmo2;
}

static bp_status olmo3_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.near_theta = 0.0; /* as the others */
    bp_family_config_set(config, &own, sizeof own);
    return windows_take(f, a, config);
}

static bp_status olmo3_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(refuse_all_biases(&own, error));
    BP_TRY(refuse_head_width(&own, error));
    BP_TRY(decoders_refuse_pattern(&own, error));
    if (!own.stack.untied) {
        return bp_gguf_refuse_export(
            error, "readers of this architecture want a head with separate weights",
            "tie_word_embeddings");
    }
    if (own.near_theta < own.rope_theta || own.near_theta > own.rope_theta) {
        return bp_gguf_refuse_export(error, "readers turn all layers by one base",
                                     "rope_parameters");
    }
    return bp_gguf_rope_exports(&own, BP_GGUF_ROPE_KEYS, error);
}

/* The model of 32 billion parameters is the one that readers look through windows of. */
#define EXAONE_LAYERS 64
static bp_status exaone4_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    if (own.window != 0 && own.stack.layers != EXAONE_LAYERS) {
        return bp_gguf_refuse_export(error, "readers know windows of the model of 64 layers alone",
                                     "sliding_window");
    }
    if (own.window != 0) {
        BP_TRY(decoders_refuse_pattern(&own, error));
    }
    return bp_gguf_rope_exports(&own, BP_GGUF_ROPE_FREQS, error);
}

/* ---- Hunyuan: the base comes stretched ---- */

static void hunyuan_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    bp_model_config stretched = *config;
    bp_llama_config own = bp_llama_config_of(config);
    const bp_rope_scaling *s = &own.rope_scaling;
    const double width = (double)bp_gguf_llama_head_width(&own);
    if (s->kind == BP_ROPE_DYNAMIC && s->factor > 0.0 && s->low > 0.0) {
        own.rope_theta *= bp_pow(s->low, width / (width - 2.0));
        own.rope_scaling = (bp_rope_scaling){.factor = 0.0};
    }
    bp_family_config_set(&stretched, &own, sizeof own);
    bp_gguf_llama_put(w, a, &stretched);
}

static bp_status hunyuan_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const bool alpha = own.rope_scaling.kind == BP_ROPE_DYNAMIC && own.rope_scaling.low > 0.0;
    BP_TRY(refuse_all_biases(&own, error));
    return alpha ? BP_OK : bp_gguf_llama_exports(config, error);
}

/* ---- layer norms ---- */

static void cohere_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    windows_put(w, a, config);
    bp_gguf_put_f32(w, bp_gguf_key_of(a, "logit_scale").text, (float)own.logit_scale);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "rope.dimension_count").text,
                    bp_gguf_llama_head_width(&own));
}

static bp_status take_logit_scale(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(bp_gguf_take_real(f, bp_gguf_key_of(a, "logit_scale").text, &own.logit_scale));
    bp_family_config_set(config, &own, sizeof own);
    return BP_OK;
}

static bp_status cohere_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    BP_TRY(take_more(f, a, config, BP_GGUF_CENTRED));
    return take_logit_scale(f, a, config);
}

static bp_status cohere2_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    BP_TRY(windows_take(f, a, config));
    return take_logit_scale(f, a, config);
}

static bp_status cohere_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(refuse_all_biases(&own, error));
    if (config->family->gguf == &bp_gguf_cohere2) {
        BP_TRY(decoders_refuse_pattern(&own, error));
    }
    if (own.stack.untied) {
        return bp_gguf_refuse_export(error, "readers of this architecture know no head of its own",
                                     "tie_word_embeddings");
    }
    BP_TRY(refuse_head_width(&own, error));
    return bp_gguf_rope_exports(&own, BP_GGUF_ROPE_KEYS, error);
}

/* The file does not say which GELU; the usual one is taken. */
static bp_status starcoder2_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    BP_TRY(take_more(f, a, config, BP_GGUF_CENTRED));
    bp_llama_config own = bp_llama_config_of(config);
    own.mlp_bias = own.qkv_bias;
    bp_family_config_set(config, &own, sizeof own);
    return BP_OK;
}

static bp_status starcoder2_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    if (!own.qkv_bias) {
        return bp_gguf_refuse_export(error, "readers of this architecture want biases", "use_bias");
    }
    if (own.stack.activation == BP_HIDDEN_RELU) {
        return bp_gguf_refuse_export(error, "readers know GELU alone", "hidden_act");
    }
    BP_TRY(refuse_head_width(&own, error));
    return bp_gguf_llama_exports(config, error);
}

static void arcee_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    bp_gguf_llama_put(w, a, config);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "rope.dimension_count").text,
                    bp_gguf_llama_head_width(&own));
}

static bp_status arcee_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(refuse_biases(&own, "attention_bias", error));
    return bp_gguf_rope_exports(&own, BP_GGUF_ROPE_FREQS, error);
}

const bp_gguf_family bp_gguf_ernie4_5 = {
    "ernie4_5", "ernie4_5", &plain_naming, bp_gguf_llama_put, decoders_take, NULL, ernie_exports};
const bp_gguf_family bp_gguf_glm = {"glm",    "chatglm", &glm_naming,          glm_put,
                                    glm_take, NULL,      bp_gguf_llama_exports};
const bp_gguf_family bp_gguf_glm4 = {"glm4",   "glm4", &glm_naming,          glm_put,
                                     glm_take, NULL,   bp_gguf_llama_exports};
const bp_gguf_family bp_gguf_seed_oss = {"seed_oss",    "seed_oss", &seed_naming, bp_gguf_llama_put,
                                         decoders_take, NULL,       seed_exports};
const bp_gguf_family bp_gguf_olmo3 = {"olmo3",    "olmo2", &after_naming, windows_put,
                                      olmo3_take, NULL,    olmo3_exports};
const bp_gguf_family bp_gguf_exaone4 = {"exaone4",      "exaone4",    &after_naming,
                                        windows_put,    windows_take, bp_gguf_llama_factors,
                                        exaone4_exports};
const bp_gguf_family bp_gguf_hunyuan_v1_dense = {
    "hunyuan_v1_dense", "hunyuan-dense", &hunyuan_naming, hunyuan_put, decoders_take, NULL,
    hunyuan_exports};
const bp_gguf_family bp_gguf_cohere = {"cohere",    "command-r", &plain_naming, cohere_put,
                                       cohere_take, NULL,        cohere_exports};
const bp_gguf_family bp_gguf_cohere2 = {"cohere2",    "cohere2", &plain_naming, cohere_put,
                                        cohere2_take, NULL,      cohere_exports};
const bp_gguf_family bp_gguf_starcoder2 = {"starcoder2",      "starcoder2",    &starcoder_naming,
                                           bp_gguf_llama_put, starcoder2_take, NULL,
                                           starcoder2_exports};
const bp_gguf_family bp_gguf_arcee = {"arcee",      "arcee",       &permuted_naming,
                                      arcee_put,    decoders_take, bp_gguf_llama_factors,
                                      arcee_exports};
