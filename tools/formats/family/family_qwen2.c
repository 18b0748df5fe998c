/* SPDX-License-Identifier: MIT */
/* Qwen2: transformers' configuration_qwen2.py. It is computed as Llama is, with biases of the
 * queries, keys and values, and with a window of its later layers where the file says so. */
#include "tools/formats/family/family_llama.h"
#include "tools/formats/gguf/gguf_llama.h"

void bp_family_qwen_window(bp_llama_config *own)
{
    const uint32_t layers = own->stack.layers;
    own->slides = own->slides && own->window != 0;
    if (!own->slides) {
        own->window = 0;
        own->full_layers = FULL_LAYERS;
        own->near.listed = 0;
        return;
    }
    for (uint32_t i = own->full_layers; own->near.listed == 0 && i < layers; i++) {
        bp_layer_put(&own->near, i);
    }
    own->near.listed = layers;
    own->full_layers = 0;
    while (own->full_layers < layers && !bp_layer_in(&own->near, own->full_layers)) {
        own->full_layers++;
    }
}

/* No key says that the biases are there. */
static void family_qwen2_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.qkv_bias = true;
    bp_family_qwen_window(&own);
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
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
    ROW_FIXED("use_mrope", FALSE, NULL, BP_ROW_READ),
};

const bp_family bp_family_qwen2 = {.model_type = "qwen2",
                                   .model = &bp_model_llama,
                                   .rows = rows,
                                   .row_count = ROWS_COUNT(rows),
                                   .language_class = "Qwen2ForCausalLM",
                                   .judge_class = "Qwen2ForSequenceClassification",
                                   .resolve = family_qwen2_resolve,
                                   .naming = LLAMA_NAMING,
                                   .gguf = &bp_gguf_qwen2,
                                   .adapter_targets = "q_proj,v_proj"};
