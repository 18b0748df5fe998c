/* SPDX-License-Identifier: MIT */
/* ModernBERT as a chain of stages. */
#include "layers/families/modernbert.h"

#include <math.h>

#include "core/plan/range.h"
#include "layers/nodes/embedding.h"
#include "layers/nodes/inputs.h"
#include "layers/blocks/llama_block.h"
#include "layers/blocks/modernbert_block.h"
#include "layers/heads/modernbert_head.h"
#include "layers/nodes/norm.h"
#include "layers/nodes/publish.h"
#include "layers/heads/vector.h"

enum { TOKEN_TABLE, EMBEDDING_NORM };

BP_FAMILY_CONFIG_FITS(bp_modernbert_config);

bp_modernbert_config bp_modernbert_config_of(const bp_model_config *config)
{
    bp_modernbert_config own;
    bp_family_config_get(config, &own, sizeof own);
    return own;
}

/* The last norm's weight. */
static uint32_t head_first(const bp_model_config *config)
{
    return bp_modernbert_number(bp_transformer_of(config).layers, BP_MODERNBERT_NORM_1);
}

static uint32_t modernbert_stages(const bp_model_config *config)
{
    return bp_transformer_of(config).layers + 2;
}

static bool is_block(const bp_model_config *config, uint32_t stage)
{
    return stage >= 1 && stage <= bp_transformer_of(config).layers;
}

static uint32_t modernbert_variants(const bp_model_config *config, uint32_t stage)
{
    return is_block(config, stage) ? BP_TAPE_VARIANTS : 1;
}

static uint32_t modernbert_parameter_count(const bp_model_config *config)
{
    return head_first(config) + bp_modernbert_head_parameters(config);
}

static uint32_t modernbert_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    const uint32_t layers = bp_transformer_of(config).layers;
    uint32_t block = 0;
    if (parameter < BP_MODERNBERT_EMBEDDINGS) {
        return 0;
    }
    while (block < layers && parameter >= bp_modernbert_number(block + 1, BP_MODERNBERT_NORM_1)) {
        block++;
    }
    return 1 + block;
}

static void modernbert_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    if (is_block(config, stage)) {
        bp_name_append_number(bp_name_append(text, "layers."), stage - 1);
    } else {
        bp_name_append(text, stage == 0 ? "embed" : "head");
    }
}

static void modernbert_publish_block(bp_builder *builder, const bp_model_config *config,
                                     uint32_t index)
{
    const bp_transformer own = bp_transformer_of(config);
    const uint64_t width = own.width, inner = bp_transformer_inner(&own);
    const double range = own.initializer_range, end = range / sqrt(2.0 * own.layers);
    const bp_publish_row rows[BP_MODERNBERT_BLOCK_PARAMETERS] = {
        [BP_MODERNBERT_NORM_1] = {"attn_norm.weight", {width, 0}, BP_INIT_ONES, 0.0},
        [BP_MODERNBERT_QKV] = {"attn.Wqkv.weight", {3 * width, width}, BP_INIT_NORMAL, range},
        [BP_MODERNBERT_O] = {"attn.Wo.weight", {width, width}, BP_INIT_NORMAL, end},
        [BP_MODERNBERT_NORM_2] = {"mlp_norm.weight", {width, 0}, BP_INIT_ONES, 0.0},
        [BP_MODERNBERT_GATE_UP] = {"mlp.Wi.weight", {2 * inner, width}, BP_INIT_NORMAL, range},
        [BP_MODERNBERT_DOWN] = {"mlp.Wo.weight", {width, inner}, BP_INIT_NORMAL, end}};
    char prefix[BP_NAME_BYTES];
    bp_name_append(bp_name_append_number(bp_name_append(prefix, "model.layers."), index), ".");
    for (uint32_t i = index == 0 ? 1 : 0; i < BP_MODERNBERT_BLOCK_PARAMETERS; i++) {
        bp_publish_dense(builder, prefix, &rows[i], false, 0);
    }
}

static void modernbert_parameters(bp_builder *builder, const bp_model_config *config)
{
    const bp_transformer own = bp_transformer_of(config);
    const bp_publish_row token = {"tok_embeddings.weight",
                                  {config->vocabulary, own.width},
                                  BP_INIT_NORMAL,
                                  own.initializer_range};
    const bp_publish_row norm = {"norm.weight", {own.width, 0}, BP_INIT_ONES, 0.0};
    bp_publish_table(builder, "model.embeddings.", &token);
    bp_publish(builder, "model.embeddings.", &norm);
    for (uint32_t i = 0; i < own.layers; i++) {
        modernbert_publish_block(builder, config, i);
    }
    bp_modernbert_head_publish(builder, config);
}

static bp_embedding describe_embedding(const bp_builder *builder)
{
    const bp_model_config *config = &builder->spec->config;
    return (bp_embedding){.token = TOKEN_TABLE,
                          .position = BP_NO_PARAMETER,
                          .vocabulary = config->vocabulary,
                          .positions = config->positions,
                          .width = bp_transformer_of(config).width};
}

static void drop(bp_builder *builder, bp_ref x)
{
    const bp_transformer own = bp_transformer_of(&builder->spec->config);
    const bp_dropout dropout = {0, own.embedding_dropout};
    if (bp_dropout_probability(builder, &dropout) > 0.0) {
        bp_dropout_apply(builder, &dropout, own.width, x, BP_ABSENT, x);
    }
}

static bp_norm describe_norm(const bp_builder *builder)
{
    const bp_transformer own = bp_transformer_of(&builder->spec->config);
    return (bp_norm){EMBEDDING_NORM, BP_NORM_NO_BIAS, own.width, own.norm_epsilon, false};
}

