/* SPDX-License-Identifier: MIT */
/* Phi-3, Phi-3.5 and Phi-4 (arXiv 2404.14219): Llama's layers with one weight for queries, keys and
 * values and one for gate and up; heads may turn in part. */
#include "tools/formats/family/family_llama.h"

#include "tools/formats/gguf/gguf_rope.h"

/* Queries and keys lie as in Hugging Face's files (NEOX), and what is fused there is fused here. */
static const bp_tensor_rule gguf_rules[] = {
    {"model.layers.#.self_attn.qkv_proj.*", "blk.#.attn_qkv.*", BP_LAYOUT_PLAIN},
    {"model.layers.#.mlp.gate_up_proj.*", "blk.#.ffn_up.*", BP_LAYOUT_PLAIN},
    BP_GGUF_LLAMA_RULES(BP_LAYOUT_PLAIN, BP_LAYOUT_PLAIN)};

/* Longrope's factors are the configuration's. */
static const char *const gguf_ignored[] = {"rope_factors_long.weight", "rope_factors_short.weight"};
static const bp_tensor_naming gguf_naming = {gguf_rules, ROWS_COUNT(gguf_rules), gguf_ignored,
                                             2,          bp_gguf_llama_twins,    1};

static void phi3_put(bp_gguf_writer *w, const char *a, const bp_model_config *config)
{
    const bp_llama_config own = bp_llama_config_of(config);
    bp_gguf_llama_put(w, a, config);
    if (!(own.rope_scaling.factor > 0.0)) { /* readers of all files of Phi-3 ask for it */
        bp_gguf_put_u32(w, bp_gguf_key_of(a, "rope.scaling.original_context_length").text,
                        own.rope_scaling.original);
    }
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "rope.dimension_count").text,
                    (uint32_t)bp_llama_rotary_width(&own, bp_gguf_llama_head_width(&own)));
    bp_gguf_put_u32(w, bp_gguf_key_of(a, "attention.sliding_window").text, 0);
}

static void family_phi3_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.fused = true;
    bp_family_config_set(config, &own, sizeof own);
}

/* The window of older files is the model's, although llama.cpp does not look through it. */
static bp_status phi3_take(const bp_gguf_file *f, const char *a, bp_model_config *config)
{
    bp_llama_long both;
    BP_TRY(bp_gguf_llama_take_more(f, a, config, BP_GGUF_PARTIAL | BP_GGUF_WINDOW | BP_GGUF_LONG));
    bp_family_config_get(config, &both, sizeof both);
    BP_TRY(bp_gguf_long_take(f, a, config, &both));
    bp_family_config_set(config, &both, sizeof both);
    family_phi3_resolve(config);
    return BP_OK;
}

static bp_status phi3_exports(const bp_model_config *config, bp_error *error)
{
    const bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(bp_gguf_refuse_window(config, error));
    return bp_gguf_rope_exports(&own, 1u << BP_ROPE_LONG, error);
}

static const bp_gguf_family gguf = {
    "phi3", "phi3", &gguf_naming, phi3_put, phi3_take, bp_gguf_long_factors, phi3_exports};

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL("embd_pdrop", STACK(embedding_dropout), 1.0, 0.0, NONE),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(3072, 8192, 4096, 32, 32),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 0, KV_HEADS,
                   BP_ROW_RESOLVED),
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
    ROWS_CAUSAL_REFUSED,
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
                                  .resolve = family_phi3_resolve,
                                  .naming = LLAMA_NAMING,
                                  .gguf = &gguf,
                                  .adapter_targets = "qkv_proj",
                                  .presets = presets,
                                  .preset_count = ROWS_COUNT(presets)};
