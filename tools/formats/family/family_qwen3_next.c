/* SPDX-License-Identifier: MIT */
/* Qwen3-Next, Qwen3.5 and Qwen3.5 with experts, of which Qwen3.6's files have the names too:
 * transformers' configuration_qwen3_next.py, configuration_qwen3_5.py and
 * configuration_qwen3_5_moe.py. Three of four layers have linear attention by the gated delta rule,
 * the others attention whose queries have gates, in heads that turn in part. Norms are kept about
 * 0. */
#include "tools/formats/family/family_llama.h"

/* Layers of linear attention are listed, or all but the last of every so many. */
static void family_qwen3_next_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.head_norms = true;
    own.norm_offset = true;
    own.gated = true;
    for (uint32_t i = 0; own.linear.listed == 0 && i < own.stack.layers; i++) {
        if (own.turn_every != 0 && (i + 1) % own.turn_every != 0) {
            bp_layer_put(&own.linear, i);
        }
    }
    own.linear.listed = own.stack.layers;
    own.turn_every = 0;
    bp_family_config_set(config, &own, sizeof own);
}

static void family_qwen3_next_fused(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.linear_fused = true;
    bp_family_config_set(config, &own, sizeof own);
    family_qwen3_next_resolve(config);
}

/* No key says that shares are renormalised, nor which layers have experts: all. */
static void family_qwen3_5_moe_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.renormalise = true;
    own.experts_every = 1;
    bp_family_config_set(config, &own, sizeof own);
    family_qwen3_next_resolve(config);
}

/* What all have, in the order of their keys. */
#define ROWS_HYBRID_FIRST                                                                          \
    ROW_CLASSES, ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),                               \
        ROW_FLAG("attention_bias", LLAMA(output_bias), false),                                     \
        ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),                \
        ROW_FIXED("attn_output_gate", TRUE, NULL, BP_ROW_READ),                                    \
        {"full_attention_interval",                                                                \
         BP_ROW_COUNT_NULL,                                                                        \
         BP_ROLE_NONE,                                                                             \
         BP_ROW_READ,                                                                              \
         LLAMA(turn_every),                                                                        \
         1,                                                                                        \
         LAYERS_MOST,                                                                              \
         4,                                                                                        \
         NULL},                                                                                    \
        ROW_COUNT("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 256, HEAD_WIDTH),                \
        ROW_FIXED("hidden_act", TEXT, "silu", 0)
#define ROWS_HYBRID_LINEAR                                                                         \
    ROW_LAYERS("layer_types", linear, "full_attention|linear_attention"),                          \
        ROW_COUNT("linear_conv_kernel_dim", LLAMA(linear_taps), 16, 4, NONE),                      \
        ROW_COUNT("linear_key_head_dim", LLAMA(linear_key_width), HEAD_WIDTH_MOST, 128, NONE),     \
        ROW_COUNT("linear_num_key_heads", LLAMA(linear_keys), HEADS_MOST, 16, NONE),               \
        ROW_COUNT("linear_num_value_heads", LLAMA(linear_values), HEADS_MOST, 32, NONE),           \
        ROW_COUNT("linear_value_head_dim", LLAMA(linear_value_width), HEAD_WIDTH_MOST, 128, NONE), \
        ROW_TYPE
#define ROWS_HYBRID_EXPERTS(experts_, chosen_)                                                     \
    ROW_COUNT("moe_intermediate_size", LLAMA(expert_inner), INNER_MOST, 512, NONE),                \
        ROW_COUNT("num_experts", LLAMA(experts), EXPERTS_MOST, experts_, NONE),                    \
        ROW_ALIAS("num_local_experts", LLAMA(experts), EXPERTS_MOST),                              \
        ROW_COUNT("num_experts_per_tok", LLAMA(experts_chosen), EXPERTS_MOST, chosen_, NONE),      \
        ROWS_BALANCE(0.001),                                                                       \
        ROW_COUNT("shared_expert_intermediate_size", LLAMA(shared_inner), INNER_MOST, 512, NONE)
#define ROWS_HYBRID_LAST(kv_heads_, vocabulary_)                                                   \
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, kv_heads_, KV_HEADS,        \
                   BP_ROW_RESOLVED),                                                               \
        ROW_REAL("partial_rotary_factor", LLAMA(rotary_share), 1.5, 0.25, NONE),                   \
        ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-6, NONE), ROWS_ROPE(10000.0),        \
        ROW_TIED(STACK(untied), true), ROW_LABELS, ROW_PROBLEM,                                    \
        ROWS_TEXT(vocabulary_, -1, -1, -1), ROWS_ROPE_WINDOWS, ROWS_CAUSAL_REFUSED

static const bp_row qwen3_next_rows[] = {
    ROWS_HYBRID_FIRST,
    ROW_COUNT("decoder_sparse_step", LLAMA(experts_every), LAYERS_MOST, 1, NONE),
    ROWS_STACK(2048, 5632, 32768, 16, 48),
    ROWS_HYBRID_LINEAR,
    {"mlp_only_layers", BP_ROW_INDICES, BP_ROLE_NONE, 0, LLAMA(alone), 0, 0, 0, NULL},
    ROWS_HYBRID_EXPERTS(512, 10),
    ROW_FLAG("norm_topk_prob", LLAMA(renormalise), true),
    ROWS_HYBRID_LAST(2, 151936),
};

