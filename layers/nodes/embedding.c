/* SPDX-License-Identifier: MIT */
/* Embeddings as ops. */
#include "layers/nodes/embedding.h"

#include <math.h>

#include "core/plan/adapter.h"
#include "core/plan/rows.h"

static bool has_types(const bp_emit *emit, const bp_embedding *embedding)
{
    return embedding->types > 0 && bp_ref_present(emit->input[BP_INPUT_TYPES]);
}

/* Rows of the table of positions, of each token its own: documents are packed, or padding that is
 * written in a text has none. Absent: a token's position is its place in the row. */
static bp_ref places_of(const bp_emit *emit)
{
    const bp_ref places = emit->input[BP_INPUT_PLACES];
    return bp_ref_present(places) ? places : emit->input[BP_INPUT_POSITIONS];
}

static bool has_places(const bp_emit *emit, const bp_embedding *embedding)
{
    return embedding->position != BP_NO_PARAMETER && bp_ref_present(places_of(emit));
}

/* Of each token the row, of `count` ones, that ids says. */
static bp_ref look_up_rows(bp_emit *emit, const bp_embedding *embedding, bp_ref ids, bp_ref table,
                           uint64_t count)
{
    const bp_ref rows = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows,
                                       embedding->width, "looked_up");
    const bp_embedding_forward_scalars look_up = {.rows = (int64_t)emit->rows,
                                                  .sequence = (int64_t)emit->spec->sequence,
                                                  .width = (int64_t)embedding->width,
                                                  .vocabulary = (int64_t)count};
    const bp_embedding_forward_operands from = {.out = rows,
                                                .ids = ids,
                                                .wte = table,
                                                .wpe = BP_ABSENT,
                                                .type_row = BP_ABSENT,
                                                .step = emit->step};
    bp_emit_embedding_forward(emit, &from, &look_up);
    return rows;
}

/* out += them */
static void add_looked_up(bp_emit *emit, const bp_embedding *embedding, bp_ref ids, bp_ref table,
                          uint64_t count, bp_ref out)
{
    const bp_ref rows = look_up_rows(emit, embedding, ids, table, count);
    const bp_dropout_scalars sum = {.count = (int64_t)(emit->rows * embedding->width),
                                    .per_sample =
                                        (int64_t)(emit->spec->sequence * embedding->width)};
    const bp_dropout_operands parts = {.y = out, .x = rows, .residual = out, .step = emit->step};
    bp_emit_dropout(emit, &parts, &sum);
}

/* A model with types has no dropout before its norm. */
static void add_types(bp_emit *emit, const bp_embedding *embedding, bp_ref out)
{
    add_looked_up(emit, embedding, emit->input[BP_INPUT_TYPES],
                  bp_emit_acquire(emit, embedding->type, BP_FOR_FORWARD), embedding->types, out);
    bp_emit_release(emit, embedding->type);
}

/* Where nothing is random, the rows of the places are a table of their own, with a row for each
 * token: the sum is rounded once, as it is where places are those in the row. */
static bp_ref rows_of_places(bp_emit *emit, const bp_embedding *embedding,
                             bp_embedding_forward_scalars *scalars)
{
    const bp_ref rows = look_up_rows(emit, embedding, places_of(emit),
                                     bp_emit_acquire(emit, embedding->position, BP_FOR_FORWARD),
                                     embedding->position_first + embedding->positions);
    bp_emit_release(emit, embedding->position);
    scalars->sequence = scalars->positions = (int64_t)emit->rows;
    return rows;
}

/* Places and the dropout of the sum, which nothing else drops then. */
static void add_places(bp_emit *emit, const bp_embedding *embedding, bp_ref out)
{
    add_looked_up(emit, embedding, places_of(emit),
                  bp_emit_acquire(emit, embedding->position, BP_FOR_FORWARD),
                  embedding->position_first + embedding->positions, out);
    bp_emit_release(emit, embedding->position);
    if (bp_dropout_probability(emit, &embedding->dropout) > 0.0) {
        bp_dropout_apply(emit, &embedding->dropout, embedding->width, out, BP_ABSENT, out);
    }
}

/* ---- The adapter of the table (core/plan/adapter.h) ---- */

