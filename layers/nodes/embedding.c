/* SPDX-License-Identifier: MIT */
/* Embeddings as ops. */
#include "layers/nodes/embedding.h"

#include <math.h>

#include "core/plan/adapter.h"
#include "core/plan/passes/token_lanes.h"
#include "core/plan/rows.h"

static bool has_types(const bp_builder *builder, const bp_embedding *embedding)
{
    return embedding->types > 0 && bp_ref_present(builder->input[BP_INPUT_TYPES]);
}

/* Rows of the table of positions, of each token its own: documents are packed, slots decoded, or
 * padding that is written in a text has none. Absent: a token's position is its place in the row.
 */
static bp_ref places_of(const bp_builder *builder)
{
    const bp_ref places = builder->input[BP_INPUT_DOCUMENT_POSITIONS];
    if (builder->mode == BP_MODE_DECODE) {
        return builder->input[BP_INPUT_SLOT_POSITIONS];
    }
    return bp_ref_present(places) ? places : builder->input[BP_INPUT_POSITIONS];
}

static bool has_places(const bp_builder *builder, const bp_embedding *embedding)
{
    return embedding->position != BP_NO_PARAMETER && bp_ref_present(places_of(builder));
}

/* Of each token the row, of `count` ones, that ids says. */
static bp_ref look_up_rows(bp_builder *builder, const bp_embedding *embedding, bp_ref ids,
                           bp_ref table, uint64_t count)
{
    const bp_ref rows = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                        builder->rows, embedding->width, "looked_up");
    const bp_embedding_forward_scalars look_up = {.rows = (int64_t)builder->rows,
                                                  .sequence = (int64_t)builder->spec->sequence,
                                                  .width = (int64_t)embedding->width,
                                                  .vocabulary = (int64_t)count};
    const bp_embedding_forward_operands from = {.out = rows,
                                                .ids = ids,
                                                .wte = table,
                                                .wpe = BP_ABSENT,
                                                .type_row = BP_ABSENT,
                                                .step = builder->step};
    bp_build_embedding_forward(builder, &from, &look_up);
    return rows;
}

/* out += them */
static void add_looked_up(bp_builder *builder, const bp_embedding *embedding, bp_ref ids,
                          bp_ref table, uint64_t count, bp_ref out)
{
    const bp_ref rows = look_up_rows(builder, embedding, ids, table, count);
    const bp_dropout_scalars sum = {.count = (int64_t)(builder->rows * embedding->width),
                                    .per_sample =
                                        (int64_t)(builder->spec->sequence * embedding->width)};
    const bp_dropout_operands parts = {.y = out, .x = rows, .residual = out, .step = builder->step};
    bp_build_dropout(builder, &parts, &sum);
}

/* A model with types has no dropout before its norm. */
static void add_types(bp_builder *builder, const bp_embedding *embedding, bp_ref out)
{
    add_looked_up(builder, embedding, builder->input[BP_INPUT_TYPES],
                  bp_build_acquire(builder, embedding->type, BP_FOR_FORWARD), embedding->types,
                  out);
    bp_build_release(builder, embedding->type);
}

/* Where nothing is random, the rows of the places are a table of their own, with a row for each
 * token: the sum is rounded once, as it is where places are those in the row. */
static bp_ref rows_of_places(bp_builder *builder, const bp_embedding *embedding,
                             bp_embedding_forward_scalars *scalars)
{
    const bp_ref rows = look_up_rows(builder, embedding, places_of(builder),
                                     bp_build_acquire(builder, embedding->position, BP_FOR_FORWARD),
                                     embedding->position_first + embedding->positions);
    bp_build_release(builder, embedding->position);
    scalars->sequence = scalars->positions = (int64_t)builder->rows;
    scalars->decode = 0;
    return rows;
}

/* Places and the dropout of the sum, which nothing else drops then. */
static void add_places(bp_builder *builder, const bp_embedding *embedding, bp_ref out)
{
    add_looked_up(builder, embedding, places_of(builder),
                  bp_build_acquire(builder, embedding->position, BP_FOR_FORWARD),
                  embedding->position_first + embedding->positions, out);
    bp_build_release(builder, embedding->position);
    if (bp_dropout_probability(builder, &embedding->dropout) > 0.0) {
        bp_dropout_apply(builder, &embedding->dropout, embedding->width, out, BP_ABSENT, out);
    }
}

/* ---- The adapter of the table (core/plan/adapter.h) ---- */

