/* SPDX-License-Identifier: MIT */
/* OLMo 2 (arXiv 2501.00656): norms behind the sublayers, and over all queries and all keys. */
#include "tools/formats/family/family_llama.h"

#include "tools/formats/gguf/gguf_llama.h"

static void family_olmo2_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.norms = BP_LLAMA_NORMS_AFTER;
    own.whole_norms = true;
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(4096, 11008, 2048, 32, 32),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 0, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROWS_ROPE(10000.0),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(50304, -1, 50279, 1),
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset presets[] = {
    {"tiny-olmo2", "a byte-level OLMo 2 for tests",
     LLAMA_TINY(&bp_family_olmo2, 2, .norms = BP_LLAMA_NORMS_AFTER, .whole_norms = true,
                .stack.untied = true)},
};

const bp_family bp_family_olmo2 = {.model_type = "olmo2",
                                   .model = &bp_model_llama,
                                   .rows = rows,
                                   .row_count = ROWS_COUNT(rows),
                                   .language_class = "Olmo2ForCausalLM",
                                   .judge_class = "Olmo2ForSequenceClassification",
                                   .resolve = family_olmo2_resolve,
                                   .naming = LLAMA_NAMING,
                                   .gguf = &bp_gguf_olmo2,
                                   .adapter_targets = "q_proj,v_proj",
                                   .presets = presets,
                                   .preset_count = ROWS_COUNT(presets)};
