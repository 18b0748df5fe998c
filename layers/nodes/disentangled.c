/* SPDX-License-Identifier: MIT */
/* Rows of a table of distances as queries and keys, and the attention that reads them. */
#include "layers/nodes/disentangled.h"

#include "layers/nodes/linear.h"
#include "layers/nodes/norm.h"

/* The table's rows on their way. */
typedef struct position_rows {
    uint64_t rows;
    uint64_t wide;     /* of all heads' queries, or keys */
    bp_ref x;          /* (rows, width): normalised, and dropped */
    bp_ref statistics; /* absent without backward */
    bp_ref both;       /* (rows, 2 wide): queries and keys side by side */
} position_rows;

/* builder->rows are the table's between these two. */
static uint64_t disentangled_begin(bp_builder *builder, uint64_t rows)
{
    const uint64_t own = builder->rows;
    builder->rows = rows;
    return own;
}

bool bp_disentangled(const bp_attention *attention)
{
    return attention->positions.width > 0;
}

static bp_norm norm_of(const bp_positions *positions)
{
    return (bp_norm){positions->table + 1, positions->table + 2, positions->width,
                     positions->epsilon, false};
}

/* A layer as its outputs lie, queries and keys side by side. */
static bp_linear layer_of(const bp_attention *attention, uint32_t weight)
{
    const uint64_t wide = attention->heads * attention->head_width;
    return (bp_linear){.weight = weight,
                       .bias = weight + 1,
                       .in = attention->positions.width,
                       .out = wide,
                       .output_major = true,
                       .pitch = 2 * wide};
}

static bool trains_table(const bp_builder *builder, const bp_positions *positions)
{
    const bp_norm norm = norm_of(positions);
    return bp_build_trainable(builder, positions->table) || bp_norm_trains(builder, &norm);
}

bool bp_disentangled_trains(const bp_builder *builder, const bp_attention *attention)
{
    const bp_linear query = layer_of(attention, attention->positions.query);
    const bp_linear key = layer_of(attention, attention->positions.key);
    return trains_table(builder, &attention->positions) || bp_linear_trains(builder, &query) ||
           bp_linear_trains(builder, &key);
}

/* Of the rows, or of their gradients. */
static void drop_rows(bp_builder *builder, const bp_positions *positions, uint64_t rows, bp_ref x)
{
    const double probability = bp_dropout_probability(builder, &positions->dropout);
    const int64_t count = (int64_t)(rows * positions->width);
    if (probability > 0.0) {
        const bp_dropout_scalars scalars = {.count = count,
                                            .per_sample = count,
                                            .site = positions->dropout.site,
                                            .dropout = probability};
        const bp_dropout_operands operands = {
            .y = x, .x = x, .residual = BP_ABSENT, .step = builder->step};
        bp_build_dropout(builder, &operands, &scalars);
    }
}

static position_rows make_rows(bp_builder *builder, const bp_attention *attention,
                               bp_purpose purpose)
{
    const bp_positions *positions = &attention->positions;
    const bool backward = purpose == BP_FOR_BACKWARD;
    position_rows p = {.rows = 2 * attention->buckets,
                       .wide = attention->heads * attention->head_width,
                       .statistics = BP_ABSENT};
    const bp_linear query = layer_of(attention, positions->query);
    const bp_linear key = layer_of(attention, positions->key);
    const bp_norm norm = norm_of(positions);
    p.x = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), p.rows,
                          positions->width, "positions");
    if (backward) {
        p.statistics =
            bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 2, p.rows, "positions.statistics");
    }
    p.both = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), p.rows,
                             2 * p.wide, "positions.both");
    const uint64_t own = disentangled_begin(builder, p.rows);
    const bp_ref table = bp_build_acquire(builder, positions->table, purpose);
    bp_norm_forward(builder, &norm, p.rows, table, p.x, p.statistics);
    bp_build_release(builder, positions->table);
    drop_rows(builder, positions, p.rows, p.x);
    bp_linear_forward(builder, &query, p.x, BP_ABSENT, p.both);
    bp_linear_forward(builder, &key, p.x, BP_ABSENT, bp_ref_at(p.both, p.wide));
    builder->rows = own;
    return p;
}

