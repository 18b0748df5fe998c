/* SPDX-License-Identifier: MIT */
/* Names and keys as llama.cpp's converter writes them: the gates of all experts of a layer are one
 * tensor, and so are the ups and the downs. What a reader takes from the architecture's name (in
 * which layers experts are, whether their shares are renormalised) no key says. */
#include "tools/formats/gguf/gguf_experts.h"

#include "layers/blocks/llama_block.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_llama.h"
#include "tools/formats/gguf/gguf_rope.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { EXPERTS_MOST = 4096, INNER_MOST = 1 << 22 };

#define RULES                                                                                      \
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", BP_LAYOUT_PLAIN},       \
        {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", BP_LAYOUT_PLAIN},   \
        {"model.layers.#.mlp.gate.weight", "blk.#.ffn_gate_inp.weight", BP_LAYOUT_PLAIN},          \
        {"model.layers.#.mlp.experts.gate_up_proj",                                                \
         "blk.#.ffn_gate_exps.weight|blk.#.ffn_up_exps.weight", BP_LAYOUT_PIECES},                 \
        {"model.layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", BP_LAYOUT_PLAIN},   \
        BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)

static const bp_tensor_rule rules[] = {{"model.layers.#.mlp.shared_expert_gate.weight",
                                        "blk.#.ffn_gate_inp_shexp.weight", BP_LAYOUT_PLAIN},
                                       {"model.layers.#.mlp.shared_expert.gate_proj.weight",
                                        "blk.#.ffn_gate_shexp.weight", BP_LAYOUT_PLAIN},
                                       {"model.layers.#.mlp.shared_expert.up_proj.weight",
                                        "blk.#.ffn_up_shexp.weight", BP_LAYOUT_PLAIN},
                                       {"model.layers.#.mlp.shared_expert.down_proj.weight",
                                        "blk.#.ffn_down_shexp.weight", BP_LAYOUT_PLAIN},
                                       RULES};
static const bp_tensor_naming naming = {rules, COUNT(rules), NULL, 0, bp_gguf_llama_twins, 1};

static const bp_tensor_rule glm_rules[] = {
    {"model.layers.#.post_attention_layernorm.*", "blk.#.post_attention_norm.*", BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias", BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.shared_experts.gate_proj.weight", "blk.#.ffn_gate_shexp.weight",
     BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.shared_experts.up_proj.weight", "blk.#.ffn_up_shexp.weight",
     BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.shared_experts.down_proj.weight", "blk.#.ffn_down_shexp.weight",
     BP_LAYOUT_PLAIN},
    RULES};
/* Of a layer that predicts further tokens. */
static const char *const glm_ignored[] = {"blk.^.*"};
static const bp_tensor_naming glm_naming = {glm_rules, COUNT(glm_rules),    glm_ignored,
                                            1,         bp_gguf_llama_twins, 1};

static void experts_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    bp_gguf_llama_put(w, a, config);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "expert_count").text, own.experts);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "expert_used_count").text, own.experts_chosen);
}

static void qwen3_moe_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    experts_put(w, a, config);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "expert_feed_forward_length").text, own.expert_inner);
}

static void qwen2_moe_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    qwen3_moe_put(w, a, config);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "expert_shared_feed_forward_length").text,
                    own.shared_inner);
}

static bp_status take_experts(const bp_gguf_file *f, const char *a, bp_model_config *config,
                              unsigned more, bool renormalise)
{
    const bp_gguf_key_name inner = bp_gguf_key_of(a, "expert_feed_forward_length");
    BP_TRY(bp_gguf_llama_take_more(f, a, config, more));
    bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(bp_gguf_take_count(f, bp_gguf_key_of(a, "expert_count").text, 1, EXPERTS_MOST,
                              &own.experts));
    BP_TRY(bp_gguf_take_count(f, bp_gguf_key_of(a, "expert_used_count").text, 1, own.experts,
                              &own.experts_chosen));
    own.expert_inner = own.stack.inner;
    if (bp_gguf_find(f, inner.text) != NULL) {
        BP_TRY(bp_gguf_take_count(f, inner.text, 1, INNER_MOST, &own.expert_inner));
    }
    own.experts_every = 1;
    own.renormalise = renormalise;
    bp_family_config_set(config, &own, sizeof own);
    config->family->resolve(config);
    return BP_OK;
}

static bp_status qwen2_moe_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    BP_TRY(take_experts(f, a, config, 0, false));
    bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(bp_gguf_take_count(f, bp_gguf_key_of(a, "expert_shared_feed_forward_length").text, 1,
                              INNER_MOST, &own.shared_inner));
    own.qkv_bias = true;
    bp_family_config_set(config, &own, sizeof own);
    return BP_OK;
}

static bp_status qwen3_moe_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    return take_experts(f, a, config, 0, true);
}

static bp_status olmoe_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    return take_experts(f, a, config, 0, false);
}

