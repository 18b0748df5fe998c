/* SPDX-License-Identifier: MIT */
/* Recurrent language models as chains of pieces of time. */
#include "layers/families/rnn.h"

#include <math.h>

#include "core/plan/compile.h"
#include "core/plan/range.h"
#include "layers/blocks/block.h"
#include "layers/nodes/inputs.h"
#include "layers/nodes/publish.h"

/* Numbers of parameters: the encoder, four of each layer, the decoder. */
enum { ENCODER = 0, FIRST_LAYER = 1, LAYER_PARAMETERS = 4 };

/* What a piece computes. A node and values of each layer would leave auto more to choose from, but
 * be twice the buffers to plan for savings below a hundredth. */
enum { BEFORE, EMBEDDED, STATES, GATES, AFTER, VALUES };

BP_FAMILY_CONFIG_FITS(bp_rnn_config);

bp_rnn_config bp_rnn_config_of(const bp_model_config *config)
{
    bp_rnn_config own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}

static uint32_t stage_count(const bp_model_config *config)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    return own.chunks != 0 ? own.chunks : 1;
}

static void stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    (void)config;
    bp_name_append_number(bp_name_append(text, "time."), stage);
}

static uint32_t variants(const bp_model_config *config, uint32_t stage)
{
    return stage + 1 < stage_count(config) ? BP_TAPE_VARIANTS : 1;
}

static uint32_t decoder_bias(const bp_model_config *config)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    return FIRST_LAYER + LAYER_PARAMETERS * own.layers + (own.untied ? 1 : 0);
}

static uint32_t parameter_count(const bp_model_config *config)
{
    return decoder_bias(config) + 1;
}

static uint64_t embedding_width(const bp_model_config *config)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    return own.embedding != 0 ? own.embedding : own.width;
}

static void publish_layer(bp_builder *builder, const bp_model_config *config, uint32_t index,
                          double range)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    static const char *const names[LAYER_PARAMETERS] = {"weight_ih_l", "weight_hh_l", "bias_ih_l",
                                                        "bias_hh_l"};
    const uint64_t gates = bp_cell_gates(own.cell) * own.width;
    const uint64_t in = index == 0 ? embedding_width(config) : own.width;
    const uint64_t columns[LAYER_PARAMETERS] = {in, own.width, 0, 0};
    for (uint32_t i = 0; i < LAYER_PARAMETERS; i++) {
        char name[BP_NAME_BYTES];
        const bp_publish_row row = {name,
                                    {gates, columns[i]},
                                    columns[i] > 0 ? BP_INIT_NORMAL : BP_INIT_ZEROS,
                                    columns[i] > 0 ? range : 0.0};
        bp_name_append_number(bp_name_append(name, names[i]), index);
        bp_publish(builder, "rnn.", &row);
    }
}

/* Without a range of the config's: the variances of PyTorch's own initial weights, which are
 * uniform below 1 / sqrt(width), and normal in the embedding. A table that is also the decoder's
 * has the decoder's. */
static void parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    const double given = own.initializer_range;
    const double range = given > 0.0 ? given : 1.0 / sqrt(3.0 * (double)own.width);
    const double table = given > 0.0 ? given : own.untied ? 1.0 : range;
    const bp_publish_row encoder = {
        "encoder.weight", {config->vocabulary, embedding_width(config)}, BP_INIT_NORMAL, table};
    const bp_publish_row decoder = {
        "decoder.weight", {config->vocabulary, own.width}, BP_INIT_NORMAL, range};
    const bp_publish_row bias = {"decoder.bias", {config->vocabulary, 0}, BP_INIT_ZEROS, 0.0};
    bp_publish_table(builder, "", &encoder);
    for (uint32_t i = 0; i < own.layers; i++) {
        publish_layer(builder, config, i, range);
    }
    if (own.untied) {
        bp_publish_head(builder, "", &decoder, BP_HEAD_OUTPUT);
    }
    bp_publish_head(builder, "", &bias, BP_HEAD_OUTPUT);
}

/* The pen as it was before it was put on a piece of time. */
typedef struct outside {
    bp_ref ids;
    bp_ref losses;
    uint64_t rows;
} outside;

/* The first step of a piece: as even pieces as there can be. */
static uint64_t first_step(const bp_spec *spec, uint32_t stage)
{
    return (uint64_t)stage * spec->sequence / stage_count(&spec->config);
}