static bool adapts(const bp_builder *builder, const bp_embedding *embedding)
{
    return builder->status == BP_OK &&
           builder->parameters[embedding->token].adapter != BP_NO_PARAMETER;
}

/* s A of each token (rows, r) */
static bp_ref adapter_rows(bp_builder *builder, const bp_embedding *embedding,
                           const bp_embedding_forward_scalars *as)
{
    const uint32_t a = builder->parameters[embedding->token].adapter;
    const uint64_t rank = builder->parameters[a].shape[1];
    const bp_lora_part part = bp_adapter_part(builder, embedding->token);
    const bp_ref u = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                     builder->rows, rank, "lora_u");
    const bp_embedding_forward_scalars look_up = {.rows = as->rows,
                                                  .sequence = as->sequence,
                                                  .width = (int64_t)rank,
                                                  .vocabulary = as->vocabulary,
                                                  .decode = as->decode};
    const bp_embedding_forward_operands from = {.out = u,
                                                .ids = builder->input[BP_INPUT_IDS],
                                                .wte = bp_build_acquire(builder, a, BP_FOR_FORWARD),
                                                .wpe = BP_ABSENT,
                                                .type_row = BP_ABSENT,
                                                .step = builder->step};
    const bp_scale_scalars scale = {.count = (int64_t)(builder->rows * rank),
                                    .factor = bp_adapter_scale(&builder->spec->lora, part)};
    const bp_scale_operands in_place = {.y = u, .x = u};
    bp_build_embedding_forward(builder, &from, &look_up);
    bp_build_release(builder, a);
    bp_build_scale(builder, &in_place, &scale);
    return u;
}

/* out += s A B^T of each token */
static void adapter_forward(bp_builder *builder, const bp_embedding *embedding,
                            const bp_embedding_forward_scalars *as, bp_ref out)
{
    const uint32_t a = builder->parameters[embedding->token].adapter;
    const int64_t rank = (int64_t)builder->parameters[a].shape[1];
    if (embedding->dropout.probability > 0.0) {
        builder->status =
            bp_error_set(builder->graph->error, BP_ERR_USAGE, "lora",
                         "this model drops elements of its embedding, of which an "
                         "adapter of the table would be a part; without dropout it can "
                         "be had",
                         bp_build_name(builder, embedding->token));
        return;
    }
    const bp_ref u = adapter_rows(builder, embedding, as);
    bp_build_product(builder, out, u, bp_build_acquire(builder, a + 1, BP_FOR_FORWARD),
                     &(bp_matmul_scalars){.m = (int64_t)builder->rows,
                                          .n = (int64_t)embedding->width,
                                          .k = rank,
                                          .lda = rank,
                                          .ldb = rank,
                                          .ldc = (int64_t)embedding->width,
                                          .transpose_b = 1,
                                          .accumulate = 1});
    bp_build_release(builder, a + 1);
}

/* How far noise goes; it is added to what the model makes of the embedding. */
static double noise_of(const bp_builder *builder, const bp_embedding *embedding)
{
    const double scale = embedding->scale > 0.0 ? embedding->scale : 1.0;
    return builder->mode == BP_MODE_TRAIN
               ? builder->spec->noise / sqrt((double)embedding->width) / scale
               : 0.0;
}

/* Rows of a table that is offloaded are brought to where they go. */
static bool forward_brought(bp_builder *builder, const bp_embedding *embedding, bp_ref out)
{
    const bool plain = embedding->position == BP_NO_PARAMETER && embedding->types == 0 &&
                       !(noise_of(builder, embedding) > 0.0) &&
                       !(bp_dropout_probability(builder, &embedding->dropout) > 0.0);
    if (!plain || !bp_build_table_offloaded(builder, embedding->token)) {
        return false;
    }
    (void)bp_build_acquire_update(builder, embedding->token);
    bp_build_bring_rows(builder, embedding->token, out, builder->input[BP_INPUT_IDS], builder->rows,
                        embedding->width);
    bp_build_release(builder, embedding->token);
    return true;
}

