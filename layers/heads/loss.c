/* SPDX-License-Identifier: MIT */
/* The chunked loss as ops. */
#include "layers/heads/loss.h"

#include "core/ops/master.h"
#include "core/plan/passes/token_lanes.h"
#include "core/plan/rows.h"
#include "layers/nodes/activate.h"
#include "layers/nodes/attention.h"
#include "layers/heads/distill_loss.h"
#include "core/ir/step.h"

/* Adds the loss of the micro-batch's pairs to the result, from builder->losses, labels and sides;
 * weights (rows) F32: what each token's gradient is to be multiplied by; logps (sequences) F32: the
 * log-probability of each row's completion. Both may be absent. Of a second backward the sum stays
 * as it is. */
static void preference_build(bp_builder *builder, bp_ref weights, bp_ref logps);

/* Rows of logits start 64 bytes apart at a multiple of 64, for vector loads and stores. */
#define PITCH_ELEMENTS 16

/* Tokens per chunk for this spec: loss_rows or the default, at most the micro-batch. */
static uint64_t bp_loss_rows(const bp_spec *spec)
{
    const uint64_t rows = (uint64_t)spec->batch * spec->sequence;
    const uint64_t chunk = spec->loss_rows != 0 ? spec->loss_rows : bp_spec_loss_rows(spec);
    return chunk < rows ? chunk : rows;
}

/* One chunk: `rows` tokens from token `first` on. */
typedef struct chunk {
    uint64_t first;
    uint64_t rows;
    uint64_t pitch;
    bp_ref x;      /* (rows, width) */
    bp_ref logits; /* (rows, vocabulary; pitch) */
    bp_ref capped; /* of capped logits: themselves over the cap; else absent */
    bp_ref slope;  /* (rows, vocabulary; pitch) what products read of their gradient */
    bp_ref losses;
    bp_ref labels;
} chunk;

static uint64_t chunk_rows(const bp_builder *builder)
{
    const uint64_t most = bp_loss_rows(builder->spec);
    return most < builder->rows ? most : builder->rows;
}

/* Whether classes have weights: their rows are few and short, and judged as samples of their own.
 */
static bool loss_weighted(const bp_builder *builder)
{
    return bp_ref_present(builder->class_weights);
}

/* A policy's logits are what its tokens are sampled from: those of decode, which are fp32. */
static bool is_policy(const bp_builder *builder)
{
    return builder->spec->policy_temperature > 0.0;
}

/* Products read the gradient of a policy's logits in the working type, rounded once. */
static bp_ref make_slope(bp_builder *builder, const chunk *c)
{
    if (c->logits.dtype == bp_build_working(builder)) {
        return c->logits;
    }
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), c->rows,
                           c->pitch, "d_logits");
}

/* Capped logits, whose every element is computed with, lie row behind row, and so do weighted ones
 * and a policy's. */
static chunk first_chunk(bp_builder *builder, const bp_head *head, uint64_t columns, bool backward)
{
    const bool capped = head->cap > 0.0;
    const bool dense = capped || loss_weighted(builder) || is_policy(builder);
    const bp_dtype type = is_policy(builder) ? BP_F32 : bp_build_working(builder);
    chunk c = {.rows = chunk_rows(builder),
               .pitch = dense ? columns : bp_size_align(columns, PITCH_ELEMENTS)};
    c.logits = bp_build_buffer(builder, BP_CLASS_WORKSPACE, type, c.rows, c.pitch, "logits");
    c.capped = BP_ABSENT;
    if (capped && backward) {
        c.capped = bp_build_buffer(builder, BP_CLASS_WORKSPACE, type, c.rows, c.pitch, "capped");
    }
    c.slope = backward ? make_slope(builder, &c) : BP_ABSENT;
    return c;
}

static void scale_logits(bp_builder *builder, double factor, uint64_t count, bp_ref from, bp_ref to)
{
    const bp_scale_scalars scalars = {.count = (int64_t)count, .factor = factor};
    const bp_scale_operands operands = {.y = to, .x = from};
    bp_build_scale(builder, &operands, &scalars);
}