static bp_status experts_export(const bp_model_config *config, bool renormalise, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        if (!bp_llama_mixes(&own, i)) {
            return bp_gguf_refuse_export(error,
                                         "readers of this architecture want experts in all layers",
                                         "mlp_only_layers, decoder_sparse_step");
        }
    }
    const bool biased = own.shared_inner > 0; /* readers of Qwen2-MoE look for Qwen2's */
    if (biased && !own.qkv_bias) {
        return bp_gguf_refuse_export(error, "readers of this architecture want biases", "qkv_bias");
    }
    if ((own.qkv_bias && !biased) || own.output_bias) {
        return bp_gguf_refuse_export(error, "readers of this architecture know no biases",
                                     "attention_bias");
    }
    if (own.renormalise != renormalise) {
        return bp_gguf_refuse_export(error,
                                     renormalise ? "readers of this architecture divide the shares "
                                                   "of those chosen by their sum"
                                                 : "readers of this architecture do not divide the "
                                                   "shares of those chosen by their sum",
                                     "norm_topk_prob");
    }
    return bp_gguf_llama_exports(config, error);
}

static bp_status qwen3_moe_exports(const bp_model_config *config, bp_error *error)
{
    return experts_export(config, true, error);
}

static bp_status qwen2_moe_exports(const bp_model_config *config, bp_error *error)
{
    return experts_export(config, false, error);
}

static bp_status olmoe_exports(const bp_model_config *config, bp_error *error)
{
    if (!bp_llama_config_of(config).stack.untied) {
        return bp_gguf_refuse_export(
            error, "readers of this architecture want a head with separate weights",
            "tie_word_embeddings");
    }
    return experts_export(config, false, error);
}

/* gpt-oss: its experts' matrices are transposed in GGUF, gates and ups apart. */
static const bp_tensor_rule gpt_oss_rules[] = {
    {"model.layers.#.post_attention_layernorm.*", "blk.#.post_attention_norm.*", BP_LAYOUT_PLAIN},
    {"model.layers.#.self_attn.sinks", "blk.#.attn_sinks.weight", BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.router.*", "blk.#.ffn_gate_inp.*", BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.experts.gate_up_proj",
     "blk.#.ffn_gate_exps.weight|blk.#.ffn_up_exps.weight", BP_LAYOUT_TURNS},
    {"model.layers.#.mlp.experts.gate_up_proj_bias",
     "blk.#.ffn_gate_exps.bias|blk.#.ffn_up_exps.bias", BP_LAYOUT_TURNS},
    {"model.layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", BP_LAYOUT_TRANSPOSED},
    {"model.layers.#.mlp.experts.down_proj_bias", "blk.#.ffn_down_exps.bias", BP_LAYOUT_PLAIN},
    BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)};
static const bp_tensor_naming gpt_oss_naming = {
    gpt_oss_rules, COUNT(gpt_oss_rules), NULL, 0, bp_gguf_llama_twins, 1};

static void gpt_oss_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    qwen3_moe_put(w, a, config);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "attention.sliding_window").text, own.window);
}

static bp_status gpt_oss_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.rope_scaling = (bp_rope_scaling){0}; /* the file has its own */
    bp_family_config_set(config, &own, sizeof own);
    BP_TRY(take_experts(f, a, config, BP_GGUF_WINDOW, true));
    own = bp_llama_config_of(config);
    own.stack.inner = own.expert_inner; /* config.json has one number for both */
    own.rope_scaling.even = own.rope_scaling.kind == BP_ROPE_YARN; /* no key says it */
    bp_family_config_set(config, &own, sizeof own);
    config->family->resolve(config);
    return BP_OK;
}

/* Readers have windows in every other layer, from the first on, and bounds of their own. */
static bp_status gpt_oss_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    bool alternate = own.window != 0;
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        alternate = alternate && bp_layer_in(&own.near, i) == (i % 2 == 0);
    }
    if (!alternate) {
        return bp_gguf_refuse_export(
            error, "readers of this architecture look through a window in every other layer",
            "sliding_window, layer_types");
    }
    if (!own.stack.untied) {
        return bp_gguf_refuse_export(
            error, "readers of this architecture want a head with separate weights",
            "tie_word_embeddings");
    }
    if (!own.output_bias) {
        return bp_gguf_refuse_export(error, "readers of this architecture want biases",
                                     "attention_bias");
    }
    if (own.gate_alpha < 1.702 || own.gate_alpha > 1.702) {
        return bp_gguf_refuse_export(error, "readers of this architecture have 1.702",
                                     "swiglu_alpha");
    }
    if (own.gate_limit < 7.0 || own.gate_limit > 7.0) {
        return bp_gguf_refuse_export(error, "readers of this architecture have 7.0",
                                     "swiglu_limit");
    }
    bp_llama_config rounded = own;
    rounded.rope_scaling.even = false; /* what readers do to every file of this architecture */
    return bp_gguf_rope_exports(&rounded, 1u << BP_ROPE_LINEAR | 1u << BP_ROPE_YARN, error);
}

enum { SIGMOID = 2 }; /* of llama.cpp's functions of a router */

