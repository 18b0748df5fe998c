/* SPDX-License-Identifier: MIT */
/* Gemma 2 (arXiv 2408.00118): norms on both sides of the sublayers, capped scores and logits, a
 * window in every other layer. */
#include "tools/formats/family/family_gemma.h"
#include "tools/formats/gguf/gguf_gemma.h"

static void family_gemma2_resolve(bp_model_config *config)
{
    bp_family_gemma_resolve(config, 2);
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
    ROWS_GEMMA_LATER,
    ROWS_ROPE(10000.0),
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 4096, NONE, 0),
    ROW_TIED(STACK(untied), false),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(256000, 2, 1, 0),
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset presets[] = {
    {"tiny-gemma2", "a byte-level Gemma 2 for tests",
     GEMMA_LATER_TINY(&bp_family_gemma2, 2, .attention_cap = 50.0, .logit_cap = 30.0,
                      .near = {{1, 0}, 2})},
};

const bp_family bp_family_gemma2 = {.model_type = "gemma2",
                                    .model = &bp_model_llama,
                                    .rows = rows,
                                    .row_count = ROWS_COUNT(rows),
                                    .language_class = "Gemma2ForCausalLM",
                                    .judge_class = "Gemma2ForSequenceClassification",
                                    .resolve = family_gemma2_resolve,
                                    .naming = LLAMA_NAMING,
                                    .gguf = &bp_gguf_gemma2,
                                    .adapter_targets = "q_proj,v_proj",
                                    .presets = presets,
                                    .preset_count = ROWS_COUNT(presets)};