/* logits = cap tanh(logits / cap); backward needs the quotients. */
static void cap_logits(bp_builder *builder, const bp_head *head, const chunk *c)
{
    const uint64_t count = c->rows * c->pitch;
    if (!(head->cap > 0.0)) {
        return;
    }
    const bp_ref over = bp_ref_present(c->capped) ? c->capped : c->logits;
    scale_logits(builder, 1.0 / head->cap, count, c->logits, over);
    bp_activate(builder, BP_ACTIVATION_TANH, count, over, c->logits);
    scale_logits(builder, head->cap, count, c->logits, c->logits);
}

/* logits /= the temperature, as the sampler does it; and so does their gradient. */
static void cool_logits(bp_builder *builder, const chunk *c)
{
    const double temperature = builder->spec->policy_temperature;
    if (is_policy(builder) && temperature != 1.0) {
        scale_logits(builder, 1.0 / temperature, c->rows * c->pitch, c->logits, c->logits);
    }
}

/* What was the gradient of the loss by its logits becomes that by the product's: of a temperature
 * and of a cap, times 1 - tanh^2; then products can read it. */
static void uncap_gradient(bp_builder *builder, const chunk *c)
{
    cool_logits(builder, c);
    if (bp_ref_present(c->capped)) {
        bp_activate_backward(builder, BP_ACTIVATION_TANH, c->rows * c->pitch, c->capped, c->logits,
                             c->logits);
    }
    if (c->slope.buffer != c->logits.buffer) {
        const bp_store_values_operands rounded = {
            .y = c->slope, .master = BP_ABSENT, .x = c->logits};
        const bp_store_values_scalars count = {
            .count = (int64_t)(c->rows * c->pitch), .form = BP_MASTER_WEIGHT, .even = 1};
        bp_build_store_values(builder, &rounded, &count);
    }
}

/* Places the chunk's refs for its `first`; the last chunk may be short. */
static void place_chunk(const bp_builder *builder, const bp_head *head, bp_ref x, chunk *c)
{
    const uint64_t left = builder->rows - c->first;
    c->rows = left < c->rows ? left : c->rows;
    c->x = bp_ref_at(x, c->first * head->width);
    c->losses = bp_ref_at(builder->losses, c->first);
    c->labels = bp_ref_at(builder->input[BP_INPUT_LABELS], c->first);
}

/* Rows of the table: all of them, or a slice. */
typedef struct table_part {
    uint64_t first;
    uint64_t rows;
} table_part;

static table_part whole_table(const bp_head *head)
{
    return (table_part){0, head->vocabulary};
}

#define BROUGHT_BYTES ((uint64_t)4 << 20) /* of a slice of a table that is offloaded, at most, */
#define BROUGHT_ROWS  256                 /* but its rows are a multiple of this */

/* The first slice of a part of a table that is offloaded, and the one behind a slice; no rows:
 * there is none. */
static table_part first_brought(const bp_builder *builder, const bp_head *head, table_part part)
{
    const uint64_t width = head->width * bp_dtype_bytes(bp_build_working(builder));
    const uint64_t rows = BROUGHT_BYTES / width / BROUGHT_ROWS * BROUGHT_ROWS;
    const uint64_t most = rows > 0 ? rows : BROUGHT_ROWS;
    const bool below = bp_build_table_offloaded(builder, head->table);
    return (table_part){part.first, !below ? 0 : part.rows < most ? part.rows : most};
}

static table_part next_brought(table_part slice, table_part part)
{
    const uint64_t first = slice.first + slice.rows, left = part.first + part.rows - first;
    return (table_part){first, left < slice.rows ? left : slice.rows};
}

