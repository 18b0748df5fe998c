/* SPDX-License-Identifier: MIT */
/* SmolLM3: Llama's layers, of which some do not turn their heads; the list says 1 of those that do.
 */
#include "tools/formats/family/family_llama.h"

#include "tools/formats/gguf/gguf_llama.h"

#define TURN_EVERY 4

/* The last of every so many layers stays as it is where the file does not say which do, and it is
 * these that look through a window where the file says only that there is one. */
static void family_smollm3_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    const uint32_t every = own.turn_every;
    for (uint32_t i = every - 1; own.still.listed == 0 && i < own.stack.layers; i += every) {
        bp_layer_put(&own.still, i);
    }
    own.still.listed = own.stack.layers;
    own.turn_every = TURN_EVERY;
    if (own.near.listed == 0 && own.slides && own.window != 0) {
        own.near = own.still;
    }
    own.window = own.near.listed == 0 ? 0 : own.window;
    own.slides = own.window != 0;
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(2048, 11008, 32768, 16, 36),
    ROW_LAYER_TYPES,
    ROW_FLAG("mlp_bias", LLAMA(mlp_bias), false),
    ROW_TYPE,
    {"no_rope_layer_interval", BP_ROW_COUNT, BP_ROLE_NONE, BP_ROW_READ, LLAMA(turn_every), 1,
     LAYERS_MOST, TURN_EVERY, NULL},
    ROW_LAYERS("no_rope_layers", still, NULL),
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 4, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-6, NONE),
    ROWS_ROPE(2000000.0),
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 0, NONE, 0),
    ROW_TIED(STACK(untied), false),
    ROW_LABELS,
    ROW_PROBLEM,
    ROW_SLIDES,
    ROWS_TEXT(128256, 128000, 128001, 128004),
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset presets[] = {
    {"tiny-smollm3", "a byte-level SmolLM3 for tests",
     LLAMA_TINY(&bp_family_smollm3, 4, .still = {{8, 0}, 4}, .turn_every = TURN_EVERY)},
};

const bp_family bp_family_smollm3 = {.model_type = "smollm3",
                                     .model = &bp_model_llama,
                                     .rows = rows,
                                     .row_count = ROWS_COUNT(rows),
                                     .language_class = "SmolLM3ForCausalLM",
                                     .judge_class = "SmolLM3ForSequenceClassification",
                                     .resolve = family_smollm3_resolve,
                                     .naming = LLAMA_NAMING,
                                     .gguf = &bp_gguf_smollm3,
                                     .adapter_targets = "q_proj,v_proj",
                                     .presets = presets,
                                     .preset_count = ROWS_COUNT(presets)};