static bool adapts(const bp_emit *emit, const bp_embedding *embedding)
{
    return emit->status == BP_OK && emit->parameters[embedding->token].adapter != BP_NO_PARAMETER;
}

/* s A of each token (rows, r) */
static bp_ref adapter_rows(bp_emit *emit, const bp_embedding *embedding,
                           const bp_embedding_forward_scalars *as)
{
    const uint32_t a = emit->parameters[embedding->token].adapter;
    const uint64_t rank = emit->parameters[a].shape[1];
    const bp_lora_part part = bp_adapter_part(emit, embedding->token);
    const bp_ref u =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows, rank, "lora_u");
    const bp_embedding_forward_scalars look_up = {.rows = as->rows,
                                                  .sequence = as->sequence,
                                                  .width = (int64_t)rank,
                                                  .vocabulary = as->vocabulary,
                                                  .decode = as->decode};
    const bp_embedding_forward_operands from = {.out = u,
                                                .ids = emit->input[BP_INPUT_IDS],
                                                .wte = bp_emit_acquire(emit, a, BP_FOR_FORWARD),
                                                .wpe = BP_ABSENT,
                                                .type_row = BP_ABSENT,
                                                .step = emit->step};
    const bp_scale_scalars scale = {.count = (int64_t)(emit->rows * rank),
                                    .factor = bp_adapter_scale(&emit->spec->lora, part)};
    const bp_scale_operands in_place = {.y = u, .x = u};
    bp_emit_embedding_forward(emit, &from, &look_up);
    bp_emit_release(emit, a);
    bp_emit_scale(emit, &in_place, &scale);
    return u;
}

/* out += s A B^T of each token */
static void adapter_forward(bp_emit *emit, const bp_embedding *embedding,
                            const bp_embedding_forward_scalars *as, bp_ref out)
{
    const uint32_t a = emit->parameters[embedding->token].adapter;
    const int64_t rank = (int64_t)emit->parameters[a].shape[1];
    if (embedding->dropout.probability > 0.0) {
        emit->status = bp_error_set(emit->graph->error, BP_ERR_USAGE, "lora",
                                    "this model drops elements of its embedding, of which an "
                                    "adapter of the table would be a part; without dropout it can "
                                    "be had",
                                    bp_emit_name(emit, embedding->token));
        return;
    }
    const bp_ref u = adapter_rows(emit, embedding, as);
    bp_emit_product(emit, out, u, bp_emit_acquire(emit, a + 1, BP_FOR_FORWARD),
                    &(bp_matmul_scalars){.m = (int64_t)emit->rows,
                                         .n = (int64_t)embedding->width,
                                         .k = rank,
                                         .lda = rank,
                                         .ldb = rank,
                                         .ldc = (int64_t)embedding->width,
                                         .transpose_b = 1,
                                         .accumulate = 1});
    bp_emit_release(emit, a + 1);
}

/* How far noise goes; it is added to what the model makes of the embedding. */
static double noise_of(const bp_emit *emit, const bp_embedding *embedding)
{
    const double scale = embedding->scale > 0.0 ? embedding->scale : 1.0;
    return emit->mode == BP_MODE_TRAIN ? emit->spec->noise / sqrt((double)embedding->width) / scale
                                       : 0.0;
}

/* Rows of a table that is offloaded are brought to where they go. */
static bool forward_brought(bp_emit *emit, const bp_embedding *embedding, bp_ref out)
{
    const bool plain = embedding->position == BP_NO_PARAMETER && embedding->types == 0 &&
                       !(noise_of(emit, embedding) > 0.0) &&
                       !(bp_dropout_probability(emit, &embedding->dropout) > 0.0);
    if (!plain || !bp_emit_table_offloaded(emit, embedding->token)) {
        return false;
    }
    (void)bp_emit_acquire_update(emit, embedding->token);
    bp_emit_bring_rows(emit, embedding->token, out, emit->input[BP_INPUT_IDS], emit->rows,
                       embedding->width);
    bp_emit_release(emit, embedding->token);
    return true;
}

