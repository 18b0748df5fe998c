/* SPDX-License-Identifier: MIT */
/* GPT-NeoX as a chain of stages. */
#include "layers/families/neox.h"

#include "layers/families/causal.h"
#include "layers/nodes/inputs.h"
#include "layers/blocks/llama_block.h"
#include "layers/blocks/neox_block.h"
#include "layers/nodes/publish.h"
#include "layers/heads/vector.h"

BP_FAMILY_CONFIG_FITS(bp_neox_config);

bp_neox_config bp_neox_config_of(const bp_model_config *config)
{
    bp_neox_config own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}

/* The last norm's weight. */
static uint32_t last_norm(const bp_model_config *config)
{
    return bp_neox_block_first(config, bp_transformer_of(config).layers);
}

static uint32_t neox_parameter_count(const bp_model_config *config)
{
    return last_norm(config) + 2 + (bp_causal_has_output(config) ? 1 : 0) +
           bp_vector_parameters(config);
}

static uint32_t neox_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    const uint32_t layers = bp_transformer_of(config).layers;
    if (parameter == BP_CAUSAL_TABLE) {
        return 0;
    }
    const uint32_t block = (parameter - 1) / bp_neox_block_parameters(config);
    return block < layers ? 1 + block : layers + 1;
}

static void neox_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    bp_causal_stage_name(config, stage, "embed_in", "layers.", text);
}

static void neox_publish_block(bp_builder *builder, const bp_model_config *config, uint32_t index)
{
    const bp_transformer own = bp_transformer_of(config);
    const uint64_t width = own.width, inner = bp_transformer_inner(&own);
    const double range = own.initializer_range;
    const bp_publish_row rows[BP_NEOX_BLOCK_PARAMETERS] = {
        [BP_NEOX_NORM_1_WEIGHT] = {"input_layernorm.weight", {width, 0}, BP_INIT_ONES, 0.0},
        [BP_NEOX_NORM_1_BIAS] = {"input_layernorm.bias", {width, 0}, BP_INIT_ZEROS, 0.0},
        [BP_NEOX_NORM_2_WEIGHT] = {"post_attention_layernorm.weight",
                                   {width, 0},
                                   BP_INIT_ONES,
                                   0.0},
        [BP_NEOX_NORM_2_BIAS] = {"post_attention_layernorm.bias", {width, 0}, BP_INIT_ZEROS, 0.0},
        [BP_NEOX_QKV_WEIGHT] = {"attention.query_key_value.weight",
                                {3 * width, width},
                                BP_INIT_NORMAL,
                                range},
        [BP_NEOX_QKV_BIAS] = {"attention.query_key_value.bias", {3 * width, 0}, BP_INIT_ZEROS, 0.0},
        [BP_NEOX_O_WEIGHT] = {"attention.dense.weight", {width, width}, BP_INIT_NORMAL, range},
        [BP_NEOX_O_BIAS] = {"attention.dense.bias", {width, 0}, BP_INIT_ZEROS, 0.0},
        [BP_NEOX_UP_WEIGHT] = {"mlp.dense_h_to_4h.weight", {inner, width}, BP_INIT_NORMAL, range},
        [BP_NEOX_UP_BIAS] = {"mlp.dense_h_to_4h.bias", {inner, 0}, BP_INIT_ZEROS, 0.0},
        [BP_NEOX_DOWN_WEIGHT] = {"mlp.dense_4h_to_h.weight", {width, inner}, BP_INIT_NORMAL, range},
        [BP_NEOX_DOWN_BIAS] = {"mlp.dense_4h_to_h.bias", {width, 0}, BP_INIT_ZEROS, 0.0}};
    char prefix[BP_NAME_BYTES];
    bp_name_append(bp_name_append_number(bp_name_append(prefix, "gpt_neox.layers."), index), ".");
    for (uint32_t i = 0; i < BP_NEOX_BLOCK_PARAMETERS; i++) {
        if (bp_neox_has(config, (bp_neox_parameter)i)) {
            bp_publish_dense(builder, prefix, &rows[i], false, 0);
        }
    }
}

static void neox_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_transformer own = bp_transformer_of(config);
    const double range = own.initializer_range;
    const uint64_t width = own.width;
    const bool classifies = bp_causal_classifies(config);
    const bp_publish_row token = {
        "gpt_neox.embed_in.weight", {config->vocabulary, width}, BP_INIT_NORMAL, range};
    const bp_publish_row weight = {
        "gpt_neox.final_layer_norm.weight", {width, 0}, BP_INIT_ONES, 0.0};
    const bp_publish_row bias = {"gpt_neox.final_layer_norm.bias", {width, 0}, BP_INIT_ZEROS, 0.0};
    const bp_publish_row head = {classifies ? "score.weight" : "embed_out.weight",
                                 {classifies ? config->classes : config->vocabulary, width},
                                 BP_INIT_NORMAL,
                                 range};
    bp_publish_table(builder, "", &token);
    for (uint32_t i = 0; i < own.layers; i++) {
        neox_publish_block(builder, config, i);
    }
    bp_publish(builder, "", &weight);
    bp_publish(builder, "", &bias);
    if (bp_causal_has_output(config)) {
        bp_publish_head(builder, "", &head, classifies ? BP_HEAD_TASK : BP_HEAD_OUTPUT);
    }
    bp_vector_publish(builder, config, width);
}

static bp_causal neox_describe(const bp_builder *builder)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_transformer own = bp_transformer_of(config);
    const uint32_t norm = last_norm(config);
    return (bp_causal){.embedding = {.token = BP_CAUSAL_TABLE,
                                     .position = BP_NO_PARAMETER,
                                     .vocabulary = config->vocabulary,
                                     .positions = config->positions,
                                     .width = own.width,
                                     .dropout = {0, own.embedding_dropout}},
                       .norm = {norm, norm + 1, own.width, own.norm_epsilon, false},
                       .output = norm + 2};
}

static bp_status neox_check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_llama_config own = bp_llama_config_of(config);
    BP_TRY(bp_transformer_check(config, "gpt_neox", error));
    if (own.stack.width % own.stack.heads != 0) {
        return bp_error_limit(error, BP_ERR_USAGE, "gpt_neox",
                              "the number of heads does not divide the width hidden_size",
                              "num_attention_heads", own.stack.heads, BP_LIMIT_DIVISOR,
                              own.stack.width);
    }
    BP_TRY(bp_llama_check_rotary(spec, own.stack.width / own.stack.heads, "gpt_neox", error));
    return bp_causal_check(spec, "gpt_neox", error);
}

static const bp_causal_family neox_self = {{bp_neox_block_describe}, neox_describe};

const bp_model bp_model_neox = {.name = "gpt_neox",
                                .scratch = sizeof(bp_block),
                                .self = &neox_self,
                                .pads = true,
                                .chunks = true,
                                .token_lanes = true,
                                .check = neox_check,
                                .inputs = bp_inputs_texts,
                                .stages = bp_causal_stages,
                                .stage_name = neox_stage_name,
                                .variants = bp_causal_variants,
                                .tapes = bp_block_family_tapes,
                                .slot_name = bp_block_family_slot_name,
                                .parameters = neox_parameters,
                                .parameter_count = neox_parameter_count,
                                .parameter_stage = neox_parameter_stage,
                                .forward = bp_causal_forward,
                                .contrast = bp_vector_contrast,
                                .backward = bp_causal_backward,
                                .decode = bp_causal_decode,
                                .sliced_tables = bp_causal_sliced_tables,
                                .plain_rows = true,
                                .slice = bp_causal_slice};
