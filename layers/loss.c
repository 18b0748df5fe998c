/* SPDX-License-Identifier: MIT */
/* The chunked loss as ops. */
#include "layers/loss.h"

/* Rows of logits start 64 bytes apart at a multiple of 64, for vector loads and stores. */
#define PITCH_ELEMENTS 16

uint64_t bp_loss_rows(const bp_spec *spec)
{
    const uint64_t rows = (uint64_t)spec->batch * spec->sequence;
    const uint64_t chunk = spec->loss_rows != 0 ? spec->loss_rows : bp_spec_loss_rows(spec);
    return chunk < rows ? chunk : rows;
}

uint64_t bp_loss_chunks(const bp_spec *spec)
{
    return bp_size_ceil_div((uint64_t)spec->batch * spec->sequence, bp_loss_rows(spec));
}

/* One chunk: `rows` tokens from token `first` on. */
typedef struct chunk {
    uint64_t first;
    uint64_t rows;
    uint64_t pitch;
    bp_ref x;      /* (rows, width) */
    bp_ref logits; /* (rows, vocabulary; pitch) */
    bp_ref losses;
    bp_ref labels;
} chunk;

static uint64_t chunk_rows(const bp_emit *emit)
{
    const uint64_t most = bp_loss_rows(emit->spec);
    return most < emit->rows ? most : emit->rows;
}

static chunk first_chunk(bp_emit *emit, uint64_t columns)
{
    chunk c = {.rows = chunk_rows(emit), .pitch = bp_size_align(columns, PITCH_ELEMENTS)};
    c.logits =
        bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), c.rows, c.pitch, "logits");
    return c;
}

/* Places the chunk's refs for its `first`; the last chunk may be short. */
static void place_chunk(const bp_emit *emit, const bp_head *head, bp_ref x, chunk *c)
{
    const uint64_t left = emit->rows - c->first;
    c->rows = left < c->rows ? left : c->rows;
    c->x = bp_ref_at(x, c->first * head->width);
    c->losses = bp_ref_at(emit->losses, c->first);
    c->labels = bp_ref_at(emit->input[BP_INPUT_LABELS], c->first);
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

static bp_ref acquire_bias_part(bp_emit *emit, const bp_head *head, table_part part)
{
    const bp_ref bias = bp_emit_acquire(emit, head->bias, BP_FOR_FORWARD);
    return bp_ref_present(bias) ? bp_ref_at(bias, part.first) : BP_ABSENT;
}

/* logits (rows, part; pitch) = x (rows, width) table^T */
static void emit_logits(bp_emit *emit, const bp_head *head, const chunk *c, table_part part)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)c->rows,
                                       .n = (int64_t)part.rows,
                                       .k = (int64_t)head->width,
                                       .lda = (int64_t)head->width,
                                       .ldb = (int64_t)head->width,
                                       .ldc = (int64_t)c->pitch,
                                       .transpose_b = 1};
    const bp_ref table = bp_emit_acquire(emit, head->table, BP_FOR_FORWARD);
    const bp_matmul_operands operands = {.c = c->logits,
                                         .before = BP_ABSENT,
                                         .a = c->x,
                                         .b = bp_ref_at(table, part.first * head->width),
                                         .bias = acquire_bias_part(emit, head, part),
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    bp_emit_matmul(emit, &operands, &scalars);
    bp_emit_release(emit, head->bias);
    bp_emit_release(emit, head->table);
}

/* d_bias (vocabulary) (+)= column sums of d_logits */
static void emit_bias_gradient(bp_emit *emit, const bp_head *head, const chunk *c)
{
    bp_bias_backward_scalars scalars = {
        .rows = (int64_t)c->rows, .n = (int64_t)head->vocabulary, .pitch = (int64_t)c->pitch};
    const bp_bias_backward_operands operands = {
        .d_bias = bp_emit_gradient(emit, head->bias, &scalars.accumulate), .d_y = c->logits};
    bp_emit_bias_backward(emit, &operands, &scalars);
}