static bp_ref bring_part(bp_builder *builder, const bp_head *head, table_part part)
{
    const bp_dtype dtype = bp_build_working(builder);
    const uint64_t width = head->width * bp_dtype_bytes(dtype);
    (void)bp_build_acquire_update(builder, head->table);
    const uint32_t table = builder->status == BP_OK ? builder->parameters[head->table].weight : 0;
    const bp_ref brought =
        bp_build_bring(builder, table, part.first * width, part.rows * width, "brought_table");
    bp_build_release(builder, head->table);
    return (bp_ref){brought.buffer, dtype, 0};
}

static bp_ref acquire_bias_part(bp_builder *builder, const bp_head *head, table_part part)
{
    const bp_ref bias = bp_build_acquire(builder, head->bias, BP_FOR_FORWARD);
    return bp_ref_present(bias) ? bp_ref_at(bias, part.first) : BP_ABSENT;
}

/* Where row `first` of the table lies. */
static bp_ref table_at(const bp_builder *builder, const bp_head *head, bp_ref table, uint64_t first)
{
    if (!bp_build_quantised(builder, head->table)) {
        return bp_ref_at(table, first * head->width);
    }
    table.offset +=
        bp_quantised_codes(first * head->width, builder->parameters[head->table].quantised);
    return table;
}

/* A product with rows of the table, which may be packed. */
static void emit_table_product(bp_builder *builder, const bp_head *head,
                               const bp_matmul_operands *operands, const bp_matmul_scalars *s)
{
    if (!bp_build_quantised(builder, head->table)) {
        bp_build_matmul(builder, operands, s);
        return;
    }
    const bp_matmul_quantised_operands codes = {.c = operands->c,
                                                .before = BP_ABSENT,
                                                .a = operands->a,
                                                .codes = operands->b,
                                                .scales = BP_ABSENT,
                                                .nested = BP_ABSENT,
                                                .bias = operands->bias,
                                                .residual = BP_ABSENT,
                                                .work = BP_ABSENT};
    const bp_matmul_quantised_scalars scalars = {
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .lda = s->lda,
        .ldc = s->ldc,
        .transpose_b = s->transpose_b,
        .form = (int64_t)builder->parameters[head->table].quantised};
    bp_build_matmul_quantised(builder, &codes, &scalars);
}

/* Columns of logits from rows of the table, which are `table`. */
static void emit_columns(bp_builder *builder, const bp_head *head, const chunk *c, uint64_t column,
                         table_part part, bp_ref table)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)c->rows,
                                       .n = (int64_t)part.rows,
                                       .k = (int64_t)head->width,
                                       .lda = (int64_t)head->width,
                                       .ldb = (int64_t)head->width,
                                       .ldc = (int64_t)c->pitch,
                                       .transpose_b = 1};
    const bp_matmul_operands operands = {.c = bp_ref_at(c->logits, column),
                                         .before = BP_ABSENT,
                                         .a = c->x,
                                         .b = table,
                                         .bias = acquire_bias_part(builder, head, part),
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    emit_table_product(builder, head, &operands, &scalars);
    bp_build_release(builder, head->bias);
}

/* logits (rows, part; pitch) = x (rows, width) table^T, the table whole or brought slice by slice:
 * each column is a product of its own. */
static void emit_logits(bp_builder *builder, const bp_head *head, const chunk *c, table_part part)
{
    if (!bp_build_table_offloaded(builder, head->table)) {
        const bp_ref table = bp_build_acquire(builder, head->table, BP_FOR_FORWARD);
        emit_columns(builder, head, c, 0, part, table_at(builder, head, table, part.first));
        bp_build_release(builder, head->table);
    }
    for (table_part s = first_brought(builder, head, part); s.rows > 0; s = next_brought(s, part)) {
        const bp_ref table = bring_part(builder, head, s);
        emit_columns(builder, head, c, s.first - part.first, s, table);
    }
    cap_logits(builder, head, c);
}

