/* SPDX-License-Identifier: MIT */
/* Chains of dense layers as chains of stages. */
#include "layers/families/mlp_model.h"

#include <math.h>

#include "core/plan/model.h"
#include "core/plan/range.h"
#include "layers/blocks/block.h"
#include "layers/heads/classifier.h"
#include "layers/nodes/inputs.h"
#include "layers/nodes/publish.h"

/* What a hidden layer computes. */
enum { INPUT, BEFORE, ACTIVE, OUTPUT, VALUES };

BP_FAMILY_CONFIG_FITS(bp_mlp_config);

bp_mlp_config bp_mlp_config_of(const bp_model_config *config)
{
    bp_mlp_config own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}

static uint32_t mlp_model_stage_count(const bp_model_config *config)
{
    const bp_mlp_config own = bp_mlp_config_of(config);
    return own.layers + 1;
}

static uint32_t mlp_model_parameter_count(const bp_model_config *config)
{
    const bp_mlp_config own = bp_mlp_config_of(config);
    return 2 * (own.layers + 1);
}

static uint32_t mlp_model_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    (void)config;
    return parameter / 2;
}

static void mlp_model_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    const bp_mlp_config own = bp_mlp_config_of(config);
    if (stage == own.layers) {
        bp_name_append(text, "head");
    } else {
        bp_name_append_number(bp_name_append(text, "layers."), stage);
    }
}

/* The value before the activation is all the tape there is: nothing of it is cheap to make again.
 */
static uint32_t mlp_model_variants(const bp_model_config *config, uint32_t stage)
{
    const bp_mlp_config own = bp_mlp_config_of(config);
    return stage < own.layers ? BP_TAPE_VARIANTS : 1;
}

/* Numbers that a hidden layer gives. */
static uint64_t width_of(const bp_model_config *config, uint32_t layer)
{
    const bp_mlp_config own = bp_mlp_config_of(config);
    const uint32_t listed = layer < BP_HIDDEN_SIZES_MAX ? own.hidden_sizes[layer] : 0;
    return listed != 0 ? listed : own.width;
}

static uint64_t input_of(const bp_model_config *config, uint32_t layer)
{
    return layer == 0 ? config->positions : width_of(config, layer - 1);
}

/* Without a range of the config's: variances that hold from layer to layer (He et al., arXiv
 * 1502.01852, of ReLU; LeCun, 1998, of the others). */
static double deviation_of(const bp_model_config *config, uint32_t layer)
{
    const bp_mlp_config own = bp_mlp_config_of(config);
    if (own.initializer_range > 0.0) {
        return own.initializer_range;
    }
    const bool halves = own.activation == BP_ACTIVATION_RELU && layer < own.layers;
    return sqrt((halves ? 2.0 : 1.0) / (double)input_of(config, layer));
}

static void mlp_model_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_mlp_config own = bp_mlp_config_of(config);
    for (uint32_t i = 0; i <= own.layers; i++) {
        const bool head = i == own.layers;
        const uint64_t out = head ? config->classes : width_of(config, i);
        const bp_publish_row weight = {
            "weight", {out, input_of(config, i)}, BP_INIT_NORMAL, deviation_of(config, i)};
        const bp_publish_row bias = {"bias", {out, 0}, BP_INIT_ZEROS, 0.0};
        char prefix[BP_NAME_BYTES];
        if (head) {
            bp_name_append(prefix, "classifier.");
        } else {
            bp_name_append(bp_name_append_number(bp_name_append(prefix, "layers."), i), ".");
        }
        bp_publish_head(builder, prefix, &weight, head ? BP_HEAD_TASK : BP_HEAD_NONE);
        bp_publish_head(builder, prefix, &bias, head ? BP_HEAD_TASK : BP_HEAD_NONE);
    }
}

static bp_linear describe_layer(const bp_builder *builder, uint32_t layer)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_mlp_config own = bp_mlp_config_of(config);
    return (bp_linear){.weight = 2 * layer,
                       .bias = 2 * layer + 1,
                       .in = input_of(config, layer),
                       .out = layer < own.layers ? width_of(config, layer) : config->classes,
                       .output_major = true};
}

/* What a stage reads: rows of numbers (batch, in). */
static bp_ref input_rows(const bp_builder *builder, const bp_stage_call *call)
{
    return call->stage > 0 ? call->input : builder->input[BP_INPUT_IDS];
}

/* A hidden layer; masks of its dropout belong to rows, and only what backward reads is worth
 * keeping: nothing of it is cheap to make again. */
