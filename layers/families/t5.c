/* SPDX-License-Identifier: MIT */
/* Encoders of T5 as a chain of stages. */
#include "layers/families/t5.h"

#include <math.h>

#include "core/plan/range.h"
#include "layers/blocks/t5_block.h"
#include "layers/families/causal.h"
#include "layers/heads/vector.h"
#include "layers/nodes/inputs.h"
#include "layers/nodes/publish.h"

BP_FAMILY_CONFIG_FITS(bp_t5_config);

bp_t5_config bp_t5_config_of(const bp_model_config *config)
{
    bp_t5_config own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}

static uint32_t last_norm(const bp_model_config *config)
{
    const bp_t5_config own = bp_t5_config_of(config);
    return bp_t5_block_first(&own, own.stack.layers);
}

static uint32_t t5_parameter_count(const bp_model_config *config)
{
    return last_norm(config) + 1 + (config->task == BP_TASK_TOKENS ? 2u : 0u) +
           bp_vector_parameters(config);
}

/* The first block's backward is the last that adds to the table of distances. */
static uint32_t t5_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    const bp_t5_config own = bp_t5_config_of(config);
    if (parameter < BP_T5_EMBEDDINGS) {
        return parameter == BP_T5_DISTANCES ? 1 : 0;
    }
    const uint32_t block = (parameter - BP_T5_EMBEDDINGS) / bp_t5_block_parameters(&own);
    return block < own.stack.layers ? 1 + block : own.stack.layers + 1;
}

static void t5_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    bp_causal_stage_name(config, stage, "shared", "block.", text);
}

/* With a classifier the encoder is a part of the model. */
static const char *t5_prefix(const bp_model_config *config)
{
    return config->task == BP_TASK_TOKENS ? "transformer." : "";
}

/* A random weight's deviation is `factor` by the root of how many numbers it reads, and of queries
 * of a head's width too. */
static void t5_publish_block(bp_builder *builder, const bp_model_config *config, uint32_t index)
{
    const bp_t5_config own = bp_t5_config_of(config);
    const uint64_t w = own.stack.width, inner = bp_transformer_inner(&own.stack);
    const uint64_t wide = (uint64_t)own.stack.heads * own.head_width;
    const bool gated = own.perceptron != BP_T5_RELU;
    const double factor = own.stack.initializer_range, range = factor / sqrt((double)w);
    const bp_publish_row rows[BP_T5_BLOCK_PARAMETERS] = {
        [BP_T5_Q] = {"0.SelfAttention.q.weight",
                     {wide, w},
                     BP_INIT_NORMAL,
                     range / sqrt((double)own.head_width)},
        [BP_T5_K] = {"0.SelfAttention.k.weight", {wide, w}, BP_INIT_NORMAL, range},
        [BP_T5_V] = {"0.SelfAttention.v.weight", {wide, w}, BP_INIT_NORMAL, range},
        [BP_T5_O] = {"0.SelfAttention.o.weight",
                     {w, wide},
                     BP_INIT_NORMAL,
                     factor / sqrt((double)wide)},
        [BP_T5_NORM_1] = {"0.layer_norm.weight", {w, 0}, BP_INIT_ONES, 0.0},
        [BP_T5_UP] = {gated ? "1.DenseReluDense.wi_1.weight" : "1.DenseReluDense.wi.weight",
                      {inner, w},
                      BP_INIT_NORMAL,
                      range},
        [BP_T5_DOWN] = {"1.DenseReluDense.wo.weight",
                        {w, inner},
                        BP_INIT_NORMAL,
                        factor / sqrt((double)inner)},
        [BP_T5_NORM_2] = {"1.layer_norm.weight", {w, 0}, BP_INIT_ONES, 0.0},
        [BP_T5_GATE] = {"1.DenseReluDense.wi_0.weight", {inner, w}, BP_INIT_NORMAL, range}};
    char prefix[BP_NAME_BYTES];
    char *end = bp_name_append(bp_name_append(prefix, t5_prefix(config)), "encoder.block.");
    bp_name_append(bp_name_append_number(end, index), ".layer.");
    for (uint32_t i = 0; i < bp_t5_block_parameters(&own); i++) {
        bp_publish_dense(builder, prefix, &rows[i], false, i <= BP_T5_K ? own.head_width : 0);
    }
}