/* d_bias (vocabulary) (+)= column sums of d_logits */
static void emit_bias_gradient(bp_builder *builder, const bp_head *head, const chunk *c)
{
    bp_bias_backward_scalars scalars = {
        .rows = (int64_t)c->rows, .n = (int64_t)head->vocabulary, .pitch = (int64_t)c->pitch};
    const bp_bias_backward_operands operands = {
        .d_bias = bp_build_gradient(builder, head->bias, &scalars.accumulate), .d_y = c->slope};
    bp_build_bias_backward(builder, &operands, &scalars);
}

/* d_table (part, width) (+)= d_logits^T x, of logits from the part's first on */
static void emit_table_gradient(bp_builder *builder, const bp_head *head, const chunk *c,
                                bp_ref logits, table_part part, bp_ref gradient, int64_t accumulate)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)part.rows,
                                       .n = (int64_t)head->width,
                                       .k = (int64_t)c->rows,
                                       .lda = (int64_t)c->pitch,
                                       .ldb = (int64_t)head->width,
                                       .ldc = (int64_t)head->width,
                                       .transpose_a = 1,
                                       .accumulate = accumulate};
    const bp_matmul_operands operands = {.c = gradient,
                                         .before = BP_ABSENT,
                                         .a = logits,
                                         .b = c->x,
                                         .bias = BP_ABSENT,
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    bp_build_matmul(builder, &operands, &scalars);
}

/* sums (rows, width) (+)= columns of d_logits times rows of the table, which are `table`. */
static void emit_input_part(bp_builder *builder, const bp_head *head, const chunk *c,
                            table_part part, bp_ref table, bp_ref sums, int64_t accumulate)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)c->rows,
                                       .n = (int64_t)head->width,
                                       .k = (int64_t)part.rows,
                                       .lda = (int64_t)c->pitch,
                                       .ldb = (int64_t)head->width,
                                       .ldc = (int64_t)head->width,
                                       .accumulate = accumulate};
    const bp_matmul_operands operands = {.c = sums,
                                         .before = BP_ABSENT,
                                         .a = bp_ref_at(c->slope, part.first),
                                         .b = table,
                                         .bias = BP_ABSENT,
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    emit_table_product(builder, head, &operands, &scalars);
}

/* From a table that is brought slice by slice: sums go on in fp32 from where they were, as those of
 * one product do, and are rounded at the end. The op that adds up rows rounds the sum over one. */
static void emit_input_brought(bp_builder *builder, const bp_head *head, const chunk *c, bp_ref d_x)
{
    const uint64_t count = c->rows * head->width;
    const bool wide = d_x.dtype == BP_F32;
    const table_part all = whole_table(head);
    const bp_ref sums = wide ? d_x
                             : bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, c->rows,
                                               head->width, "d_loss_sums");
    for (table_part s = first_brought(builder, head, all); s.rows > 0; s = next_brought(s, all)) {
        const bp_ref table = bring_part(builder, head, s);
        emit_input_part(builder, head, c, s, table, sums, s.first > 0 ? 1 : 0);
    }
    if (!wide) {
        const bp_bias_backward_scalars scalars = {
            .rows = 1, .n = (int64_t)count, .pitch = (int64_t)count};
        const bp_bias_backward_operands operands = {.d_bias = d_x, .d_y = sums};
        bp_build_bias_backward(builder, &operands, &scalars);
    }
}

/* d_x (rows, width) = d_logits table, which may lie over x: nothing reads this chunk of it any
 * more. */
static void emit_input_gradient(bp_builder *builder, const bp_head *head, const chunk *c,
                                bp_ref d_x)
{
    const bp_ref place = bp_ref_at(d_x, c->first * head->width);
    if (bp_build_table_offloaded(builder, head->table)) {
        emit_input_brought(builder, head, c, place);
        return;
    }
    const bp_ref table = bp_build_acquire(builder, head->table, BP_FOR_BACKWARD);
    emit_input_part(builder, head, c, whole_table(head), table, place, 0);
    bp_build_release(builder, head->table);
}

