/* SPDX-License-Identifier: MIT */
/* Gemma, Gemma 2 and Gemma 3 in GGUF: norms are one more than in Hugging Face's files, and the
 * scale of the scores and which layers have windows is the readers' rule (llama.cpp's gemma2.cpp
 * and gemma3.cpp). */
#include "tools/formats/gguf/gguf_gemma.h"

#include <math.h>

#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_rope.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Models of so many layers are Gemma's 27 billion parameters to readers. */
enum { LAYERS_27B_2 = 46, LAYERS_27B_3 = 62, EVERY_2 = 2, EVERY_3 = 6 };

#define GEMMA_RULES                                                                                \
    {"model.embed_tokens.weight", "token_embd.weight", BP_LAYOUT_PLAIN},                           \
        {"model.norm.weight", "output_norm.weight", BP_LAYOUT_RAISED},                             \
        {"model.layers.#.input_layernorm.*", "blk.#.attn_norm.*", BP_LAYOUT_RAISED},               \
        {"model.layers.#.self_attn.q_proj.*", "blk.#.attn_q.*", BP_LAYOUT_PLAIN},                  \
        {"model.layers.#.self_attn.k_proj.*", "blk.#.attn_k.*", BP_LAYOUT_PLAIN},                  \
        {"model.layers.#.self_attn.v_proj.*", "blk.#.attn_v.*", BP_LAYOUT_PLAIN},                  \
        {"model.layers.#.self_attn.o_proj.*", "blk.#.attn_output.*", BP_LAYOUT_PLAIN},             \
        {"model.layers.#.mlp.gate_proj.*", "blk.#.ffn_gate.*", BP_LAYOUT_PLAIN},                   \
        {"model.layers.#.mlp.up_proj.*", "blk.#.ffn_up.*", BP_LAYOUT_PLAIN},                       \
    {                                                                                              \
        "model.layers.#.mlp.down_proj.*", "blk.#.ffn_down.*", BP_LAYOUT_PLAIN                      \
    }

static const bp_tensor_rule gemma_rules[] = {
    {"model.layers.#.post_attention_layernorm.*", "blk.#.ffn_norm.*", BP_LAYOUT_RAISED},
    GEMMA_RULES};

static const bp_tensor_rule later_rules[] = {
    {"model.layers.#.post_attention_layernorm.*", "blk.#.post_attention_norm.*", BP_LAYOUT_RAISED},
    {"model.layers.#.pre_feedforward_layernorm.*", "blk.#.ffn_norm.*", BP_LAYOUT_RAISED},
    {"model.layers.#.post_feedforward_layernorm.*", "blk.#.post_ffw_norm.*", BP_LAYOUT_RAISED},
    {"model.layers.#.self_attn.q_norm.*", "blk.#.attn_q_norm.*", BP_LAYOUT_RAISED},
    {"model.layers.#.self_attn.k_norm.*", "blk.#.attn_k_norm.*", BP_LAYOUT_RAISED},
    GEMMA_RULES};

static const bp_tensor_naming gemma_naming = {gemma_rules, COUNT(gemma_rules),  NULL,
                                              0,           bp_gguf_llama_twins, 1};
static const bp_tensor_naming later_naming = {later_rules, COUNT(later_rules),  NULL,
                                              0,           bp_gguf_llama_twins, 1};

static void put_f32(bp_gguf_writer *w, const char *a, const char *rest, double value)
{
    bp_gguf_put_f32(w, bp_gguf_key_of(a, rest).text, (float)value);
}

static void gemma2_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    bp_gguf_llama_put(w, a, config);
    put_f32(w, a, "attn_logit_softcapping", own.attention_cap);
    put_f32(w, a, "final_logit_softcapping", own.logit_cap);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "attention.sliding_window").text, own.window);
}

static void gemma3_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    bp_gguf_llama_put(w, a, config);
    put_f32(w, a, "rope.freq_base_swa", own.near_theta);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "attention.sliding_window").text, own.window);
    if (own.logit_cap > 0.0) {
        put_f32(w, a, "final_logit_softcapping", own.logit_cap);
    }
}

/* ---- reading ---- */

/* What scores are divided by the root of, to readers. */
static double scalar_of(const bp_llama_config *own, uint32_t large)
{
    return own->stack.layers == large ? (double)(own->stack.width / own->stack.heads)
                                      : (double)bp_gguf_llama_head_width(own);
}

static bp_status take_real(const bp_gguf_file *f, const char *a, const char *rest, double *value)
{
    return bp_gguf_take_positive(f, bp_gguf_key_of(a, rest).text, value);
}

