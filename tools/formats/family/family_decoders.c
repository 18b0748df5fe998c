/* SPDX-License-Identifier: MIT */
/* Decoders of 2024 and 2025 that differ from Llama by switches. */
#include "tools/formats/family/family_llama.h"

#include "tools/formats/gguf/gguf_decoders.h"
#include "tools/formats/hf/hf_rope.h"

/* Seed-OSS: Llama's layers with biases of queries, keys and values alone, and dropout behind the
 * sublayers. */
static const bp_row seed_oss_rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), true),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.1, DROPOUT),
    ROW_FLAG("attention_out_bias", LLAMA(output_bias), false),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 128, HEAD_WIDTH, 0),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(4096, 27648, 524288, 80, 64),
    ROW_FLAG("mlp_bias", LLAMA(mlp_bias), false),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 8, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("residual_dropout", STACK(residual_dropout), 1.0, 0.1, DROPOUT),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-6, NONE),
    ROWS_ROPE(10000.0),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(155136, 0, 2, 1),
    ROWS_ROPE_READ,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset seed_oss_presets[] = {
    {"tiny-seed-oss", "a byte-level Seed-OSS for tests",
     LLAMA_TINY(&bp_family_seed_oss, 2, .qkv_bias = true, .head_width = 24, .stack.untied = true)},
};

const bp_family bp_family_seed_oss = {.model_type = "seed_oss",
                                      .model = &bp_model_llama,
                                      .rows = seed_oss_rows,
                                      .row_count = ROWS_COUNT(seed_oss_rows),
                                      .language_class = "SeedOssForCausalLM",
                                      .judge_class = "SeedOssForSequenceClassification",
                                      .naming = LLAMA_NAMING,
                                      .gguf = &bp_gguf_seed_oss,
                                      .adapter_targets = "q_proj,v_proj",
                                      .presets = seed_oss_presets,
                                      .preset_count = ROWS_COUNT(seed_oss_presets)};

/* OLMo 3: OLMo 2 with windows in three of four layers, whose heads turn unscaled. */
static void family_olmo3_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.norms = BP_LLAMA_NORMS_AFTER;
    own.whole_norms = true;
    own.near_theta = own.near_theta > 0.0 ? own.near_theta : own.rope_theta;
    bp_family_near_every(&own, 4);
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row olmo3_rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(4096, 11008, 2048, 32, 32),
    ROW_LAYER_TYPES,
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 0, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    /* both kinds of layers, and what older versions read */
    ROW_FIXED("rope_parameters", ROPE, NULL, 0),
    {"rope_parameters.sliding_attention.rope_theta", BP_ROW_REAL, BP_ROLE_NONE, BP_ROW_INSIDE,
     LLAMA(near_theta), 0, 1e12, 500000.0, NULL},
    ROWS_ROPE(500000.0),
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 4096, NONE, 0),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(50304, -1, 50279, 1),
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset olmo3_presets[] = {
    {"tiny-olmo3", "a byte-level OLMo 3 for tests",
     LLAMA_TINY(&bp_family_olmo3, 4, .norms = BP_LLAMA_NORMS_AFTER, .whole_norms = true,
                .near_theta = 10000.0, .window = 24, .near = {{7, 0}, 4}, .stack.untied = true)},
};

const bp_family bp_family_olmo3 = {.model_type = "olmo3",
                                   .model = &bp_model_llama,
                                   .rows = olmo3_rows,
                                   .row_count = ROWS_COUNT(olmo3_rows),
                                   .language_class = "Olmo3ForCausalLM",
                                   .judge_class = "Olmo3ForSequenceClassification",
                                   .resolve = family_olmo3_resolve,
                                   .naming = LLAMA_NAMING,
                                   .gguf = &bp_gguf_olmo3,
                                   .adapter_targets = "q_proj,v_proj",
                                   .presets = olmo3_presets,
                                   .preset_count = ROWS_COUNT(olmo3_presets)};

