/* SPDX-License-Identifier: MIT */
/* ResNet: transformers' configuration_resnet.py. How large images are it does not say: image_size,
 * which Bedplate adds, and which transformers keeps as it is. */
#include <string.h>

#include "layers/families/cnn.h"
#include "tools/formats/family/family_rows.h"

#define CLASSES_MOST 65536
#define SIZE_MOST    (1 << 14)

#define CNN(member)    BP_FAMILY_MEMBER(bp_cnn_config, member)
#define RESNET(member) CNN(resnet.member)
#define COUNTS(key, member, most)                                                                  \
    {                                                                                              \
        key, BP_ROW_COUNTS, BP_ROLE_NONE, 0, RESNET(member), 1, most, BP_RESNET_STAGES, NULL       \
    }

static const bp_row rows[] = {
    ROW_CLASSES,
    COUNTS("depths", depths, BP_CNN_LAYERS_MAX),
    ROW_FLAG("downsample_in_bottleneck", RESNET(early_strides), 0),
    ROW_FLAG("downsample_in_first_stage", RESNET(first_strides), 0),
    ROW_COUNT("embedding_size", RESNET(embedding_size), SIZE_MOST, 64, NONE),
    ROW_FLAG("freeze_batch_norm", CNN(frozen), 0),
    ROW_FIXED("hidden_act", TEXT, "relu", 0),
    COUNTS("hidden_sizes", hidden_sizes, SIZE_MOST),
    ROW_COUNT("image_size", CNN(height), SIZE_MOST, 224, NONE),
    ROW_COUNT("image_size", CNN(width), SIZE_MOST, 224, NONE),
    ROW_CHOICE("layer_type", RESNET(bottleneck), "basic|bottleneck", 1),
    ROW_TYPE,
    ROW_LABELS,
    ROW_COUNT("num_channels", CNN(channels), SIZE_MOST, 3, NONE),
    ROW_PROBLEM,
    ROW_ALIAS("num_labels", COMMON(classes), CLASSES_MOST),
    ROW_FIXED("quantization_config", NULL, NULL, BP_ROW_READ),
};

/* A backbone by itself leaves the prefix out. */
static const bp_tensor_rule rules[] = {
    {"*", "*", BP_LAYOUT_PLAIN},
    {"resnet.*", "*", BP_LAYOUT_PLAIN},
};

/* How often running statistics moved: no parameters, and read beside them (hf_counts.h). */
static const char *const ignored[] = {"*.num_batches_tracked"};

/* What a file leaves out is ResNet-50's; a row has the numbers of an image. */
static void family_resnet_resolve(bp_model_config *config)
{
    static const bp_resnet usual = {.hidden_sizes = {256, 512, 1024, 2048}, .depths = {3, 4, 6, 3}};
    bp_cnn_config own;
    bp_family_config_get(config, &own, sizeof own);
    if (own.resnet.hidden_sizes[0] == 0) {
        memcpy(own.resnet.hidden_sizes, usual.hidden_sizes, sizeof usual.hidden_sizes);
    }
    if (own.resnet.depths[0] == 0) {
        memcpy(own.resnet.depths, usual.depths, sizeof usual.depths);
    }
    bp_family_config_set(config, &own, sizeof own);
    const uint64_t numbers = bp_size_mul(bp_size_mul(own.height, own.width), own.channels);
    config->positions = numbers < UINT32_MAX ? (uint32_t)numbers : 0;
}

#define PRESET(size_, classes_, ...)                                                               \
    {.family = &bp_family_resnet,                                                                  \
     .positions = (size_) * (size_)*3,                                                             \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = -1,                                                                              \
     .task = BP_TASK_CLASSES,                                                                      \
     .classes = (classes_)},                                                                       \
        OWN((const bp_cnn_config){                                                                 \
            .height = (size_), .width = (size_), .channels = 3, .resnet = {__VA_ARGS__}})
#define SIZES(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const bp_preset presets[] = {
    {"resnet-18", "ResNet-18 for ImageNet's 1,000 classes, images of 224 x 224",
     PRESET(224, 1000, SIZES(64, 128, 256, 512), SIZES(2, 2, 2, 2), 64, 0, 0, 0)},
    {"resnet-50", "ResNet-50 for the same",
     PRESET(224, 1000, SIZES(256, 512, 1024, 2048), SIZES(3, 4, 6, 3), 64, 1, 0, 0)},
    {"tiny-resnet", "a ResNet for tests: images of 16 x 16",
     PRESET(16, 3, SIZES(8, 16), SIZES(1, 1), 4, 1, 0, 0)},
};

const bp_family bp_family_resnet = {
    .model_type = "resnet",
    .model = &bp_model_cnn,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .task = BP_TASK_CLASSES,
    .judge_class = "ResNetForImageClassification",
    .resolve = family_resnet_resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), NULL, 0},
    .adapter_targets = "convolution",
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
