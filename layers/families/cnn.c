/* SPDX-License-Identifier: MIT */
/* Convolutional nets as chains of stages. */
#include "layers/families/cnn.h"

#include <math.h>

#include "core/plan/range.h"
#include "layers/blocks/block.h"
#include "layers/heads/classifier.h"
#include "layers/images/cnn_layer.h"
#include "layers/images/image_lines.h"
#include "layers/nodes/inputs.h"
#include "layers/families/mobilenet.h"
#include "layers/nodes/publish.h"
#include "layers/families/resnet.h"

BP_FAMILY_CONFIG_FITS(bp_cnn_config);

bp_cnn_config bp_cnn_config_of(const bp_model_config *config)
{
    bp_cnn_config own;
    bp_family_config_get(config, &own, sizeof own);
    if (own.resnet.hidden_sizes[0] != 0) {
        bp_resnet_expand(&own);
    }
    if (own.mobilenet.divisor != 0) {
        bp_mobilenet_expand(&own);
    }
    return own;
}

static uint32_t cnn_stages(const bp_model_config *config)
{
    return bp_cnn_config_of(config).layers + 1;
}

/* The classifier's weight and bias are the last two. */
static uint32_t cnn_parameter_count(const bp_model_config *config)
{
    const bp_cnn_config own = bp_cnn_config_of(config);
    return bp_cnn_first(&own, own.layers) + 2;
}

static uint32_t cnn_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    const bp_cnn_config own = bp_cnn_config_of(config);
    uint32_t layer = 0;
    while (layer < own.layers && parameter >= bp_cnn_first(&own, layer + 1)) {
        layer++;
    }
    return layer;
}

static void cnn_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    if (stage == bp_cnn_config_of(config).layers) {
        bp_name_append(text, "head");
    } else {
        bp_name_append_number(bp_name_append(text, "layers."), stage);
    }
}

static uint32_t cnn_variants(const bp_model_config *config, uint32_t stage)
{
    return stage < bp_cnn_config_of(config).layers ? BP_TAPE_VARIANTS : 1;
}

/* Numbers that the classifier reads of an image. */
static uint64_t cnn_features(const bp_cnn_config *own)
{
    uint64_t shape[3];
    bp_cnn_shape(own, own->layers, shape);
    return bp_size_mul(bp_size_mul(shape[0], shape[1]), shape[2]);
}

/* What the functions here write on: the list of a stage's nodes first (bp_block_room). */
typedef struct cnn_scratch {
    bp_block block;
    bp_image_lines lines;
} cnn_scratch;

static bp_image_lines *cnn_lines(const bp_builder *builder)
{
    cnn_scratch *scratch = builder->scratch;
    return &scratch->lines;
}

static void cnn_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_cnn_config own = bp_cnn_config_of(config);
    for (uint32_t i = 0; i < own.layers; i++) {
        bp_cnn_publish(builder, &own, i);
    }
    const uint64_t in = cnn_features(&own);
    const bp_publish_row weight = {
        "weight", {config->classes, in}, BP_INIT_NORMAL, sqrt(1.0 / (double)in)};
    const bp_publish_row bias = {"bias", {config->classes, 0}, BP_INIT_ZEROS, 0.0};
    const char *prefix = own.resnet.hidden_sizes[0] != 0 ? "classifier.1." : "classifier.";
    bp_publish_head(builder, prefix, &weight, BP_HEAD_TASK);
    bp_publish_head(builder, prefix, &bias, BP_HEAD_TASK);
    bp_batch_norm_count(builder);
    if (builder->scratch != NULL) { /* names are asked for without stages, too */
        bp_image_lines_choose(builder, &own, cnn_lines(builder));
    }
}

static bp_classifier cnn_judge(const bp_builder *builder)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_cnn_config own = bp_cnn_config_of(config);
    const uint32_t first = bp_cnn_first(&own, own.layers);
    return (bp_classifier){.score = {.weight = first,
                                     .bias = first + 1,
                                     .in = cnn_features(&own),
                                     .out = config->classes,
                                     .output_major = true},
                           .dropout = {own.layers, own.dropout}};
}

/* Images are floats, or bytes. */
static uint32_t cnn_inputs(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    const bp_cnn_config own = bp_cnn_config_of(&spec->config);
    const bool bytes = spec->pixels.there && own.channels <= 4 && spec->sequence % 4 == 0 &&
                       spec->config.task != BP_TASK_RECONSTRUCTION;
    const uint32_t count = bp_inputs_numbers(spec, rows);
    rows[0].dtype = bytes ? BP_U8 : BP_F32;
    return count;
}

