/* SPDX-License-Identifier: MIT */
/* The first and the last stage of models that read from left to right. */
#include "layers/causal.h"

#include "layers/classifier.h"
#include "layers/loss.h"
#include "layers/publish.h"

bool bp_causal_classifies(const bp_model_config *config)
{
    return bp_task_judges_samples(config->task);
}

bool bp_causal_has_output(const bp_model_config *config)
{
    const bp_transformer own = bp_transformer_of(config);
    return bp_causal_classifies(config) || own.untied;
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

void bp_causal_sliced_tables(const bp_model_config *config, uint32_t output, uint32_t tables[2])
{
    const bp_transformer own = bp_transformer_of(config);
    tables[0] = bp_causal_classifies(config) ? UINT32_MAX : own.untied ? output : BP_CAUSAL_TABLE;
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

static bp_head describe_head(const bp_emit *emit, const bp_causal *causal)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_transformer own = bp_transformer_of(config);
    return (bp_head){.table = own.untied ? causal->output : BP_CAUSAL_TABLE,
                     .bias = BP_NO_PARAMETER,
                     .vocabulary = config->vocabulary,
                     .width = own.width};
}

static bp_classifier describe_classifier(const bp_emit *emit, const bp_causal *causal)
{
    const bp_model_config *config = &emit->spec->config;
    const bp_transformer own = bp_transformer_of(config);
    return (bp_classifier){.score = {.weight = causal->output,
                                     .bias = BP_NO_PARAMETER,
                                     .in = own.width,
                                     .out = config->classes,
                                     .output_major = true}};
}

/* The last norm's output for `rows` rows of x. */
static bp_ref normalise(bp_emit *emit, const bp_norm *norm, uint64_t rows, bp_ref x,
                        bp_ref statistics)
{
    const bp_ref y =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), rows, norm->width, "norm");
    bp_norm_forward(emit, norm, rows, x, y, statistics);
    return y;
}

static void causal_embed(bp_emit *emit, bp_stage_call *call, const bp_embedding *embedding)
{
    call->output = bp_emit_buffer(emit, emit->output_class, bp_emit_working(emit), emit->rows,
                                  embedding->width, "out");
    bp_embedding_forward(emit, embedding, call->output);
}

static void forward_head(bp_emit *emit, bp_stage_call *call, const bp_causal *causal)
{
    const bp_ref y = normalise(emit, &causal->norm, emit->rows, call->input, BP_ABSENT);
    if (bp_causal_classifies(&emit->spec->config)) {
        const bp_classifier classifier = describe_classifier(emit, causal);
        bp_classify_last_forward(emit, &classifier, y);
    } else {
        const bp_head head = describe_head(emit, causal);
        bp_loss_forward(emit, &head, y);
    }
    call->output = BP_ABSENT;
}

void bp_causal_forward(bp_emit *emit, bp_stage_call *call, const bp_causal *causal)
{
    if (call->stage == 0) {
        causal_embed(emit, call, &causal->embedding);
    } else if (is_block(&emit->spec->config, call->stage)) {
        bp_block block;
        causal->block->describe(emit, call, &block);
        bp_block_forward(emit, call, &block);
    } else {
        forward_head(emit, call, causal);
    }
}

/* The gradient of the last norm's output y: in its place, chunk by chunk, or anew where few rows of
 * it count or the table's gradient is formed later. */
static bp_ref backward_loss(bp_emit *emit, bp_stage_call *call, const bp_causal *causal, bp_ref y)
{
    if (bp_causal_classifies(&emit->spec->config)) {
        const bp_classifier classifier = describe_classifier(emit, causal);
        return bp_classify_last_backward(emit, &classifier, y);
    }
    const bp_head head = describe_head(emit, causal);
    const bp_ref d_y = bp_loss_keep(emit, head.width, y, call->table_deferred, call->kept);
    bp_loss_backward(emit, &head, y, d_y, call->kept[1]);
    return d_y;
}

/* Forms the loss and its gradients, which become that of the input in place: one (rows, width)
 * buffer in all. */
