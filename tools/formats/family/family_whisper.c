/* SPDX-License-Identifier: MIT */
/* Whisper: transformers' configuration_whisper.py and modeling_whisper.py. */
#include "layers/families/whisper.h"

#include "tools/formats/family/family_rows.h"

#define WHISPER(member) BP_FAMILY_MEMBER(bp_whisper_config, member)

/* A token's number that is 0 or more. */
#define ROW_START(key, at, otherwise)                                                              \
    {                                                                                              \
        key, BP_ROW_COUNT, BP_ROLE_NONE, 0, at, 0, INT32_MAX, otherwise, NULL                      \
    }
/* A probability that has to be 0. */
#define ROW_NEVER(key, at)                                                                         \
    {                                                                                              \
        key, BP_ROW_REAL, BP_ROLE_NONE, 0, at, 0, 1e-12, 0, NULL                                   \
    }

static const bp_row rows[] = {
    ROW_NEVER("activation_dropout", WHISPER(never)),
    ROW_ACT("activation_function", STACK(activation)),
    ROW_FIXED("apply_spec_augment", FALSE, NULL, 0),
    ROW_CLASSES,
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT("d_model", STACK(width), WIDTH_MOST, 384, WIDTH),
    ROW_COUNT("decoder_attention_heads", WHISPER(decoder_heads), HEADS_MOST, 6, NONE),
    ROW_COUNT("decoder_ffn_dim", WHISPER(decoder_inner), INNER_MOST, 1536, NONE),
    ROW_NEVER("decoder_layerdrop", WHISPER(never)),
    ROW_COUNT("decoder_layers", WHISPER(decoder_layers), LAYERS_MOST, 4, NONE),
    ROW_START("decoder_start_token_id", WHISPER(start_token), 50257),
    ROW_REAL("dropout", STACK(residual_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL("dropout", STACK(embedding_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT("encoder_attention_heads", STACK(heads), HEADS_MOST, 6, HEADS),
    ROW_COUNT("encoder_ffn_dim", STACK(inner), INNER_MOST, 1536, INNER),
    ROW_NEVER("encoder_layerdrop", WHISPER(never)),
    ROW_COUNT("encoder_layers", STACK(layers), LAYERS_MOST, 4, LAYERS),
    ROW_REAL("init_std", STACK(initializer_range), 1e6, 0.02, INITIAL),
    ROW_FIXED("is_encoder_decoder", TRUE, NULL, 0),
    ROW_COUNT("max_source_positions", WHISPER(source_positions), 1 << 16, 1500, NONE),
    ROW_COUNT("max_target_positions", COMMON(positions), POSITIONS_MOST, 448, NONE),
    ROW_TYPE,
    ROW_COUNT("num_mel_bins", WHISPER(mels), 1024, 80, NONE),
    ROW_FIXED("tie_word_embeddings", TRUE, NULL, BP_ROW_READ),
    ROWS_TEXT(51865, 50256, 50256, 50256),
    ROW_ALIAS("hidden_size", STACK(width), WIDTH_MOST),
    ROW_ALIAS("num_attention_heads", STACK(heads), HEADS_MOST),
    ROW_ALIAS("num_hidden_layers", STACK(layers), LAYERS_MOST),
    ROW_FIXED("per_layer_config", EMPTY, NULL, BP_ROW_READ),
    {"quantization_config", BP_ROW_QUANTISED, BP_ROLE_NONE, BP_ROW_READ, COMMON(quantised), 0, 0, 0,
     NULL},
};

/* A model without its head leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"model.*", "*", BP_LAYOUT_PLAIN},
};

static const bp_tensor_twin twins[] = {
    {"proj_out.weight", "model.decoder.embed_tokens.weight", NULL},
};

#define PRESET(width_, layers_, decoder_, heads_, inner_, mels_, vocabulary_)                      \
    {.family = &bp_family_whisper,                                                                 \
     .vocabulary = (vocabulary_),                                                                  \
     .positions = 448,                                                                             \
     .bos_token = 50257,                                                                           \
     .eos_token = 50257,                                                                           \
     .pad_token = 50257,                                                                           \
     .task = BP_TASK_CAUSAL_LM},                                                                   \
        OWN((const bp_whisper_config){.stack = {.width = (width_),                                 \
                                                .layers = (layers_),                               \
                                                .heads = (heads_),                                 \
                                                .inner = (inner_),                                 \
                                                .norm_epsilon = 1e-5,                              \
                                                .initializer_range = 0.02},                        \
                                      .mels = (mels_),                                             \
                                      .source_positions = 1500,                                    \
                                      .decoder_layers = (decoder_),                                \
                                      .decoder_heads = (heads_),                                   \
                                      .decoder_inner = (inner_),                                   \
                                      .start_token = 50258})

static const bp_preset presets[] = {
    {"whisper-tiny", "Whisper tiny, 39M", PRESET(384, 4, 4, 6, 1536, 80, 51865)},
    {"whisper-base", "Whisper base, 74M", PRESET(512, 6, 6, 8, 2048, 80, 51865)},
    {"whisper-small", "Whisper small, 244M", PRESET(768, 12, 12, 12, 3072, 80, 51865)},
    {"whisper-medium", "Whisper medium, 769M", PRESET(1024, 24, 24, 16, 4096, 80, 51865)},
    {"whisper-large-v3", "Whisper large-v3, 1550M", PRESET(1280, 32, 32, 20, 5120, 128, 51866)},
    {"whisper-large-v3-turbo", "Whisper large-v3 with 4 layers of its decoder, 809M",
     PRESET(1280, 32, 4, 20, 5120, 128, 51866)},
};

static void family_whisper_resolve(bp_model_config *config)
{
    bp_whisper_config own = bp_whisper_config_of(config);
    own.stack.norm_epsilon = 1e-5; /* torch.nn.LayerNorm's, which no file says */
    bp_family_config_set(config, &own, sizeof own);
}

static const char all_linear[] =
    "[\"q_proj\", \"k_proj\", \"v_proj\", \"out_proj\", \"fc1\", \"fc2\"]";

const bp_family bp_family_whisper = {
    .model_type = "whisper",
    .model = &bp_model_whisper,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .task = BP_TASK_CAUSAL_LM,
    .whole_class = "WhisperForConditionalGeneration",
    .resolve = family_whisper_resolve,
    .naming = {rules, ROWS_COUNT(rules), NULL, 0, twins, ROWS_COUNT(twins)},
    .adapter_targets = "q_proj,v_proj",
    .all_linear = all_linear,
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
