/* SPDX-License-Identifier: MIT */
/* Mistral (arXiv 2310.06825): Llama's layers, each of which looks through a window where the file
 * gives one; a file without the key means 4096. */
#include "tools/formats/family/family_llama.h"

#include "tools/formats/gguf/gguf_llama.h"

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(4096, 14336, 131072, 32, 32),
    ROW_LAYER_TYPES,
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 8, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-6, NONE),
    ROWS_ROPE(10000.0),
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 4096, NONE, 0),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(32000, 1, 2, -1),
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset presets[] = {
    {"tiny-mistral", "a byte-level Mistral with a window for tests",
     LLAMA_TINY(&bp_family_mistral, 2, .window = 24)},
};

const bp_family bp_family_mistral = {.model_type = "mistral",
                                     .wrapper = "mistral3",
                                     .model = &bp_model_llama,
                                     .rows = rows,
                                     .row_count = ROWS_COUNT(rows),
                                     .language_class = "MistralForCausalLM",
                                     .judge_class = "MistralForSequenceClassification",
                                     .naming = LLAMA_NAMING_INSIDE,
                                     .gguf = &bp_gguf_mistral,
                                     .adapter_targets = "q_proj,v_proj",
                                     .presets = presets,
                                     .preset_count = ROWS_COUNT(presets)};