/* Rows of a table in a file's blocks: builder.c keeps it so where nothing is added to them. */
static bool forward_unpacked(bp_builder *builder, const bp_embedding *embedding, bp_ref out)
{
    if (!bp_build_quantised(builder, embedding->token)) {
        return false;
    }
    const bp_unpack_rows_scalars scalars = {
        .rows = (int64_t)builder->rows,
        .width = (int64_t)embedding->width,
        .vocabulary = (int64_t)embedding->vocabulary,
        .form = (int64_t)builder->parameters[embedding->token].quantised};
    const bp_unpack_rows_operands operands = {
        .out = out,
        .ids = builder->input[BP_INPUT_IDS],
        .codes = bp_build_acquire(builder, embedding->token, BP_FOR_FORWARD)};
    bp_build_unpack_rows(builder, &operands, &scalars);
    bp_build_release(builder, embedding->token);
    return true;
}

static void forward_table(bp_builder *builder, const bp_embedding *embedding,
                          const bp_embedding_forward_scalars *given, uint32_t type_row, bool apart,
                          bp_ref out)
{
    bp_embedding_forward_scalars own = *given;
    const bool places = has_places(builder, embedding);
    const uint32_t position = places ? BP_NO_PARAMETER : embedding->position;
    const bp_ref rows = places && !apart ? rows_of_places(builder, embedding, &own) : BP_ABSENT;
    const bp_embedding_forward_operands operands = {
        .out = out,
        .ids = builder->input[BP_INPUT_IDS],
        .wte = bp_build_acquire(builder, embedding->token, BP_FOR_FORWARD),
        .wpe = bp_ref_present(rows) ? rows
                                    : bp_ref_at(bp_build_acquire(builder, position, BP_FOR_FORWARD),
                                                embedding->position_first * embedding->width),
        .type_row = bp_build_acquire(builder, type_row, BP_FOR_FORWARD),
        .step = builder->step};
    bp_build_embedding_forward(builder, &operands, &own);
    bp_build_release(builder, type_row);
    bp_build_release(builder, position);
    bp_build_release(builder, embedding->token);
}

void bp_embedding_forward(bp_builder *builder, const bp_embedding *embedding, bp_ref out)
{
    if (bp_dropout_probability(builder, &embedding->dropout) > 0.0) {
        bp_token_lanes_whole(builder, BP_TOKEN_LANES_DROPOUT);
    }
    const bool done =
        forward_brought(builder, embedding, out) || forward_unpacked(builder, embedding, out);
    const bool types = has_types(builder, embedding);
    const bool apart = has_places(builder, embedding) &&
                       (bp_dropout_probability(builder, &embedding->dropout) > 0.0 ||
                        noise_of(builder, embedding) > 0.0);
    const uint32_t type_row = embedding->types > 0 && !types ? embedding->type : BP_NO_PARAMETER;
    const bool decode = builder->mode == BP_MODE_DECODE;
    const bp_embedding_forward_scalars scalars = {
        .rows = (int64_t)builder->rows,
        .sequence = decode ? (int64_t)(builder->rows / builder->sequences)
                           : (int64_t)builder->spec->sequence,
        .width = (int64_t)embedding->width,
        .vocabulary = (int64_t)embedding->vocabulary,
        .positions = (int64_t)embedding->positions,
        .site = embedding->dropout.site,
        .decode = decode ? 1 : 0,
        .dropout = apart ? 0.0 : bp_dropout_probability(builder, &embedding->dropout),
        .noise = noise_of(builder, embedding)};
    if (!done) {
        forward_table(builder, embedding, &scalars, type_row, apart, out);
    }
    if (apart) {
        add_places(builder, embedding, out);
    }
    if (adapts(builder, embedding)) {
        adapter_forward(builder, embedding, &scalars, out);
    }
    if (types) { /* of BERT alone, whose rows are not brought */
        add_types(builder, embedding, out);
    }
}

void bp_embedding_backward_slice(bp_builder *builder, const bp_embedding *embedding, bp_ref d_out,
                                 uint64_t first, uint64_t rows, bp_ref gradient, int64_t accumulate)
{
    const double probability = bp_dropout_probability(builder, &embedding->dropout);
    const bp_embedding_token_backward_scalars token = {.rows = (int64_t)builder->rows,
                                                       .sequence = builder->spec->sequence,
                                                       .width = (int64_t)embedding->width,
                                                       .vocabulary = (int64_t)rows,
                                                       .first = (int64_t)first,
                                                       .site = embedding->dropout.site,
                                                       .accumulate = accumulate,
                                                       .dropout = probability};
    const bp_embedding_token_backward_operands token_operands = {.d_wte = gradient,
                                                                 .ids =
                                                                     builder->input[BP_INPUT_IDS],
                                                                 .d_out = d_out,
                                                                 .step = builder->step};
    bp_build_embedding_token_backward(builder, &token_operands, &token);
}

