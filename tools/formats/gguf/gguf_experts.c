/* SPDX-License-Identifier: MIT */
/* Names and keys as llama.cpp's converter writes them: the gates of all experts of a layer are one
 * tensor, and so are the ups and the downs. What a reader takes from the architecture's name (in
 * which layers experts are, whether their shares are renormalised) no key says. */
#include "tools/formats/gguf/gguf_experts.h"

#include "layers/blocks/llama_block.h"
#include "tools/formats/family/family.h"
#include "tools/formats/gguf/gguf_llama.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { EXPERTS_MOST = 4096, INNER_MOST = 1 << 22 };

static const bp_tensor_rule rules[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", BP_LAYOUT_PLAIN},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.gate.weight", "blk.#.ffn_gate_inp.weight", BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.shared_expert_gate.weight", "blk.#.ffn_gate_inp_shexp.weight",
     BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.shared_expert.gate_proj.weight", "blk.#.ffn_gate_shexp.weight",
     BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.shared_expert.up_proj.weight", "blk.#.ffn_up_shexp.weight",
     BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.shared_expert.down_proj.weight", "blk.#.ffn_down_shexp.weight",
     BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.experts.gate_up_proj",
     "blk.#.ffn_gate_exps.weight|blk.#.ffn_up_exps.weight", BP_LAYOUT_PIECES},
    {"model.layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", BP_LAYOUT_PLAIN},
    BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)};
static const bp_tensor_naming naming = {rules, COUNT(rules), NULL, 0, bp_gguf_llama_twins, 1};

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

static bp_status experts_take(const bp_gguf_file *f, const char *a, bp_model_config *config,
                              bool renormalise)
{
    const bp_gguf_key_name inner = bp_gguf_key_of(a, "expert_feed_forward_length");
    BP_TRY(bp_gguf_llama_take(f, a, config));
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
    BP_TRY(experts_take(f, a, config, false));
    bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(bp_gguf_take_count(f, bp_gguf_key_of(a, "expert_shared_feed_forward_length").text, 1,
                              INNER_MOST, &own.shared_inner));
    own.qkv_bias = true;
    bp_family_config_set(config, &own, sizeof own);
    return BP_OK;
}

static bp_status qwen3_moe_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    return experts_take(f, a, config, true);
}

static bp_status olmoe_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    return experts_take(f, a, config, false);
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

const bp_gguf_family bp_gguf_qwen2_moe = {
    "qwen2_moe", "qwen2moe", &naming, qwen2_moe_put, qwen2_moe_take, NULL, qwen2_moe_exports};
const bp_gguf_family bp_gguf_qwen3_moe = {
    "qwen3_moe", "qwen3moe", &naming, qwen3_moe_put, qwen3_moe_take, NULL, qwen3_moe_exports};
const bp_gguf_family bp_gguf_olmoe = {"olmoe",    "olmoe", &naming,      experts_put,
                                      olmoe_take, NULL,    olmoe_exports};
