/* SPDX-License-Identifier: MIT */
/* Gemma 2 (arXiv 2408.00118): norms on both sides of the sublayers, capped scores and logits, a
 * window in every other layer. */
#include "tools/formats/family_llama.h"

#include "tools/formats/gguf_llama.h"
#include <math.h>

static void family_gemma2_settle(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.norms = BP_LLAMA_NORMS_BOTH;
    own.norm_offset = true;
    own.gate = BP_GATE_GELU_TANH;
    own.embedding_scale = sqrt((double)own.stack.width);
    own.attention_scale = 1.0 / sqrt(own.query_scalar);
    for (uint32_t i = 0; own.near.listed == 0 && i < own.stack.layers; i++) {
        if (i % 2 == 0) {
            bp_layer_put(&own.near, i);
        }
    }
    own.near.listed = own.stack.layers <= BP_LAYERS_LISTED ? own.stack.layers : 0;
    bp_config_set_own(config, &own, sizeof own);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL_NULL("attn_logit_softcapping", LLAMA(attention_cap), 1e6, 50.0),
    ROW_REAL_NULL("final_logit_softcapping", LLAMA(logit_cap), 1e6, 30.0),
    ROW_COUNT("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 256, HEAD_WIDTH),
    ROW_FIXED("hidden_activation", TEXT, "gelu_pytorch_tanh", 0),
    ROWS_STACK(2304, 9216, 8192, 8, 26),
    ROW_LAYER_TYPES,
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 4, KV_HEADS, BP_ROW_SETTLED),
    ROW_REAL("query_pre_attn_scalar", LLAMA(query_scalar), 1e6, 256.0, NONE),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-6, NONE),
    ROWS_ROPE(10000.0),
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 4096, NONE, 0),
    ROW_TIED(STACK(untied), false),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(256000, 2, 1, 0),
    ROWS_ROPE_WINDOWS,
    ROWS_REFUSED,
};

static const bp_preset presets[] = {
    {"tiny-gemma2", "a byte-level Gemma 2 for tests",
     LLAMA_TINY(&bp_family_gemma2, 2, .head_width = 32, .norms = BP_LLAMA_NORMS_BOTH,
                .norm_offset = true, .gate = BP_GATE_GELU_TANH, .query_scalar = 32.0,
                .attention_scale = 0.17677669529663687, .embedding_scale = 8.0,
                .attention_cap = 50.0, .logit_cap = 30.0, .window = 24, .near = {{1, 0}, 2})},
};

const bp_family bp_family_gemma2 = {.model_type = "gemma2",
                                    .model = &bp_model_llama,
                                    .rows = rows,
                                    .row_count = ROWS_COUNT(rows),
                                    .language_class = "Gemma2ForCausalLM",
                                    .judge_class = "Gemma2ForSequenceClassification",
                                    .settle = family_gemma2_settle,
                                    .naming = LLAMA_NAMING,

                                    .adapter_targets = "q_proj,v_proj",
                                    .presets = presets,
                                    .preset_count = ROWS_COUNT(presets)};