void bp_loss_sum(bp_builder *builder)
{
    if (builder->mode == BP_MODE_EVAL && bp_spec_sequence_ranks(builder->spec) > 1) {
        const bp_ref all = bp_attention_ranks_losses(builder, builder->losses);
        builder->losses_kept = all;
        bp_loss_sum_of(builder, all, builder->spec->sequence);
        return;
    }
    bp_loss_sum_of(builder, builder->losses, builder->rows);
}

void bp_loss_sum_of(bp_builder *builder, bp_ref losses, uint64_t rows)
{
    if (builder->loss_counted) {
        return;
    }
    const bp_loss_sum_scalars scalars = {.rows = (int64_t)rows,
                                         .accumulate = builder->loss_written ? 1 : 0};
    const bp_loss_sum_operands operands = {.result = builder->result, .losses = losses};
    bp_build_loss_sum(builder, &operands, &scalars);
    builder->loss_written = true;
}

/* Logits that are kept lie row behind row. */
static chunk first_kept_chunk(const bp_builder *builder, uint64_t columns)
{
    return (chunk){.rows = chunk_rows(builder),
                   .pitch = columns,
                   .logits = builder->logits,
                   .capped = BP_ABSENT};
}

static int64_t is_scaled(const bp_builder *builder)
{
    return builder->spec->scaling.kind != BP_SCALING_OFF ? 1 : 0;
}

/* Each row a sample of one place, whose label's class has a weight. */
static void emit_weighted_loss(bp_builder *builder, const bp_head *head, const chunk *c,
                               bool gradient)
{
    const bp_sample_loss_scalars scalars = {.batch = (int64_t)c->rows,
                                            .sequence = 1,
                                            .classes = (int64_t)head->vocabulary,
                                            .kind = BP_TASK_CLASSES,
                                            .gradient = gradient,
                                            .scaled = is_scaled(builder),
                                            .smoothing = builder->spec->smoothing};
    const bp_sample_loss_operands operands = {.logits = c->logits,
                                              .losses = c->losses,
                                              .labels = c->labels,
                                              .lengths = BP_ABSENT,
                                              .class_weights = builder->class_weights,
                                              .step = builder->step,
                                              .control = bp_build_loss_control(builder)};
    bp_build_sample_loss(builder, &operands, &scalars);
}

static bool loss_pairs(const bp_builder *builder)
{
    return builder->spec->preference.kind != BP_PREFERENCE_NONE;
}

static bp_distill_rows distill_rows(const chunk *c, table_part part, bp_ref statistics)
{
    return (bp_distill_rows){c->first,  c->rows,   c->pitch,  part.first, part.rows,
                             c->logits, c->losses, c->labels, statistics};
}

static void emit_loss_forward(bp_builder *builder, const bp_head *head, const chunk *c)
{
    const bp_cross_entropy_forward_scalars scalars = {.rows = (int64_t)c->rows,
                                                      .vocabulary = (int64_t)head->vocabulary,
                                                      .pitch = (int64_t)c->pitch,
                                                      .smoothing = builder->spec->smoothing};
    const bp_cross_entropy_forward_operands operands = {
        .logits = c->logits, .losses = c->losses, .labels = c->labels};
    if (loss_weighted(builder)) {
        emit_weighted_loss(builder, head, c, false);
    } else {
        bp_build_cross_entropy_forward(builder, &operands, &scalars);
    }
}

void bp_loss_forward(bp_builder *builder, const bp_head *head, bp_ref x)
{
    const bool is_teacher = builder->spec->distill.is_teacher;
    const bool losses = builder->spec->row_weights; /* are what is kept */
    const bool kept =
        bp_ref_present(builder->logits) && !loss_pairs(builder) && !is_teacher && !losses;
    chunk c = kept ? first_kept_chunk(builder, head->vocabulary)
                   : first_chunk(builder, head, head->vocabulary, false);
    for (; c.first < builder->rows; c.first += c.rows) {
        place_chunk(builder, head, x, &c);
        c.logits = kept ? bp_ref_at(builder->logits, c.first * c.pitch) : c.logits;
        emit_logits(builder, head, &c, whole_table(head));
        cool_logits(builder, &c);
        emit_loss_forward(builder, head, &c);
        if (is_teacher && bp_ref_present(builder->logits)) {
            const bp_distill_rows rows = distill_rows(&c, whole_table(head), BP_ABSENT);
            bp_distill_loss_report(builder, &rows);
        }
    }
    if (losses && bp_ref_present(builder->logits)) {
        scale_logits(builder, 1.0, builder->rows, builder->losses, builder->logits);
    }
    if (loss_pairs(builder)) {
        preference_build(builder, BP_ABSENT, builder->logits);
    } else {
        bp_loss_sum(builder);
    }
}

