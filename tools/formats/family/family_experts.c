/* SPDX-License-Identifier: MIT */
/* Decoders whose perceptrons are mixtures of experts: Qwen2-MoE, Qwen3-MoE, OLMoE, Mixtral
 * (arXiv 2401.04088) and GLM-4.5. What they compute beside that is Qwen2's, with an expert that all
 * tokens have, Qwen3's, Llama's with norms over all queries and all keys, Llama's, and Qwen3's with
 * heads that turn in part, first layers without experts, and a router of sigmoids. */
#include "tools/formats/family/family_llama.h"
#include "tools/formats/gguf/gguf_experts.h"

/* The number of experts has another name in files that transformers 5 wrote. */
#define ROWS_EXPERTS(experts_, chosen_, coefficient_)                                              \
    ROW_COUNT("num_experts", LLAMA(experts), EXPERTS_MOST, experts_, NONE),                        \
        ROW_ALIAS("num_local_experts", LLAMA(experts), EXPERTS_MOST),                              \
        ROW_COUNT("num_experts_per_tok", LLAMA(experts_chosen), EXPERTS_MOST, chosen_, NONE),      \
        ROW_FLAG("norm_topk_prob", LLAMA(renormalise), false), ROWS_BALANCE(coefficient_)

static const bp_tensor_rule expert_rules[] = {EXPERT_RULES("*"),
                                              EXPERT_RULES("model.*"),
                                              {"*", "*", BP_LAYOUT_PLAIN},
                                              {"model.*", "*", BP_LAYOUT_PLAIN}};

#define EXPERT_NAMING                                                                              \
    {                                                                                              \
        expert_rules, ROWS_COUNT(expert_rules), bp_llama_ignored, 1, bp_llama_twins, 1             \
    }

/* Mixtral's of before transformers 5 are called by number. */
#define MIXTRAL(name) "*.block_sparse_moe.experts.@.w" name ".weight"
static const bp_tensor_rule mixtral_rules[] = {
    {"*.mlp.gate.weight", "*.block_sparse_moe.gate.weight", BP_LAYOUT_PLAIN},
    {"*.mlp.experts.gate_up_proj", MIXTRAL("1") "|" MIXTRAL("3"), BP_LAYOUT_PIECES},
    {"*.mlp.experts.down_proj", MIXTRAL("2"), BP_LAYOUT_PIECES},
    {"model.*.mlp.gate.weight", "*.block_sparse_moe.gate.weight", BP_LAYOUT_PLAIN},
    {"model.*.mlp.experts.gate_up_proj", MIXTRAL("1") "|" MIXTRAL("3"), BP_LAYOUT_PIECES},
    {"model.*.mlp.experts.down_proj", MIXTRAL("2"), BP_LAYOUT_PIECES},
    {"*", "*", BP_LAYOUT_PLAIN},
    {"model.*", "*", BP_LAYOUT_PLAIN}};

/* Unlike Qwen2's, the window is that of every second of the first max_window_layers layers. */
static void family_qwen2_moe_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.slides = own.slides && own.window != 0;
    own.window = own.slides ? own.window : 0;
    for (uint32_t i = 0; own.slides && own.near.listed == 0 && i < own.full_layers; i += 2) {
        if (i < own.stack.layers) {
            bp_layer_put(&own.near, i);
        }
    }
    own.near.listed = own.slides ? own.stack.layers : 0;
    own.full_layers = FULL_LAYERS;
    bp_family_config_set(config, &own, sizeof own);
}

static void family_qwen3_moe_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.head_norms = true;
    own.window = own.slides ? own.window : 0; /* of all layers */
    own.slides = own.window != 0;
    bp_family_config_set(config, &own, sizeof own);
}

/* A file without a width of its own has experts as wide as a perceptron. */
static void family_olmoe_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.whole_norms = true;
    own.expert_inner = own.stack.inner;
    bp_family_config_set(config, &own, sizeof own);
}