/* Rows before the first position's have no token, or one of padding, for which they stay. */
static void zero_rows(bp_builder *builder, bp_ref gradient, uint64_t count)
{
    const bp_state_begin_scalars scalars = {.count = (int64_t)count};
    const bp_state_begin_operands operands = {.y = gradient, .x = BP_ABSENT, .step = builder->step};
    bp_build_state_begin(builder, &operands, &scalars);
}

static void backward_position(bp_builder *builder, const bp_embedding *embedding, bp_ref d_out)
{
    const double probability = bp_dropout_probability(builder, &embedding->dropout);
    bp_embedding_position_backward_scalars position = {.rows = (int64_t)builder->rows,
                                                       .sequence = builder->spec->sequence,
                                                       .width = (int64_t)embedding->width,
                                                       .positions = (int64_t)embedding->positions,
                                                       .site = embedding->dropout.site,
                                                       .dropout = probability};
    const uint64_t before = embedding->position_first * embedding->width;
    const bp_ref gradient = bp_build_gradient(builder, embedding->position, &position.accumulate);
    if (before > 0 && position.accumulate == 0) {
        zero_rows(builder, gradient, before);
    }
    if (has_places(builder, embedding)) {
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
                                                         .ids = places_of(builder),
                                                         .d_out = d_out,
                                                         .step = builder->step};
        bp_build_embedding_token_backward(builder, &of, &places);
        return;
    }
    const bp_embedding_position_backward_operands position_operands = {
        .d_wpe = bp_ref_at(gradient, before), .d_out = d_out, .step = builder->step};
    bp_build_embedding_position_backward(builder, &position_operands, &position);
}

/* The row of type 0 is added to every token, as if all were at position 0 of a table of types; the
 * other rows get 0. A model with types has no dropout before its norm. */
static void backward_first_type(bp_builder *builder, const bp_embedding *embedding, bp_ref d_out)
{
    bp_embedding_position_backward_scalars scalars = {.rows = (int64_t)builder->rows,
                                                      .sequence = 1,
                                                      .width = (int64_t)embedding->width,
                                                      .positions = (int64_t)embedding->types,
                                                      .site = embedding->dropout.site};
    const bp_embedding_position_backward_operands operands = {
        .d_wpe = bp_build_gradient(builder, embedding->type, &scalars.accumulate),
        .d_out = d_out,
        .step = builder->step};
    bp_build_embedding_position_backward(builder, &operands, &scalars);
}

static void backward_type(bp_builder *builder, const bp_embedding *embedding, bp_ref d_out)
{
    if (!has_types(builder, embedding)) {
        backward_first_type(builder, embedding, d_out);
        return;
    }
    bp_embedding_token_backward_scalars scalars = {.rows = (int64_t)builder->rows,
                                                   .sequence = builder->spec->sequence,
                                                   .width = (int64_t)embedding->width,
                                                   .vocabulary = (int64_t)embedding->types};
    const bp_embedding_token_backward_operands operands = {
        .d_wte = bp_build_gradient(builder, embedding->type, &scalars.accumulate),
        .ids = builder->input[BP_INPUT_TYPES],
        .d_out = d_out,
        .step = builder->step};
    bp_build_embedding_token_backward(builder, &operands, &scalars);
}

void bp_embedding_backward_position(bp_builder *builder, const bp_embedding *embedding,
                                    bp_ref d_out)
{
    if (embedding->position != BP_NO_PARAMETER &&
        bp_build_trainable(builder, embedding->position)) {
        backward_position(builder, embedding, d_out);
    }
    if (embedding->types > 0 && bp_build_trainable(builder, embedding->type)) {
        backward_type(builder, embedding, d_out);
    }
}

/* Of rows first .. end - 1. One that stays as it is gets the gradient of an id that no token has.
 */
static void backward_rows(bp_builder *builder, const bp_embedding *embedding, bp_ref d_out,
                          uint64_t first, uint64_t end, bp_ref gradient, int64_t accumulate)
{
    const uint64_t width = embedding->width;
    const uint64_t still = embedding->still > 0 ? embedding->still - 1 : end;
    const bool inside = still >= first && still < end;
    const uint64_t behind = inside ? still : end;
    if (behind > first) {
        bp_embedding_backward_slice(builder, embedding, d_out, first, behind - first, gradient,
                                    accumulate);
    }
    if (inside) {
        bp_embedding_backward_slice(builder, embedding, d_out, embedding->vocabulary, 1,
                                    bp_ref_at(gradient, (still - first) * width), accumulate);
    }
    if (inside && still + 1 < end) {
        bp_embedding_backward_slice(builder, embedding, d_out, still + 1, end - still - 1,
                                    bp_ref_at(gradient, (still + 1 - first) * width), accumulate);
    }
}

