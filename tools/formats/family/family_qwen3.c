/* SPDX-License-Identifier: MIT */
/* Qwen3: transformers' configuration_qwen3.py and modeling_qwen3.py. It is computed as Llama is,
 * with norms of each head of the queries and keys before they are turned, and heads of a width of
 * their own; windows as in Qwen2. */
#include "tools/formats/family/family_llama.h"
#include "tools/formats/gguf/gguf_llama.h"

/* No key says that the norms are there. */
static void family_qwen3_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.head_norms = true;
    bp_family_qwen_window(&own);
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 128, HEAD_WIDTH),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(4096, 22016, 32768, 32, 32),
    ROW_LAYER_TYPES,
    ROW_FULL_LAYERS,
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 32, KV_HEADS,
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

/* Queries and keys lie as in Hugging Face's files (NEOX). */
static const bp_tensor_rule gguf_rules[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", BP_LAYOUT_PLAIN},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", BP_LAYOUT_PLAIN},
    BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)};

static const bp_tensor_naming gguf_naming = {gguf_rules, ROWS_COUNT(gguf_rules), NULL,
                                             0,          bp_gguf_llama_twins,    1};

static bp_status family_qwen3_take(const bp_gguf_file *file, const char *architecture,
                                   bp_model_config *config)
{
    BP_TRY(bp_gguf_llama_take(file, architecture, config));
    family_qwen3_resolve(config);
    return BP_OK;
}

static const bp_gguf_family gguf = {
    "qwen3",           "qwen3", &gguf_naming,         bp_gguf_llama_put,
    family_qwen3_take, NULL,    bp_gguf_llama_exports};

static const bp_preset presets[] = {
    {"qwen3-0.6b",
     "Qwen3, 596 million parameters",
     {.family = &bp_family_qwen3,
      .vocabulary = 151936,
      .positions = 40960,
      .bos_token = 151643,
      .eos_token = 151645,
      .pad_token = -1},
     OWN((const bp_llama_config){.stack = {.width = 1024,
                                           .layers = 28,
                                           .heads = 16,
                                           .inner = 3072,
                                           .norm_epsilon = 1e-6,
                                           .initializer_range = 0.02},
                                 .kv_heads = 8,
                                 .head_width = 128,
                                 .rope_theta = 1e6,
                                 .full_layers = FULL_LAYERS,
                                 .head_norms = true})},
    {"tiny-qwen3",
     "a byte-level Qwen3 for tests",
     {.family = &bp_family_qwen3,
      .vocabulary = 256,
      .positions = 128,
      .bos_token = -1,
      .eos_token = -1,
      .pad_token = -1},
     OWN((const bp_llama_config){.stack = {.width = 64,
                                           .layers = 2,
                                           .heads = 4,
                                           .inner = 176,
                                           .norm_epsilon = 1e-6,
                                           .initializer_range = 0.02},
                                 .kv_heads = 2,
                                 .head_width = 24,
                                 .rope_theta = 10000.0,
                                 .full_layers = FULL_LAYERS,
                                 .head_norms = true})},
};

const bp_family bp_family_qwen3 = {.model_type = "qwen3",
                                   .model = &bp_model_llama,
                                   .rows = rows,
                                   .row_count = ROWS_COUNT(rows),
                                   .language_class = "Qwen3ForCausalLM",
                                   .judge_class = "Qwen3ForSequenceClassification",
                                   .resolve = family_qwen3_resolve,
                                   .naming = LLAMA_NAMING,
                                   .gguf = &gguf,
                                   .adapter_targets = "q_proj,v_proj",
                                   .presets = presets,
                                   .preset_count = ROWS_COUNT(presets)};
