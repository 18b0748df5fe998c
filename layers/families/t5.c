/* SPDX-License-Identifier: MIT */
/* T5 as a chain of stages: an encoder, and a decoder where there is one. */
#include "layers/families/t5.h"

#include <math.h>

#include "core/plan/range.h"
#include "layers/blocks/t5_block.h"
#include "layers/families/causal.h"
#include "layers/heads/vector.h"
#include "layers/nodes/inputs.h"
#include "layers/nodes/publish.h"
#include "layers/families/t5_whole.h"

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
    if (bp_t5_whole(config)) {
        const bp_t5_config own = bp_t5_config_of(config);
        return bp_t5_decoder_first(&own, bp_t5_decoder_layers(&own)) + (own.stack.untied ? 2 : 1);
    }
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
    if (bp_t5_whole(config) && parameter > last_norm(config)) {
        const uint32_t first = bp_t5_memory_stage(&own) + 2, most = bp_t5_decoder_layers(&own);
        uint32_t index = 0;
        while (index < most && parameter >= bp_t5_decoder_first(&own, index + 1)) {
            index++;
        }
        return first + index;
    }
    const uint32_t block = (parameter - BP_T5_EMBEDDINGS) / bp_t5_block_parameters(&own);
    return block < own.stack.layers ? 1 + block : own.stack.layers + 1;
}

static void t5_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    if (bp_t5_whole(config)) {
        bp_t5_whole_stage_name(config, stage, text);
    } else {
        bp_causal_stage_name(config, stage, "shared", "block.", text);
    }
}

/* With a classifier the encoder is a part of the model. */
static const char *t5_prefix(const bp_model_config *config)
{
    return config->task == BP_TASK_TOKENS ? "transformer." : "";
}

/* A random weight's deviation is `factor` by the root of how many numbers it reads, and of queries
 * of a head's width too. */
static void t5_publish_block(bp_builder *builder, const bp_model_config *config, bool decodes,
                             uint32_t index)
{
    const bp_t5_config own = bp_t5_config_of(config);
    const uint64_t w = own.stack.width, inner = bp_transformer_inner(&own.stack);
    const uint64_t wide = (uint64_t)own.stack.heads * own.head_width;
    const bool gated = own.perceptron != BP_T5_RELU;
    const double factor = own.stack.initializer_range, range = factor / sqrt((double)w);
    const double queries = range / sqrt((double)own.head_width);
    const double leaves = factor / sqrt((double)wide);
    const bp_publish_row cross[BP_T5_CROSS_PARAMETERS] = {
        [BP_T5_CROSS_Q] = {"EncDecAttention.q.weight", {wide, w}, BP_INIT_NORMAL, queries},
        [BP_T5_CROSS_K] = {"EncDecAttention.k.weight", {wide, w}, BP_INIT_NORMAL, range},
        [BP_T5_CROSS_V] = {"EncDecAttention.v.weight", {wide, w}, BP_INIT_NORMAL, range},
        [BP_T5_CROSS_O] = {"EncDecAttention.o.weight", {w, wide}, BP_INIT_NORMAL, leaves},
        [BP_T5_CROSS_NORM] = {"layer_norm.weight", {w, 0}, BP_INIT_ONES, 0.0}};
    const bp_publish_row rows[BP_T5_BLOCK_PARAMETERS] = {
        [BP_T5_Q] = {"SelfAttention.q.weight", {wide, w}, BP_INIT_NORMAL, queries},
        [BP_T5_K] = {"SelfAttention.k.weight", {wide, w}, BP_INIT_NORMAL, range},
        [BP_T5_V] = {"SelfAttention.v.weight", {wide, w}, BP_INIT_NORMAL, range},
        [BP_T5_O] = {"SelfAttention.o.weight", {w, wide}, BP_INIT_NORMAL, leaves},
        [BP_T5_NORM_1] = {"layer_norm.weight", {w, 0}, BP_INIT_ONES, 0.0},
        [BP_T5_UP] = {gated ? "DenseReluDense.wi_1.weight" : "DenseReluDense.wi.weight",
                      {inner, w},
                      BP_INIT_NORMAL,
                      range},
        [BP_T5_DOWN] = {"DenseReluDense.wo.weight",
                        {w, inner},
                        BP_INIT_NORMAL,
                        factor / sqrt((double)inner)},
        [BP_T5_NORM_2] = {"layer_norm.weight", {w, 0}, BP_INIT_ONES, 0.0},
        [BP_T5_GATE] = {"DenseReluDense.wi_0.weight", {inner, w}, BP_INIT_NORMAL, range}};
    char prefix[BP_NAME_BYTES];
    char *end = bp_name_append(prefix, t5_prefix(config));
    end = bp_name_append(end, decodes ? "decoder.block." : "encoder.block.");
    end = bp_name_append(bp_name_append_number(end, index), ".layer.");
    bp_name_append(end, "0.");
    for (uint32_t i = 0; i < bp_t5_block_parameters(&own); i++) {
        if (i == BP_T5_UP) {
            bp_name_append(end, "1.");
            for (uint32_t k = 0; decodes && k < BP_T5_CROSS_PARAMETERS; k++) {
                bp_publish_dense(builder, prefix, &cross[k], false,
                                 k <= BP_T5_CROSS_K ? own.head_width : 0);
            }
            bp_name_append(end, decodes ? "2." : "1.");
        }
        bp_publish_dense(builder, prefix, &rows[i], false, i <= BP_T5_K ? own.head_width : 0);
    }
}