static void t5_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_t5_config own = bp_t5_config_of(config);
    const double factor = own.stack.initializer_range;
    const uint64_t w = own.stack.width;
    const char *prefix = t5_prefix(config);
    const bp_publish_row token = {"shared.weight", {config->vocabulary, w}, BP_INIT_NORMAL, factor};
    const bp_publish_row distances = {
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        {own.buckets, own.stack.heads},
        BP_INIT_NORMAL,
        factor / sqrt((double)w)};
    const bp_publish_row norm = {"encoder.final_layer_norm.weight", {w, 0}, BP_INIT_ONES, 0.0};
    const bp_publish_row weight = {"classifier.weight", {config->classes, w}, BP_INIT_NORMAL, 0.02};
    const bp_publish_row bias = {"classifier.bias", {config->classes, 0}, BP_INIT_ZEROS, 0.0};
    bp_publish_table(builder, prefix, &token);
    bp_publish_table(builder, prefix, &distances);
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        t5_publish_block(builder, config, i);
    }
    bp_publish(builder, prefix, &norm);
    if (config->task == BP_TASK_TOKENS) {
        bp_publish_head(builder, "", &weight, BP_HEAD_TASK);
        bp_publish_head(builder, "", &bias, BP_HEAD_TASK);
    }
    bp_vector_publish(builder, config, w);
}

static bp_causal t5_describe(const bp_builder *builder)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_t5_config own = bp_t5_config_of(config);
    const bool tags = config->task == BP_TASK_TOKENS;
    const uint32_t norm = last_norm(config), site = bp_t5_site(own.stack.layers);
    return (bp_causal){
        .embedding = {.token = BP_T5_TABLE,
                      .position = BP_NO_PARAMETER,
                      .vocabulary = config->vocabulary,
                      .positions = config->positions,
                      .width = own.stack.width,
                      .dropout = {0, own.stack.embedding_dropout}},
        .norm = {norm, BP_NO_PARAMETER, own.stack.width, own.stack.norm_epsilon, false},
        .output = norm + 1,
        .dropout = {{site, own.stack.residual_dropout},
                    {site + 1, tags ? own.classifier_dropout : 0.0}}};
}

static bp_status t5_check_task(const bp_spec *spec, bp_error *error)
{
    const bp_task task = spec->config.task;
    if (task == BP_TASK_CLASSES || task == BP_TASK_LABELS || task == BP_TASK_REGRESSION ||
        task == BP_TASK_RANKING) {
        return bp_error_set(error, BP_ERR_USAGE, "t5",
                            "a classifier of texts (T5ForSequenceClassification) has a decoder, "
                            "which is not implemented: the tasks of this family are embedding and "
                            "token-classification",
                            "task");
    }
    if ((task != BP_TASK_EMBEDDING && task != BP_TASK_TOKENS) || spec->generate_context > 0) {
        return bp_error_set(error, BP_ERR_USAGE, "t5",
                            "the decoder is not implemented: this is the encoder, which reads in "
                            "both directions; its tasks are embedding and token-classification",
                            "task");
    }
    return BP_OK;
}

static bp_status t5_check(const bp_spec *spec, bp_error *error)
{
    const bp_t5_config own = bp_t5_config_of(&spec->config);
    const bp_range ranges[] = {
        {"d_kv", own.head_width, 1, 1u << 16},
        {"relative_attention_num_buckets", own.buckets, 4, 256},
        {"relative_attention_max_distance", own.distance, (uint64_t)own.buckets / 4 + 1, 1u << 24},
        {"feed_forward_proj", own.perceptron, BP_T5_RELU, BP_T5_GATED_SILU}};
    const bp_real_range dropout = {"classifier_dropout", own.classifier_dropout, 0.0, 1.0};
    BP_TRY(bp_transformer_check(&spec->config, "t5", error));
    BP_TRY(bp_ranges_check(ranges, sizeof ranges / sizeof ranges[0], "t5", error));
    BP_TRY(bp_real_ranges_check(&dropout, 1, "t5", error));
    BP_TRY(t5_check_task(spec, error));
    return bp_vector_check(spec, own.stack.width, "t5", error);
}

static const bp_causal_family t5_self = {{bp_t5_block_describe}, t5_describe};

const bp_model bp_model_t5 = {.name = "t5",
                              .scratch = sizeof(bp_block),
                              .self = &t5_self,
                              .pads = true,
                              .check = t5_check,
                              .inputs = bp_inputs_texts,
                              .stages = bp_causal_stages,
                              .stage_name = t5_stage_name,
                              .variants = bp_causal_variants,
                              .tapes = bp_block_family_tapes,
                              .slot_name = bp_block_family_slot_name,
                              .parameters = t5_parameters,
                              .parameter_count = t5_parameter_count,
                              .parameter_stage = t5_parameter_stage,
                              .forward = bp_causal_forward,
                              .contrast = bp_vector_contrast,
                              .backward = bp_causal_backward};
