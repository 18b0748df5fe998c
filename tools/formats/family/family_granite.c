/* SPDX-License-Identifier: MIT */
/* Granite: Llama's layers with four factors. */
#include "tools/formats/family/family_llama.h"

#include "tools/formats/gguf/gguf_llama.h"

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL("attention_multiplier", LLAMA(attention_scale), 1e6, 1.0, NONE),
    ROW_REAL("embedding_multiplier", LLAMA(embedding_scale), 1e6, 1.0, NONE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(4096, 11008, 2048, 32, 32),
    ROW_REAL("logits_scaling", LLAMA(logit_divisor), 1e6, 1.0, NONE),
    ROW_FLAG("mlp_bias", LLAMA(mlp_bias), false),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 0, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("residual_multiplier", LLAMA(residual_scale), 1e6, 1.0, NONE),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-6, NONE),
    ROWS_ROPE(10000.0),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(32000, 1, 2, -1),
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset presets[] = {
    {"tiny-granite", "a byte-level Granite for tests",
     LLAMA_TINY(&bp_family_granite, 2, .attention_scale = 0.125, .embedding_scale = 12.0,
                .residual_scale = 0.22, .logit_divisor = 8.0)},
};

const bp_family bp_family_granite = {.model_type = "granite",
                                     .model = &bp_model_llama,
                                     .rows = rows,
                                     .row_count = ROWS_COUNT(rows),
                                     .language_class = "GraniteForCausalLM",
                                     .judge_class = "GraniteForSequenceClassification",

                                     .naming = LLAMA_NAMING,
                                     .gguf = &bp_gguf_granite,
                                     .adapter_targets = "q_proj,v_proj",
                                     .presets = presets,
                                     .preset_count = ROWS_COUNT(presets)};