/* No key says that shares are renormalised. */
static void family_mixtral_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.renormalise = true;
    own.expert_inner = own.stack.inner;
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row qwen2_moe_rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT("decoder_sparse_step", LLAMA(experts_every), LAYERS_MOST, 1, NONE),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(2048, 5632, 32768, 16, 24),
    ROW_LAYER_TYPES,
    {"max_window_layers", BP_ROW_COUNT, BP_ROLE_NONE, BP_ROW_SPARSE | BP_ROW_READ,
     LLAMA(full_layers), 0, POSITIONS_MOST, FULL_LAYERS, NULL},
    {"mlp_only_layers", BP_ROW_INDICES, BP_ROLE_NONE, 0, LLAMA(alone), 0, 0, 0, NULL},
    ROW_TYPE,
    ROW_COUNT("moe_intermediate_size", LLAMA(expert_inner), INNER_MOST, 1408, NONE),
    ROWS_EXPERTS(60, 4, 0.001),
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 16, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_FLAG("qkv_bias", LLAMA(qkv_bias), true),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-6, NONE),
    ROWS_ROPE(10000.0),
    ROW_COUNT("shared_expert_intermediate_size", LLAMA(shared_inner), INNER_MOST, 5632, NONE),
    /* transformers writes 0 where use_sliding_window is false. */
    {"sliding_window", BP_ROW_COUNT_NULL, BP_ROLE_NONE, BP_ROW_SPARSE, LLAMA(window), 0,
     POSITIONS_MOST, 4096, NULL},
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROW_SLIDES,
    ROWS_TEXT(151936, -1, -1, -1),
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_row qwen3_moe_rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT("decoder_sparse_step", LLAMA(experts_every), LAYERS_MOST, 1, NONE),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(2048, 6144, 32768, 32, 24),
    {"mlp_only_layers", BP_ROW_INDICES, BP_ROLE_NONE, 0, LLAMA(alone), 0, 0, 0, NULL},
    ROW_TYPE,
    ROW_COUNT("moe_intermediate_size", LLAMA(expert_inner), INNER_MOST, 768, NONE),
    ROWS_EXPERTS(128, 8, 0.001),
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 4, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-6, NONE),
    ROWS_ROPE(10000.0),
    ROW_SLIDING,
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROW_SLIDES,
    ROWS_TEXT(151936, -1, -1, -1),
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_row olmoe_rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_FIXED("clip_qkv", NULL, NULL, BP_ROW_READ),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(2048, 2048, 4096, 16, 16),
    ROW_TYPE,
    ROWS_EXPERTS(64, 8, 0.01),
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 0, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROWS_ROPE(10000.0),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(50304, -1, 50279, 1),
    ROWS_ROPE_READ,
    ROWS_CAUSAL_REFUSED,
};

static const bp_row mixtral_rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(4096, 14336, 131072, 32, 32),
    ROW_TYPE,
    ROW_COUNT("num_local_experts", LLAMA(experts), EXPERTS_MOST, 8, NONE),
    ROW_ALIAS("num_experts", LLAMA(experts), EXPERTS_MOST),
    ROW_COUNT("num_experts_per_tok", LLAMA(experts_chosen), EXPERTS_MOST, 2, NONE),
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 8, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROWS_BALANCE(0.001),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROWS_ROPE(1000000.0),
    ROW_REAL("router_jitter_noise", LLAMA(router_noise), 1.0, 0.0, NONE),
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 0, NONE, BP_ROW_SPARSE),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(32000, 1, 2, -1),
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static void family_glm4_moe_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.scored = true;
    own.shared_inner = own.shared_count * own.expert_inner;
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row glm4_moe_rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    {"first_k_dense_replace", BP_ROW_COUNT, BP_ROLE_NONE, 0, LLAMA(perceptrons), 0, LAYERS_MOST, 1,
     NULL},
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(4096, 10944, 131072, 96, 46),
    ROW_TYPE,
    ROW_COUNT("moe_intermediate_size", LLAMA(expert_inner), INNER_MOST, 1408, NONE),
    ROW_COUNT("n_group", LLAMA(groups), 64, 1, NONE),
    ROW_COUNT("n_routed_experts", LLAMA(experts), EXPERTS_MOST, 128, NONE),
    ROW_ALIAS("num_local_experts", LLAMA(experts), EXPERTS_MOST),
    ROW_COUNT("n_shared_experts", LLAMA(shared_count), 256, 1, NONE),
    ROW_FLAG("norm_topk_prob", LLAMA(renormalise), true),
    ROW_COUNT("num_experts_per_tok", LLAMA(experts_chosen), EXPERTS_MOST, 8, NONE),
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 8, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_FIXED("output_router_logits", FALSE, NULL, BP_ROW_READ),
    ROW_REAL("partial_rotary_factor", LLAMA(rotary_share), 1.5, 0.5, NONE),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROWS_ROPE(10000.0),
    ROW_REAL("routed_scaling_factor", LLAMA(routed_scale), 1e6, 1.0, NONE),
    ROW_TIED(STACK(untied), true),
    ROW_COUNT("topk_group", LLAMA(groups_chosen), 64, 1, NONE),
    ROW_FLAG("use_qk_norm", LLAMA(head_norms), false),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(151552, -1, -1, -1),
    ROWS_ROPE_READ,
    ROWS_CAUSAL_REFUSED,
};