/* What a stage reads: images. */
static bp_ref cnn_read(bp_builder *builder, const bp_cnn_config *own, const bp_stage_call *call)
{
    if (call->stage == 0 && builder->spec->pixels.there) {
        return bp_image_pixels(builder, own->channels, 0, builder->rows * builder->spec->sequence);
    }
    return call->stage > 0 ? call->input : builder->input[BP_INPUT_IDS];
}

/* A group's output is made by its last stage; those before it hand on what the first reads. */
static void by_lines(bp_builder *builder, const bp_cnn_config *own, bp_stage_call *call)
{
    const bp_image_lines *lines = cnn_lines(builder);
    for (uint32_t v = 0; v < BP_TAPE_MAX; v++) {
        call->tape[v] = BP_ABSENT;
    }
    if (call->stage + 1 < lines->end[call->stage]) {
        call->output = call->input;
        return;
    }
    const bp_ref x = lines->first[call->stage] > 0 ? call->input : builder->input[BP_INPUT_IDS];
    call->output =
        bp_image_lines_forward(builder, own, lines, call->stage, x, bp_block_room(builder));
}

static void cnn_forward(bp_builder *builder, bp_stage_call *call)
{
    const bp_cnn_config own = bp_cnn_config_of(&builder->spec->config);
    bp_samples_begin(builder);
    if (call->stage == own.layers) {
        const bp_classifier judge = cnn_judge(builder);
        bp_classifier_forward(builder, &judge, cnn_read(builder, &own, call));
        call->output = BP_ABSENT;
    } else if (bp_image_lines_there(&own, cnn_lines(builder), call->stage)) {
        by_lines(builder, &own, call);
    } else {
        bp_block *block = bp_block_room(builder);
        bp_cnn_describe(builder->rows, &own, call->stage, block);
        call->input = cnn_read(builder, &own, call);
        bp_block_forward(builder, call, block);
    }
    bp_samples_end(builder);
}

/* The list of a layer for backward; where little is kept with the mean behind it. Whether it is. */
static bool cnn_describe(bp_builder *builder, const bp_cnn_config *own, uint32_t layer,
                         bp_block *block)
{
    bp_cnn_describe(builder->rows, own, layer, block);
    block->poor = builder->spec->policy.kind == BP_POLICY_MEMORY_POOR;
    return bp_image_keeps_little(builder) &&
           !bp_image_lines_there(own, cnn_lines(builder), layer) &&
           bp_cnn_describe_mean(builder->rows, own, layer, block);
}

/* Whether a stage's gradient goes on to the layer before it as it is. */
static bool cnn_leaves(bp_builder *builder, const bp_cnn_config *own, const bp_stage_call *call)
{
    return call->stage > 0 && call->stage < own->layers && call->input_wanted &&
           own->layer[call->stage].kind == BP_CNN_MEAN_POOL &&
           cnn_describe(builder, own, call->stage - 1, bp_block_room(builder));
}

static void cnn_backward(bp_builder *builder, bp_stage_call *call)
{
    const bp_cnn_config own = bp_cnn_config_of(&builder->spec->config);
    bp_samples_begin(builder);
    if (cnn_leaves(builder, &own, call)) {
        call->d_input = call->d_output;
        bp_samples_end(builder);
        return;
    }
    if (call->stage == own.layers) {
        const bp_classifier judge = cnn_judge(builder);
        const bp_ref d_x = bp_classifier_backward(builder, &judge, cnn_read(builder, &own, call));
        call->d_input = call->input_wanted ? d_x : BP_ABSENT;
    } else {
        bp_block *block = bp_block_room(builder);
        (void)cnn_describe(builder, &own, call->stage, block);
        call->input = cnn_read(builder, &own, call);
        bp_block_backward(builder, call, block);
    }
    bp_samples_end(builder);
}

static uint32_t cnn_tapes(bp_builder *builder, const bp_stage_call *call,
                          const bp_tape_request *request, uint32_t *variants)
{
    const bp_cnn_config own = bp_cnn_config_of(&builder->spec->config);
    bp_stage_call asked = *call;
    bp_block *block = bp_block_room(builder);
    bp_samples_begin(builder);
    bp_cnn_describe(builder->rows, &own, call->stage, block);
    asked.input = cnn_read(builder, &own, call);
    const uint32_t count = bp_block_tapes(builder, &asked, block, request, variants);
    bp_samples_end(builder);
    return count;
}