/* d_table (part, width) (+)= d_logits^T x */
static void emit_table_gradient(bp_emit *emit, const bp_head *head, const chunk *c, table_part part,
                                bp_ref gradient, int64_t accumulate)
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
                                         .a = c->logits,
                                         .b = c->x,
                                         .bias = BP_ABSENT,
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    bp_emit_matmul(emit, &operands, &scalars);
}

/* d_x (rows, width) = d_logits table, which may lie over x: nothing reads this chunk of it any
 * more. */
static void emit_input_gradient(bp_emit *emit, const bp_head *head, const chunk *c, bp_ref d_x)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)c->rows,
                                       .n = (int64_t)head->width,
                                       .k = (int64_t)head->vocabulary,
                                       .lda = (int64_t)c->pitch,
                                       .ldb = (int64_t)head->width,
                                       .ldc = (int64_t)head->width};
    const bp_matmul_operands operands = {.c = bp_ref_at(d_x, c->first * head->width),
                                         .before = BP_ABSENT,
                                         .a = c->logits,
                                         .b = bp_emit_acquire(emit, head->table, BP_FOR_BACKWARD),
                                         .bias = BP_ABSENT,
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    bp_emit_matmul(emit, &operands, &scalars);
    bp_emit_release(emit, head->table);
}

void bp_loss_sum(bp_emit *emit)
{
    if (emit->loss_counted) {
        return;
    }
    const bp_loss_sum_scalars scalars = {.rows = (int64_t)emit->rows,
                                         .accumulate = emit->loss_written ? 1 : 0};
    const bp_loss_sum_operands operands = {.result = emit->result, .losses = emit->losses};
    bp_emit_loss_sum(emit, &operands, &scalars);
    emit->loss_written = true;
}

/* Logits that are kept lie row behind row. */
static chunk first_kept_chunk(const bp_emit *emit, uint64_t columns)
{
    return (chunk){.rows = chunk_rows(emit), .pitch = columns, .logits = emit->logits};
}

void bp_loss_forward(bp_emit *emit, const bp_head *head, bp_ref x)
{
    const bool kept = bp_ref_present(emit->logits);
    chunk c = kept ? first_kept_chunk(emit, head->vocabulary) : first_chunk(emit, head->vocabulary);
    for (; c.first < emit->rows; c.first += c.rows) {
        place_chunk(emit, head, x, &c);
        c.logits = kept ? bp_ref_at(emit->logits, c.first * c.pitch) : c.logits;
        emit_logits(emit, head, &c, whole_table(head));
        const bp_cross_entropy_forward_scalars scalars = {.rows = (int64_t)c.rows,
                                                          .vocabulary = (int64_t)head->vocabulary,
                                                          .pitch = (int64_t)c.pitch,
                                                          .smoothing = emit->spec->smoothing};
        const bp_cross_entropy_forward_operands operands = {
            .logits = c.logits, .losses = c.losses, .labels = c.labels};
        bp_emit_cross_entropy_forward(emit, &operands, &scalars);
    }
    bp_loss_sum(emit);
}

static int64_t is_scaled(const bp_emit *emit)
{
    return emit->spec->scaling.kind != BP_SCALING_OFF ? 1 : 0;
}

/* The chunk's logits become their gradient; what later slices need of them is kept when wanted. */
static void emit_loss(bp_emit *emit, const bp_head *head, const chunk *c, bp_ref statistics)
{
    const bool kept = bp_ref_present(statistics);
    const bp_cross_entropy_scalars scalars = {.rows = (int64_t)c->rows,
                                              .vocabulary = (int64_t)head->vocabulary,
                                              .pitch = (int64_t)c->pitch,
                                              .scaled = is_scaled(emit),
                                              .stride = (int64_t)emit->rows,
                                              .smoothing = emit->spec->smoothing};
    const bp_cross_entropy_operands operands = {.logits = c->logits,
                                                .losses = c->losses,
                                                .labels = c->labels,
                                                .step = emit->step,
                                                .control = emit->control,
                                                .statistics = kept ? bp_ref_at(statistics, c->first)
                                                                   : BP_ABSENT};
    bp_emit_cross_entropy(emit, &operands, &scalars);
}