static void backward_head(bp_emit *emit, bp_stage_call *call, const bp_causal *causal)
{
    const bp_ref statistics =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_F32, bp_norm_statistics(&causal->norm),
                       emit->rows, "norm.statistics");
    const bp_ref y = normalise(emit, &causal->norm, emit->rows, call->input, statistics);
    const bp_ref d_y = backward_loss(emit, call, causal, y);
    const bp_norm_backward_call norm = {call->input, statistics, d_y, BP_ABSENT,
                                        call->input_wanted};
    bp_norm_backward(emit, &causal->norm, &norm);
    call->d_input = call->input_wanted ? d_y : BP_ABSENT;
}

static void backward_embedding(bp_emit *emit, bp_stage_call *call, const bp_embedding *embedding)
{
    if (!call->table_deferred) {
        bp_embedding_backward(emit, embedding, call->d_output);
    } else if (embedding->position != BP_NO_PARAMETER) {
        bp_embedding_backward_position(emit, embedding, call->d_output);
    }
    call->d_input = BP_ABSENT;
}

void bp_causal_backward(bp_emit *emit, bp_stage_call *call, const bp_causal *causal)
{
    if (call->stage == 0) {
        backward_embedding(emit, call, &causal->embedding);
    } else if (is_block(&emit->spec->config, call->stage)) {
        bp_block block;
        causal->block->describe(emit, call, &block);
        bp_block_backward(emit, call, &block);
    } else {
        backward_head(emit, call, causal);
    }
}

uint32_t bp_causal_tapes(bp_emit *emit, const bp_stage_call *call, const bp_causal_block *block,
                         const bp_tape_request *request, uint32_t *variants)
{
    bp_block list;
    block->describe(emit, call, &list);
    return bp_block_tapes(emit, call, &list, request, variants);
}

const char *bp_causal_slot_name(const bp_spec *spec, uint32_t stage, uint32_t slot,
                                const bp_causal_block *block)
{
    const bp_emit emit = {.spec = spec, .rows = 1};
    const bp_stage_call call = {.stage = stage};
    bp_block list;
    block->describe(&emit, &call, &list);
    return bp_block_slot_name(&list, slot);
}

/* The head's part of a table's gradient, then the embedding's, as backward adds them. */
void bp_causal_slice(bp_emit *emit, bp_slice_call *call, const bp_causal *causal)
{
    const bp_head head = describe_head(emit, causal);
    const bool judged = bp_causal_classifies(&emit->spec->config);
    const bool heads = call->table == head.table && !judged;
    if (heads) {
        bp_loss_slice_of(emit, &head, call);
    }
    if (call->table == BP_CAUSAL_TABLE) {
        bp_embedding_backward_slice(emit, &causal->embedding, call->d_embedded, call->first,
                                    call->rows, call->gradient, heads ? 1 : call->accumulate);
    }
}

static void decode_head(bp_emit *emit, bp_stage_call *call, const bp_causal *causal)
{
    const bp_head head = describe_head(emit, causal);
    const bp_pick_row_scalars scalars = {.rows = (int64_t)emit->rows, .width = (int64_t)head.width};
    const bp_pick_row_operands operands = {
        .y = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), 1, head.width, "row"),
        .x = call->input,
        .step = emit->step};
    bp_emit_pick_row(emit, &operands, &scalars);
    bp_head_logits(emit, &head, normalise(emit, &causal->norm, 1, operands.y, BP_ABSENT));
    call->output = BP_ABSENT;
}

void bp_causal_decode(bp_emit *emit, bp_stage_call *call, const bp_causal *causal)
{
    if (call->stage == 0) {
        causal_embed(emit, call, &causal->embedding);
    } else if (is_block(&emit->spec->config, call->stage)) {
        bp_block block;
        causal->block->describe(emit, call, &block);
        bp_block_decode(emit, call, &block);
    } else {
        decode_head(emit, call, causal);
    }
}

bp_status bp_causal_check(const bp_spec *spec, const char *family, bp_error *error)
{
    if (spec->config.task == BP_TASK_MASKED_LM) {
        return bp_error_set(error, BP_ERR_USAGE, family,
                            "this model reads from left to right; masked-lm needs bert", "task");
    }
    if (spec->config.task > BP_TASK_REGRESSION) {
        return bp_error_set(error, BP_ERR_USAGE, family,
                            "token-classification and question-answering need bert", "task");
    }
    if (bp_causal_classifies(&spec->config) && spec->generate_context > 0) {
        return bp_error_set(error, BP_ERR_USAGE, family, "a classifier does not generate",
                            "generate-context");
    }
    return BP_OK;
}