static const char *cnn_slot_name(const bp_spec *spec, uint32_t stage, uint32_t slot)
{
    const bp_cnn_config own = bp_cnn_config_of(&spec->config);
    bp_block block;
    bp_cnn_describe(spec->batch, &own, stage, &block);
    return bp_block_slot_name(&block, slot);
}

static bp_status cnn_check_sizes(const bp_model_config *config, bp_error *error)
{
    const bp_cnn_config own = bp_cnn_config_of(config);
    const uint64_t pixels = bp_size_mul(bp_size_mul(own.height, own.width), own.channels);
    const bp_range counts[] = {{"vocab_size", config->vocabulary, 0, 0},
                               {"image_height", own.height, 1, BP_CNN_SIZE_MOST},
                               {"image_width", own.width, 1, BP_CNN_SIZE_MOST},
                               {"num_channels", own.channels, 1, BP_CNN_SIZE_MOST},
                               {"layers", own.layers, 1, BP_CNN_LAYERS_MAX},
                               {"input_size", config->positions, pixels, pixels}};
    const bp_real_range reals[] = {{"hidden_dropout_prob", own.dropout, 0.0, 1.0},
                                   {"batch_norm_eps", own.epsilon, 1e-12, 1.0},
                                   {"batch_norm_momentum", own.momentum, 0.0, 1.0 + 1e-9}};
    BP_TRY(bp_ranges_check(counts, 6, "cnn", error));
    BP_TRY(bp_resnet_check(&own, error));
    if (own.mobilenet.divisor != 0) {
        BP_TRY(bp_mobilenet_check(&own.mobilenet, error));
    }
    BP_TRY(bp_real_ranges_check(reals, 3, "cnn", error));
    return bp_cnn_check_layers(&own, error);
}

/* Whether norms take their statistics of a micro-batch: those of a frozen net, and of one with
 * adapters, take the running ones. */
static bool cnn_pools(const bp_spec *spec)
{
    const bp_cnn_config own = bp_cnn_config_of(&spec->config);
    return !own.frozen && spec->lora.rank == 0 && bp_cnn_norms(&own);
}

/* Running statistics are one rank's: others would have others. */
static bp_status cnn_check_ranks(const bp_spec *spec, bp_error *error)
{
    if (bp_spec_ranks(spec) > 1 && cnn_pools(spec)) {
        return bp_error_set(error, BP_ERR_USAGE, "cnn",
                            "running statistics of batch norms would differ from rank to rank; "
                            "freeze_batch_norm in config.json keeps them",
                            "ranks");
    }
    return BP_OK;
}

static bp_status cnn_check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    BP_TRY(cnn_check_sizes(config, error));
    BP_TRY(cnn_check_ranks(spec, error));
    if (!bp_task_scores_samples(config->task) || spec->generate_context > 0) {
        return bp_error_set(error, BP_ERR_USAGE, "cnn",
                            "this model judges images: its tasks are classification, "
                            "multi-label-classification and regression",
                            "task");
    }
    if (spec->sequence != config->positions) {
        return bp_error_numbers(error, BP_ERR_USAGE, "cnn",
                                "a row has the numbers of the model's image", "max-seq-length",
                                spec->sequence, config->positions);
    }
    if (spec->working != BP_F32) {
        return bp_error_set(error, BP_ERR_USAGE, "cnn",
                            "images are read in fp32, which is the working type that this model "
                            "has",
                            spec->working == BP_F16 ? "fp16" : "bf16");
    }
    return BP_OK;
}

const bp_model bp_model_cnn = {.name = "cnn",
                               .scratch = sizeof(cnn_scratch),
                               .check = cnn_check,
                               .inputs = cnn_inputs,
                               .pools = cnn_pools,
                               .stages = cnn_stages,
                               .stage_name = cnn_stage_name,
                               .variants = cnn_variants,
                               .tapes = cnn_tapes,
                               .slot_name = cnn_slot_name,
                               .parameters = cnn_parameters,
                               .parameter_count = cnn_parameter_count,
                               .parameter_stage = cnn_parameter_stage,
                               .forward = cnn_forward,
                               .backward = cnn_backward};
