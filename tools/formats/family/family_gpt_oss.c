/* SPDX-License-Identifier: MIT */
/* gpt-oss (arXiv 2508.10925): a mixture of experts in every layer, with biases and gates held
 * within bounds; windows in every second layer, sinks beside scores, and positions that yarn
 * scales. */
#include "tools/formats/family/family_llama.h"

#include "tools/formats/gguf/gguf_experts.h"

static void family_gpt_oss_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.names = BP_LLAMA_NAMES_GPT_OSS;
    own.sinks = true;
    own.renormalise = true;
    own.expert_biases = true;
    own.experts_turned = true;
    own.expert_inner = own.stack.inner;
    for (uint32_t i = 0; own.window != 0 && own.near.listed == 0 && i < own.stack.layers; i += 2) {
        bp_layer_put(&own.near, i);
    }
    own.near.listed = own.stack.layers;
    bp_family_config_set(config, &own, sizeof own);
}

/* What a file without rope_scaling means. */
#define ROW_SCALED(name, member, least_, most_, otherwise_, kind)                                  \
    {                                                                                              \
        "rope_scaling." name, BP_ROW_##kind, BP_ROLE_NONE, BP_ROW_INSIDE,                          \
            LLAMA(rope_scaling.member), least_, most_, otherwise_, NULL                            \
    }

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), true),
    ROW_FLAG("attention_bias", LLAMA(output_bias), true),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 64, HEAD_WIDTH, 0),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(2880, 2880, 131072, 64, 36),
    ROW_LAYER_TYPES,
    ROW_TYPE,
    ROW_COUNT("num_experts_per_tok", LLAMA(experts_chosen), EXPERTS_MOST, 4, NONE),
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 8, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_COUNT("num_local_experts", LLAMA(experts), EXPERTS_MOST, 128, NONE),
    ROW_ALIAS("num_experts", LLAMA(experts), EXPERTS_MOST),
    ROWS_BALANCE(0.001),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROW_REAL("rope_theta", LLAMA(rope_theta), 1e12, 150000.0, ROTARY),
    ROW_FIXED("rope_scaling", ROPE, NULL, 0),
    ROW_SCALED("factor", factor, 0, 1e12, 32.0, REAL),
    ROW_SCALED("beta_fast", high, 0, 1e12, 32.0, REAL),
    ROW_SCALED("beta_slow", low, 0, 1e12, 1.0, REAL),
    ROW_SCALED("original_max_position_embeddings", original, 1, POSITIONS_MOST, 4096, COUNT),
    ROW_SCALED("rope_type", kind, 0, BP_ROPE_LONG, BP_ROPE_YARN, COUNT),
    ROW_SCALED("truncate", even, 0, 1, true, FLAG_NOT),
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 128, NONE, 0),
    ROW_REAL("swiglu_alpha", LLAMA(gate_alpha), 1e6, 1.702, NONE),
    /* gates and ups alternate where there is a limit */
    {"swiglu_limit", BP_ROW_REAL, BP_ROLE_NONE, 0, LLAMA(gate_limit), 1e-6, 1e12, 7.0, NULL},
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(201088, -1, -1, -1),
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset presets[] = {
    {"gpt-oss-20b",
     "gpt-oss with 32 experts, 20,915 million parameters",
     {.family = &bp_family_gpt_oss,
      .experts = BP_QUANTISED_MXFP4, /* as its files have them */
      .vocabulary = 201088,
      .positions = 131072,
      .bos_token = 199998,
      .eos_token = 200002,
      .pad_token = 199999},
     OWN((const bp_llama_config){.stack = {.width = 2880,
                                           .layers = 24,
                                           .heads = 64,
                                           .inner = 2880,
                                           .norm_epsilon = 1e-5,
                                           .initializer_range = 0.02,
                                           .untied = true},
                                 .kv_heads = 8,
                                 .head_width = 64,
                                 .rope_theta = 150000.0,
                                 .rope_scaling = {.factor = 32.0,
                                                  .low = 1.0,
                                                  .high = 32.0,
                                                  .original = 4096,
                                                  .kind = BP_ROPE_YARN,
                                                  .even = true},
                                 .window = 128,
                                 .near = {{0x555555, 0}, 24},
                                 .qkv_bias = true,
                                 .output_bias = true,
                                 .names = BP_LLAMA_NAMES_GPT_OSS,
                                 .sinks = true,
                                 .experts = 32,
                                 .experts_chosen = 4,
                                 .expert_inner = 2880,
                                 .renormalise = true,
                                 .expert_biases = true,
                                 .experts_turned = true,
                                 .gate_alpha = 1.702,
                                 .gate_limit = 7.0,
                                 .balance = 0.9})},
    {"tiny-gpt-oss", "a byte-level gpt-oss with 6 experts for tests",
     LLAMA_TINY(&bp_family_gpt_oss, 2, .head_width = 24, .window = 24, .near = {{1, 0}, 2},
                .rope_scaling = {.factor = 4.0,
                                 .low = 1.0,
                                 .high = 32.0,
                                 .original = 32,
                                 .kind = BP_ROPE_YARN,
                                 .even = true},
                .qkv_bias = true, .output_bias = true, .sinks = true,
                .names = BP_LLAMA_NAMES_GPT_OSS, .experts = 6, .experts_chosen = 2,
                .expert_inner = 176, .renormalise = true, .expert_biases = true,
                .experts_turned = true, .gate_alpha = 1.702, .gate_limit = 7.0, .balance = 0.001,
                .stack.untied = true)},
};

const bp_family bp_family_gpt_oss = {.model_type = "gpt_oss",
                                     .model = &bp_model_llama,
                                     .rows = rows,
                                     .row_count = ROWS_COUNT(rows),
                                     .language_class = "GptOssForCausalLM",
                                     .judge_class = "GptOssForSequenceClassification",
                                     .resolve = family_gpt_oss_resolve,
                                     .naming = LLAMA_NAMING,
                                     .gguf = &bp_gguf_gpt_oss,
                                     .adapter_targets = "q_proj,v_proj",
                                     .presets = presets,
                                     .preset_count = ROWS_COUNT(presets)};
