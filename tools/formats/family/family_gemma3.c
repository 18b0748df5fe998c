/* SPDX-License-Identifier: MIT */
/* Gemma 3's text model (arXiv 2503.19786): Gemma 2 without caps, with norms of heads, and five
 * layers of a window and a base of their own to one that sees all. */
#include "tools/formats/family/family_gemma.h"
#include "tools/formats/gguf/gguf_gemma.h"

static void family_gemma3_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.head_norms = true;
    bp_family_config_set(config, &own, sizeof own);
    bp_family_gemma_resolve(config, 6);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL_NULL("final_logit_softcapping", LLAMA(logit_cap), 1e6, 0.0),
    ROW_COUNT("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 256, HEAD_WIDTH),
    ROW_FIXED("hidden_activation", TEXT, "gelu_pytorch_tanh", 0),
    ROWS_STACK(2304, 9216, 131072, 8, 26),
    ROWS_GEMMA_LATER,
    ROW_REAL("rope_local_base_freq", LLAMA(near_theta), 1e12, 10000.0, NONE),
    ROWS_ROPE(1000000.0),
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 4096, NONE, 0),
    ROW_TIED(STACK(untied), false),
    {"use_bidirectional_attention", BP_ROW_FLAG, BP_ROLE_NONE, BP_ROW_SPARSE, LLAMA(both_ways), 0,
     1, 0, NULL},
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(262208, 2, 1, 0),
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset presets[] = {
    {"tiny-gemma3-text", "a byte-level Gemma 3 for tests",
     GEMMA_LATER_TINY(&bp_family_gemma3, 6, .head_norms = true, .near_theta = 10000.0,
                      .near = {{31, 0}, 6})},
};

const bp_family bp_family_gemma3 = {.model_type = "gemma3_text",
                                    .wrapper = "gemma3",
                                    .model = &bp_model_llama,
                                    .rows = rows,
                                    .row_count = ROWS_COUNT(rows),
                                    .language_class = "Gemma3ForCausalLM",
                                    .judge_class = "Gemma3ForSequenceClassification",
                                    .resolve = family_gemma3_resolve,
                                    .naming = LLAMA_NAMING_INSIDE,
                                    .gguf = &bp_gguf_gemma3,
                                    .adapter_targets = "q_proj,v_proj",
                                    .presets = presets,
                                    .preset_count = ROWS_COUNT(presets)};
