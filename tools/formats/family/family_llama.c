/* SPDX-License-Identifier: MIT */
/* Llama: transformers' configuration_llama.py. Keys that change nothing about the model are not
 * listed. */
#include "tools/formats/family/family_llama.h"

#include "tools/formats/gguf/gguf_llama.h"

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(4096, 11008, 2048, 32, 32),
    ROW_FLAG("mlp_bias", LLAMA(mlp_bias), false),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 0, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-6, NONE),
    ROWS_ROPE(10000.0),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(32000, 1, 2, -1),
    ROWS_ROPE_READ,
    ROWS_CAUSAL_REFUSED,
    ROW_FIXED("pretraining_tp", ONE, NULL, BP_ROW_READ),
    ROW_FIXED("sliding_window", NULL, NULL, BP_ROW_READ),
};

void bp_family_near_every(bp_llama_config *own, uint32_t every)
{
    for (uint32_t i = 0; own->near.listed == 0 && i < own->stack.layers; i++) {
        if (every == 0 || (i + 1) % every != 0) {
            bp_layer_put(&own->near, i);
        }
    }
    own->near.listed = own->stack.layers;
}

void bp_family_still_beside(bp_llama_config *own)
{
    if (own->window != 0) {
        bp_family_near_every(own, own->turn_every);
    } else if (own->near.listed == 0) {
        own->near.listed = own->stack.layers;
    }
    own->still = (bp_layer_set){.listed = own->stack.layers};
    for (uint32_t i = 0; own->window != 0 && i < own->stack.layers; i++) {
        if (!bp_layer_in(&own->near, i)) {
            bp_layer_put(&own->still, i);
        }
    }
    own->turn_every = 4; /* whichever of the keys said it */
}

const bp_tensor_rule bp_llama_rules[2] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"model.*", "*", BP_LAYOUT_PLAIN},
};
const char *const bp_llama_ignored[1] = {"*rotary_emb.inv_freq"};
const bp_tensor_twin bp_llama_twins[1] = {
    {"lm_head.weight", "model.embed_tokens.weight", "score.weight"}};

/* Beside an image model the text model has a longer prefix, which transformers changed with its
 * version 5; a bare model has none. */
const bp_tensor_rule bp_llama_inside_rules[4] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"*", "language_model.*", BP_LAYOUT_PLAIN},
    {"model.*", "model.language_model.*", BP_LAYOUT_PLAIN},
    {"model.*", "*", BP_LAYOUT_PLAIN},
};

/* What is for images: text is read and trained alone. */
const char *const bp_llama_inside_ignored[5] = {
    "*rotary_emb.inv_freq",          "vision_tower.*",
    "multi_modal_projector.*",       "model.vision_tower.*",
    "model.multi_modal_projector.*",
};

const bp_tensor_twin bp_llama_inside_twins[2] = {
    {"lm_head.weight", "model.embed_tokens.weight", "score.weight"},
    {"language_model.lm_head.weight", "model.embed_tokens.weight", "score.weight"},
};

/* The first two generations (arXiv 2302.13971, 2307.09288; TinyLlama arXiv 2401.02385): shapes as
 * in the config.json that come with the weights. */
#define LLAMA_2(width_, inner_, layers_, heads_, kv_heads_, positions_)                            \
    {.family = &bp_family_llama,                                                                   \
     .vocabulary = 32000,                                                                          \
     .positions = (positions_),                                                                    \
     .bos_token = 1,                                                                               \
     .eos_token = 2,                                                                               \
     .pad_token = -1},                                                                             \
        OWN((const bp_llama_config){.stack = {.width = (width_),                                   \
                                              .layers = (layers_),                                 \
                                              .heads = (heads_),                                   \
                                              .inner = (inner_),                                   \
                                              .norm_epsilon = 1e-5,                                \
                                              .initializer_range = 0.02,                           \
                                              .untied = true},                                     \
                                    .kv_heads = (kv_heads_),                                       \
                                    .rope_theta = 10000.0})

/* Llama 3 (arXiv 2407.21783). */
#define LLAMA_3(width_, inner_, layers_, positions_, untied_, ...)                                 \
    {.family = &bp_family_llama,                                                                   \
     .vocabulary = 128256,                                                                         \
     .positions = (positions_),                                                                    \
     .bos_token = 128000,                                                                          \
     .eos_token = 128001,                                                                          \
     .pad_token = -1},                                                                             \
        OWN((const bp_llama_config){.stack = {.width = (width_),                                   \
                                              .layers = (layers_),                                 \
                                              .heads = 32,                                         \
                                              .inner = (inner_),                                   \
                                              .norm_epsilon = 1e-5,                                \
                                              .initializer_range = 0.02,                           \
                                              .untied = (untied_)},                                \
                                    .kv_heads = 8,                                                 \
                                    .rope_theta = 500000.0,                                        \
                                    .rope_scaling = {__VA_ARGS__}})

static const bp_preset presets[] = {
    {"llama-7b", "Llama 2, 6,738 million parameters", LLAMA_2(4096, 11008, 32, 32, 32, 4096)},
    {"llama-13b", "Llama 2, 13,016 million parameters", LLAMA_2(5120, 13824, 40, 40, 40, 4096)},
    {"llama-3-8b", "Llama 3, 8,030 million parameters",
     LLAMA_3(4096, 14336, 32, 8192, true, .factor = 0.0)},
    {"llama-3.2-1b", "Llama 3.2, 1,236 million parameters",
     LLAMA_3(2048, 8192, 16, 131072, false, .factor = 32.0, .low = 1.0, .high = 4.0,
             .original = 8192)},
    {"tinyllama-1.1b", "TinyLlama, 1,100 million parameters", LLAMA_2(2048, 5632, 22, 32, 4, 2048)},
    {"tiny-llama",
     "a byte-level Llama with grouped heads for tests",
     {.family = &bp_family_llama,
      .vocabulary = 256,
      .positions = 128,
      .bos_token = -1,
      .eos_token = -1,
      .pad_token = -1},
     OWN((const bp_llama_config){.stack = {.width = 64,
                                           .layers = 2,
                                           .heads = 4,
                                           .inner = 176,
                                           .norm_epsilon = 1e-5,
                                           .initializer_range = 0.02},
                                 .kv_heads = 2,
                                 .rope_theta = 10000.0})},
};

const bp_family bp_family_llama = {.model_type = "llama",
                                   .model = &bp_model_llama,
                                   .rows = rows,
                                   .row_count = ROWS_COUNT(rows),
                                   .language_class = "LlamaForCausalLM",
                                   .judge_class = "LlamaForSequenceClassification",
                                   .naming = LLAMA_NAMING,
                                   .gguf = &bp_gguf_llama,
                                   .adapter_targets = "q_proj,v_proj",
                                   .presets = presets,
                                   .preset_count = ROWS_COUNT(presets)};