static void backward_token(bp_builder *builder, const bp_embedding *embedding, bp_ref d_out)
{
    int64_t accumulate = 0;
    const bp_ref gradient = bp_build_gradient(builder, embedding->token, &accumulate);
    backward_rows(builder, embedding, d_out, 0, embedding->vocabulary, gradient, accumulate);
}

/* Of the rows that are trained apart from the table (core/plan/rows.h). */
static void backward_trained_rows(bp_builder *builder, const bp_embedding *embedding, bp_ref d_out)
{
    const uint32_t rows = bp_rows_of(builder, embedding->token);
    int64_t accumulate = 0;
    bp_rows_run run = {0};
    if (rows == BP_NO_PARAMETER) {
        return;
    }
    const bp_ref gradient = bp_build_gradient(builder, rows, &accumulate);
    while (bp_rows_next(builder, &run)) {
        backward_rows(builder, embedding, d_out, run.token, run.token + run.count,
                      bp_ref_at(gradient, run.at * embedding->width), accumulate);
    }
}

/* Of the adapter: A gets s d_out B by token, B d_out^T s A of each. A row that stays as it is gets
 * the gradient of an id that no token has. */
static void adapter_backward(bp_builder *builder, const bp_embedding *embedding, bp_ref d_out)
{
    const uint32_t a = builder->parameters[embedding->token].adapter;
    const int64_t rank = (int64_t)builder->parameters[a].shape[1],
                  width = (int64_t)embedding->width;
    const int64_t rows = (int64_t)builder->rows;
    if (bp_build_trainable(builder, a + 1)) {
        const bp_embedding_forward_scalars as = {.rows = rows,
                                                 .sequence = (int64_t)builder->spec->sequence,
                                                 .vocabulary = (int64_t)embedding->vocabulary};
        bp_matmul_scalars outer = {.m = width,
                                   .n = rank,
                                   .k = rows,
                                   .lda = width,
                                   .ldb = rank,
                                   .ldc = rank,
                                   .transpose_a = 1};
        const bp_ref u = adapter_rows(builder, embedding, &as);
        const bp_ref gradient = bp_build_gradient(builder, a + 1, &outer.accumulate);
        bp_build_product(builder, gradient, d_out, u, &outer);
    }
    if (bp_build_trainable(builder, a)) {
        const bp_lora_part part = bp_adapter_part(builder, embedding->token);
        const bp_ref d_u = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                           builder->rows, (uint64_t)rank, "lora_d_u");
        const bp_scale_scalars scale = {.count = rows * rank,
                                        .factor = bp_adapter_scale(&builder->spec->lora, part)};
        const bp_scale_operands in_place = {.y = d_u, .x = d_u};
        bp_embedding table = *embedding;
        table.token = a;
        table.width = (uint64_t)rank;
        bp_build_product(
            builder, d_u, d_out, bp_build_acquire(builder, a + 1, BP_FOR_BACKWARD),
            &(bp_matmul_scalars){
                .m = rows, .n = rank, .k = width, .lda = width, .ldb = rank, .ldc = rank});
        bp_build_release(builder, a + 1);
        bp_build_scale(builder, &in_place, &scale);
        backward_token(builder, &table, d_u);
    }
}

/* What each row adds to the row of its token. */
static void backward_tokens(bp_builder *builder, const bp_embedding *embedding, bp_ref d_out)
{
    if (bp_build_trainable(builder, embedding->token)) {
        backward_token(builder, embedding, d_out);
    }
    backward_trained_rows(builder, embedding, d_out);
    if (adapts(builder, embedding)) {
        adapter_backward(builder, embedding, d_out);
    }
}

void bp_embedding_backward(bp_builder *builder, const bp_embedding *embedding, bp_ref d_out)
{
    for (uint32_t lane = 0; lane < bp_token_lanes_count(builder); lane++) {
        bp_token_lane_begin(builder, lane);
        backward_tokens(builder, embedding, bp_token_lane_at(builder, d_out, embedding->width));
        bp_token_lane_end(builder, lane);
    }
    bp_embedding_backward_position(builder, embedding, d_out);
}