void bp_loss_backward(bp_emit *emit, const bp_head *head, bp_ref x, bp_ref d_x, bp_ref statistics)
{
    const bool table = bp_emit_trainable(emit, head->table) && !bp_ref_present(statistics);
    for (chunk c = first_chunk(emit, head->vocabulary); c.first < emit->rows; c.first += c.rows) {
        place_chunk(emit, head, x, &c);
        emit_logits(emit, head, &c, whole_table(head));
        emit_loss(emit, head, &c, statistics);
        if (table) {
            int64_t accumulate = 0;
            const bp_ref gradient = bp_emit_gradient(emit, head->table, &accumulate);
            emit_table_gradient(emit, head, &c, whole_table(head), gradient, accumulate);
        }
        if (head->bias != BP_NO_PARAMETER && bp_emit_trainable(emit, head->bias)) {
            emit_bias_gradient(emit, head, &c);
        }
        emit_input_gradient(emit, head, &c, d_x);
    }
    bp_loss_sum(emit);
}

void bp_loss_slice(bp_emit *emit, const bp_head *head, const bp_loss_slice_call *call)
{
    const table_part part = {call->first, call->rows};
    for (chunk c = first_chunk(emit, part.rows); c.first < emit->rows; c.first += c.rows) {
        place_chunk(emit, head, call->x, &c);
        emit_logits(emit, head, &c, part);
        const bp_cross_entropy_columns_scalars scalars = {.rows = (int64_t)c.rows,
                                                          .columns = (int64_t)part.rows,
                                                          .pitch = (int64_t)c.pitch,
                                                          .first = (int64_t)part.first,
                                                          .scaled = is_scaled(emit),
                                                          .stride = (int64_t)emit->rows,
                                                          .vocabulary = (int64_t)head->vocabulary,
                                                          .smoothing = emit->spec->smoothing};
        const bp_cross_entropy_columns_operands operands = {
            .logits = c.logits,
            .labels = c.labels,
            .statistics = bp_ref_at(call->statistics, c.first),
            .step = emit->step,
            .control = emit->control};
        bp_emit_cross_entropy_columns(emit, &operands, &scalars);
        const int64_t accumulate = c.first > 0 ? 1 : call->accumulate;
        emit_table_gradient(emit, head, &c, part, call->gradient, accumulate);
    }
}

void bp_loss_slice_of(bp_emit *emit, const bp_head *head, const bp_slice_call *call)
{
    const bp_loss_slice_call part = {.first = call->first,
                                     .rows = call->rows,
                                     .x = call->kept[0],
                                     .statistics = call->kept[1],
                                     .gradient = call->gradient,
                                     .accumulate = call->accumulate};
    bp_loss_slice(emit, head, &part);
}

bp_ref bp_loss_keep(bp_emit *emit, uint64_t width, bp_ref x, bool deferred, bp_ref kept[2])
{
    kept[0] = BP_ABSENT;
    kept[1] = BP_ABSENT;
    if (!deferred) {
        return x;
    }
    kept[0] = x;
    kept[1] = bp_emit_buffer(emit, BP_CLASS_TAPE, BP_F32, 2, emit->rows, "softmax");
    return bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows, width,
                          "d_loss");
}

void bp_head_logits(bp_emit *emit, const bp_head *head, bp_ref x)
{
    const chunk c = {.rows = 1, .pitch = head->vocabulary, .x = x, .logits = emit->logits};
    emit_logits(emit, head, &c, whole_table(head));
}
