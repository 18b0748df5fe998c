/* SPDX-License-Identifier: MIT */
/* Chains of dense layers over rows of numbers: Bedplate's own configuration, for transformers has
 * no such class. */
#include "layers/families/mlp_model.h"
#include "tools/formats/family/family_rows.h"

#define CLASSES_MOST 1024

#define MLP(member) BP_FAMILY_MEMBER(bp_mlp_config, member)

static const bp_row rows[] = {
    ROW_CHOICE("hidden_act", MLP(activation), "gelu|tanh|relu", BP_ACTIVATION_RELU),
    ROW_REAL("hidden_dropout_prob", MLP(dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT("hidden_size", MLP(width), WIDTH_MOST, 64, WIDTH),
    {"hidden_sizes", BP_ROW_SIZES, BP_ROLE_NONE, 0, MLP(hidden_sizes), 1, WIDTH_MOST,
     BP_HIDDEN_SIZES_MAX, NULL},
    ROW_REAL("initializer_range", MLP(initializer_range), 1e6, 0.0, INITIAL),
    {"input_size", BP_ROW_COUNT, BP_ROLE_NONE, BP_ROW_REQUIRED, COMMON(positions), 1,
     POSITIONS_MOST, 0, NULL},
    ROW_TYPE,
    ROW_COUNT("num_hidden_layers", MLP(layers), LAYERS_MOST, 1, LAYERS),
    ROW_LABELS,
    ROW_PROBLEM,
    ROW_ALIAS("num_labels", COMMON(classes), CLASSES_MOST),
    ROW_FIXED("quantization_config", NULL, NULL, BP_ROW_READ),
};

static const bp_tensor_rule rules[] = {{"*", "*", BP_LAYOUT_PLAIN}};

#define PRESET(inputs_, width_, layers_, classes_, activation_)                                    \
    {.family = &bp_family_mlp,                                                                     \
     .positions = (inputs_),                                                                       \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = -1,                                                                              \
     .task = BP_TASK_CLASSES,                                                                      \
     .classes = (classes_)},                                                                       \
        OWN((const bp_mlp_config){                                                                 \
            .width = (width_), .layers = (layers_), .activation = (activation_)})

static const bp_preset presets[] = {
    {"mlp", "a chain of dense layers for images of 28 x 28 pixels",
     PRESET(784, 512, 2, 10, BP_ACTIVATION_RELU)},
    {"tiny-mlp", "a chain of dense layers for tests: 4 numbers a row",
     PRESET(4, 16, 2, 3, BP_ACTIVATION_TANH)},
};

const bp_family bp_family_mlp = {.model_type = "mlp",
                                 .model = &bp_model_mlp,
                                 .rows = rows,
                                 .row_count = ROWS_COUNT(rows),
                                 .task = BP_TASK_CLASSES,
                                 .naming = {rules, ROWS_COUNT(rules), NULL, 0, NULL, 0},
                                 .presets = presets,
                                 .preset_count = ROWS_COUNT(presets)};