static void forward_table(bp_emit *emit, const bp_embedding *embedding,
                          const bp_embedding_forward_scalars *given, uint32_t type_row, bool apart,
                          bp_ref out)
{
    bp_embedding_forward_scalars own = *given;
    const bool places = has_places(emit, embedding);
    const uint32_t position = places ? BP_NO_PARAMETER : embedding->position;
    const bp_ref rows = places && !apart ? rows_of_places(emit, embedding, &own) : BP_ABSENT;
    const bp_embedding_forward_operands operands = {
        .out = out,
        .ids = emit->input[BP_INPUT_IDS],
        .wte = bp_emit_acquire(emit, embedding->token, BP_FOR_FORWARD),
        .wpe = bp_ref_present(rows) ? rows
                                    : bp_ref_at(bp_emit_acquire(emit, position, BP_FOR_FORWARD),
                                                embedding->position_first * embedding->width),
        .type_row = bp_emit_acquire(emit, type_row, BP_FOR_FORWARD),
        .step = emit->step};
    bp_emit_embedding_forward(emit, &operands, &own);
    bp_emit_release(emit, type_row);
    bp_emit_release(emit, position);
    bp_emit_release(emit, embedding->token);
}

void bp_embedding_forward(bp_emit *emit, const bp_embedding *embedding, bp_ref out)
{
    const bool brought = forward_brought(emit, embedding, out);
    const bool types = has_types(emit, embedding);
    const bool apart =
        has_places(emit, embedding) && (bp_dropout_probability(emit, &embedding->dropout) > 0.0 ||
                                        noise_of(emit, embedding) > 0.0);
    const uint32_t type_row = embedding->types > 0 && !types ? embedding->type : BP_NO_PARAMETER;
    const bool decode = emit->mode == BP_MODE_DECODE;
    const bp_embedding_forward_scalars scalars = {
        .rows = (int64_t)emit->rows,
        .sequence =
            decode ? (int64_t)(emit->rows / emit->sequences) : (int64_t)emit->spec->sequence,
        .width = (int64_t)embedding->width,
        .vocabulary = (int64_t)embedding->vocabulary,
        .positions = (int64_t)embedding->positions,
        .site = embedding->dropout.site,
        .decode = decode ? 1 : 0,
        .dropout = apart ? 0.0 : bp_dropout_probability(emit, &embedding->dropout),
        .noise = noise_of(emit, embedding)};
    if (!brought) {
        forward_table(emit, embedding, &scalars, type_row, apart, out);
    }
    if (apart) {
        add_places(emit, embedding, out);
    }
    if (adapts(emit, embedding)) {
        adapter_forward(emit, embedding, &scalars, out);
    }
    if (types) { /* of BERT alone, whose rows are not brought */
        add_types(emit, embedding, out);
    }
}

void bp_embedding_backward_slice(bp_emit *emit, const bp_embedding *embedding, bp_ref d_out,
                                 uint64_t first, uint64_t rows, bp_ref gradient, int64_t accumulate)
{
    const double probability = bp_dropout_probability(emit, &embedding->dropout);
    const bp_embedding_token_backward_scalars token = {.rows = (int64_t)emit->rows,
                                                       .sequence = emit->spec->sequence,
                                                       .width = (int64_t)embedding->width,
                                                       .vocabulary = (int64_t)rows,
                                                       .first = (int64_t)first,
                                                       .site = embedding->dropout.site,
                                                       .accumulate = accumulate,
                                                       .dropout = probability};
    const bp_embedding_token_backward_operands token_operands = {
        .d_wte = gradient, .ids = emit->input[BP_INPUT_IDS], .d_out = d_out, .step = emit->step};
    bp_emit_embedding_token_backward(emit, &token_operands, &token);
}

/* Rows before the first position's have no token, or one of padding, for which they stay. */
static void zero_rows(bp_emit *emit, bp_ref gradient, uint64_t count)
{
    const bp_state_begin_scalars scalars = {.count = (int64_t)count};
    const bp_state_begin_operands operands = {.y = gradient, .x = BP_ABSENT, .step = emit->step};
    bp_emit_state_begin(emit, &operands, &scalars);
}