static bp_piece describe_piece(const bp_builder *builder, uint32_t stage)
{
    if (builder->mode == BP_MODE_DECODE) {
        return (bp_piece){.first = 0, .length = builder->rows, .batch = 1};
    }
    const uint64_t first = first_step(builder->spec, stage);
    return (bp_piece){.first = first,
                      .length = first_step(builder->spec, stage + 1) - first,
                      .batch = builder->spec->batch};
}

/* Puts the pen on a piece: its rows, ids and losses. */
static outside enter(bp_builder *builder, const bp_piece *piece)
{
    const outside was = {builder->input[BP_INPUT_IDS], builder->losses, builder->rows};
    builder->input[BP_INPUT_IDS] = bp_piece_slice(builder, piece, was.ids, "ids");
    builder->rows = piece->length * piece->batch;
    if (builder->mode != BP_MODE_DECODE) {
        builder->losses = bp_ref_at(was.losses, piece->first * piece->batch);
    }
    return was;
}

static void leave(bp_builder *builder, const outside *was)
{
    builder->input[BP_INPUT_IDS] = was->ids;
    builder->losses = was->losses;
    builder->rows = was->rows;
}

static bp_embedding describe_embedding(const bp_model_config *config)
{
    return (bp_embedding){.token = ENCODER,
                          .position = BP_NO_PARAMETER,
                          .vocabulary = config->vocabulary,
                          .positions = config->positions,
                          .width = embedding_width(config)};
}

static bp_head describe_head(const bp_model_config *config)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    return (bp_head){.table = own.untied ? decoder_bias(config) - 1 : (uint32_t)ENCODER,
                     .bias = decoder_bias(config),
                     .vocabulary = config->vocabulary,
                     .width = own.width};
}

static bp_recurrent_stack describe_stack(const bp_model_config *config, const bp_piece *piece)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    const uint64_t gates = bp_cell_gates(own.cell) * own.width;
    return (bp_recurrent_stack){.first = {.cell = own.cell,
                                          .input = {.weight = FIRST_LAYER,
                                                    .bias = FIRST_LAYER + 2,
                                                    .in = embedding_width(config),
                                                    .out = gates,
                                                    .output_major = true},
                                          .state = {.weight = FIRST_LAYER + 1,
                                                    .bias = FIRST_LAYER + 3,
                                                    .in = own.width,
                                                    .out = gates,
                                                    .output_major = true},
                                          .width = own.width,
                                          .batch = piece->batch,
                                          .length = piece->length},
                                .layers = own.layers};
}

/* A piece of time. Its loss is formed by the way. */
static void describe_block(const bp_builder *builder, uint32_t stage, bp_block *block)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_piece piece = describe_piece(builder, stage);
    const bp_recurrent_stack stack = describe_stack(config, &piece);
    const uint64_t width = stack.first.width, steps = piece.length * piece.batch;
    const uint64_t one = bp_cell_states(stack.first.cell) * piece.batch;
    const bp_value state = {"state", "d_state", {stack.layers * one, width}, false};
    *block = (bp_block){
        .value = {[BEFORE] = state,
                  [EMBEDDED] = {"embedded", "d_in", {steps, stack.first.input.in}, false},
                  [STATES] = {"states", NULL, {bp_stack_states(&stack), width}, false},
                  [GATES] = {"gates", NULL, {bp_stack_saved(&stack), 4 * width}, false},
                  [AFTER] = state},
        .values = VALUES,
        .ends = builder->mode == BP_MODE_DECODE || stage + 1 == stage_count(config),
        .node = {{.kind = BP_NODE_EMBEDDING,
                  .out = {EMBEDDED},
                  .cheap = true,
                  .embedding = describe_embedding(config)},
                 {.kind = BP_NODE_RECURRENT,
                  .in = {EMBEDDED, BEFORE},
                  .out = {STATES, GATES, AFTER},
                  .stack = stack},
                 {.kind = BP_NODE_LOSS,
                  .in = {STATES, BEFORE},
                  .head = describe_head(config),
                  .piece = piece,
                  .row = {bp_stack_output(&stack), (stack.layers - 1) * one}}},
        .nodes = 3};
}

static void forward(bp_builder *builder, bp_stage_call *call)
{
    bp_block *block = bp_block_room(builder);
    const bp_piece piece = describe_piece(builder, call->stage);
    describe_block(builder, call->stage, block);
    const outside was = enter(builder, &piece);
    bp_block_forward(builder, call, block);
    leave(builder, &was);
}

