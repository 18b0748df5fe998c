/* SPDX-License-Identifier: MIT */
/* Phi-3, Phi-3.5 and Phi-4 (arXiv 2404.14219): Llama's layers with one weight for queries, keys and
 * values and one for gate and up; heads may turn in part. */
#include "tools/formats/family_llama.h"

#include "tools/formats/gguf_llama.h"

static void family_phi3_settle(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.fused = true;
    bp_config_set_own(config, &own, sizeof own);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL("embd_pdrop", STACK(embedding_dropout), 1.0, 0.0, NONE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(3072, 8192, 4096, 32, 32),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 0, KV_HEADS, BP_ROW_SETTLED),
    ROW_REAL("partial_rotary_factor", LLAMA(rotary_share), 1.5, 1.0, NONE),
    ROW_REAL("resid_pdrop", STACK(residual_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROWS_ROPE(10000.0),
    /* after rope_scaling, whose usual value of the same number is none */
    ROW_COUNT("original_max_position_embeddings", LLAMA(rope_scaling.original), POSITIONS_MOST,
              4096, NONE),
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 0, NONE, 0),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(32064, 1, 32000, 32000),
    ROWS_ROPE_WINDOWS,
    ROWS_REFUSED,
    ROW_FIXED("layer_types", TEXTS, "full_attention|sliding_attention", BP_ROW_READ),
};

static const bp_preset presets[] = {
    {"tiny-phi3", "a byte-level Phi-3 for tests",
     LLAMA_TINY(&bp_family_phi3, 2, .fused = true, .rotary_share = 0.75,
                .rope_scaling = {.original = 4096})},
};

const bp_family bp_family_phi3 = {.model_type = "phi3",
                                  .model = &bp_model_llama,
                                  .rows = rows,
                                  .row_count = ROWS_COUNT(rows),
                                  .language_class = "Phi3ForCausalLM",
                                  .judge_class = "Phi3ForSequenceClassification",
                                  .settle = family_phi3_settle,
                                  .naming = LLAMA_NAMING,

                                  .adapter_targets = "qkv_proj",
                                  .presets = presets,
                                  .preset_count = ROWS_COUNT(presets)};
