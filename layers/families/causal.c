/* SPDX-License-Identifier: MIT */
/* The first and the last stage of models that read from left to right. */
#include "layers/families/causal.h"

#include "core/plan/passes/token_lanes.h"
#include "core/plan/rows.h"
#include "layers/heads/classifier.h"
#include "layers/heads/distill_loss.h"
#include "layers/heads/loss.h"
#include "layers/nodes/adapter.h"
#include "layers/nodes/publish.h"
#include "layers/heads/vector.h"

bool bp_causal_classifies(const bp_model_config *config)
{
    return bp_task_scores_samples(config->task);
}

bool bp_causal_has_output(const bp_model_config *config)
{
    const bp_transformer own = bp_transformer_of(config);
    return bp_causal_classifies(config) || (own.untied && config->task != BP_TASK_EMBEDDING);
}

uint32_t bp_causal_stages(const bp_model_config *config)
{
    const bp_transformer own = bp_transformer_of(config);
    return own.layers + 2;
}

static bool is_block(const bp_model_config *config, uint32_t stage)
{
    const bp_transformer own = bp_transformer_of(config);
    return stage >= 1 && stage <= own.layers;
}

uint32_t bp_causal_variants(const bp_model_config *config, uint32_t stage)
{
    return is_block(config, stage) ? BP_TAPE_VARIANTS : 1;
}

/* Whether the last stage is another head than one whose columns are the tokens of a table. */
static bool heads_without_table(const bp_model_config *config)
{
    return bp_causal_classifies(config) || config->task == BP_TASK_EMBEDDING;
}

void bp_causal_sliced_tables(const bp_spec *spec, uint32_t tables[2])
{
    const bp_model_config *config = &spec->config;
    const uint32_t output = spec->model->parameter_count(config) - 1;
    const bp_transformer own = bp_transformer_of(config);
    tables[0] = heads_without_table(config) ? UINT32_MAX : own.untied ? output : BP_CAUSAL_TABLE;
    tables[1] = BP_CAUSAL_TABLE;
}

void bp_causal_stage_name(const bp_model_config *config, uint32_t stage, const char *embedding,
                          const char *block, char text[32])
{
    if (is_block(config, stage)) {
        bp_name_append_number(bp_name_append(text, block), stage - 1);
    } else {
        bp_name_append(text, stage == 0 ? embedding : "head");
    }
}

static bp_causal causal_of(const bp_builder *builder)
{
    const bp_causal_family *family = builder->spec->model->self;
    return family->describe(builder);
}

static bp_head describe_head(const bp_builder *builder, const bp_causal *causal)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_transformer own = bp_transformer_of(config);
    if (config->task == BP_TASK_TOKENS) {
        return (bp_head){causal->output, causal->output + 1, config->classes, own.width, 0.0};
    }
    return (bp_head){.table = own.untied ? causal->output : BP_CAUSAL_TABLE,
                     .bias = BP_NO_PARAMETER,
                     .vocabulary = config->vocabulary,
                     .width = own.width,
                     .cap = causal->logit_cap};
}

static bp_classifier describe_classifier(const bp_builder *builder, const bp_causal *causal)
{
    const bp_model_config *config = &builder->spec->config;
    const bp_transformer own = bp_transformer_of(config);
    return (bp_classifier){.score = {.weight = causal->output,
                                     .bias = BP_NO_PARAMETER,
                                     .in = own.width,
                                     .out = config->classes,
                                     .output_major = true}};
}

/* x *= factor, where there is one. */
static void causal_scale(bp_builder *builder, double factor, uint64_t count, bp_ref x)
{
    if (factor > 0.0 && (factor < 1.0 || factor > 1.0)) {
        const bp_scale_scalars scalars = {.count = (int64_t)count, .factor = factor};
        const bp_scale_operands operands = {.y = x, .x = x};
        bp_build_scale(builder, &operands, &scalars);
    }
}

/* Of a head whose logits are divided the input is. */
static double head_factor(const bp_causal *causal)
{
    return causal->logit_divisor > 0.0 ? 1.0 / causal->logit_divisor : 1.0;
}

/* The embedding's factor, rounded to the working type as its output is. */
static double embedding_factor(const bp_builder *builder, const bp_causal *causal)
{
    const float factor = (float)causal->embedding_scale;
    return bp_build_working(builder) == BP_BF16
               ? (double)bp_f32_from_bf16(bp_bf16_even_from_f32(factor))
               : (double)factor;
}