/* The chunk's logits become their gradient; what later slices need of them is kept when wanted. */
static void emit_loss(bp_builder *builder, const bp_head *head, const chunk *c, bp_ref statistics)
{
    const bool kept = bp_ref_present(statistics);
    const bp_cross_entropy_scalars scalars = {.rows = (int64_t)c->rows,
                                              .vocabulary = (int64_t)head->vocabulary,
                                              .pitch = (int64_t)c->pitch,
                                              .scaled = is_scaled(builder),
                                              .stride = (int64_t)builder->rows,
                                              .smoothing = builder->spec->smoothing};
    const bp_cross_entropy_operands operands = {.logits = c->logits,
                                                .losses = c->losses,
                                                .labels = c->labels,
                                                .step = builder->step,
                                                .control = bp_build_loss_control(builder),
                                                .statistics = kept ? bp_ref_at(statistics, c->first)
                                                                   : BP_ABSENT};
    if (loss_weighted(builder)) {
        emit_weighted_loss(builder, head, c, true);
    } else if (bp_distills(builder)) {
        const bp_distill_rows rows = distill_rows(c, whole_table(head), operands.statistics);
        bp_distill_loss_build(builder, &rows);
    } else {
        bp_build_cross_entropy(builder, &operands, &scalars);
    }
}

/* Where pairs' weights of rows lie behind a deferred table's statistics. */
static bp_ref weights_behind(const bp_builder *builder, bp_ref statistics)
{
    return bp_ref_at(statistics, 2 * builder->rows);
}

/* What the loss of a pair is shows when all of its tokens' losses are known: forward over all
 * chunks, before the first gradient. Returns the weights of rows; absent: there are no pairs. */
static bp_ref judge_pairs(bp_builder *builder, const bp_head *head, bp_ref x, chunk c,
                          bp_ref statistics)
{
    if (!loss_pairs(builder)) {
        return BP_ABSENT;
    }
    for (; c.first < builder->rows; c.first += c.rows) {
        place_chunk(builder, head, x, &c);
        emit_logits(builder, head, &c, whole_table(head));
        cool_logits(builder, &c);
        emit_loss_forward(builder, head, &c);
    }
    const bp_ref weights =
        bp_ref_present(statistics)
            ? weights_behind(builder, statistics)
            : bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, builder->rows, 1, "pairs");
    preference_build(builder, weights, BP_ABSENT);
    return weights;
}

/* Gradients of a chunk's first `columns` logits, times the weights of their rows. */
static void weigh_rows(bp_builder *builder, const chunk *c, uint64_t columns, bp_ref weights)
{
    const bp_row_scale_scalars scalars = {
        .rows = (int64_t)c->rows, .width = (int64_t)columns, .pitch = (int64_t)c->pitch};
    const bp_row_scale_operands operands = {.x = c->logits,
                                            .weights = bp_ref_at(weights, c->first)};
    bp_build_row_scale(builder, &operands, &scalars);
}

/* Where each row's loss counts with a weight of its own, those of all rows; else absent. */
static bp_ref weights_given(const bp_builder *builder)
{
    return builder->spec->row_weights ? builder->input[BP_INPUT_WEIGHTS] : BP_ABSENT;
}

