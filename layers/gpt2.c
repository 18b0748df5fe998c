/* SPDX-License-Identifier: MIT */
/* GPT-2 as a chain of stages. */
#include "layers/gpt2.h"

#include <math.h>

#include "layers/classifier.h"
#include "layers/embedding.h"
#include "layers/gpt2_block.h"
#include "layers/loss.h"
#include "layers/norm.h"
#include "layers/publish.h"

/* Numbers of the parameters that are not a block's. */
enum { TOKEN_TABLE = 0, POSITION_TABLE = 1 };

static uint32_t stage_count(const bp_model_config *config)
{
    return config->layers + 2;
}

static bool classifies(const bp_model_config *config)
{
    return config->task >= BP_TASK_CLASSES;
}

/* A classifier's score follows the last norm. */
static uint32_t parameter_count(const bp_model_config *config)
{
    return bp_gpt2_block_first(config->layers) + 2 + (classifies(config) ? 1 : 0);
}

static bool is_head(const bp_emit *emit, uint32_t stage)
{
    return stage == emit->spec->config.layers + 1;
}

static void stage_name(const bp_model_config *config, uint32_t stage, char text[32])
{
    if (stage == 0) {
        bp_name_append(text, "wte");
    } else if (stage > config->layers) {
        bp_name_append(text, "head");
    } else {
        bp_name_append_number(bp_name_append(text, "h."), stage - 1);
    }
}

static uint32_t variants(const bp_model_config *config, uint32_t stage)
{
    const bool is_block = stage >= 1 && stage <= config->layers;
    return is_block ? BP_GPT2_BLOCK_VARIANTS : 1;
}

static void publish_block(bp_emit *emit, const bp_model_config *config, uint32_t index)
{
    const uint64_t width = config->width;
    const uint64_t inner = config->inner != 0 ? config->inner : 4 * width;
    const double range = config->initializer_range;
    /* The two projections into the residual stream start smaller, as the paper has it. */
    const double end = range / sqrt(2.0 * config->layers);
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
        bp_publish(emit, prefix, &rows[i]);
    }
}

static void parameters(bp_emit *emit, const bp_model_config *config)
{
    const double range = config->initializer_range;
    const uint64_t width = config->width;
    const bp_publish_row token = {"wte.weight", {config->vocabulary, width}, BP_INIT_NORMAL, range};
    const bp_publish_row position = {
        "wpe.weight", {config->positions, width}, BP_INIT_NORMAL, range};
    const bp_publish_row weight = {"ln_f.weight", {width, 0}, BP_INIT_ONES, 0.0};
    const bp_publish_row bias = {"ln_f.bias", {width, 0}, BP_INIT_ZEROS, 0.0};
    const bp_publish_row score = {"score.weight", {config->classes, width}, BP_INIT_NORMAL, range};
    bp_publish_table(emit, "transformer.", &token);
    bp_publish_table(emit, "transformer.", &position);
    for (uint32_t i = 0; i < config->layers; i++) {
        publish_block(emit, config, i);
    }
    bp_publish(emit, "transformer.", &weight);
    bp_publish(emit, "transformer.", &bias);
    if (classifies(config)) {
        bp_publish(emit, "", &score);
    }
}

static uint32_t parameter_stage(const bp_model_config *config, uint32_t parameter)
{
    if (parameter < bp_gpt2_block_first(0)) {
        return 0;
    }
    const uint32_t block = (parameter - bp_gpt2_block_first(0)) / BP_GPT2_BLOCK_PARAMETERS;
    return block < config->layers ? 1 + block : config->layers + 1;
}

static bp_embedding describe_embedding(const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    return (bp_embedding){.token = TOKEN_TABLE,
                          .position = POSITION_TABLE,
                          .vocabulary = config->vocabulary,
                          .positions = config->positions,
                          .width = config->width,
                          .dropout = {0, config->embedding_dropout}};
}

static bp_norm describe_norm(const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    const uint32_t first = bp_gpt2_block_first(config->layers);
    return (bp_norm){.weight = first,
                     .bias = first + 1,
                     .width = config->width,
                     .epsilon = config->norm_epsilon};
}