void bp_disentangled_forward(bp_builder *builder, const bp_attention *attention,
                             const bp_attention_forward_operands *from,
                             const bp_attention_forward_scalars *scalars)
{
    const position_rows p = make_rows(builder, attention, BP_FOR_FORWARD);
    const bp_attention_disentangled_forward_scalars own = {.batch = scalars->batch,
                                                           .sequence = scalars->sequence,
                                                           .heads = scalars->heads,
                                                           .head_width = scalars->head_width,
                                                           .site = scalars->site,
                                                           .scale = scalars->scale,
                                                           .dropout = scalars->dropout,
                                                           .buckets = (int64_t)attention->buckets,
                                                           .most = (int64_t)attention->distance};
    const bp_attention_disentangled_forward_operands operands = {.out = from->out,
                                                                 .lse = from->lse,
                                                                 .qkv = from->qkv,
                                                                 .positions = p.both,
                                                                 .lengths = from->lengths,
                                                                 .step = from->step,
                                                                 .work = BP_ABSENT};
    bp_build_attention_disentangled_forward(builder, &operands, &own);
}

/* From the gradient of the rows d_x: the norm's, and the table's. */
static void backward_table(bp_builder *builder, const bp_positions *positions,
                           const position_rows *p, bp_ref d_x)
{
    const bool wanted = bp_build_trainable(builder, positions->table);
    const bp_ref table = bp_build_acquire(builder, positions->table, BP_FOR_BACKWARD);
    const bp_norm norm = norm_of(positions);
    const bp_norm_backward_call call = {table, p->statistics, d_x, BP_ABSENT, wanted, false};
    bp_norm_backward(builder, &norm, &call);
    bp_build_release(builder, positions->table);
    if (wanted) {
        bp_embedding_position_backward_scalars scalars = {.rows = (int64_t)p->rows,
                                                          .sequence = (int64_t)p->rows,
                                                          .width = (int64_t)positions->width,
                                                          .positions = (int64_t)p->rows};
        const bp_embedding_position_backward_operands operands = {
            .d_wpe = bp_build_gradient(builder, positions->table, &scalars.accumulate),
            .d_out = d_x,
            .step = builder->step};
        bp_build_embedding_position_backward(builder, &operands, &scalars);
    }
}

/* From the gradient of the rows' queries and keys: those of parameters. */
static void backward_rows(bp_builder *builder, const bp_attention *attention,
                          const position_rows *p, bp_ref d_both)
{
    const bp_positions *positions = &attention->positions;
    const bp_linear query = layer_of(attention, positions->query);
    const bp_linear key = layer_of(attention, positions->key);
    const bp_ref d_keys = bp_ref_at(d_both, p->wide);
    const uint64_t own = disentangled_begin(builder, p->rows);
    bp_linear_backward_parameters(builder, &query, p->x, d_both);
    bp_linear_backward_parameters(builder, &key, p->x, d_keys);
    if (trains_table(builder, positions)) {
        const bp_ref d_x = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                           p->rows, positions->width, "d_positions");
        bp_linear_backward_input(builder, &query, d_both, d_x);
        bp_linear_backward_input_add(builder, &key, d_keys, d_x);
        drop_rows(builder, positions, p->rows, d_x);
        backward_table(builder, positions, p, d_x);
    }
    builder->rows = own;
}

void bp_disentangled_backward(bp_builder *builder, const bp_attention *attention,
                              const bp_attention_backward_operands *from,
                              const bp_attention_backward_scalars *scalars)
{
    const position_rows p = make_rows(builder, attention, BP_FOR_BACKWARD);
    const bp_attention_disentangled_backward_scalars own = {.batch = scalars->batch,
                                                            .sequence = scalars->sequence,
                                                            .heads = scalars->heads,
                                                            .head_width = scalars->head_width,
                                                            .site = scalars->site,
                                                            .scale = scalars->scale,
                                                            .dropout = scalars->dropout,
                                                            .buckets = (int64_t)attention->buckets,
                                                            .most = (int64_t)attention->distance};
    const bp_attention_disentangled_backward_operands operands = {
        .d_qkv = from->d_qkv,
        .d_positions = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                       p.rows, 2 * p.wide, "d_both"),
        .d_out = from->d_out,
        .qkv = from->qkv,
        .out = from->out,
        .lse = from->lse,
        .positions = p.both,
        .lengths = from->lengths,
        .step = from->step,
        .work = BP_ABSENT};
    bp_build_attention_disentangled_backward(builder, &operands, &own);
    if (bp_disentangled_trains(builder, attention)) {
        backward_rows(builder, attention, &p, operands.d_positions);
    }
}
