/* SPDX-License-Identifier: MIT */
/* Recurrent language models: Bedplate's own configuration, with names as PyTorch's modules have
 * them where they have them. */
#include "layers/families/rnn.h"
#include "tools/formats/family/family_rows.h"

#define RNN(member) BP_FAMILY_MEMBER(bp_rnn_config, member)

static const bp_row rows[] = {
    ROW_CHOICE("cell", RNN(cell), "gru|lstm", BP_CELL_GRU),
    ROW_REAL("dropout", RNN(dropout), 1.0, 0.0, DROPOUT),
    ROW_COUNT_NULL("embedding_size", RNN(embedding), WIDTH_MOST, 0, NONE, BP_ROW_SPARSE),
    ROW_COUNT("hidden_size", RNN(width), WIDTH_MOST, 256, WIDTH),
    ROW_REAL("initializer_range", RNN(initializer_range), 1e6, 0.0, INITIAL),
    ROW_COUNT("max_position_embeddings", COMMON(positions), POSITIONS_MOST, 1 << 20, NONE),
    ROW_TYPE,
    ROW_COUNT("num_hidden_layers", RNN(layers), LAYERS_MOST, 1, LAYERS),
    ROW_TIED(RNN(untied), true),
    ROWS_TEXT(256, -1, -1, -1),
    ROW_FIXED("bidirectional", FALSE, NULL, BP_ROW_READ),
    ROW_FIXED("quantization_config", NULL, NULL, BP_ROW_READ),
};

static const bp_tensor_rule rules[] = {{"*", "*", BP_LAYOUT_PLAIN}};

/* Of a tied model PyTorch's state dict holds the table twice. */
static const bp_tensor_twin twins[] = {{"decoder.weight", "encoder.weight", NULL}};

/* Over bytes. */
#define PRESET(cell_, width_, layers_)                                                             \
    {.family = &bp_family_rnn,                                                                     \
     .vocabulary = 256,                                                                            \
     .positions = 1 << 20,                                                                         \
     .bos_token = -1,                                                                              \
     .eos_token = -1,                                                                              \
     .pad_token = -1},                                                                             \
        OWN((const bp_rnn_config){                                                                 \
            .width = (width_), .layers = (layers_), .untied = true, .cell = (cell_)})

static const bp_preset presets[] = {
    {"gru", "a byte-level GRU", PRESET(BP_CELL_GRU, 512, 2)},
    {"lstm", "a byte-level LSTM", PRESET(BP_CELL_LSTM, 512, 2)},
    {"tiny-gru", "a byte-level GRU for tests", PRESET(BP_CELL_GRU, 32, 2)},
    {"tiny-lstm", "a byte-level LSTM for tests", PRESET(BP_CELL_LSTM, 32, 1)},
};

const bp_family bp_family_rnn = {
    .model_type = "rnn",
    .model = &bp_model_rnn,
    .rows = rows,
    .row_count = ROWS_COUNT(rows),
    .naming = {rules, ROWS_COUNT(rules), NULL, 0, twins, ROWS_COUNT(twins)},
    .presets = presets,
    .preset_count = ROWS_COUNT(presets),
    .pieces = BP_FAMILY_MEMBER(bp_rnn_config, chunks)};
