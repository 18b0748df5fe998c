/* SPDX-License-Identifier: MIT */
/* Convolutional nets by description: Bedplate's own configuration, a text for each layer
 * (cnn_text.h). */
#include "layers/families/cnn.h"
#include "layers/images/image.h"
#include "tools/formats/family/family_rows.h"

#define CLASSES_MOST 65536
#define SIZE_MOST    (1 << 14)

#define CNN(member) BP_FAMILY_MEMBER(bp_cnn_config, member)

static const bp_row rows[] = {
    ROW_REAL("batch_norm_eps", CNN(epsilon), 1.0, 1e-5, NONE),
    ROW_REAL("batch_norm_momentum", CNN(momentum), 1.0, 0.1, NONE),
    ROW_FLAG("freeze_batch_norm", CNN(frozen), 0),
    ROW_REAL("hidden_dropout_prob", CNN(dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT("image_height", CNN(height), SIZE_MOST, 32, NONE),
    ROW_COUNT("image_width", CNN(width), SIZE_MOST, 32, NONE),
    {"layers", BP_ROW_NET, BP_ROLE_NONE, 0, CNN(layer), 1, BP_CNN_LAYERS_MAX, 0, NULL},
    ROW_TYPE,
    ROW_LABELS,
    ROW_COUNT("num_channels", CNN(channels), SIZE_MOST, 3, NONE),
    ROW_PROBLEM,
    ROW_ALIAS("num_labels", COMMON(classes), CLASSES_MOST),
    ROW_FIXED("quantization_config", NULL, NULL, BP_ROW_READ),
};

static const bp_tensor_rule rules[] = {{"*", "*", BP_LAYOUT_PLAIN}};

/* How often running statistics moved: no parameters, and read beside them (hf_counts.h). */
static const char *const ignored[] = {"*.num_batches_tracked"};

/* A row has the numbers of an image. */
static void resolve(bp_model_config *config)
{
    const bp_cnn_config own = bp_cnn_config_of(config);
    const uint64_t numbers = bp_size_mul(bp_size_mul(own.height, own.width), own.channels);
    config->positions = numbers < UINT32_MAX ? (uint32_t)numbers : 0;
}

#define HALF BP_PADDING_HALF
#define SAME BP_PADDING_SAME

#define CONV(out, h, w, s, p)                                                                      \
    {                                                                                              \
        .kind = BP_CNN_CONV, .kernel = {h, w}, .stride = {s, s}, .padding = (p), .channels = (out) \
    }
#define SEPARABLE(out, s)                                                                          \
    {                                                                                              \
        .kind = BP_CNN_SEPARABLE, .kernel = {3, 3}, .stride = {s, s}, .padding = SAME,             \
        .channels = (out)                                                                          \
    }
#define BASIC(out, s, p)                                                                           \
    {                                                                                              \
        .kind = BP_CNN_BASIC, .stride = {s, s}, .padding = (p), .channels = (out)                  \
    }
#define DENSE(out)                                                                                 \
    {                                                                                              \
        .kind = BP_CNN_DENSE, .stride = {1, 1}, .channels = (out)                                  \
    }
#define MEAN                                                                                       \
    {                                                                                              \
        .kind = BP_CNN_MEAN_POOL, .stride = { 1, 1 }                                               \
    }

#define PRESET(height_, width_, channels_, classes_, dropout_, count_, ...)                        \
    PRESET_OF(BP_TASK_CLASSES, height_, width_, channels_, classes_, dropout_, count_, __VA_ARGS__)
#define PRESET_OF(task_, height_, width_, channels_, classes_, dropout_, count_, ...)              \
    {.family = &bp_family_cnn,                                                                     \
     .positions = (height_) * (width_) * (channels_),                                              \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = -1,                                                                              \
     .task = (task_),                                                                              \
     .classes = (classes_)},                                                                       \
        OWN((const bp_cnn_config){.height = (height_),                                             \
                                  .width = (width_),                                               \
                                  .channels = (channels_),                                         \
                                  .layers = (count_),                                              \
                                  .epsilon = 1e-5,                                                 \
                                  .momentum = 0.1,                                                 \
                                  .dropout = (dropout_),                                           \
                                  .layer = {__VA_ARGS__}})

static const bp_preset presets[] = {
    {"ds-cnn", "MLPerf Tiny's keyword spotting, 49 x 10 MFCC",
     PRESET(49, 10, 1, 12, 0.4, 6, CONV(64, 10, 4, 2, SAME), SEPARABLE(64, 1), SEPARABLE(64, 1),
            SEPARABLE(64, 1), SEPARABLE(64, 1), MEAN)},
    {"resnet-8", "MLPerf Tiny's image classification, CIFAR-10",
     PRESET(32, 32, 3, 10, 0.0, 5, CONV(16, 3, 3, 1, SAME), BASIC(16, 1, SAME), BASIC(32, 2, SAME),
            BASIC(64, 2, SAME), MEAN)},
    {"resnet-18-cifar", "ResNet-18 for images of 32 x 32",
     PRESET(32, 32, 3, 10, 0.0, 10, CONV(64, 3, 3, 1, HALF), BASIC(64, 1, HALF), BASIC(64, 1, HALF),
            BASIC(128, 2, HALF), BASIC(128, 1, HALF), BASIC(256, 2, HALF), BASIC(256, 1, HALF),
            BASIC(512, 2, HALF), BASIC(512, 1, HALF), MEAN)},
    {"mobilenet-v1-0.25", "MLPerf Tiny's visual wake words, 96 x 96",
     PRESET(96, 96, 3, 2, 0.0, 15, CONV(8, 3, 3, 2, SAME), SEPARABLE(16, 1), SEPARABLE(32, 2),
            SEPARABLE(32, 1), SEPARABLE(64, 2), SEPARABLE(64, 1), SEPARABLE(128, 2),
            SEPARABLE(128, 1), SEPARABLE(128, 1), SEPARABLE(128, 1), SEPARABLE(128, 1),
            SEPARABLE(128, 1), SEPARABLE(256, 2), SEPARABLE(256, 1), MEAN)},
    {"autoencoder", "MLPerf Tiny's anomaly detection, 5 frames of 128 mel bands",
     PRESET_OF(BP_TASK_RECONSTRUCTION, 1, 1, 640, 640, 0.0, 9, DENSE(128), DENSE(128), DENSE(128),
               DENSE(128), DENSE(8), DENSE(128), DENSE(128), DENSE(128), DENSE(128))},
    {"tiny-cnn", "a convolutional net for tests: images of 8 x 8",
     PRESET(8, 8, 1, 3, 0.0, 3, CONV(4, 3, 3, 1, HALF), BASIC(8, 2, HALF), MEAN)},
};

const bp_family bp_family_cnn = {
    .model_type = "cnn",
    .model = &bp_model_cnn,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .task = BP_TASK_CLASSES,
    .resolve = resolve,
    .naming = {rules, ROWS_COUNT(rules), ignored, ROWS_COUNT(ignored), NULL, 0},
    .adapter_targets = "convolution",
    .presets = presets,
    .preset_count = ROWS_COUNT(presets)};
