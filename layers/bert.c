/* SPDX-License-Identifier: MIT */
/* BERT as a chain of stages. */
#include "layers/bert.h"

#include "core/compile/range.h"
#include "layers/bert_block.h"
#include "layers/bert_head.h"
#include "layers/embedding.h"
#include "layers/inputs.h"
#include "layers/loss.h"
#include "layers/norm.h"
#include "layers/publish.h"

/* Numbers of the embeddings' parameters. */
enum { TOKEN_TABLE = 0, POSITION_TABLE = 1, TYPE_TABLE = 2, NORM_WEIGHT = 3, NORM_BIAS = 4 };

BP_OWN_FITS(bp_bert_config);

bp_bert_config bp_bert_config_of(const bp_model_config *config)
{
    bp_bert_config own;
    bp_config_own(config, &own, sizeof own);
    return own;
}

static uint32_t head_first(const bp_model_config *config)
{
    const bp_bert_config own = bp_bert_config_of(config);
    return bp_bert_block_first(own.stack.layers);
}

static uint32_t bert_stage_count(const bp_model_config *config)
{
    const bp_bert_config own = bp_bert_config_of(config);
    return own.stack.layers + 2;
}

static uint32_t bert_parameter_count(const bp_model_config *config)
{
    return head_first(config) + bp_bert_head_parameters(config);
}

static uint32_t bert_parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    const bp_bert_config own = bp_bert_config_of(config);
    if (parameter < bp_bert_block_first(0)) {
        return 0;
    }
    const uint32_t block = (parameter - bp_bert_block_first(0)) / BP_BERT_BLOCK_PARAMETERS;
    return block < own.stack.layers ? 1 + block : own.stack.layers + 1;
}

static void bert_stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    const bp_bert_config own = bp_bert_config_of(config);
    if (stage == 0) {
        bp_name_append(text, "embed");
    } else if (stage > own.stack.layers) {
        bp_name_append(text, "head");
    } else {
        bp_name_append_number(bp_name_append(text, "layer."), stage - 1);
    }
}

/* Where there are types, the tokens of a pair's texts have their own. */
static uint32_t inputs(const bp_spec *spec, bp_input rows[BP_INPUTS_MAX])
{
    return bp_bert_config_of(&spec->config).types > 1 ? bp_inputs_pairs(spec, rows)
                                                      : bp_inputs_texts(spec, rows);
}

static uint32_t bert_variants(const bp_model_config *config, uint32_t stage)
{
    const bp_bert_config own = bp_bert_config_of(config);
    const bool is_block = stage >= 1 && stage <= own.stack.layers;
    return is_block ? BP_TAPE_VARIANTS : 1;
}

static void bert_publish_block(bp_emit *emit, const bp_model_config *config, uint32_t index)
{
    const bp_bert_config own = bp_bert_config_of(config);
    const uint64_t w = own.stack.width;
    const uint64_t inner = bp_transformer_inner(&own.stack);
    const double range = own.stack.initializer_range;
    const bp_publish_row rows[BP_BERT_BLOCK_PARAMETERS] = {
        {"attention.self.query.weight", {w, w}, BP_INIT_NORMAL, range},
        {"attention.self.query.bias", {w, 0}, BP_INIT_ZEROS, 0.0},
        {"attention.self.key.weight", {w, w}, BP_INIT_NORMAL, range},
        {"attention.self.key.bias", {w, 0}, BP_INIT_ZEROS, 0.0},
        {"attention.self.value.weight", {w, w}, BP_INIT_NORMAL, range},
        {"attention.self.value.bias", {w, 0}, BP_INIT_ZEROS, 0.0},
        {"attention.output.dense.weight", {w, w}, BP_INIT_NORMAL, range},
        {"attention.output.dense.bias", {w, 0}, BP_INIT_ZEROS, 0.0},
        {"attention.output.LayerNorm.weight", {w, 0}, BP_INIT_ONES, 0.0},
        {"attention.output.LayerNorm.bias", {w, 0}, BP_INIT_ZEROS, 0.0},
        {"intermediate.dense.weight", {inner, w}, BP_INIT_NORMAL, range},
        {"intermediate.dense.bias", {inner, 0}, BP_INIT_ZEROS, 0.0},
        {"output.dense.weight", {w, inner}, BP_INIT_NORMAL, range},
        {"output.dense.bias", {w, 0}, BP_INIT_ZEROS, 0.0},
        {"output.LayerNorm.weight", {w, 0}, BP_INIT_ONES, 0.0},
        {"output.LayerNorm.bias", {w, 0}, BP_INIT_ZEROS, 0.0}};
    char prefix[BP_NAME_BYTES];
    bp_name_append(bp_name_append_number(bp_name_append(prefix, "bert.encoder.layer."), index),
                   ".");
    for (uint32_t i = 0; i < BP_BERT_BLOCK_PARAMETERS; i++) {
        bp_publish(emit, prefix, &rows[i]);
    }
}