static bp_head describe_head(const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    return (bp_head){.table = TOKEN_TABLE,
                     .bias = BP_NO_PARAMETER,
                     .vocabulary = config->vocabulary,
                     .width = config->width};
}

static bp_classifier describe_classifier(const bp_emit *emit)
{
    const bp_model_config *config = &emit->spec->config;
    return (bp_classifier){.score = {.weight = bp_gpt2_block_first(config->layers) + 2,
                                     .bias = BP_NO_PARAMETER,
                                     .in = config->width,
                                     .out = config->classes,
                                     .output_major = true}};
}

/* The last norm's output for `rows` rows of x. */
static bp_ref normalise(bp_emit *emit, uint64_t rows, bp_ref x, bp_ref statistics)
{
    const bp_norm norm = describe_norm(emit);
    const bp_ref y =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), rows, norm.width, "ln_f");
    bp_norm_forward(emit, &norm, rows, x, y, statistics);
    return y;
}

static void embed(bp_emit *emit, bp_stage_call *call)
{
    const bp_embedding embedding = describe_embedding(emit);
    call->output = bp_emit_buffer(emit, emit->output_class, bp_emit_working(emit), emit->rows,
                                  embedding.width, "out");
    bp_embedding_forward(emit, &embedding, call->output);
}

static void forward_head(bp_emit *emit, bp_stage_call *call)
{
    const bp_ref y = normalise(emit, emit->rows, call->input, BP_ABSENT);
    if (classifies(&emit->spec->config)) {
        const bp_classifier classifier = describe_classifier(emit);
        bp_classify_last_forward(emit, &classifier, y);
    } else {
        const bp_head head = describe_head(emit);
        bp_loss_forward(emit, &head, y);
    }
    call->output = BP_ABSENT;
}

static void forward(bp_emit *emit, bp_stage_call *call)
{
    if (call->stage == 0) {
        embed(emit, call);
    } else if (is_head(emit, call->stage)) {
        forward_head(emit, call);
    } else {
        bp_gpt2_block_forward(emit, call);
    }
}

/* The gradient of the last norm's output y: in its place, chunk by chunk, or anew where few rows of
 * it count or the table's gradient is formed later. */
static bp_ref backward_loss(bp_emit *emit, bp_stage_call *call, bp_ref y)
{
    if (classifies(&emit->spec->config)) {
        const bp_classifier classifier = describe_classifier(emit);
        return bp_classify_last_backward(emit, &classifier, y);
    }
    const bp_head head = describe_head(emit);
    const bp_ref d_y = bp_loss_keep(emit, head.width, y, call->table_deferred, call->kept);
    bp_loss_backward(emit, &head, y, d_y, call->kept[1]);
    return d_y;
}

/* Forms the loss and its gradients, which become that of the input in place: one (rows, width)
 * buffer in all. */
static void backward_head(bp_emit *emit, bp_stage_call *call)
{
    const bp_norm norm = describe_norm(emit);
    const bp_ref statistics =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_F32, 2, emit->rows, "ln_f.statistics");
    const bp_ref y = normalise(emit, emit->rows, call->input, statistics);
    const bp_ref d_y = backward_loss(emit, call, y);
    const bp_norm_backward_call norm_call = {call->input, statistics, d_y, BP_ABSENT,
                                             call->input_wanted};
    bp_norm_backward(emit, &norm, &norm_call);
    call->d_input = call->input_wanted ? d_y : BP_ABSENT;
}

static void backward(bp_emit *emit, bp_stage_call *call)
{
    if (call->stage == 0) {
        const bp_embedding embedding = describe_embedding(emit);
        if (call->table_deferred) {
            bp_embedding_backward_position(emit, &embedding, call->d_output);
        } else {
            bp_embedding_backward(emit, &embedding, call->d_output);
        }
        call->d_input = BP_ABSENT;
    } else if (is_head(emit, call->stage)) {
        backward_head(emit, call);
    } else {
        bp_gpt2_block_backward(emit, call);
    }
}

static uint32_t sliced_table(const bp_model_config *config)
{
    return classifies(config) ? UINT32_MAX : TOKEN_TABLE;
}