/* The last norm's output for `rows` rows of x. */
static bp_ref normalise(bp_builder *builder, const bp_norm *norm, uint64_t rows, bp_ref x,
                        bp_ref statistics)
{
    const bp_ref y = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), rows,
                                     norm->width, "norm");
    bp_norm_forward(builder, norm, rows, x, y, statistics);
    return y;
}

static void causal_embed(bp_builder *builder, bp_stage_call *call, const bp_causal *causal)
{
    const bp_embedding *embedding = &causal->embedding;
    call->output = bp_build_buffer(builder, builder->output_class, bp_build_working(builder),
                                   builder->rows, embedding->width, "out");
    bp_embedding_forward(builder, embedding, call->output);
    causal_scale(builder, embedding_factor(builder, causal), builder->rows * embedding->width,
                 call->output);
}

/* The rows of a part of those of a micro-batch whose first is `first`. */
static uint64_t stream_rows(const bp_builder *builder, uint64_t first)
{
    const uint64_t left = builder->rows - first, most = builder->spec->sequence_chunk;
    return left < most ? left : most;
}

/* The first and the last stage where rows live in storage (bp_stage_call.streams), in parts. */
static void embed_stream(bp_builder *builder, bp_stage_call *call, const bp_causal *causal)
{
    const uint64_t width = causal->embedding.width, all = builder->rows;
    const bp_class class_of = builder->output_class;
    const bp_ref slot =
        bp_build_away(builder, bp_build_working(builder), all, width, "stream_offload");
    builder->output_class = BP_CLASS_WORKSPACE;
    for (uint64_t first = 0, rows; first < all; first += rows) {
        bp_row_window window;
        bp_stage_call part = *call;
        rows = stream_rows(builder, first);
        bp_row_window_begin(builder, first, rows, &window);
        causal_embed(builder, &part, causal);
        bp_build_put_rows(builder, part.output, slot, first, rows, width);
        bp_row_window_end(builder, &window);
    }
    builder->output_class = class_of;
    call->output = slot;
}

/* Dropout of the last norm's output, or, the same, of its gradient. */
static void causal_drop(bp_builder *builder, const bp_causal *causal, bp_ref x)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (bp_dropout_probability(builder, &causal->dropout[i]) > 0.0) {
            bp_dropout_apply(builder, &causal->dropout[i], causal->norm.width, x, BP_ABSENT, x);
        }
    }
}

static void forward_head(bp_builder *builder, bp_stage_call *call, const bp_causal *causal)
{
    const bp_ref y = normalise(builder, &causal->norm, builder->rows, call->input, BP_ABSENT);
    causal_drop(builder, causal, y);
    if (bp_causal_classifies(&builder->spec->config)) {
        const bp_classifier classifier = describe_classifier(builder, causal);
        bp_classify_last_forward(builder, &classifier, y);
    } else if (builder->spec->config.task == BP_TASK_EMBEDDING) {
        bp_vector_forward(builder, causal->norm.width, y);
    } else {
        const bp_head head = describe_head(builder, causal);
        causal_scale(builder, head_factor(causal), builder->rows * head.width, y);
        bp_loss_forward(builder, &head, y);
    }
    call->output = BP_ABSENT;
}

/* What all of these are for: a loss of each token by itself, and nothing of them that is trained,
 * whose gradient would be a sum over parts. */
static void causal_check_streams(bp_builder *builder, const bp_causal *causal)
{
    const bp_head head = describe_head(builder, causal);
    const bp_embedding *embedding = &causal->embedding;
    const bp_spec *spec = builder->spec;
    const char *what = NULL;
    if (heads_without_table(&spec->config) || spec->config.task == BP_TASK_TOKENS ||
        spec->preference.kind != BP_PREFERENCE_NONE || spec->row_weights || bp_distills(builder)) {
        what = "streams are offloaded of language models that learn each token by itself";
    } else if (builder->status == BP_OK && (bp_build_trainable(builder, head.table) ||
                                            bp_build_trainable(builder, BP_CAUSAL_TABLE) ||
                                            bp_build_trainable(builder, causal->norm.weight) ||
                                            bp_adapter_there(builder, head.table) ||
                                            bp_adapter_there(builder, BP_CAUSAL_TABLE) ||
                                            bp_rows_of(builder, head.table) != BP_NO_PARAMETER)) {
        what = "streams are offloaded where tables and the last norm are frozen (--lora-r)";
    } else if (embedding->position != BP_NO_PARAMETER || spec->noise > 0.0 ||
               bp_dropout_probability(builder, &embedding->dropout) > 0.0 ||
               bp_dropout_probability(builder, &causal->dropout[0]) > 0.0 ||
               bp_dropout_probability(builder, &causal->dropout[1]) > 0.0) {
        what = "streams are offloaded where tokens' rows of the table have no positions, noise or "
               "dropout";
    }
    if (what != NULL && builder->status == BP_OK) {
        builder->status =
            bp_error_set(builder->graph->error, BP_ERR_USAGE, "offload", what, "--offload-what");
    }
}

