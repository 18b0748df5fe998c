/* SPDX-License-Identifier: MIT */
/* Vectors of samples, as ops. */
#include "layers/heads/vector.h"

#include "layers/heads/loss.h"

/* Of the cosines that exist at one time, if rows allow. */
#define SCORES_BYTES ((uint64_t)4 << 20)

/* The vectors of a micro-batch's samples, at their place among `total`. */
static void vector_pool(bp_builder *builder, uint64_t width, uint64_t total, bp_ref x, bp_ref y)
{
    const bp_spec *spec = builder->spec;
    const bp_pool_rows_scalars scalars = {.batch = spec->batch,
                                          .sequence = spec->sequence,
                                          .width = (int64_t)width,
                                          .total = (int64_t)total,
                                          .mode = spec->config.pooling,
                                          .later = total > spec->batch && builder->vectors_written};
    const bp_pool_rows_operands operands = {
        .y = y, .x = x, .lengths = builder->input[BP_INPUT_LENGTHS], .step = builder->step};
    bp_build_pool_rows(builder, &operands, &scalars);
}

static bp_ref vector_make(bp_builder *builder, uint64_t rows, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, rows, width, name);
}

/* A loss over vectors, in the order of kernels.def: those of one meaning together. */
typedef struct contrast {
    uint64_t pairs, kinds, width;
    uint64_t rows; /* anchors of a chunk */
    bool gradient;
    bp_ref units, norms, d_units; /* (texts, pairs, width) */
    bp_ref scores;                /* (rows, kinds * pairs) */
    bp_ref losses;                /* (pairs) */
} contrast;

static contrast contrast_make(bp_builder *builder, uint64_t total, uint64_t width, bool gradient)
{
    const uint64_t texts = builder->spec->texts, pairs = total / texts;
    const uint64_t columns = pairs * (texts - 1);
    const uint64_t fit = SCORES_BYTES / (columns * sizeof(float));
    const uint64_t rows = fit < pairs ? fit : pairs;
    contrast c = {.pairs = pairs,
                  .kinds = texts - 1,
                  .width = width,
                  .rows = rows > 0 ? rows : 1,
                  .gradient = gradient};
    c.units = vector_make(builder, total, width, "units");
    c.norms = vector_make(builder, total, 1, "norms");
    c.d_units = gradient ? vector_make(builder, total, width, "d_units") : BP_ABSENT;
    c.scores = vector_make(builder, c.rows, columns, "scores");
    c.losses = vector_make(builder, pairs, 1, "contrast");
    return c;
}

/* c (m, n; ldc) (+)= op(a) b or a op(b), all of them F32. */
static void contrast_product(bp_builder *builder, const bp_matmul_scalars *scalars, bp_ref c,
                             bp_ref a, bp_ref b)
{
    bp_build_product(builder, c, a, b, scalars);
}

/* The gradients of anchors first .. first + rows - 1, and their part of those of all candidates. */
static void contrast_back(bp_builder *builder, const contrast *c, uint64_t first, uint64_t rows)
{
    const int64_t pairs = (int64_t)c->pairs, width = (int64_t)c->width;
    for (uint64_t k = 0; k < c->kinds; k++) {
        const bp_ref scores = bp_ref_at(c->scores, k * c->pairs);
        const uint64_t candidates = (k + 1) * c->pairs * c->width;
        const bp_matmul_scalars anchors = {.m = (int64_t)rows,
                                           .n = width,
                                           .k = pairs,
                                           .lda = pairs * (int64_t)c->kinds,
                                           .ldb = width,
                                           .ldc = width,
                                           .accumulate = k > 0};
        const bp_matmul_scalars others = {.m = pairs,
                                          .n = width,
                                          .k = (int64_t)rows,
                                          .lda = pairs * (int64_t)c->kinds,
                                          .ldb = width,
                                          .ldc = width,
                                          .transpose_a = 1,
                                          .accumulate = first > 0};
        contrast_product(builder, &anchors, bp_ref_at(c->d_units, first * c->width), scores,
                         bp_ref_at(c->units, candidates));
        contrast_product(builder, &others, bp_ref_at(c->d_units, candidates), scores,
                         bp_ref_at(c->units, first * c->width));
    }
}

