/* SPDX-License-Identifier: MIT */
/* ViT: transformers' configuration_vit.py. */
#include "layers/families/vit.h"
#include "tools/formats/family/family_rows.h"

#define CLASSES_MOST 65536

#define VIT(member) BP_FAMILY_MEMBER(bp_vit_config, member)

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_REAL("attention_probs_dropout_prob", STACK(attention_dropout), 1.0, 0.0, DROPOUT),
    ROW_ACT("hidden_act", STACK(activation)),
    ROW_REAL("hidden_dropout_prob", STACK(residual_dropout), 1.0, 0.0, DROPOUT),
    ROW_REAL("hidden_dropout_prob", STACK(embedding_dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT("hidden_size", STACK(width), WIDTH_MOST, 768, WIDTH),
    ROW_COUNT("image_size", VIT(image), BP_VIT_SIZE_MOST, 224, NONE),
    ROW_REAL("initializer_range", STACK(initializer_range), 1e6, 0.02, INITIAL),
    ROW_COUNT("intermediate_size", STACK(inner), INNER_MOST, 3072, INNER),
    ROW_REAL("layer_norm_eps", STACK(norm_epsilon), 1.0, 1e-12, NONE),
    ROW_TYPE,
    ROW_LABELS,
    ROW_COUNT("num_attention_heads", STACK(heads), HEADS_MOST, 12, HEADS),
    ROW_COUNT("num_channels", VIT(channels), BP_VIT_SIZE_MOST, 3, NONE),
    ROW_COUNT("num_hidden_layers", STACK(layers), LAYERS_MOST, 12, LAYERS),
    ROW_COUNT("patch_size", VIT(patch), BP_VIT_SIZE_MOST, 16, NONE),
    ROW_PROBLEM,
    {"qkv_bias", BP_ROW_FLAG_NOT, BP_ROLE_NONE, 0, VIT(unbiased), 0, 1, 0, NULL},
    ROW_ALIAS("num_labels", COMMON(classes), CLASSES_MOST),
    ROWS_REFUSED,
};

/* A backbone by itself leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"vit.*", "*", BP_LAYOUT_PLAIN},
};

/* What ViTModel makes of the first token besides; the heads of other tasks. */
static const char *const ignored[] = {"vit.pooler.*", "pooler.*", "decoder.*", "classifier.*"};

/* A row has the numbers of an image. */
static void family_vit_resolve(bp_model_config *config)
{
    const bp_vit_config own = bp_vit_config_of(config);
    const uint64_t numbers = bp_size_mul(bp_size_mul(own.image, own.image), own.channels);
    config->positions = numbers < UINT32_MAX ? (uint32_t)numbers : 0;
}

#define PRESET(image_, channels_, classes_, patch_, ...)                                           \
    {.family = &bp_family_vit,                                                                     \
     .positions = (image_) * (image_) * (channels_),                                               \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = -1,                                                                              \
     .task = BP_TASK_CLASSES,                                                                      \
     .classes = (classes_)},                                                                       \
        OWN((const bp_vit_config){.stack = {__VA_ARGS__, .norm_epsilon = 1e-12,                    \
                                            .initializer_range = 0.02, .embedding_dropout = 0.0,   \
                                            .residual_dropout = 0.0, .attention_dropout = 0.0,     \
                                            .untied = false},                                      \
                                  .image = (image_),                                               \
                                  .channels = (channels_),                                         \
                                  .patch = (patch_),                                               \
                                  .unbiased = false})

static const bp_preset presets[] = {
    {"vit-base", "ViT-B/16 for ImageNet's 1,000 classes, images of 224 x 224",
     PRESET(224, 3, 1000, 16, .width = 768, .layers = 12, .heads = 12, .inner = 3072)},
    {"vit-large", "ViT-L/16 for the same",
     PRESET(224, 3, 1000, 16, .width = 1024, .layers = 24, .heads = 16, .inner = 4096)},
    {"tiny-vit", "a ViT for tests: images of 16 x 16",
     PRESET(16, 3, 3, 4, .width = 32, .layers = 2, .heads = 4, .inner = 64)},
};

/* By the names that modules have in transformers 5 (peft_names.h). */
static const char all_linear[] =
    "[\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\", \"fc1\", \"fc2\"]";

const bp_family bp_family_vit = {
    .model_type = "vit",
    .model = &bp_model_vit,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .task = BP_TASK_CLASSES,
    .judge_class = "ViTForImageClassification",
    .resolve = family_vit_resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), NULL, 0},
    .adapter_targets = "q_proj,v_proj",
    .all_linear = all_linear,
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