void bp_causal_forward(bp_builder *builder, bp_stage_call *call)
{
    const bp_causal causal = causal_of(builder);
    if (call->streams && call->stage == 0) {
        causal_check_streams(builder, &causal);
        embed_stream(builder, call, &causal);
    } else if (call->stage == 0) {
        causal_embed(builder, call, &causal);
    } else if (is_block(&builder->spec->config, call->stage)) {
        bp_block_forward(builder, call, bp_block_family_list(builder, call));
    } else {
        forward_head(builder, call, &causal);
    }
}

/* The gradient of the last norm's output y: in its place, chunk by chunk, or anew where few rows of
 * it count or the table's gradient is formed later. */
static bp_ref backward_loss(bp_builder *builder, bp_stage_call *call, const bp_causal *causal,
                            bp_ref y)
{
    if (bp_causal_classifies(&builder->spec->config)) {
        const bp_classifier classifier = describe_classifier(builder, causal);
        return bp_classify_last_backward(builder, &classifier, y);
    }
    if (builder->spec->config.task == BP_TASK_EMBEDDING) {
        return bp_vector_backward(builder, causal->norm.width, y);
    }
    const bp_head head = describe_head(builder, causal);
    causal_scale(builder, head_factor(causal), builder->rows * head.width, y);
    const bp_ref d_y = bp_loss_keep(builder, head.width, y, call->table_deferred, call->kept);
    bp_loss_backward(builder, &head, y, d_y, call->kept[1]);
    bp_experts_balance(builder, &causal->experts, causal->balance);
    causal_scale(builder, head_factor(causal), builder->rows * head.width, d_y);
    return d_y;
}

/* Forms the loss and its gradients, which become that of the input in place: one (rows, width)
 * buffer in all. */
static void backward_head(bp_builder *builder, bp_stage_call *call, const bp_causal *causal)
{
    if (call->input_away) {
        call->input = bp_build_bring_input(builder, call->input);
    }
    const bp_ref statistics =
        bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, bp_norm_statistics(&causal->norm),
                        builder->rows, "norm.statistics");
    const bp_ref y = normalise(builder, &causal->norm, builder->rows, call->input, statistics);
    causal_drop(builder, causal, y);
    const bp_ref d_y = backward_loss(builder, call, causal, y);
    causal_drop(builder, causal, d_y);
    const bp_norm_backward_call norm = {call->input, statistics,         d_y,
                                        BP_ABSENT,   call->input_wanted, false};
    bp_norm_backward(builder, &causal->norm, &norm);
    call->d_input = call->input_wanted ? d_y : BP_ABSENT;
}

static void head_stream(bp_builder *builder, bp_stage_call *call, const bp_causal *causal)
{
    const uint64_t width = causal->norm.width, all = builder->rows;
    const bool counted = builder->loss_counted;
    const bp_ref slot = call->input_wanted ? bp_build_away(builder, bp_build_working(builder), all,
                                                           width, "d_stream_offload")
                                           : BP_ABSENT;
    builder->loss_counted = true; /* as one sum over all rows, behind the last */
    for (uint64_t first = 0, rows; first < all; first += rows) {
        bp_row_window window;
        bp_stage_call part = *call;
        rows = stream_rows(builder, first);
        part.input = bp_build_bring_rows_of(builder, call->input, first, rows, width);
        part.input_away = false;
        bp_row_window_begin(builder, first, rows, &window);
        backward_head(builder, &part, causal);
        bp_row_window_end(builder, &window);
        if (call->input_wanted) {
            bp_build_put_rows(builder, part.d_input, slot, first, rows, width);
        }
    }
    builder->loss_counted = counted;
    bp_loss_sum(builder);
    call->d_input = slot;
}