static void backward_position(bp_emit *emit, const bp_embedding *embedding, bp_ref d_out)
{
    const double probability = bp_dropout_probability(emit, &embedding->dropout);
    bp_embedding_position_backward_scalars position = {.rows = (int64_t)emit->rows,
                                                       .sequence = emit->spec->sequence,
                                                       .width = (int64_t)embedding->width,
                                                       .positions = (int64_t)embedding->positions,
                                                       .site = embedding->dropout.site,
                                                       .dropout = probability};
    const uint64_t before = embedding->position_first * embedding->width;
    const bp_ref gradient = bp_emit_gradient(emit, embedding->position, &position.accumulate);
    if (before > 0 && position.accumulate == 0) {
        zero_rows(emit, gradient, before);
    }
    if (has_places(emit, embedding)) {
        const bp_embedding_token_backward_scalars places = {.rows = position.rows,
                                                            .sequence = position.sequence,
                                                            .width = position.width,
                                                            .vocabulary = position.positions,
                                                            .first =
                                                                (int64_t)embedding->position_first,
                                                            .site = position.site,
                                                            .accumulate = position.accumulate,
                                                            .dropout = probability};
        const bp_embedding_token_backward_operands of = {.d_wte = bp_ref_at(gradient, before),
                                                         .ids = places_of(emit),
                                                         .d_out = d_out,
                                                         .step = emit->step};
        bp_emit_embedding_token_backward(emit, &of, &places);
        return;
    }
    const bp_embedding_position_backward_operands position_operands = {
        .d_wpe = bp_ref_at(gradient, before), .d_out = d_out, .step = emit->step};
    bp_emit_embedding_position_backward(emit, &position_operands, &position);
}

/* The row of type 0 is added to every token, as if all were at position 0 of a table of types; the
 * other rows get 0. A model with types has no dropout before its norm. */
static void backward_first_type(bp_emit *emit, const bp_embedding *embedding, bp_ref d_out)
{
    bp_embedding_position_backward_scalars scalars = {.rows = (int64_t)emit->rows,
                                                      .sequence = 1,
                                                      .width = (int64_t)embedding->width,
                                                      .positions = (int64_t)embedding->types,
                                                      .site = embedding->dropout.site};
    const bp_embedding_position_backward_operands operands = {
        .d_wpe = bp_emit_gradient(emit, embedding->type, &scalars.accumulate),
        .d_out = d_out,
        .step = emit->step};
    bp_emit_embedding_position_backward(emit, &operands, &scalars);
}

static void backward_type(bp_emit *emit, const bp_embedding *embedding, bp_ref d_out)
{
    if (!has_types(emit, embedding)) {
        backward_first_type(emit, embedding, d_out);
        return;
    }
    bp_embedding_token_backward_scalars scalars = {.rows = (int64_t)emit->rows,
                                                   .sequence = emit->spec->sequence,
                                                   .width = (int64_t)embedding->width,
                                                   .vocabulary = (int64_t)embedding->types};
    const bp_embedding_token_backward_operands operands = {
        .d_wte = bp_emit_gradient(emit, embedding->type, &scalars.accumulate),
        .ids = emit->input[BP_INPUT_TYPES],
        .d_out = d_out,
        .step = emit->step};
    bp_emit_embedding_token_backward(emit, &operands, &scalars);
}

void bp_embedding_backward_position(bp_emit *emit, const bp_embedding *embedding, bp_ref d_out)
{
    if (embedding->position != BP_NO_PARAMETER && bp_emit_trainable(emit, embedding->position)) {
        backward_position(emit, embedding, d_out);
    }
    if (embedding->types > 0 && bp_emit_trainable(emit, embedding->type)) {
        backward_type(emit, embedding, d_out);
    }
}

/* Of rows first .. end - 1. One that stays as it is gets the gradient of an id that no token has.
 */
static void backward_rows(bp_emit *emit, const bp_embedding *embedding, bp_ref d_out,
                          uint64_t first, uint64_t end, bp_ref gradient, int64_t accumulate)
{
    const uint64_t width = embedding->width;
    const uint64_t still = embedding->still > 0 ? embedding->still - 1 : end;
    const bool inside = still >= first && still < end;
    const uint64_t behind = inside ? still : end;
    if (behind > first) {
        bp_embedding_backward_slice(emit, embedding, d_out, first, behind - first, gradient,
                                    accumulate);
    }
    if (inside) {
        bp_embedding_backward_slice(emit, embedding, d_out, embedding->vocabulary, 1,
                                    bp_ref_at(gradient, (still - first) * width), accumulate);
    }
    if (inside && still + 1 < end) {
        bp_embedding_backward_slice(emit, embedding, d_out, still + 1, end - still - 1,
                                    bp_ref_at(gradient, (still + 1 - first) * width), accumulate);
    }
}