static bp_status refuse_pattern(const bp_gguf_file *f, const char *a)
{
    const bp_gguf_key_name key = bp_gguf_key_of(a, "attention.sliding_window_pattern");
    if (bp_gguf_find(f, key.text) == NULL) {
        return BP_OK;
    }
    return bp_gguf_refuse(f, "a pattern of windows other than the family's is not implemented",
                          key.text);
}

/* What all three share; `large`: layers of the largest model, 0: the first Gemma. */
static bp_status take_all(const bp_gguf_file *f, const char *a, bp_model_config *config,
                          uint32_t large)
{
    BP_TRY(refuse_pattern(f, a));
    BP_TRY(bp_gguf_llama_take_more(f, a, config, large != 0 ? BP_GGUF_WINDOW : 0));
    bp_llama_config own = bp_llama_config_of(config);
    own.head_width = bp_gguf_llama_head_width(&own); /* config.json names it */
    own.stack.untied = false;
    own.near = (bp_layer_set){.listed = 0};
    own.query_scalar = large != 0 ? scalar_of(&own, large) : own.query_scalar;
    if (large != 0) {
        BP_TRY(take_real(f, a, "attn_logit_softcapping", &own.attention_cap));
        BP_TRY(take_real(f, a, "final_logit_softcapping", &own.logit_cap));
    }
    if (large == LAYERS_27B_3) {
        /* Without it readers turn all layers alike. */
        BP_TRY(bp_gguf_take_count(f, bp_gguf_key_of(a, "attention.sliding_window").text, 1, 1 << 24,
                                  &own.window));
        own.attention_cap = 0.0;
        BP_TRY(take_real(f, a, "rope.freq_base_swa", &own.near_theta));
    }
    bp_family_config_set(config, &own, sizeof own);
    config->family->resolve(config);
    return BP_OK;
}

static bp_status gemma_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    return take_all(f, a, config, 0);
}

static bp_status gemma2_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    return take_all(f, a, config, LAYERS_27B_2);
}

static bp_status gemma3_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    return take_all(f, a, config, LAYERS_27B_3);
}

/* ---- what readers would get wrong ---- */

static bp_status gemma_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    if (own.stack.untied) {
        return bp_gguf_refuse_export(error, "readers take the embedding for the head",
                                     "tie_word_embeddings");
    }
    if (own.qkv_bias || own.output_bias) {
        return bp_gguf_refuse_export(error, "readers know no biases of this architecture",
                                     "attention_bias");
    }
    return bp_gguf_rope_exports(&own, own.near_theta > 0.0 ? 1u << BP_ROPE_LINEAR : 0, error);
}

static bp_status later_exports(const bp_model_config *config, uint32_t large, uint32_t every,
                               bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(gemma_exports(config, error));
    if (fabs(own.attention_scale * sqrt(scalar_of(&own, large)) - 1.0) > 1e-6) {
        return bp_gguf_refuse_export(error, "readers divide scores by the root of a head's width",
                                     "query_pre_attn_scalar");
    }
    if (own.window == 0) {
        return bp_gguf_refuse_export(error, "readers want a window", "sliding_window");
    }
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        if (bp_layer_in(&own.near, i) != (i % every != every - 1)) {
            return bp_gguf_refuse_export(error, "readers know one pattern of windows",
                                         "layer_types");
        }
    }
    return BP_OK;
}

static bp_status gemma2_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(later_exports(config, LAYERS_27B_2, EVERY_2, error));
    if (!(own.attention_cap > 0.0)) {
        return bp_gguf_refuse_export(error, "readers cap scores", "attn_logit_softcapping");
    }
    return own.logit_cap > 0.0
               ? BP_OK
               : bp_gguf_refuse_export(error, "readers cap logits", "final_logit_softcapping");
}

static bp_status gemma3_exports(const bp_model_config *config, bp_error *error)
{
    if (bp_llama_config_of(config).both_ways) {
        return bp_gguf_refuse_export(error, "readers of this architecture read from left to right",
                                     "use_bidirectional_attention");
    }
    return later_exports(config, LAYERS_27B_3, EVERY_3, error);
}

const bp_gguf_family bp_gguf_gemma = {"gemma",    "gemma", &gemma_naming, bp_gguf_llama_put,
                                      gemma_take, NULL,    gemma_exports};
const bp_gguf_family bp_gguf_gemma2 = {"gemma2",    "gemma2", &later_naming, gemma2_put,
                                       gemma2_take, NULL,     gemma2_exports};
const bp_gguf_family bp_gguf_gemma3 = {"gemma3_text", "gemma3", &later_naming, gemma3_put,
                                       gemma3_take,   NULL,     gemma3_exports};