/* EXAONE 4.0: norms behind the sublayers and of heads; beside layers with windows those without do
 * not turn their heads. */
static void family_exaone4_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.norms = BP_LLAMA_NORMS_AFTER;
    own.head_norms = true;
    bp_family_still_beside(&own);
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row exaone4_rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(4096, 16384, 2048, 32, 32),
    ROW_LAYER_TYPES,
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 32, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROWS_ROPE(10000.0),
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 4096, NONE, 0),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(102400, 0, 2, -1),
    ROW_PATTERN,
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset exaone4_presets[] = {
    {"tiny-exaone4", "a byte-level EXAONE 4.0 for tests",
     LLAMA_TINY(&bp_family_exaone4, 4, .norms = BP_LLAMA_NORMS_AFTER, .head_norms = true,
                .window = 24, .turn_every = 4, .near = {{7, 0}, 4}, .still = {{8, 0}, 4})},
};

const bp_family bp_family_exaone4 = {.model_type = "exaone4",
                                     .model = &bp_model_llama,
                                     .rows = exaone4_rows,
                                     .row_count = ROWS_COUNT(exaone4_rows),
                                     .language_class = "Exaone4ForCausalLM",
                                     .judge_class = "Exaone4ForSequenceClassification",
                                     .resolve = family_exaone4_resolve,
                                     .naming = LLAMA_NAMING,
                                     .gguf = &bp_gguf_exaone4,
                                     .adapter_targets = "q_proj,v_proj",
                                     .presets = exaone4_presets,
                                     .preset_count = ROWS_COUNT(exaone4_presets)};

/* Hunyuan's dense models: heads are normalised once they have turned, by a base that alpha
 * stretches. */
static void family_hunyuan_v1_dense_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.head_norms = true;
    own.norms_late = true;
    own.names = BP_LLAMA_NAMES_HUNYUAN;
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row hunyuan_v1_dense_rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(4096, 11008, 2048, 32, 32),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 0, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROWS_ROPE(10000.0),
    {BP_ROPE_ALPHA, BP_ROW_REAL, BP_ROLE_NONE, BP_ROW_INSIDE, LLAMA(rope_scaling.low), 0, 1e12, 0,
     NULL},
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(290943, 1, 2, 0),
    ROWS_ROPE_READ,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset hunyuan_v1_dense_presets[] = {
    {"tiny-hunyuan", "a byte-level Hunyuan for tests",
     LLAMA_TINY(
         &bp_family_hunyuan_v1_dense, 2, .head_norms = true, .norms_late = true,
         .names = BP_LLAMA_NAMES_HUNYUAN, .head_width = 24,
         .rope_scaling = {.kind = BP_ROPE_DYNAMIC, .factor = 1.0, .low = 50.0, .original = 128})},
};

const bp_family bp_family_hunyuan_v1_dense = {.model_type = "hunyuan_v1_dense",
                                              .model = &bp_model_llama,
                                              .rows = hunyuan_v1_dense_rows,
                                              .row_count = ROWS_COUNT(hunyuan_v1_dense_rows),
                                              .language_class = "HunYuanDenseV1ForCausalLM",
                                              .judge_class =
                                                  "HunYuanDenseV1ForSequenceClassification",
                                              .resolve = family_hunyuan_v1_dense_resolve,
                                              .naming = LLAMA_NAMING,
                                              .gguf = &bp_gguf_hunyuan_v1_dense,
                                              .adapter_targets = "q_proj,v_proj",
                                              .presets = hunyuan_v1_dense_presets,
                                              .preset_count = ROWS_COUNT(hunyuan_v1_dense_presets)};

/* Command-R: one layer norm without a bias for both sublayers, heads that turn by pairs of
 * neighbours, and logits times a factor. */