/* The head's part of the table's gradient, then the embedding's, as backward adds them. */
static void slice(bp_emit *emit, bp_slice_call *call)
{
    const bp_head head = describe_head(emit);
    const bp_embedding embedding = describe_embedding(emit);
    bp_loss_slice_of(emit, &head, call);
    bp_embedding_backward_slice(emit, &embedding, call->d_embedded, call->first, call->rows,
                                call->gradient, 1);
}

static void decode_head(bp_emit *emit, bp_stage_call *call)
{
    const bp_head head = describe_head(emit);
    const bp_pick_row_scalars scalars = {.rows = (int64_t)emit->rows, .width = (int64_t)head.width};
    const bp_pick_row_operands operands = {
        .y = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), 1, head.width, "row"),
        .x = call->input,
        .step = emit->step};
    bp_emit_pick_row(emit, &operands, &scalars);
    bp_head_logits(emit, &head, normalise(emit, 1, operands.y, BP_ABSENT));
    call->output = BP_ABSENT;
}

static void decode(bp_emit *emit, bp_stage_call *call)
{
    if (call->stage == 0) {
        embed(emit, call);
    } else if (is_head(emit, call->stage)) {
        decode_head(emit, call);
    } else {
        bp_gpt2_block_decode(emit, call);
    }
}

static bp_graph_limits head_limits(uint32_t chunks)
{
    return (bp_graph_limits){.buffers = 9 + 3 * chunks,
                             .ops = 4 + 4 * chunks,
                             .refs = 30 + 27 * chunks,
                             .scalars = 10 + 36 * chunks,
                             .name_bytes = 9 * BP_NAME_BYTES + 3 * 16 * chunks};
}

static bp_graph_limits limits(const bp_spec *spec, uint32_t stage, bool backward)
{
    if (stage >= 1 && stage <= spec->config.layers) {
        return bp_gpt2_block_limits(backward);
    }
    if (classifies(&spec->config) && stage > 0) {
        return bp_head_limits(spec);
    }
    if (stage == 0) {
        return (bp_graph_limits){
            .buffers = 4, .ops = 3, .refs = 16, .scalars = 24, .name_bytes = 4 * BP_NAME_BYTES};
    }
    /* Tables are counted in 32 bits; more chunks than this could not be planned. */
    const uint64_t most = UINT32_MAX / 64;
    const uint64_t chunks = bp_loss_chunks(spec);
    return head_limits((uint32_t)(chunks < most ? chunks : most));
}

/* A norm and the embedding's part once, and per chunk of tokens two products and the loss, with
 * their workspaces. */
static bp_graph_limits slice_limits(const bp_spec *spec)
{
    const uint64_t most = UINT32_MAX / 64;
    const uint64_t chunks = bp_loss_chunks(spec);
    return head_limits((uint32_t)(chunks < most ? chunks : most));
}

/* Ranges are bp_spec_check's. */
static bp_status check(const bp_spec *spec, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    if (config->width % config->heads != 0) {
        return bp_error_numbers(error, BP_ERR_USAGE, "gpt2",
                                "the number of heads does not divide the width n_embd", "n_head",
                                config->heads, config->width);
    }
    if (config->task == BP_TASK_MASKED_LM) {
        return bp_error_set(error, BP_ERR_USAGE, "gpt2",
                            "this model reads from left to right; masked-lm needs bert", "task");
    }
    if (classifies(config) && spec->generate_context > 0) {
        return bp_error_set(error, BP_ERR_USAGE, "gpt2", "a classifier does not generate",
                            "generate-context");
    }
    return BP_OK;
}

const bp_model bp_model_gpt2 = {.name = "gpt2",
                                .input_major = true,
                                .check = check,
                                .stages = stage_count,
                                .stage_name = stage_name,
                                .variants = variants,
                                .parameters = parameters,
                                .parameter_count = parameter_count,
                                .parameter_stage = parameter_stage,
                                .forward = forward,
                                .backward = backward,
                                .decode = decode,
                                .sliced_table = sliced_table,
                                .slice = slice,
                                .slice_limits = slice_limits,
                                .limits = limits};