/* The embedding, and its norm into `out`. */
static bp_ref embed(bp_builder *builder, bp_ref out, bp_ref statistics)
{
    const bp_embedding embedding = describe_embedding(builder);
    const bp_norm norm = describe_norm(builder);
    const bp_ref x = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                     builder->rows, embedding.width, "embedded");
    bp_embedding_forward(builder, &embedding, x);
    bp_norm_forward(builder, &norm, builder->rows, x, out, statistics);
    return x;
}

static void modernbert_forward(bp_builder *builder, bp_stage_call *call)
{
    const bp_model_config *config = &builder->spec->config;
    if (call->stage == 0) {
        call->output = bp_build_buffer(builder, builder->output_class, bp_build_working(builder),
                                       builder->rows, bp_transformer_of(config).width, "out");
        (void)embed(builder, call->output, BP_ABSENT);
        drop(builder, call->output);
    } else if (is_block(config, call->stage)) {
        bp_block_forward(builder, call, bp_block_family_list(builder, call));
    } else {
        bp_modernbert_head_forward(builder, call, head_first(config));
    }
}

/* The embedding and its statistics are made again: a gather, little beside a block. */
static void backward_embed(bp_builder *builder, bp_stage_call *call)
{
    const bp_embedding embedding = describe_embedding(builder);
    const bp_norm norm = describe_norm(builder);
    const bp_ref statistics =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 2, builder->rows, "norm.statistics");
    const bp_ref again = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                         builder->rows, norm.width, "again");
    const bp_ref x = embed(builder, again, statistics), d = call->d_output;
    drop(builder, d);
    const bp_norm_backward_call norm_call = {x, statistics, d, BP_ABSENT, true, false};
    bp_norm_backward(builder, &norm, &norm_call);
    bp_embedding_backward(builder, &embedding, d);
    call->d_input = BP_ABSENT;
}

static void modernbert_backward(bp_builder *builder, bp_stage_call *call)
{
    const bp_model_config *config = &builder->spec->config;
    if (call->stage == 0) {
        backward_embed(builder, call);
    } else if (is_block(config, call->stage)) {
        bp_block_backward(builder, call, bp_block_family_list(builder, call));
    } else {
        bp_modernbert_head_backward(builder, call, head_first(config));
    }
}

static bp_status modernbert_refuse(bp_error *error, const char *text, const char *field)
{
    return bp_error_set(error, BP_ERR_USAGE, "modernbert", text, field);
}

static bp_status modernbert_check_task(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    if (config->task == BP_TASK_ANSWERS) {
        return modernbert_refuse(
            error, "question-answering is implemented for bert, distilbert and electra", "task");
    }
    if (config->task == BP_TASK_CAUSAL_LM || spec->generate_context > 0) {
        return modernbert_refuse(error,
                                 "this model reads in both directions: it does not generate, and "
                                 "its tasks are masked-lm, classification, regression, "
                                 "token-classification and embedding",
                                 "task");
    }
    return BP_OK;
}

static bp_status modernbert_check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_modernbert_config own = bp_modernbert_config_of(config);
    const bp_transformer *stack = &own.llama.stack;
    const bp_range sizes[] = {{"classifier_pooling", own.pooling, 0, 1},
                              {"local_attention", own.llama.window, 2, UINT32_MAX}};
    const bp_real_range reals[] = {{"mlp_dropout", own.mlp_dropout, 0.0, 1.0},
                                   {"classifier_dropout", own.classifier_dropout, 0.0, 1.0},
                                   {"local_rope_theta", own.llama.near_theta, 0.0, 1e12}};
    BP_TRY(bp_transformer_check(config, "modernbert", error));
    BP_TRY(bp_ranges_check(sizes, 2, "modernbert", error));
    BP_TRY(bp_real_ranges_check(reals, 3, "modernbert", error));
    BP_TRY(bp_vector_check(spec, stack->width, "modernbert", error));
    if (stack->width % stack->heads != 0) {
        return bp_error_limit(error, BP_ERR_USAGE, "modernbert",
                              "the number of heads does not divide the width hidden_size",
                              "num_attention_heads", stack->heads, BP_LIMIT_DIVISOR, stack->width);
    }
    BP_TRY(bp_llama_check_rotary(spec, stack->width / stack->heads, "modernbert", error));
    if (own.llama.rope_scaling.factor > 0.0) {
        return modernbert_refuse(error, "scaled rotary positions are not implemented here",
                                 "rope_parameters");
    }
    return modernbert_check_task(spec, error);
}

/* The vocabulary's table is not sliced under gradient release, for BERT's reason. */
static const bp_block_family modernbert_self = {bp_modernbert_block_describe};

const bp_model bp_model_modernbert = {.name = "modernbert",
                                      .scratch = sizeof(bp_block),
                                      .self = &modernbert_self,
                                      .pads = true,
                                      .check = modernbert_check,
                                      .inputs = bp_inputs_texts,
                                      .stages = modernbert_stages,
                                      .stage_name = modernbert_stage_name,
                                      .variants = modernbert_variants,
                                      .tapes = bp_block_family_tapes,
                                      .slot_name = bp_block_family_slot_name,
                                      .parameters = modernbert_parameters,
                                      .parameter_count = modernbert_parameter_count,
                                      .parameter_stage = modernbert_parameter_stage,
                                      .forward = modernbert_forward,
                                      .contrast = bp_vector_contrast,
                                      .backward = modernbert_backward};