static void backward_token(bp_emit *emit, const bp_embedding *embedding, bp_ref d_out)
{
    int64_t accumulate = 0;
    const bp_ref gradient = bp_emit_gradient(emit, embedding->token, &accumulate);
    backward_rows(emit, embedding, d_out, 0, embedding->vocabulary, gradient, accumulate);
}

/* Of the rows that are trained apart from the table (core/plan/rows.h). */
static void backward_trained_rows(bp_emit *emit, const bp_embedding *embedding, bp_ref d_out)
{
    const uint32_t rows = bp_rows_of(emit, embedding->token);
    int64_t accumulate = 0;
    bp_rows_run run = {0};
    if (rows == BP_NO_PARAMETER) {
        return;
    }
    const bp_ref gradient = bp_emit_gradient(emit, rows, &accumulate);
    while (bp_rows_next(emit, &run)) {
        backward_rows(emit, embedding, d_out, run.token, run.token + run.count,
                      bp_ref_at(gradient, run.at * embedding->width), accumulate);
    }
}

/* Of the adapter: A gets s d_out B by token, B d_out^T s A of each. A row that stays as it is gets
 * the gradient of an id that no token has. */
static void adapter_backward(bp_emit *emit, const bp_embedding *embedding, bp_ref d_out)
{
    const uint32_t a = emit->parameters[embedding->token].adapter;
    const int64_t rank = (int64_t)emit->parameters[a].shape[1], width = (int64_t)embedding->width;
    const int64_t rows = (int64_t)emit->rows;
    if (bp_emit_trainable(emit, a + 1)) {
        const bp_embedding_forward_scalars as = {.rows = rows,
                                                 .sequence = (int64_t)emit->spec->sequence,
                                                 .vocabulary = (int64_t)embedding->vocabulary};
        bp_matmul_scalars outer = {.m = width,
                                   .n = rank,
                                   .k = rows,
                                   .lda = width,
                                   .ldb = rank,
                                   .ldc = rank,
                                   .transpose_a = 1};
        const bp_ref u = adapter_rows(emit, embedding, &as);
        const bp_ref gradient = bp_emit_gradient(emit, a + 1, &outer.accumulate);
        bp_emit_product(emit, gradient, d_out, u, &outer);
    }
    if (bp_emit_trainable(emit, a)) {
        const bp_lora_part part = bp_adapter_part(emit, embedding->token);
        const bp_ref d_u = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit),
                                          emit->rows, (uint64_t)rank, "lora_d_u");
        const bp_scale_scalars scale = {.count = rows * rank,
                                        .factor = bp_adapter_scale(&emit->spec->lora, part)};
        const bp_scale_operands in_place = {.y = d_u, .x = d_u};
        bp_embedding table = *embedding;
        table.token = a;
        table.width = (uint64_t)rank;
        bp_emit_product(
            emit, d_u, d_out, bp_emit_acquire(emit, a + 1, BP_FOR_BACKWARD),
            &(bp_matmul_scalars){
                .m = rows, .n = rank, .k = width, .lda = width, .ldb = rank, .ldc = rank});
        bp_emit_release(emit, a + 1);
        bp_emit_scale(emit, &in_place, &scale);
        backward_token(emit, &table, d_u);
    }
}

void bp_embedding_backward(bp_emit *emit, const bp_embedding *embedding, bp_ref d_out)
{
    if (bp_emit_trainable(emit, embedding->token)) {
        backward_token(emit, embedding, d_out);
    }
    backward_trained_rows(emit, embedding, d_out);
    if (adapts(emit, embedding)) {
        adapter_backward(emit, embedding, d_out);
    }
    bp_embedding_backward_position(emit, embedding, d_out);
}