static void backward_embedding(bp_builder *builder, bp_stage_call *call, const bp_causal *causal)
{
    const bp_embedding *embedding = &causal->embedding;
    causal_scale(builder, embedding_factor(builder, causal), builder->rows * embedding->width,
                 call->d_output);
    if (!call->table_deferred) {
        bp_embedding_backward(builder, embedding, call->d_output);
    } else if (embedding->position != BP_NO_PARAMETER) {
        bp_embedding_backward_position(builder, embedding, call->d_output);
    }
    call->d_input = BP_ABSENT;
}

void bp_causal_backward(bp_builder *builder, bp_stage_call *call)
{
    const bp_causal causal = causal_of(builder);
    const bool head = call->stage > 0 && !is_block(&builder->spec->config, call->stage);
    if (call->streams && head) {
        head_stream(builder, call, &causal);
    } else if (call->stage == 0) {
        backward_embedding(builder, call, &causal);
    } else if (is_block(&builder->spec->config, call->stage)) {
        bp_block_backward(builder, call, bp_block_family_list(builder, call));
    } else {
        backward_head(builder, call, &causal);
    }
}

/* The head's part of a table's gradient, then the embedding's, as backward adds them. */
void bp_causal_slice(bp_builder *builder, bp_slice_call *call)
{
    const bp_causal causal = causal_of(builder);
    const bp_head head = describe_head(builder, &causal);
    const bool heads = call->table == head.table && !heads_without_table(&builder->spec->config);
    if (heads) {
        bp_loss_slice_of(builder, &head, call);
    }
    if (call->table == BP_CAUSAL_TABLE) {
        bp_embedding_backward_slice(builder, &causal.embedding, call->d_embedded, call->first,
                                    call->rows, call->gradient, heads ? 1 : call->accumulate);
    }
}

/* The last row of one sequence; of several the only row of each. */
static bp_ref decode_pick(bp_builder *builder, uint64_t width, bp_ref x)
{
    const bp_pick_row_scalars scalars = {.rows = (int64_t)builder->rows, .width = (int64_t)width};
    if (builder->sequences > 1) {
        return x;
    }
    const bp_pick_row_operands operands = {.y = bp_build_buffer(builder, BP_CLASS_WORKSPACE,
                                                                bp_build_working(builder), 1, width,
                                                                "row"),
                                           .x = x,
                                           .step = builder->step};
    bp_build_pick_row(builder, &operands, &scalars);
    return operands.y;
}

static void decode_head(bp_builder *builder, bp_stage_call *call, const bp_causal *causal)
{
    const bp_head head = describe_head(builder, causal);
    const uint64_t rows = builder->sequences;
    const bp_ref x = decode_pick(builder, head.width, call->input);
    const bp_ref y = normalise(builder, &causal->norm, rows, x, BP_ABSENT);
    causal_scale(builder, head_factor(causal), rows * head.width, y);
    bp_head_logits(builder, &head, rows, y);
    call->output = BP_ABSENT;
}

void bp_causal_decode(bp_builder *builder, bp_stage_call *call)
{
    const bp_causal causal = causal_of(builder);
    if (call->stage == 0) {
        causal_embed(builder, call, &causal);
    } else if (is_block(&builder->spec->config, call->stage)) {
        bp_block_decode(builder, call, bp_block_family_list(builder, call));
    } else {
        decode_head(builder, call, &causal);
    }
}

bp_status bp_causal_check(const bp_spec *spec, const char *family, bp_error *error)
{
    if (spec->config.task == BP_TASK_MASKED_LM) {
        return bp_error_set(error, BP_ERR_USAGE, family,
                            "this model reads from left to right; masked-lm needs bert", "task");
    }
    BP_TRY(bp_vector_check(spec, bp_transformer_of(&spec->config).width, family, error));
    if (spec->config.task > BP_TASK_REGRESSION && spec->config.task != BP_TASK_EMBEDDING &&
        spec->config.task != BP_TASK_RANKING) {
        return bp_error_set(error, BP_ERR_USAGE, family,
                            "token-classification and question-answering need bert", "task");
    }
    if (bp_causal_classifies(&spec->config) && spec->generate_context > 0) {
        return bp_error_set(error, BP_ERR_USAGE, family, "a classifier does not generate", "task");
    }
    return BP_OK;
}
