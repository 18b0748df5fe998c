/* SPDX-License-Identifier: MIT */
/* GPT-2 as a chain of stages. */
#include "layers/families/gpt2.h"

#include <math.h>

#include "layers/families/causal.h"
#include "layers/blocks/gpt2_block.h"
#include "layers/nodes/inputs.h"
#include "layers/nodes/publish.h"
#include "layers/heads/vector.h"

enum { POSITION_TABLE = 1 };

/* The last norm's weight. */
static uint32_t last_norm(const bp_model_config *config)
{
    const bp_transformer own = bp_transformer_of(config);
    return bp_gpt2_block_first(own.layers);
}

static uint32_t gpt2_parameter_count(const bp_model_config *config)
{
    return last_norm(config) + 2 + (bp_causal_has_output(config) ? 1 : 0) +
           bp_vector_parameters(config);
}

static void gpt2_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    bp_causal_stage_name(config, stage, "wte", "h.", text);
}

static void gpt2_publish_block(bp_builder *builder, const bp_model_config *config, uint32_t index)
{
    const bp_transformer own = bp_transformer_of(config);
    const uint64_t width = own.width;
    const uint64_t inner = bp_transformer_inner(&own);
    const double range = own.initializer_range;
    /* The two projections into the residual stream start smaller, as the paper has it. */
    const double end = range / sqrt(2.0 * own.layers);
    const bp_publish_row rows[BP_GPT2_BLOCK_PARAMETERS] = {
        [BP_GPT2_LN_1_WEIGHT] = {"ln_1.weight", {width, 0}, BP_INIT_ONES, 0.0},
        [BP_GPT2_LN_1_BIAS] = {"ln_1.bias", {width, 0}, BP_INIT_ZEROS, 0.0},
        [BP_GPT2_C_ATTN_WEIGHT] = {"attn.c_attn.weight", {width, 3 * width}, BP_INIT_NORMAL, range},
        [BP_GPT2_C_ATTN_BIAS] = {"attn.c_attn.bias", {3 * width, 0}, BP_INIT_ZEROS, 0.0},
        [BP_GPT2_ATTN_C_PROJ_WEIGHT] = {"attn.c_proj.weight", {width, width}, BP_INIT_NORMAL, end},
        [BP_GPT2_ATTN_C_PROJ_BIAS] = {"attn.c_proj.bias", {width, 0}, BP_INIT_ZEROS, 0.0},
        [BP_GPT2_LN_2_WEIGHT] = {"ln_2.weight", {width, 0}, BP_INIT_ONES, 0.0},
        [BP_GPT2_LN_2_BIAS] = {"ln_2.bias", {width, 0}, BP_INIT_ZEROS, 0.0},
        [BP_GPT2_C_FC_WEIGHT] = {"mlp.c_fc.weight", {width, inner}, BP_INIT_NORMAL, range},
        [BP_GPT2_C_FC_BIAS] = {"mlp.c_fc.bias", {inner, 0}, BP_INIT_ZEROS, 0.0},
        [BP_GPT2_MLP_C_PROJ_WEIGHT] = {"mlp.c_proj.weight", {inner, width}, BP_INIT_NORMAL, end},
        [BP_GPT2_MLP_C_PROJ_BIAS] = {"mlp.c_proj.bias", {width, 0}, BP_INIT_ZEROS, 0.0}};
    char prefix[BP_NAME_BYTES];
    bp_name_append(bp_name_append_number(bp_name_append(prefix, "transformer.h."), index), ".");
    for (uint32_t i = 0; i < BP_GPT2_BLOCK_PARAMETERS; i++) {
        bp_publish_dense(builder, prefix, &rows[i], true, 0);
    }
}

static void gpt2_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_transformer own = bp_transformer_of(config);
    const double range = own.initializer_range;
    const uint64_t width = own.width;
    const bp_publish_row token = {"wte.weight", {config->vocabulary, width}, BP_INIT_NORMAL, range};
    const bp_publish_row position = {
        "wpe.weight", {config->positions, width}, BP_INIT_NORMAL, range};
    const bp_publish_row weight = {"ln_f.weight", {width, 0}, BP_INIT_ONES, 0.0};
    const bp_publish_row bias = {"ln_f.bias", {width, 0}, BP_INIT_ZEROS, 0.0};
    const bool classifies = bp_causal_classifies(config);
    const bp_publish_row output = {classifies ? "score.weight" : "lm_head.weight",
                                   {classifies ? config->classes : config->vocabulary, width},
                                   BP_INIT_NORMAL,
                                   range};
    bp_publish_table(builder, "transformer.", &token);
    bp_publish_table(builder, "transformer.", &position);
    for (uint32_t i = 0; i < own.layers; i++) {
        gpt2_publish_block(builder, config, i);
    }
    bp_publish(builder, "transformer.", &weight);
    bp_publish(builder, "transformer.", &bias);
    if (bp_causal_has_output(config)) {
        bp_publish_head(builder, "", &output, classifies ? BP_HEAD_TASK : BP_HEAD_OUTPUT);
    }
    bp_vector_publish(builder, config, width);
}

static uint32_t gpt2_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    const bp_transformer own = bp_transformer_of(config);
    if (parameter < bp_gpt2_block_first(0)) {
        return 0;
    }
    const uint32_t block = (parameter - bp_gpt2_block_first(0)) / BP_GPT2_BLOCK_PARAMETERS;
    return block < own.layers ? 1 + block : own.layers + 1;
}

static bp_causal gpt2_describe(const bp_builder *builder)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_transformer own = bp_transformer_of(config);
    const uint32_t norm = last_norm(config);
    return (bp_causal){.embedding = {.token = BP_CAUSAL_TABLE,
                                     .position = POSITION_TABLE,
                                     .vocabulary = config->vocabulary,
                                     .positions = config->positions,
                                     .width = own.width,
                                     .dropout = {0, own.embedding_dropout}},
                       .norm = {norm, norm + 1, own.width, own.norm_epsilon, false},
                       .output = norm + 2};
}

static bp_status gpt2_check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_transformer own = bp_transformer_of(config);
    BP_TRY(bp_transformer_check(config, "gpt2", error));
    if (own.width % own.heads != 0) {
        return bp_error_limit(error, BP_ERR_USAGE, "gpt2",
                              "the number of heads does not divide the width n_embd", "n_head",
                              own.heads, BP_LIMIT_DIVISOR, own.width);
    }
    return bp_causal_check(spec, "gpt2", error);
}

static const bp_causal_family gpt2_self = {{bp_gpt2_block_describe}, gpt2_describe};

const bp_model bp_model_gpt2 = {.name = "gpt2",
                                .scratch = sizeof(bp_block),
                                .self = &gpt2_self,
                                .input_major = true,
                                .pads = true,
                                .chunks = true,
                                .check = gpt2_check,
                                .inputs = bp_inputs_document_positions,
                                .stages = bp_causal_stages,
                                .stage_name = gpt2_stage_name,
                                .variants = bp_causal_variants,
                                .tapes = bp_block_family_tapes,
                                .slot_name = bp_block_family_slot_name,
                                .parameters = gpt2_parameters,
                                .parameter_count = gpt2_parameter_count,
                                .parameter_stage = gpt2_parameter_stage,
                                .forward = bp_causal_forward,
                                .contrast = bp_vector_contrast,
                                .backward = bp_causal_backward,
                                .decode = bp_causal_decode,
                                .sliced_tables = bp_causal_sliced_tables,
                                .slice = bp_causal_slice};