static void bert_parameters(bp_emit *emit, const bp_model_config *config)
{
    const bp_bert_config own = bp_bert_config_of(config);
    const uint64_t w = own.stack.width;
    const double range = own.stack.initializer_range;
    const bp_publish_row rows[] = {
        {"word_embeddings.weight", {config->vocabulary, w}, BP_INIT_NORMAL, range},
        {"position_embeddings.weight", {config->positions, w}, BP_INIT_NORMAL, range},
        {"token_type_embeddings.weight", {own.types, w}, BP_INIT_NORMAL, range},
        {"LayerNorm.weight", {w, 0}, BP_INIT_ONES, 0.0},
        {"LayerNorm.bias", {w, 0}, BP_INIT_ZEROS, 0.0}};
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i <= TYPE_TABLE) {
            bp_publish_table(emit, "bert.embeddings.", &rows[i]);
        } else {
            bp_publish(emit, "bert.embeddings.", &rows[i]);
        }
    }
    for (uint32_t i = 0; i < own.stack.layers; i++) {
        bert_publish_block(emit, config, i);
    }
    bp_bert_head_publish(emit, config);
}

static bp_embedding describe_embedding(const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    /* Where the loss reads padding too, transformers' table of words keeps that row as it is. */
    const int64_t padding = config->pad_token;
    const bool reads = config->task == BP_TASK_ANSWERS && padding < (int64_t)config->vocabulary;
    return (bp_embedding){.token = TOKEN_TABLE,
                          .position = POSITION_TABLE,
                          .vocabulary = config->vocabulary,
                          .positions = config->positions,
                          .width = own.stack.width,
                          .types = own.types,
                          .type = TYPE_TABLE,
                          .still = reads && padding >= 0 ? (uint64_t)padding + 1 : 0};
}

static bp_norm describe_norm(const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    return (bp_norm){NORM_WEIGHT, NORM_BIAS, own.stack.width, own.stack.norm_epsilon};
}

/* The sum of the embeddings, and its norm into `out`. */
static bp_ref bert_embed(bp_emit *emit, bp_ref out, bp_ref statistics)
{
    const bp_embedding embedding = describe_embedding(emit);
    const bp_norm norm = describe_norm(emit);
    const bp_ref sum = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows,
                                      embedding.width, "sum");
    bp_embedding_forward(emit, &embedding, sum);
    bp_norm_forward(emit, &norm, emit->rows, sum, out, statistics);
    return sum;
}

static void drop(bp_emit *emit, bp_ref x)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    const bp_dropout dropout = {0, own.stack.embedding_dropout};
    if (bp_dropout_probability(emit, &dropout) > 0.0) {
        bp_dropout_apply(emit, &dropout, own.stack.width, x, BP_ABSENT, x);
    }
}

static void bert_forward(bp_emit *emit, bp_stage_call *call)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    if (call->stage == 0) {
        call->output = bp_emit_buffer(emit, emit->output_class, bp_emit_working(emit), emit->rows,
                                      own.stack.width, "out");
        (void)bert_embed(emit, call->output, BP_ABSENT);
        drop(emit, call->output);
    } else if (call->stage > own.stack.layers) {
        bp_bert_head_forward(emit, call, head_first(config));
    } else {
        bp_block block;
        bp_bert_block_describe(emit, call, &block);
        bp_block_forward(emit, call, &block);
    }
}