static void family_cohere_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.neighbours = true;
    own.parallel = true;
    own.centred = true;
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row cohere_rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(8192, 22528, 8192, 64, 40),
    ROW_REAL("layer_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROW_REAL("logit_scale", LLAMA(logit_scale), 1e6, 0.0625, NONE),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 0, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROWS_ROPE(500000.0),
    ROW_TIED(STACK(untied), false),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(256000, 5, 255001, 0),
    ROWS_ROPE_READ,
    ROW_FIXED("use_qk_norm", FALSE, NULL, BP_ROW_READ | BP_ROW_SPARSE),
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset cohere_presets[] = {
    {"tiny-cohere", "a byte-level Command-R for tests",
     LLAMA_TINY(&bp_family_cohere, 2, .neighbours = true, .parallel = true, .centred = true,
                .logit_scale = 0.0625)},
};

const bp_family bp_family_cohere = {.model_type = "cohere",
                                    .model = &bp_model_llama,
                                    .rows = cohere_rows,
                                    .row_count = ROWS_COUNT(cohere_rows),
                                    .language_class = "CohereForCausalLM",
                                    .judge_class = "CohereForSequenceClassification",
                                    .resolve = family_cohere_resolve,
                                    .naming = LLAMA_NAMING,
                                    .gguf = &bp_gguf_cohere,
                                    .adapter_targets = "q_proj,v_proj",
                                    .presets = cohere_presets,
                                    .preset_count = ROWS_COUNT(cohere_presets)};

/* Command-R7B and Command A: Command-R with windows in three of four layers, and heads that turn in
 * those alone. */
static void family_cohere2_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.neighbours = true;
    own.parallel = true;
    own.centred = true;
    bp_family_still_beside(&own);
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row cohere2_rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROWS_STACK(8192, 22528, 8192, 64, 40),
    ROW_REAL("layer_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROW_LAYER_TYPES,
    ROW_REAL("logit_scale", LLAMA(logit_scale), 1e6, 0.0625, NONE),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 0, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROWS_ROPE(10000.0),
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 4096, NONE, 0),
    ROW_TIED(STACK(untied), false),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(256000, 5, 255001, 0),
    ROW_PATTERN,
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset cohere2_presets[] = {
    {"tiny-cohere2", "a byte-level Command-R7B for tests",
     LLAMA_TINY(&bp_family_cohere2, 4, .neighbours = true, .parallel = true, .centred = true,
                .logit_scale = 0.0625, .window = 24, .turn_every = 4, .near = {{7, 0}, 4},
                .still = {{8, 0}, 4})},
};

const bp_family bp_family_cohere2 = {.model_type = "cohere2",
                                     .model = &bp_model_llama,
                                     .rows = cohere2_rows,
                                     .row_count = ROWS_COUNT(cohere2_rows),
                                     .language_class = "Cohere2ForCausalLM",
                                     .judge_class = "Cohere2ForSequenceClassification",
                                     .resolve = family_cohere2_resolve,
                                     .naming = LLAMA_NAMING,
                                     .gguf = &bp_gguf_cohere2,
                                     .adapter_targets = "q_proj,v_proj",
                                     .presets = cohere2_presets,
                                     .preset_count = ROWS_COUNT(cohere2_presets)};

/* StarCoder2 (arXiv 2402.19173): Llama's layers with layer norms, biases and a perceptron without a
 * gate. */
static void family_starcoder2_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.centred = true;
    own.norm_bias = true;
    own.ungated = true;
    own.drops_first = true;
    own.names = BP_LLAMA_NAMES_STARCODER2;
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row starcoder2_rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL("embedding_dropout", STACK(embedding_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_CHOICE("hidden_act", STACK(activation), "gelu|gelu_new|gelu_fast|gelu_pytorch_tanh|relu",
               3),
    ROWS_STACK(3072, 12288, 4096, 24, 30),
    ROW_TYPE,
    ROW_REAL("norm_epsilon", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 2, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("residual_dropout", STACK(residual_dropout), 1.0, 0.0, DROPOUT),
    ROWS_ROPE(10000.0),
    ROW_COUNT_NULL("sliding_window", LLAMA(window), POSITIONS_MOST, 0, NONE, 0),
    ROW_TIED(STACK(untied), false),
    ROW_FLAG("use_bias", LLAMA(qkv_bias), true),
    ROW_FLAG("use_bias", LLAMA(output_bias), true),
    ROW_FLAG("use_bias", LLAMA(mlp_bias), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(49152, 50256, 50256, -1),
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset starcoder2_presets[] = {
    {"tiny-starcoder2", "a byte-level StarCoder2 for tests",
     LLAMA_TINY(&bp_family_starcoder2, 2, .centred = true, .norm_bias = true, .ungated = true,
                .drops_first = true, .names = BP_LLAMA_NAMES_STARCODER2, .qkv_bias = true,
                .output_bias = true, .mlp_bias = true, .stack.activation = 3)},
};

const bp_family bp_family_starcoder2 = {.model_type = "starcoder2",
                                        .model = &bp_model_llama,
                                        .rows = starcoder2_rows,
                                        .row_count = ROWS_COUNT(starcoder2_rows),
                                        .language_class = "Starcoder2ForCausalLM",
                                        .judge_class = "Starcoder2ForSequenceClassification",
                                        .resolve = family_starcoder2_resolve,
                                        .naming = LLAMA_NAMING,
                                        .gguf = &bp_gguf_starcoder2,
                                        .adapter_targets = "q_proj,v_proj",
                                        .presets = starcoder2_presets,
                                        .preset_count = ROWS_COUNT(starcoder2_presets)};

/* Arcee's AFM: Llama's layers, whose perceptron has no gate and squares what ReLU leaves. */
static void family_arcee_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.ungated = true;
    own.stack.activation = BP_HIDDEN_RELU_SQUARED;
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row arcee_rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "relu2", 0),
    ROWS_STACK(2560, 18432, 4096, 32, 32),
    ROW_FLAG("mlp_bias", LLAMA(mlp_bias), false),
    ROW_TYPE,
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 0, KV_HEADS,
                   BP_ROW_RESOLVED),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-5, NONE),
    ROWS_ROPE(10000.0),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(32000, 128000, 128001, -1),
    ROWS_ROPE_READ,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset arcee_presets[] = {
    {"tiny-arcee", "a byte-level Arcee for tests",
     LLAMA_TINY(&bp_family_arcee, 2, .ungated = true, .stack.activation = BP_HIDDEN_RELU_SQUARED)},
};

const bp_family bp_family_arcee = {.model_type = "arcee",
                                   .model = &bp_model_llama,
                                   .rows = arcee_rows,
                                   .row_count = ROWS_COUNT(arcee_rows),
                                   .language_class = "ArceeForCausalLM",
                                   .judge_class = "ArceeForSequenceClassification",
                                   .resolve = family_arcee_resolve,
                                   .naming = LLAMA_NAMING,
                                   .gguf = &bp_gguf_arcee,
                                   .adapter_targets = "q_proj,v_proj",
                                   .presets = arcee_presets,
                                   .preset_count = ROWS_COUNT(arcee_presets)};

/* Granite 4 without experts and without Mamba (Micro): Granite with other names, and heads that
 * need not turn. */
static void family_granitemoehybrid_resolve(bp_model_config *config)
{
    bp_llama_config own = bp_llama_config_of(config);
    own.fused_gate = true;
    own.names = BP_LLAMA_NAMES_GRANITE4;
    own.near = (bp_layer_set){.listed = own.stack.layers};
    own.still = own.near;
    for (uint32_t i = 0; own.turn_every == 0 && i < own.stack.layers; i++) {
        bp_layer_put(&own.still, i);
    }
    bp_family_config_set(config, &own, sizeof own);
}

static const bp_row granitemoehybrid_rows[] = {
    ROW_CLASSES,
    ROW_FLAG("attention_bias", LLAMA(qkv_bias), false),
    ROW_FLAG("attention_bias", LLAMA(output_bias), false),
    ROW_REAL("attention_dropout", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL("attention_multiplier", LLAMA(attention_scale), 1e6, 1.0, NONE),
    ROW_REAL("embedding_multiplier", LLAMA(embedding_scale), 1e6, 1.0, NONE),
    ROW_COUNT_NULL("head_dim", LLAMA(head_width), HEAD_WIDTH_MOST, 0, HEAD_WIDTH, BP_ROW_SPARSE),
    ROW_FIXED("hidden_act", TEXT, "silu", 0),
    ROW_COUNT("hidden_size", STACK(width), WIDTH_MOST, 4096, WIDTH),
    ROW_REAL("initializer_range", STACK(initializer_range), 1e6, 0.02, INITIAL),
    /* by the name that both versions of transformers read */
    ROW_LAYERS("layer_types", near, "attention|full_attention"),
    ROW_FIXED("layers_block_type", TEXTS, "attention|full_attention", BP_ROW_READ),
    ROW_REAL("logits_scaling", LLAMA(logit_divisor), 1e6, 1.0, NONE),
    ROW_COUNT("max_position_embeddings", COMMON(positions), POSITIONS_MOST, 2048, NONE),
    ROW_TYPE,
    ROW_COUNT("num_attention_heads", STACK(heads), HEADS_MOST, 32, HEADS),
    ROW_COUNT("num_hidden_layers", STACK(layers), LAYERS_MOST, 32, LAYERS),
    ROW_COUNT_NULL("num_key_value_heads", LLAMA(kv_heads), HEADS_MOST, 0, KV_HEADS,
                   BP_ROW_RESOLVED),
    /* experts are not implemented */
    {"num_local_experts", BP_ROW_COUNT, BP_ROLE_NONE, BP_ROW_REQUIRED, LLAMA(full_layers), 0, 0, 0,
     NULL},
    {"position_embedding_type", BP_ROW_CHOICE, BP_ROLE_NONE, BP_ROW_SPARSE, LLAMA(turn_every), 0, 0,
     0, "nope|rope"},
    ROW_REAL("residual_multiplier", LLAMA(residual_scale), 1e6, 1.0, NONE),
    ROW_REAL("rms_norm_eps", STACK(norm_epsilon), 1.0, 1e-6, NONE),
    ROWS_ROPE(10000.0),
    ROW_COUNT("shared_intermediate_size", STACK(inner), INNER_MOST, 1024, INNER),
    ROW_TIED(STACK(untied), true),
    ROW_LABELS,
    ROW_PROBLEM,
    ROWS_TEXT(32000, 1, 2, -1),
    ROWS_ROPE_WINDOWS,
    ROWS_CAUSAL_REFUSED,
};

static const bp_preset granitemoehybrid_presets[] = {
    {"tiny-granite4", "a byte-level Granite 4 without experts for tests",
     LLAMA_TINY(&bp_family_granitemoehybrid, 2, .attention_scale = 0.125, .embedding_scale = 12.0,
                .residual_scale = 0.22, .logit_divisor = 8.0, .fused_gate = true, .turn_every = 1,
                .names = BP_LLAMA_NAMES_GRANITE4, .near = {{0, 0}, 2}, .still = {{0, 0}, 2})},
};

const bp_family bp_family_granitemoehybrid = {.model_type = "granitemoehybrid",
                                              .model = &bp_model_llama,
                                              .rows = granitemoehybrid_rows,
                                              .row_count = ROWS_COUNT(granitemoehybrid_rows),
                                              .language_class = "GraniteMoeHybridForCausalLM",
                                              .judge_class =
                                                  "GraniteMoeHybridForSequenceClassification",
                                              .resolve = family_granitemoehybrid_resolve,
                                              .naming = LLAMA_NAMING,
                                              .adapter_targets = "q_proj,v_proj",
                                              .presets = granitemoehybrid_presets,
                                              .preset_count = ROWS_COUNT(granitemoehybrid_presets)};