/* The same of rows of the table that are trained apart from it (core/plan/rows.h). */
static void emit_rows_gradient(bp_builder *builder, const bp_head *head, const chunk *c)
{
    const uint32_t rows = bp_rows_of(builder, head->table);
    int64_t accumulate = 0;
    bp_rows_run run = {0};
    if (rows == BP_NO_PARAMETER) {
        return;
    }
    const bp_ref gradient = bp_build_gradient(builder, rows, &accumulate);
    while (bp_rows_next(builder, &run)) {
        emit_table_gradient(builder, head, c, bp_ref_at(c->slope, run.token),
                            (table_part){run.token, run.count},
                            bp_ref_at(gradient, run.at * head->width), accumulate);
    }
}

static void loss_of_lane(bp_builder *builder, const bp_head *head, bp_ref x, bp_ref d_x,
                         bp_ref statistics)
{
    const bool table = bp_build_trainable(builder, head->table) && !bp_ref_present(statistics);
    chunk c = first_chunk(builder, head, head->vocabulary, true);
    const bp_ref weights = judge_pairs(builder, head, x, c, statistics);
    const bp_ref given = weights_given(builder);
    const bool pairs = bp_ref_present(weights);
    const bool formed = pairs && c.rows == builder->rows; /* the only chunk's logits are there */
    for (; c.first < builder->rows; c.first += c.rows) {
        place_chunk(builder, head, x, &c);
        if (!formed) {
            emit_logits(builder, head, &c, whole_table(head));
            cool_logits(builder, &c);
        }
        emit_loss(builder, head, &c, statistics);
        if (pairs) {
            weigh_rows(builder, &c, head->vocabulary, weights);
        } else if (bp_ref_present(given)) {
            weigh_rows(builder, &c, head->vocabulary, given);
        }
        uncap_gradient(builder, &c);
        if (table) {
            int64_t accumulate = 0;
            const bp_ref gradient = bp_build_gradient(builder, head->table, &accumulate);
            emit_table_gradient(builder, head, &c, c.slope, whole_table(head), gradient,
                                accumulate);
        }
        if (!bp_ref_present(statistics)) {
            emit_rows_gradient(builder, head, &c);
        }
        if (head->bias != BP_NO_PARAMETER && bp_build_trainable(builder, head->bias)) {
            emit_bias_gradient(builder, head, &c);
        }
        emit_input_gradient(builder, head, &c, d_x);
    }
    if (!pairs) {
        bp_loss_sum(builder);
    }
}

void bp_loss_backward(bp_builder *builder, const bp_head *head, bp_ref x, bp_ref d_x,
                      bp_ref statistics)
{
    for (uint32_t lane = 0; lane < bp_token_lanes_count(builder); lane++) {
        bp_token_lane_begin(builder, lane);
        loss_of_lane(builder, head, bp_token_lane_at(builder, x, head->width),
                     bp_token_lane_at(builder, d_x, head->width), statistics);
        bp_token_lane_end(builder, lane);
    }
}

/* Rows first .. first + rows - 1 of the table's gradient, into `gradient` (rows, width), from the x
 * that backward got and the statistics that it left: the same sums in the same order. */
typedef struct loss_slice_call {
    uint64_t first;
    uint64_t rows;
    bp_ref x;
    bp_ref statistics;
    bp_ref gradient;
    int64_t accumulate;
} loss_slice_call;