/* The sum and its statistics are made again: a gather, little beside a block. */
static void backward_embed(bp_emit *emit, bp_stage_call *call)
{
    const bp_embedding embedding = describe_embedding(emit);
    const bp_norm norm = describe_norm(emit);
    const bp_ref statistics =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_F32, 2, emit->rows, "norm.statistics");
    const bp_ref again = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows,
                                        norm.width, "again");
    const bp_ref sum = bert_embed(emit, again, statistics);
    drop(emit, call->d_output);
    const bp_norm_backward_call norm_call = {sum, statistics, call->d_output, BP_ABSENT, true};
    bp_norm_backward(emit, &norm, &norm_call);
    bp_embedding_backward(emit, &embedding, call->d_output);
    call->d_input = BP_ABSENT;
}

static void bert_backward(bp_emit *emit, bp_stage_call *call)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    if (call->stage == 0) {
        backward_embed(emit, call);
    } else if (call->stage > own.stack.layers) {
        bp_bert_head_backward(emit, call, head_first(config));
    } else {
        bp_block block;
        bp_bert_block_describe(emit, call, &block);
        bp_block_backward(emit, call, &block);
    }
}

static uint32_t bert_tapes(bp_emit *emit, const bp_stage_call *call, const bp_tape_request *request,
                           uint32_t *variants_of)
{
    bp_block block;
    bp_bert_block_describe(emit, call, &block);
    return bp_block_tapes(emit, call, &block, request, variants_of);
}

static const char *bert_slot_name(const bp_spec *spec, uint32_t stage, uint32_t slot)
{
    const bp_emit emit = {.spec = spec, .rows = 1};
    const bp_stage_call call = {.stage = stage};
    bp_block block;
    bp_bert_block_describe(&emit, &call, &block);
    return bp_block_slot_name(&block, slot);
}

static bp_status bert_check_ranges(const bp_model_config *config, bp_error *error)
{
    const bp_bert_config own = bp_bert_config_of(config);
    const bp_range types = {"type_vocab_size", own.types, 1, 1u << 16};
    const bp_real_range dropout = {"classifier_dropout", own.classifier_dropout, 0.0, 1.0};
    BP_TRY(bp_transformer_check(config, "bert", error));
    BP_TRY(bp_ranges_check(&types, 1, "bert", error));
    return bp_real_ranges_check(&dropout, 1, "bert", error);
}

static bp_status bert_check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    const bp_bert_config own = bp_bert_config_of(config);
    BP_TRY(bert_check_ranges(config, error));
    if (own.stack.width % own.stack.heads != 0) {
        return bp_error_limit(error, BP_ERR_USAGE, "bert",
                              "the number of heads does not divide the width hidden_size",
                              "num_attention_heads", own.stack.heads, BP_LIMIT_DIVISOR,
                              own.stack.width);
    }
    if (config->task == BP_TASK_CAUSAL_LM || spec->generate_context > 0) {
        return bp_error_set(error, BP_ERR_USAGE, "bert",
                            "this model reads in both directions: it does not generate, and its "
                            "tasks are masked-lm, classification, regression, "
                            "token-classification and question-answering",
                            "task");
    }
    return BP_OK;
}

/* The vocabulary's table is not sliced under gradient release: its slices would form the logits
 * again with a bias that the last stage has already updated. So with several micro-batches its
 * gradient is added up in another order than without release. */
const bp_model bp_model_bert = {.name = "bert",
                                .pads = true,
                                .check = bert_check,
                                .inputs = inputs,
                                .stages = bert_stage_count,
                                .stage_name = bert_stage_name,
                                .variants = bert_variants,
                                .tapes = bert_tapes,
                                .slot_name = bert_slot_name,
                                .parameters = bert_parameters,
                                .parameter_count = bert_parameter_count,
                                .parameter_stage = bert_parameter_stage,
                                .forward = bert_forward,
                                .backward = bert_backward};
