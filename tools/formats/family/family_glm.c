/* SPDX-License-Identifier: MIT */
/* GLM-4 as transformers has it: the first half of a head turns, by pairs of neighbours, and gate
 * and up are one weight. glm4 (GLM-4-0414) has norms behind the sublayers, too. */
#include "tools/formats/family/family_llama.h"

#include "tools/formats/gguf/gguf_decoders.h"

static void family_glm_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.neighbours = true;
    own.fused_gate = true;
    bp_family_config_set(config, &own, sizeof own);
}

static void family_glm4_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.norms = BP_LLAMA_NORMS_BOTH;
    own.names = BP_LLAMA_NAMES_GLM4;
    bp_family_config_set(config, &own, sizeof own);
    family_glm_resolve(config);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), true),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 128, HEAD_WIDTH, 0),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(4096, 13696, 131072, 32, 40),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 2, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("partial_rotary_factor", LLAMA(rotary_share), 1.5, 0.5, NONE),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1.5625e-7, NONE),
    ROWS_ROPE(10000.0),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(151552, -1, 151329, 151329),
    ROWS_ROPE_READ,
    ROWS_CAUSAL_REFUSED,
};

#define GLM_TINY(family_, ...)                                                                     \
    LLAMA_TINY(family_, 2, .neighbours = true, .fused_gate = true, .qkv_bias = true,               \
               .rotary_share = 0.5, .head_width = 24, .stack.untied = true, __VA_ARGS__)

static const bp_preset glm_presets[] = {
    {"tiny-glm", "a byte-level GLM for tests",
     GLM_TINY(&bp_family_glm, .norms = BP_LLAMA_NORMS_BEFORE)},
};
static const bp_preset glm4_presets[] = {
    {"tiny-glm4", "a byte-level GLM-4 for tests",
     GLM_TINY(&bp_family_glm4, .norms = BP_LLAMA_NORMS_BOTH, .names = BP_LLAMA_NAMES_GLM4)},
};

const bp_family bp_family_glm = {.model_type = "glm",
                                 .model = &bp_model_llama,
                                 .rows = rows,
                                 .row_count = ROWS_COUNT(rows),
                                 .language_class = "GlmForCausalLM",
                                 .judge_class = "GlmForSequenceClassification",
                                 .resolve = family_glm_resolve,
                                 .naming = LLAMA_NAMING,
                                 .gguf = &bp_gguf_glm,
                                 .adapter_targets = "q_proj,v_proj",
                                 .presets = glm_presets,
                                 .preset_count = ROWS_COUNT(glm_presets)};

const bp_family bp_family_glm4 = {.model_type = "glm4",
                                  .model = &bp_model_llama,
                                  .rows = rows,
                                  .row_count = ROWS_COUNT(rows),
                                  .language_class = "Glm4ForCausalLM",
                                  .judge_class = "Glm4ForSequenceClassification",
                                  .resolve = family_glm4_resolve,
                                  .naming = LLAMA_NAMING,
                                  .gguf = &bp_gguf_glm4,
                                  .adapter_targets = "q_proj,v_proj",
                                  .presets = glm4_presets,
                                  .preset_count = ROWS_COUNT(glm4_presets)};

/* ERNIE 4.5's dense models: Llama's layers, whose heads turn by pairs of neighbours. */
static void family_ernie4_5_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.neighbours = true;
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row ernie4_5_rows[] = {
    ROW_CLASSES,
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 128, HEAD_WIDTH, 0),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(1024, 3072, 131072, 16, 18),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 2, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROWS_ROPE(500000.0),
    ROW_TIED(STACK(untied), false),
    ROW_FLAG("use_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("use_bias", LLAMA(output_bias), false),
    ROW_FLAG("use_bias", LLAMA(mlp_bias), false),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(103424, 1, 2, 0),
    ROWS_ROPE_READ,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset ernie4_5_presets[] = {
    {"tiny-ernie4-5", "a byte-level ERNIE 4.5 for tests",
     LLAMA_TINY(&bp_family_ernie4_5, 2, .neighbours = true, .head_width = 32)},
};

const bp_family bp_family_ernie4_5 = {.model_type = "ernie4_5",
                                      .model = &bp_model_llama,
                                      .rows = ernie4_5_rows,
                                      .row_count = ROWS_COUNT(ernie4_5_rows),
                                      .language_class = "Ernie4_5ForCausalLM",
                                      .judge_class = "Ernie4_5ForSequenceClassification",
                                      .resolve = family_ernie4_5_resolve,
                                      .naming = LLAMA_NAMING,
                                      .gguf = &bp_gguf_ernie4_5,
                                      .adapter_targets = "q_proj,v_proj",
                                      .presets = ernie4_5_presets,
                                      .preset_count = ROWS_COUNT(ernie4_5_presets)};
