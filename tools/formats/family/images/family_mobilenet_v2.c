/* SPDX-License-Identifier: MIT */
/* MobileNetV2: transformers' configuration_mobilenet_v2.py. */
#include "layers/families/cnn.h"
#include "tools/formats/family/family_rows.h"

#define CLASSES_MOST 65536
#define SIZE_MOST    (1 << 14)

#define CNN(member)    BP_FAMILY_MEMBER(bp_cnn_config, member)
#define MOBILE(member) CNN(mobilenet.member)
#define FLAG_NOT(key, member, otherwise)                                                           \
    {                                                                                              \
        key, BP_ROW_FLAG_NOT, BP_ROLE_NONE, 0, MOBILE(member), 0, 1, otherwise, NULL               \
    }

static const bp_row rows[] = {
    ROW_CLASSES,
    ROW_REAL("classifier_dropout_prob", CNN(dropout), 1.0, 0.8, DROPOUT),
    ROW_COUNT("depth_divisible_by", MOBILE(divisor), SIZE_MOST, 8, NONE),
    ROW_REAL("depth_multiplier", MOBILE(multiplier), 1e3, 1.0, NONE),
    ROW_REAL("expand_ratio", MOBILE(expansion), 1e3, 6.0, NONE),
    FLAG_NOT("finegrained_output", scaled, 0),
    FLAG_NOT("first_layer_is_expansion", expands, 0),
    ROW_FLAG("freeze_batch_norm", CNN(frozen), 0),
    ROW_CHOICE("hidden_act", MOBILE(unlimited), "relu6|relu", 0),
    ROW_COUNT("image_size", CNN(height), SIZE_MOST, 224, NONE),
    ROW_COUNT("image_size", CNN(width), SIZE_MOST, 224, NONE),
    ROW_REAL("layer_norm_eps", CNN(epsilon), 1.0, 1e-3, NONE),
    ROW_COUNT("min_depth", MOBILE(least), SIZE_MOST, 8, NONE),
    ROW_TYPE,
    ROW_LABELS,
    ROW_COUNT("num_channels", CNN(channels), SIZE_MOST, 3, NONE),
    ROW_COUNT("output_stride", MOBILE(stride), 32, 32, NONE),
    ROW_PROBLEM,
    FLAG_NOT("tf_padding", padded_half, 0),
    ROW_ALIAS("num_labels", COMMON(classes), CLASSES_MOST),
    ROW_FIXED("quantization_config", NULL, NULL, BP_ROW_READ),
};

/* A backbone by itself leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"mobilenet_v2.*", "*", BP_LAYOUT_PLAIN},
};

/* How often running statistics moved: no parameters, and read beside them (hf_counts.h). */
static const char *const ignored[] = {"*.num_batches_tracked"};

/* A row has the numbers of an image. */
static void family_mobilenet_resolve(bp_model_config *config)
{
    bp_cnn_config own;
    bp_family_config_get(config, &own, sizeof own);
    const uint64_t numbers = bp_size_mul(bp_size_mul(own.height, own.width), own.channels);
    config->positions = numbers < UINT32_MAX ? (uint32_t)numbers : 0;
}

#define PRESET(size_, classes_, multiplier_, dropout_)                                             \
    {.family = &bp_family_mobilenet_v2,                                                            \
     .positions = (size_) * (size_)*3,                                                             \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = -1,                                                                              \
     .task = BP_TASK_CLASSES,                                                                      \
     .classes = (classes_)},                                                                       \
        OWN((const bp_cnn_config){.height = (size_),                                               \
                                  .width = (size_),                                                \
                                  .channels = 3,                                                   \
                                  .epsilon = 1e-3,                                                 \
                                  .dropout = (dropout_),                                           \
                                  .mobilenet = {.multiplier = (multiplier_),                       \
                                                .expansion = 6.0,                                  \
                                                .divisor = 8,                                      \
                                                .least = 8,                                        \
                                                .stride = 32}})

static const bp_preset presets[] = {
    {"mobilenet-v2",
     "MobileNetV2 for ImageNet's 1,000 classes and none of them, images of 224 x 224",
     PRESET(224, 1001, 1.0, 0.8)},
    {"mobilenet-v2-0.35", "the same with 0.35 of its widths, images of 96 x 96",
     PRESET(96, 1001, 0.35, 0.8)},
    {"tiny-mobilenet", "a MobileNetV2 for tests: images of 32 x 32", PRESET(32, 3, 0.1, 0.0)},
};

const bp_family bp_family_mobilenet_v2 = {
    .model_type = "mobilenet_v2",
    .model = &bp_model_cnn,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .task = BP_TASK_CLASSES,
    .judge_class = "MobileNetV2ForImageClassification",
    .resolve = family_mobilenet_resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), NULL, 0},
    .adapter_targets = "first_conv.convolution,expand_1x1.convolution,reduce_1x1.convolution,"
                       "conv_1x1.convolution", /* those of each channel by itself have none */
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