static void describe_hidden(bp_builder *builder, bp_stage_call *call, bp_block *block)
{
    const bp_mlp_config own = bp_mlp_config_of(&builder->spec->config);
    const bp_linear layer = describe_layer(builder, call->stage);
    call->input = input_rows(builder, call);
    *block = (bp_block){
        .value = {[INPUT] = {"input", "d_in", {builder->rows, layer.in}, false},
                  [BEFORE] = {"before", "d_before", {builder->rows, layer.out}, false},
                  [ACTIVE] = {"active", "d_active", {builder->rows, layer.out}, false},
                  [OUTPUT] = {"out", NULL, {builder->rows, layer.out}, false}},
        .values = VALUES,
        .node =
            {{.kind = BP_NODE_DENSE, .in = {INPUT}, .out = {BEFORE}, .parts = 1, .part = {layer}},
             {.kind = BP_NODE_ACTIVATION,
              .in = {BEFORE},
              .out = {ACTIVE},
              .activation = own.activation},
             {.kind = BP_NODE_DROPOUT,
              .in = {ACTIVE},
              .out = {OUTPUT},
              .dropout = {call->stage, own.dropout}}},
        .nodes = 3};
}

static void mlp_model_forward(bp_builder *builder, bp_stage_call *call)
{
    const bool head = call->stage == bp_mlp_config_of(&builder->spec->config).layers;
    bp_samples_begin(builder);
    if (head) {
        const bp_classifier judge = {.score = describe_layer(builder, call->stage)};
        bp_classifier_forward(builder, &judge, input_rows(builder, call));
        call->output = BP_ABSENT;
    } else {
        bp_block *block = bp_block_room(builder);
        describe_hidden(builder, call, block);
        bp_block_forward(builder, call, block);
    }
    bp_samples_end(builder);
}

static void mlp_model_backward(bp_builder *builder, bp_stage_call *call)
{
    const bool head = call->stage == bp_mlp_config_of(&builder->spec->config).layers;
    bp_samples_begin(builder);
    if (head) {
        const bp_classifier judge = {.score = describe_layer(builder, call->stage)};
        const bp_ref d_x = bp_classifier_backward(builder, &judge, input_rows(builder, call));
        call->d_input = call->input_wanted ? d_x : BP_ABSENT;
    } else {
        bp_block *block = bp_block_room(builder);
        describe_hidden(builder, call, block);
        bp_block_backward(builder, call, block);
    }
    bp_samples_end(builder);
}

static bp_status mlp_model_check_ranges(const bp_model_config *config, bp_error *error)
{
    const bp_mlp_config own = bp_mlp_config_of(config);
    const bp_range counts[] = {{"vocab_size", config->vocabulary, 0, 0},
                               {"hidden_size", own.width, 1, 1u << 20},
                               {"num_hidden_layers", own.layers, 0, 1u << 12}};
    const bp_real_range reals[] = {{"hidden_dropout_prob", own.dropout, 0.0, 1.0},
                                   {"initializer_range", own.initializer_range, 0.0, 1e6}};
    BP_TRY(bp_ranges_check(counts, 3, "mlp", error));
    return bp_real_ranges_check(reals, 2, "mlp", error);
}

static bp_status mlp_model_check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    BP_TRY(mlp_model_check_ranges(config, error));
    if (!bp_task_scores_samples(config->task) || spec->generate_context > 0) {
        return bp_error_set(error, BP_ERR_USAGE, "mlp",
                            "this model judges rows of numbers: its tasks are classification, "
                            "multi-label-classification and regression",
                            "task");
    }
    if (spec->sequence != config->positions) {
        return bp_error_numbers(error, BP_ERR_USAGE, "mlp",
                                "a row is as long as the model's input_size", "max-seq-length",
                                spec->sequence, config->positions);
    }
    if (spec->working != BP_F32) {
        return bp_error_set(error, BP_ERR_USAGE, "mlp",
                            "rows of numbers are read in fp32, which is the working type that this "
                            "model has",
                            spec->working == BP_F16 ? "fp16" : "bf16");
    }
    return BP_OK;
}

const bp_model bp_model_mlp = {.name = "mlp",
                               .scratch = sizeof(bp_block),
                               .check = mlp_model_check,
                               .inputs = bp_inputs_numbers,
                               .stages = mlp_model_stage_count,
                               .stage_name = mlp_model_stage_name,
                               .variants = mlp_model_variants,
                               .parameters = mlp_model_parameters,
                               .parameter_count = mlp_model_parameter_count,
                               .parameter_stage = mlp_model_parameter_stage,
                               .forward = mlp_model_forward,
                               .backward = mlp_model_backward};