/* A layer that predicts further tokens lies behind the last one (num_nextn_predict_layers, 1); no
 * class of transformers' for training reads it. */
static const char *const glm4_moe_ignored[] = {"*rotary_emb.inv_freq", "model.layers.^.*"};

static const bp_preset glm4_moe_presets[] = {
    {"tiny-glm4-moe", "a byte-level GLM-4.5 with 8 experts in 4 groups for tests",
     LLAMA_TINY(&bp_family_glm4_moe, 3, .rotary_share = 0.5, .head_width = 24, .head_norms = true,
                .qkv_bias = true, .stack.untied = true, .experts = 8, .experts_chosen = 3,
                .expert_inner = 40, .renormalise = true, .scored = true, .groups = 4,
                .groups_chosen = 2, .routed_scale = 1.5, .shared_count = 1, .shared_inner = 40,
                .perceptrons = 1)},
};

static const bp_preset qwen2_moe_presets[] = {
    {"tiny-qwen2-moe", "a byte-level Qwen2 with 5 experts, and one of all tokens, for tests",
     LLAMA_TINY(&bp_family_qwen2_moe, 2, .qkv_bias = true, .full_layers = FULL_LAYERS, .experts = 5,
                .experts_chosen = 2, .expert_inner = 40, .experts_every = 1, .balance = 0.001,
                .shared_inner = 56, .stack.untied = true)},
};

static const bp_preset qwen3_moe_presets[] = {
    {"qwen3-30b-a3b",
     "Qwen3 with 128 experts, 30,532 million parameters",
     {.family = &bp_family_qwen3_moe,
      .vocabulary = 151936,
      .positions = 40960,
      .bos_token = 151643,
      .eos_token = 151645,
      .pad_token = -1},
     OWN((const bp_llama_config){.stack = {.width = 2048,
                                           .layers = 48,
                                           .heads = 32,
                                           .inner = 6144,
                                           .norm_epsilon = 1e-6,
                                           .initializer_range = 0.02,
                                           .untied = true},
                                 .kv_heads = 4,
                                 .head_width = 128,
                                 .rope_theta = 1e6,
                                 .head_norms = true,
                                 .experts = 128,
                                 .experts_chosen = 8,
                                 .expert_inner = 768,
                                 .experts_every = 1,
                                 .renormalise = true,
                                 .balance = 0.001})},
    {"tiny-qwen3-moe", "a byte-level Qwen3 with 6 experts for tests",
     LLAMA_TINY(&bp_family_qwen3_moe, 2, .head_width = 24, .head_norms = true, .experts = 6,
                .experts_chosen = 2, .expert_inner = 48, .experts_every = 1, .renormalise = true,
                .balance = 0.001)},
};

static const bp_preset olmoe_presets[] = {
    {"tiny-olmoe", "a byte-level OLMoE with 5 experts for tests",
     LLAMA_TINY(&bp_family_olmoe, 2, .whole_norms = true, .experts = 5, .experts_chosen = 2,
                .expert_inner = 176, .balance = 0.01, .stack.untied = true)},
};