static void glm4_moe_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    const uint32_t groups = own.groups > 0 ? own.groups : 1;
    qwen3_moe_put(w, a, config);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "rope.dimension_count").text,
                    (uint32_t)bp_llama_rotary_width(&own, bp_gguf_llama_head_width(&own)));
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "expert_shared_count").text, own.shared_count);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "leading_dense_block_count").text, own.perceptrons);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "expert_group_count").text, groups);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "expert_group_used_count").text,
                    own.groups > 0 ? own.groups_chosen : 1);
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "expert_gating_func").text, SIGMOID);
    bp_gguf_put_f32(w, bp_gguf_key_of(a, "expert_weights_scale").text, (float)own.routed_scale);
    bp_gguf_put_bool(w, bp_gguf_key_of(a, "expert_weights_norm").text, own.renormalise);
}

/* A count that files may leave out. */
static bp_status glm4_moe_take_or(const bp_gguf_file *f, bp_gguf_key_name key, uint32_t least,
                                  uint32_t most, uint32_t *value)
{
    return bp_gguf_find(f, key.text) == NULL ? BP_OK
                                             : bp_gguf_take_count(f, key.text, least, most, value);
}

/* How the router of a GLM-4.5 chooses. */
static bp_status glm4_moe_take_router(const bp_gguf_file *f, const char *a, bp_llama_config *own)
{
    const bp_gguf_key_name function = bp_gguf_key_of(a, "expert_gating_func");
    const bp_gguf_key_name norm = bp_gguf_key_of(a, "expert_weights_norm");
    const bp_gguf_key *flag = bp_gguf_find(f, norm.text);
    uint32_t kind = SIGMOID;
    own->groups = own->groups_chosen = 1;
    own->routed_scale = 1.0;
    BP_TRY(glm4_moe_take_or(f, function, 0, 64, &kind));
    if (kind != 0 && kind != SIGMOID) {
        return bp_gguf_refuse(f, "routers of this architecture have sigmoids", function.text);
    }
    BP_TRY(glm4_moe_take_or(f, bp_gguf_key_of(a, "expert_group_count"), 1, 64, &own->groups));
    BP_TRY(glm4_moe_take_or(f, bp_gguf_key_of(a, "expert_group_used_count"), 1, own->groups,
                            &own->groups_chosen));
    if (flag != NULL && flag->type != BP_GGUF_BOOL) {
        return bp_gguf_refuse(f, "this key must be a flag", norm.text);
    }
    own->renormalise = flag != NULL && flag->bits != 0;
    return bp_gguf_take_positive(f, bp_gguf_key_of(a, "expert_weights_scale").text,
                                 &own->routed_scale);
}

/* Layers that predict further tokens are counted as layers. */
static bp_status glm4_moe_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    uint32_t further = 0;
    BP_TRY(take_experts(f, a, config, BP_GGUF_PARTIAL, true));
    bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(glm4_moe_take_router(f, a, &own));
    BP_TRY(bp_gguf_take_count(f, bp_gguf_key_of(a, "expert_shared_count").text, 1, 256,
                              &own.shared_count));
    BP_TRY(glm4_moe_take_or(f, bp_gguf_key_of(a, "nextn_predict_layers"), 0, own.stack.layers - 1,
                            &further));
    own.stack.layers -= further;
    own.perceptrons = 0;
    BP_TRY(glm4_moe_take_or(f, bp_gguf_key_of(a, "leading_dense_block_count"), 0, own.stack.layers,
                            &own.perceptrons));
    own.head_norms = bp_gguf_tensor(f, "blk.0.attn_q_norm.weight") != NULL;
    bp_family_config_set(config, &own, sizeof own);
    config->family->resolve(config);
    return BP_OK;
}

static bp_status glm4_moe_exports(const bp_model_config *config, bp_error *error)
{
    if (bp_llama_config_of(config).shared_count == 0) {
        return bp_gguf_refuse_export(
            error, "readers of this architecture want experts for all tokens", "n_shared_experts");
    }
    return bp_gguf_llama_exports(config, error);
}

const bp_gguf_family bp_gguf_glm4_moe = {"glm4_moe",    "glm4moe", &glm_naming,     glm4_moe_put,
                                         glm4_moe_take, NULL,      glm4_moe_exports};
const bp_gguf_family bp_gguf_gpt_oss = {"gpt_oss",    "gpt-oss", &gpt_oss_naming, gpt_oss_put,
                                        gpt_oss_take, NULL,      gpt_oss_exports};
const bp_gguf_family bp_gguf_qwen2_moe = {
    "qwen2_moe", "qwen2moe", &naming, qwen2_moe_put, qwen2_moe_take, NULL, qwen2_moe_exports};
const bp_gguf_family bp_gguf_qwen3_moe = {
    "qwen3_moe", "qwen3moe", &naming, qwen3_moe_put, qwen3_moe_take, NULL, qwen3_moe_exports};
const bp_gguf_family bp_gguf_olmoe = {"olmoe",    "olmoe", &naming,      experts_put,
                                      olmoe_take, NULL,    olmoe_exports};