static void backward(bp_builder *builder, bp_stage_call *call)
{
    bp_block *block = bp_block_room(builder);
    const bp_piece piece = describe_piece(builder, call->stage);
    describe_block(builder, call->stage, block);
    const outside was = enter(builder, &piece);
    bp_block_backward(builder, call, block);
    leave(builder, &was);
}

/* All of it happens in the first stage: pieces of time are for training. */
static void decode(bp_builder *builder, bp_stage_call *call)
{
    bp_block *block = bp_block_room(builder);
    call->output = BP_ABSENT;
    if (call->stage > 0) {
        return;
    }
    const bp_piece piece = describe_piece(builder, 0);
    describe_block(builder, 0, block);
    call->input =
        bp_build_carried(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                         block->value[BEFORE].shape[0], block->value[BEFORE].shape[1], "state");
    const outside was = enter(builder, &piece);
    bp_block_decode(builder, call, block);
    leave(builder, &was);
}

static bp_status check_ranges(const bp_model_config *config, bp_error *error)
{
    const bp_rnn_config own = bp_rnn_config_of(config);
    const bp_range counts[] = {{"vocab_size", config->vocabulary, 1, INT32_MAX},
                               {"hidden_size", own.width, 1, 1u << 20},
                               {"num_hidden_layers", own.layers, 1, 1u << 12},
                               {"embedding_size", own.embedding, 0, 1u << 20}};
    const bp_real_range reals[] = {{"dropout", own.dropout, 0.0, 1.0},
                                   {"initializer_range", own.initializer_range, 0.0, 1e6}};
    BP_TRY(bp_ranges_check(counts, 4, "rnn", error));
    return bp_real_ranges_check(reals, 2, "rnn", error);
}

static bp_status check(const bp_spec *spec, bp_error *error)
{
    static const char where[] = "rnn";
    const bp_model_config *config = &spec->config;
    const bp_rnn_config own = bp_rnn_config_of(config);
    BP_TRY(check_ranges(config, error));
    if (spec->tape != BP_TAPE_WORKING) {
        return bp_error_set(error, BP_ERR_USAGE, "rnn",
                            "the tape of this model has states and gates of its cells, of which "
                            "steps that follow are made, so that it has nothing to keep in 8 bits; "
                            "leave it out",
                            "tape-dtype");
    }
    if (spec->weights != BP_WEIGHT_WORKING && spec->optimizer != NULL) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "weights in fp8 are those of dense layers in blocks, which this model "
                            "has not; leave it out",
                            "weight-dtype");
    }
    if (spec->products != BP_PRODUCT_WORKING) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "products in fp8 are those of dense layers in blocks, which this model "
                            "has not; leave it out",
                            "product-dtype");
    }
    if (config->task != BP_TASK_CAUSAL_LM) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "this model is trained to guess the next token: its task is causal-lm",
                            "task");
    }
    if (own.chunks > spec->sequence) {
        return bp_error_limit(error, BP_ERR_USAGE, where,
                              "a sequence has fewer steps than it is to be cut into pieces",
                              "time-chunk", own.chunks, BP_LIMIT_MOST, spec->sequence);
    }
    if (!own.untied && embedding_width(config) != own.width) {
        return bp_error_numbers(error, BP_ERR_USAGE, where,
                                "tie_word_embeddings needs an embedding_size equal to hidden_size",
                                "embedding_size", own.embedding, own.width);
    }
    if (own.dropout > 0.0) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "dropout is not implemented for this model; give --dropout 0",
                            "dropout");
    }
    if (spec->keep_logits) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "logits are made piece of time by piece of time and are not kept",
                            "keep-logits");
    }
    if (spec->lora.rank > 0) {
        return bp_error_set(error, BP_ERR_USAGE, where,
                            "adapters are not implemented for this model", "lora-r");
    }
    return BP_OK;
}

const bp_model bp_model_rnn = {.name = "rnn",
                               .scratch = sizeof(bp_block),
                               .check = check,
                               .inputs = bp_inputs_windows,
                               .stages = stage_count,
                               .stage_name = stage_name,
                               .variants = variants,
                               .parameters = parameters,
                               .parameter_count = parameter_count,
                               .forward = forward,
                               .backward = backward,
                               .decode = decode};
