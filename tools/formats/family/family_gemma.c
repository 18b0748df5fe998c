/* SPDX-License-Identifier: MIT */
/* Gemma (arXiv 2403.08295): Llama with norms about 1, scaled embeddings and GELU for a gate. */
#include "tools/formats/family/family_gemma.h"

#include <math.h>

#include "tools/formats/gguf/gguf_gemma.h"

void bp_family_gemma_resolve(bp_model_config *config, uint32_t every)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.norm_offset = true;
    own.gate = BP_GATE_GELU_TANH;
    own.embedding_scale = sqrt((double)own.stack.width);
    if (every > 0) {
        own.norms = BP_LLAMA_NORMS_BOTH;
        own.attention_scale = 1.0 / sqrt(own.query_scalar);
        for (uint32_t i = 0; own.near.listed == 0 && i < own.stack.layers; i++) {
            if (i % every != every - 1) {
                bp_layer_put(&own.near, i);
            }
        }
        own.near.listed = own.stack.layers;
    }
    bp_family_config_set(config, &own, sizeof own);
}

/* The files of the first release say "gelu" and mean the tanh form, which transformers takes. */
static void family_gemma_resolve(bp_model_config *config)
{
    bp_family_gemma_resolve(config, 0);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 256, HEAD_WIDTH),
    ROW_FIXED("hidden_act", TEXT, "gelu_pytorch_tanh|gelu", 0),
    ROW_FIXED("hidden_activation", TEXT, "gelu_pytorch_tanh", BP_ROW_READ | BP_ROW_SPARSE),
    ROWS_STACK(3072, 24576, 8192, 16, 28),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 16, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-6, NONE),
    ROWS_ROPE(10000.0),
    ROW_TIED(STACK(untied), false),
    ROW_FIXED("use_bidirectional_attention", FALSE, NULL, BP_ROW_READ | BP_ROW_SPARSE),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(256000, 2, 1, 0),
    ROWS_ROPE_READ,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset presets[] = {
    {"tiny-gemma", "a byte-level Gemma for tests",
     GEMMA_TINY(&bp_family_gemma, 2, .norms = BP_LLAMA_NORMS_BEFORE)},
};

const bp_family bp_family_gemma = {.model_type = "gemma",
                                   .model = &bp_model_llama,
                                   .rows = rows,
                                   .row_count = ROWS_COUNT(rows),
                                   .language_class = "GemmaForCausalLM",
                                   .judge_class = "GemmaForSequenceClassification",
                                   .resolve = family_gemma_resolve,
                                   .naming = LLAMA_NAMING,
                                   .gguf = &bp_gguf_gemma,
                                   .adapter_targets = "q_proj,v_proj",
                                   .presets = presets,
                                   .preset_count = ROWS_COUNT(presets)};