static const bp_preset mixtral_presets[] = {
    {"tiny-mixtral", "a byte-level Mixtral with 4 experts for tests",
     LLAMA_TINY(&bp_family_mixtral, 2, .renormalise = true, .balance = 0.001, .experts = 4,
                .experts_chosen = 2, .expert_inner = 176, .stack.untied = true)},
};

const bp_family bp_family_glm4_moe = {
    .model_type = "glm4_moe",
    .model = &bp_model_llama,
    .rows = glm4_moe_rows,
    .row_count = ROWS_COUNT(glm4_moe_rows),
    .language_class = "Glm4MoeForCausalLM",
    .judge_class = "Glm4MoeForSequenceClassification",
    .resolve = family_glm4_moe_resolve,
    .naming = {expert_rules, ROWS_COUNT(expert_rules), glm4_moe_ignored, 2, bp_llama_twins, 1},
    .gguf = &bp_gguf_glm4_moe,
    .adapter_targets = "q_proj,v_proj",
    .presets = glm4_moe_presets,
    .preset_count = ROWS_COUNT(glm4_moe_presets)};

const bp_family bp_family_qwen2_moe = {.model_type = "qwen2_moe",
                                       .model = &bp_model_llama,
                                       .rows = qwen2_moe_rows,
                                       .row_count = ROWS_COUNT(qwen2_moe_rows),
                                       .language_class = "Qwen2MoeForCausalLM",
                                       .judge_class = "Qwen2MoeForSequenceClassification",
                                       .resolve = family_qwen2_moe_resolve,
                                       .naming = EXPERT_NAMING,
                                       .gguf = &bp_gguf_qwen2_moe,
                                       .adapter_targets = "q_proj,v_proj",
                                       .presets = qwen2_moe_presets,
                                       .preset_count = ROWS_COUNT(qwen2_moe_presets)};

const bp_family bp_family_qwen3_moe = {.model_type = "qwen3_moe",
                                       .model = &bp_model_llama,
                                       .rows = qwen3_moe_rows,
                                       .row_count = ROWS_COUNT(qwen3_moe_rows),
                                       .language_class = "Qwen3MoeForCausalLM",
                                       .judge_class = "Qwen3MoeForSequenceClassification",
                                       .resolve = family_qwen3_moe_resolve,
                                       .naming = EXPERT_NAMING,
                                       .gguf = &bp_gguf_qwen3_moe,
                                       .adapter_targets = "q_proj,v_proj",
                                       .presets = qwen3_moe_presets,
                                       .preset_count = ROWS_COUNT(qwen3_moe_presets)};

const bp_family bp_family_olmoe = {.model_type = "olmoe",
                                   .model = &bp_model_llama,
                                   .rows = olmoe_rows,
                                   .row_count = ROWS_COUNT(olmoe_rows),
                                   .language_class = "OlmoeForCausalLM",
                                   .judge_class = "OlmoeForSequenceClassification",
                                   .resolve = family_olmoe_resolve,
                                   .naming = EXPERT_NAMING,
                                   .gguf = &bp_gguf_olmoe,
                                   .adapter_targets = "q_proj,v_proj",
                                   .presets = olmoe_presets,
                                   .preset_count = ROWS_COUNT(olmoe_presets)};

const bp_family bp_family_mixtral = {
    .model_type = "mixtral",
    .model = &bp_model_llama,
    .rows = mixtral_rows,
    .row_count = ROWS_COUNT(mixtral_rows),
    .language_class = "MixtralForCausalLM",
    .judge_class = "MixtralForSequenceClassification",
    .resolve = family_mixtral_resolve,
    .naming = {mixtral_rules, ROWS_COUNT(mixtral_rules), bp_llama_ignored, 1, bp_llama_twins, 1},
    .adapter_targets = "q_proj,v_proj",
    .presets = mixtral_presets,
    .preset_count = ROWS_COUNT(mixtral_presets)};