static const bp_row qwen3_5_rows[] = {
    ROWS_HYBRID_FIRST,
    ROWS_STACK(4096, 12288, 32768, 16, 32),
    ROWS_HYBRID_LINEAR,
    ROWS_HYBRID_LAST(4, 248320),
};

static const bp_row qwen3_5_moe_rows[] = {
    ROWS_HYBRID_FIRST,           ROWS_STACK(2048, 5632, 32768, 16, 40), ROWS_HYBRID_LINEAR,
    ROWS_HYBRID_EXPERTS(256, 8), ROWS_HYBRID_LAST(2, 248320),
};

/* Layers that predict further tokens, and images, are of other models. */
static const char *const ignored[] = {"*rotary_emb.inv_freq", "mtp.*", "model.visual.*",
                                      "visual.*"};

/* A text model alone, or beside an image model. */
#define INSIDE_RULES                                                                               \
    {"*", "*", BP_LAYOUT_PLAIN}, {"model.*", "model.language_model.*", BP_LAYOUT_PLAIN},           \
    {                                                                                              \
        "model.*", "*", BP_LAYOUT_PLAIN                                                            \
    }
static const bp_tensor_rule next_rules[] = {EXPERT_RULES("*"),
                                            EXPERT_RULES("model.*"),
                                            {"*", "*", BP_LAYOUT_PLAIN},
                                            {"model.*", "*", BP_LAYOUT_PLAIN}};
static const bp_tensor_rule dense_rules[] = {INSIDE_RULES};
static const bp_tensor_rule experts_rules[] = {EXPERT_RULES("*"), EXPERT_RULES("model.*"),
                                               INSIDE_RULES};

#define HYBRID_NAMING(rules_)                                                                      \
    {                                                                                              \
        rules_, ROWS_COUNT(rules_), ignored, ROWS_COUNT(ignored), bp_llama_twins, 1                \
    }

#define HYBRID_TINY(family_, ...)                                                                  \
    LLAMA_TINY(family_, 4, .head_width = 24, .head_norms = true, .norm_offset = true,              \
               .gated = true, .linear = {{7, 0}, 4}, .linear_taps = 4, .linear_keys = 2,           \
               .linear_values = 4, .linear_key_width = 16, .linear_value_width = 24,               \
               .rotary_share = 0.25, .stack.untied = true, __VA_ARGS__)
#define HYBRID_TINY_EXPERTS                                                                        \
    .experts = 8, .experts_chosen = 2, .expert_inner = 48, .shared_inner = 48, .experts_every = 1, \
    .renormalise = true, .balance = 0.001

static const bp_preset qwen3_next_presets[] = {
    {"tiny-qwen3-next", "a byte-level Qwen3-Next for tests",
     HYBRID_TINY(&bp_family_qwen3_next, .linear_fused = true, HYBRID_TINY_EXPERTS)},
};
static const bp_preset qwen3_5_presets[] = {
    {"tiny-qwen3.5", "a byte-level Qwen3.5 for tests",
     HYBRID_TINY(&bp_family_qwen3_5, .linear_fused = false)},
};
static const bp_preset qwen3_5_moe_presets[] = {
    {"tiny-qwen3.5-moe", "a byte-level Qwen3.5 with experts for tests",
     HYBRID_TINY(&bp_family_qwen3_5_moe, HYBRID_TINY_EXPERTS)},
};

const bp_family bp_family_qwen3_next = {.model_type = "qwen3_next",
                                        .model = &bp_model_llama,
                                        .rows = qwen3_next_rows,
                                        .row_count = ROWS_COUNT(qwen3_next_rows),
                                        .language_class = "Qwen3NextForCausalLM",
                                        .judge_class = "Qwen3NextForSequenceClassification",
                                        .resolve = family_qwen3_next_fused,
                                        .naming = HYBRID_NAMING(next_rules),
                                        .adapter_targets = "q_proj,v_proj",
                                        .presets = qwen3_next_presets,
                                        .preset_count = ROWS_COUNT(qwen3_next_presets)};

const bp_family bp_family_qwen3_5 = {.model_type = "qwen3_5_text",
                                     .wrapper = "qwen3_5",
                                     .model = &bp_model_llama,
                                     .rows = qwen3_5_rows,
                                     .row_count = ROWS_COUNT(qwen3_5_rows),
                                     .language_class = "Qwen3_5ForCausalLM",
                                     .judge_class = "Qwen3_5TextForSequenceClassification",
                                     .resolve = family_qwen3_next_resolve,
                                     .naming = HYBRID_NAMING(dense_rules),
                                     .adapter_targets = "q_proj,v_proj",
                                     .presets = qwen3_5_presets,
                                     .preset_count = ROWS_COUNT(qwen3_5_presets)};

const bp_family bp_family_qwen3_5_moe = {.model_type = "qwen3_5_moe_text",
                                         .wrapper = "qwen3_5_moe",
                                         .model = &bp_model_llama,
                                         .rows = qwen3_5_moe_rows,
                                         .row_count = ROWS_COUNT(qwen3_5_moe_rows),
                                         .language_class = "Qwen3_5MoeForCausalLM",
                                         .resolve = family_qwen3_5_moe_resolve,
                                         .naming = HYBRID_NAMING(experts_rules),
                                         .adapter_targets = "q_proj,v_proj",
                                         .presets = qwen3_5_moe_presets,
                                         .preset_count = ROWS_COUNT(qwen3_5_moe_presets)};