static void loss_slice(bp_builder *builder, const bp_head *head, const loss_slice_call *call)
{
    const table_part part = {call->first, call->rows};
    for (chunk c = first_chunk(builder, head, part.rows, true); c.first < builder->rows;
         c.first += c.rows) {
        place_chunk(builder, head, call->x, &c);
        emit_logits(builder, head, &c, part);
        cool_logits(builder, &c);
        const bp_cross_entropy_columns_scalars scalars = {.rows = (int64_t)c.rows,
                                                          .columns = (int64_t)part.rows,
                                                          .pitch = (int64_t)c.pitch,
                                                          .first = (int64_t)part.first,
                                                          .scaled = is_scaled(builder),
                                                          .stride = (int64_t)builder->rows,
                                                          .vocabulary = (int64_t)head->vocabulary,
                                                          .smoothing = builder->spec->smoothing};
        const bp_cross_entropy_columns_operands operands = {
            .logits = c.logits,
            .labels = c.labels,
            .statistics = bp_ref_at(call->statistics, c.first),
            .step = builder->step,
            .control = bp_build_loss_control(builder)};
        if (bp_distills(builder)) {
            const bp_distill_rows rows = distill_rows(&c, part, operands.statistics);
            bp_distill_loss_columns(builder, &rows);
        } else {
            bp_build_cross_entropy_columns(builder, &operands, &scalars);
        }
        if (loss_pairs(builder)) {
            weigh_rows(builder, &c, part.rows, weights_behind(builder, call->statistics));
        } else if (bp_ref_present(weights_given(builder))) {
            weigh_rows(builder, &c, part.rows, weights_given(builder));
        }
        uncap_gradient(builder, &c);
        const int64_t accumulate = c.first > 0 ? 1 : call->accumulate;
        emit_table_gradient(builder, head, &c, c.slope, part, call->gradient, accumulate);
    }
}

void bp_loss_slice_of(bp_builder *builder, const bp_head *head, const bp_slice_call *call)
{
    const loss_slice_call part = {.first = call->first,
                                  .rows = call->rows,
                                  .x = call->kept[0],
                                  .statistics = call->kept[1],
                                  .gradient = call->gradient,
                                  .accumulate = call->accumulate};
    loss_slice(builder, head, &part);
}

bp_ref bp_loss_keep(bp_builder *builder, uint64_t width, bp_ref x, bool deferred, bp_ref kept[2])
{
    kept[0] = BP_ABSENT;
    kept[1] = BP_ABSENT;
    if (!deferred) {
        return x;
    }
    kept[0] = x;
    kept[1] = bp_build_buffer(builder, BP_CLASS_TAPE, BP_F32,
                              loss_pairs(builder) || bp_distills(builder) ? 3 : 2, builder->rows,
                              "softmax");
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), builder->rows,
                           width, "d_loss");
}

void bp_head_logits(bp_builder *builder, const bp_head *head, uint64_t rows, bp_ref x)
{
    const chunk c = {.rows = rows,
                     .pitch = head->vocabulary,
                     .x = x,
                     .logits = builder->logits,
                     .capped = BP_ABSENT};
    emit_logits(builder, head, &c, whole_table(head));
}

/* The loss over pairs of rows as an op. */

/* Where the sum goes: of losses that are counted already, to nobody. */
static bp_ref preference_result(bp_builder *builder)
{
    return builder->loss_counted ? bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_U8, 1,
                                                   sizeof(bp_result_block), "counted")
                                 : builder->result;
}

static void preference_build(bp_builder *builder, bp_ref weights, bp_ref logps)
{
    const bp_preference *p = &builder->spec->preference;
    const uint64_t sequence = builder->spec->sequence;
    const bool adds = builder->loss_written && !builder->loss_counted;
    const bp_preference_loss_scalars scalars = {.batch = (int64_t)(builder->rows / sequence),
                                                .sequence = (int64_t)sequence,
                                                .kind = p->kind,
                                                .accumulate = adds ? 1 : 0,
                                                .beta = p->beta,
                                                .smoothing = p->smoothing,
                                                .gamma = p->gamma,
                                                .nll = p->nll,
                                                .desirable = p->desirable,
                                                .undesirable = p->undesirable};
    const bp_preference_loss_operands operands = {.result = preference_result(builder),
                                                  .weights = weights,
                                                  .logps = logps,
                                                  .losses = builder->losses,
                                                  .labels = builder->input[BP_INPUT_LABELS],
                                                  .sides = builder->input[BP_INPUT_PREFERENCES]};
    bp_build_preference_loss(builder, &operands, &scalars);
    builder->loss_written = true; /* a second backward's was before it */
}