/* The losses of anchors first .. first + rows - 1. */
static void contrast_chunk(bp_builder *builder, const contrast *c, uint64_t first, uint64_t rows)
{
    const int64_t width = (int64_t)c->width;
    const bp_matmul_scalars cosines = {.m = (int64_t)rows,
                                       .n = (int64_t)(c->kinds * c->pairs),
                                       .k = width,
                                       .lda = width,
                                       .ldb = width,
                                       .ldc = (int64_t)(c->kinds * c->pairs),
                                       .transpose_b = 1};
    const bp_contrast_loss_scalars loss = {.rows = (int64_t)rows,
                                           .first = (int64_t)first,
                                           .pairs = (int64_t)c->pairs,
                                           .kinds = (int64_t)c->kinds,
                                           .scaled = builder->spec->scaling.kind != BP_SCALING_OFF,
                                           .scale = builder->spec->similarity};
    const bp_contrast_loss_operands operands = {.scores = c->scores,
                                                .losses = bp_ref_at(c->losses, first),
                                                .step = builder->step,
                                                .control = bp_build_loss_control(builder)};
    contrast_product(builder, &cosines, c->scores, bp_ref_at(c->units, first * c->width),
                     bp_ref_at(c->units, c->pairs * c->width));
    bp_build_contrast_loss(builder, &operands, &loss);
    if (c->gradient) {
        contrast_back(builder, c, first, rows);
    }
}

/* The loss of `total` vectors, which with `gradient` become their gradients. */
static void vector_compare(bp_builder *builder, uint64_t total, uint64_t width, bp_ref x,
                           bool gradient)
{
    const contrast c = contrast_make(builder, total, width, gradient);
    const bp_unit_rows_scalars scalars = {(int64_t)c.pairs, (int64_t)c.kinds + 1, (int64_t)width};
    const bp_unit_rows_backward_scalars back = {scalars.pairs, scalars.texts, scalars.width};
    bp_build_unit_rows(builder, &(bp_unit_rows_operands){c.units, c.norms, x, builder->step},
                       &scalars);
    for (uint64_t first = 0; first < c.pairs; first += c.rows) {
        const uint64_t left = c.pairs - first;
        contrast_chunk(builder, &c, first, left < c.rows ? left : c.rows);
    }
    bp_loss_sum_of(builder, c.losses, c.pairs);
    if (gradient) {
        const bp_unit_rows_backward_operands operands = {x, c.d_units, c.units, c.norms,
                                                         builder->step};
        bp_build_unit_rows_backward(builder, &operands, &back);
    }
}

/* No loss for each place: sorted evaluation and sums over rows find zeros. */
static void vector_lose_nothing(bp_builder *builder)
{
    const bp_state_begin_scalars scalars = {.count = (int64_t)builder->rows};
    const bp_state_begin_operands operands = {
        .y = builder->losses, .x = BP_ABSENT, .step = builder->step};
    bp_build_state_begin(builder, &operands, &scalars);
    bp_loss_sum(builder);
}

static uint64_t vector_total(const bp_spec *spec)
{
    return (uint64_t)spec->batch * spec->accumulation;
}

void bp_vector_forward(bp_builder *builder, uint64_t width, bp_ref x)
{
    const uint64_t batch = builder->spec->batch;
    if (bp_ref_present(builder->vectors)) {
        vector_pool(builder, width, vector_total(builder->spec), x, builder->vectors);
        return;
    }
    const bp_ref y = bp_ref_present(builder->logits)
                         ? builder->logits
                         : vector_make(builder, batch, width, "vectors");
    vector_pool(builder, width, batch, x, y);
    if (builder->spec->texts > 1) {
        vector_compare(builder, batch, width, y, false);
    } else {
        vector_lose_nothing(builder);
    }
}

bp_ref bp_vector_backward(bp_builder *builder, uint64_t width, bp_ref x)
{
    const bp_spec *spec = builder->spec;
    const bool kept = bp_ref_present(builder->vectors);
    const uint64_t total = kept ? vector_total(spec) : spec->batch;
    bp_ref d = builder->vectors;
    if (!kept) {
        d = vector_make(builder, total, width, "vectors");
        vector_pool(builder, width, total, x, d);
        vector_compare(builder, total, width, d, true);
    }
    const bp_pool_rows_backward_scalars scalars = {.batch = spec->batch,
                                                   .sequence = spec->sequence,
                                                   .width = (int64_t)width,
                                                   .total = (int64_t)total,
                                                   .mode = spec->config.pooling};
    const bp_pool_rows_backward_operands operands = {
        .d_x = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                               builder->rows, width, "d_tokens"),
        .d_y = d,
        .lengths = builder->input[BP_INPUT_LENGTHS],
        .step = builder->step};
    bp_build_pool_rows_backward(builder, &operands, &scalars);
    return operands.d_x;
}

void bp_vector_contrast(bp_builder *builder)
{
    builder->loss_written = false;
    vector_compare(builder, vector_total(builder->spec), builder->spec->config.classes,
                   builder->vectors, true);
}

bp_status bp_vector_check(const bp_spec *spec, uint64_t width, const char *family, bp_error *error)
{
    if (spec->config.task == BP_TASK_EMBEDDING && spec->config.classes != width) {
        return bp_error_limit(error, BP_ERR_USAGE, family,
                              "vectors of samples are as wide as those of tokens", "num-labels",
                              spec->config.classes, BP_LIMIT_EXACT, (int64_t)width);
    }
    return BP_OK;
}