/* The decoder: its table of distances, its blocks, its last norm and the head's own table. */
static void t5_publish_decoder(bp_builder *builder, const bp_model_config *config,
                               const bp_publish_row *distances)
{
    const bp_t5_config own = bp_t5_config_of(config);
    const uint64_t w = own.stack.width;
    const bp_publish_row norm = {"decoder.final_layer_norm.weight", {w, 0}, BP_INIT_ONES, 0.0};
    const bp_publish_row head = {
        "lm_head.weight", {config->vocabulary, w}, BP_INIT_NORMAL, own.stack.initializer_range};
    bp_publish_row own_distances = *distances;
    own_distances.name = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
    bp_publish_table(builder, "", &own_distances);
    for (uint32_t i = 0; i < bp_t5_decoder_layers(&own); i++) {
        t5_publish_block(builder, config, true, i);
    }
    bp_publish(builder, "", &norm);
    if (own.stack.untied) {
        bp_publish_head(builder, "", &head, BP_HEAD_OUTPUT);
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
        t5_publish_block(builder, config, false, i);
    }
    bp_publish(builder, prefix, &norm);
    if (bp_t5_whole(config)) {
        t5_publish_decoder(builder, config, &distances);
    }
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
    if (bp_t5_whole(config) && builder->stage > bp_t5_memory_stage(&own)) {
        return bp_t5_describe_decoder(builder);
    }
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
                            "which is not implemented: the tasks of this family are causal-lm, "
                            "embedding and token-classification",
                            "task");
    }
    if (task != BP_TASK_EMBEDDING && task != BP_TASK_TOKENS && task != BP_TASK_CAUSAL_LM) {
        return bp_error_set(error, BP_ERR_USAGE, "t5",
                            "the tasks of this family are causal-lm, which makes a text of "
                            "another, and of its encoder embedding and token-classification",
                            "task");
    }
    if (task != BP_TASK_CAUSAL_LM && spec->generate_context > 0) {
        return bp_error_set(error, BP_ERR_USAGE, "t5",
                            "the encoder alone writes nothing: that is the task causal-lm", "task");
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
    if (bp_t5_whole(&spec->config)) {
        return bp_t5_whole_check(spec, error);
    }
    return bp_vector_check(spec, own.stack.width, "t5", error);
}

static const bp_causal_family t5_self = {{bp_t5_block_describe}, t5_describe};

static uint32_t t5_stages(const bp_model_config *config)
{
    return bp_t5_whole(config) ? bp_t5_whole_stages(config) : bp_causal_stages(config);
}

static uint32_t t5_variants(const bp_model_config *config, uint32_t stage)
{
    return bp_t5_whole(config) ? bp_t5_whole_variants(config, stage)
                               : bp_causal_variants(config, stage);
}

static uint32_t t5_memory(const bp_model_config *config)
{
    const bp_t5_config own = bp_t5_config_of(config);
    return bp_t5_whole(config) ? bp_t5_memory_stage(&own) : UINT32_MAX;
}

static uint32_t t5_inputs(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    return bp_t5_whole(&spec->config) ? bp_inputs_sources(spec, rows) : bp_inputs_texts(spec, rows);
}

static uint32_t t5_tapes(bp_builder *builder, const bp_stage_call *call,
                         const bp_tape_request *request, uint32_t *variants)
{
    return bp_t5_whole(&builder->spec->config)
               ? bp_t5_whole_tapes(builder, call, request, variants)
               : bp_block_family_tapes(builder, call, request, variants);
}

/* transformers has modules of their own for the table and for what looks tokens up, which share its
 * values: what PEFT wraps is never called. */
static void t5_check_table(bp_builder *builder)
{
    const bp_parameter *table = &builder->parameters[BP_T5_TABLE];
    const bool adapted = table->adapter != BP_NO_PARAMETER;
    const bool saved = builder->spec->lora.rank > 0 && table->trainable;
    if (builder->status == BP_OK && (adapted || saved)) {
        builder->status = bp_error_set(builder->graph->error, BP_ERR_USAGE, "t5",
                                       "PEFT wraps a module that this model does not call: beside "
                                       "adapters the table of its tokens stays as it is",
                                       adapted ? "target-modules" : "modules-to-save");
    }
}

static void t5_forward(bp_builder *builder, bp_stage_call *call)
{
    t5_check_table(builder);
    if (bp_t5_whole(&builder->spec->config)) {
        bp_t5_whole_forward(builder, call);
    } else {
        bp_causal_forward(builder, call);
    }
}

static void t5_backward(bp_builder *builder, bp_stage_call *call)
{
    if (bp_t5_whole(&builder->spec->config)) {
        bp_t5_whole_backward(builder, call);
    } else {
        bp_causal_backward(builder, call);
    }
}

const bp_model bp_model_t5 = {.name = "t5",
                              .scratch = sizeof(bp_block),
                              .self = &t5_self,
                              .pads = true,
                              .check = t5_check,
                              .inputs = t5_inputs,
                              .memory = t5_memory,
                              .stages = t5_stages,
                              .stage_name = t5_stage_name,
                              .variants = t5_variants,
                              .tapes = t5_tapes,
                              .slot_name = bp_block_family_slot_name,
                              .parameters = t5_parameters,
                              .parameter_count = t5_parameter_count,
                              .parameter_stage = t5_parameter_stage,
                              .forward = t5_forward,
                              .contrast = bp_vector_contrast,
                              .backward = t5_backward,
                              .decode = bp_t5_whole_decode};
