/* SPDX-License-Identifier: MIT */
/* Vectors of samples, as ops. */
#include "layers/heads/vector.h"

#include <math.h>

#include "core/plan/range.h"
#include "layers/heads/classifier.h"
#include "layers/heads/loss.h"
#include "layers/nodes/activate.h"
#include "layers/nodes/publish.h"

/* Of the cosines that exist at one time, if rows allow. */
#define SCORES_BYTES ((uint64_t)4 << 20)

uint32_t bp_vector_parameters(const bp_model_config *config)
{
    uint32_t count = 0;
    for (uint32_t i = 0; config->task == BP_TASK_EMBEDDING && i < config->dense_count; i++) {
        count += config->dense[i].bias ? 2u : 1u;
    }
    return count;
}

void bp_vector_publish(bp_builder *builder, const bp_model_config *config, uint64_t width)
{
    uint64_t in = width;
    for (uint32_t i = 0; config->task == BP_TASK_EMBEDDING && i < config->dense_count; i++) {
        const bp_vector_dense *dense = &config->dense[i];
        const double deviation = 1.0 / sqrt((double)in);
        const bp_publish_row weight = {"weight", {dense->width, in}, BP_INIT_NORMAL, deviation};
        const bp_publish_row bias = {"bias", {dense->width, 0}, BP_INIT_ZEROS, 0.0};
        char prefix[BP_NAME_BYTES];
        bp_name_append(bp_name_append_number(prefix, 2 + i), "_Dense.linear.");
        bp_publish_head(builder, prefix, &weight, BP_HEAD_OUTPUT);
        if (dense->bias) {
            bp_publish_head(builder, prefix, &bias, BP_HEAD_OUTPUT);
        }
        in = dense->width;
    }
}

/* The dense layers and what goes through them, a row a sample. */
typedef struct vector_chain {
    uint32_t count;
    bool tanh[BP_VECTOR_DENSE_MAX];
    bp_linear linear[BP_VECTOR_DENSE_MAX];
    bp_ref x[BP_VECTOR_DENSE_MAX + 1];  /* what each reads, and the last one's output */
    bp_ref before[BP_VECTOR_DENSE_MAX]; /* what tanh reads */
} vector_chain;

static bp_sample_part vector_part(const bp_model_config *config)
{
    return config->pooling == BP_POOLING_CLS    ? BP_SAMPLE_FIRST
           : config->pooling == BP_POOLING_LAST ? BP_SAMPLE_LAST
                                                : BP_SAMPLE_MEAN;
}

static bp_ref vector_row(bp_builder *builder, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                           builder->spec->batch, width, name);
}

/* The last row of the chain, from tokens x (rows, width). */
static vector_chain vector_dense(bp_builder *builder, uint64_t width, bp_ref x)
{
    const bp_model_config *config = &builder->spec->config;
    uint32_t parameter =
        builder->spec->model->parameter_count(config) - bp_vector_parameters(config);
    uint64_t in = width;
    vector_chain c = {.count = config->dense_count};
    c.x[0] = bp_sample_pick(builder, width, vector_part(config), x);
    bp_samples_begin(builder);
    for (uint32_t i = 0; i < c.count; i++) {
        const bp_vector_dense *dense = &config->dense[i];
        c.linear[i] = (bp_linear){.weight = parameter,
                                  .bias = dense->bias ? parameter + 1 : BP_NO_PARAMETER,
                                  .in = in,
                                  .out = dense->width,
                                  .output_major = true};
        c.tanh[i] = dense->tanh;
        c.before[i] = vector_row(builder, dense->width, "dense");
        c.x[i + 1] = dense->tanh ? vector_row(builder, dense->width, "tanh") : c.before[i];
        bp_linear_forward(builder, &c.linear[i], c.x[i], BP_ABSENT, c.before[i]);
        if (dense->tanh) {
            bp_activate(builder, BP_ACTIVATION_TANH, builder->rows * dense->width, c.before[i],
                        c.x[i + 1]);
        }
        parameter += dense->bias ? 2u : 1u;
        in = dense->width;
    }
    bp_samples_end(builder);
    return c;
}

/* The gradient (rows, width) of tokens from that of the chain's last row. */
static bp_ref vector_dense_backward(bp_builder *builder, const vector_chain *c, bp_ref d)
{
    const uint64_t width = c->linear[0].in;
    bp_samples_begin(builder);
    for (uint32_t i = c->count; i-- > 0;) {
        const bp_linear *linear = &c->linear[i];
        if (c->tanh[i]) {
            bp_activate_backward(builder, BP_ACTIVATION_TANH, builder->rows * linear->out,
                                 c->before[i], d, d);
        }
        bp_linear_backward_parameters(builder, linear, c->x[i], d);
        const bp_ref d_x = vector_row(builder, linear->in, "d_dense");
        bp_linear_backward_input(builder, linear, d, d_x);
        d = d_x;
    }
    bp_samples_end(builder);
    return bp_sample_spread(builder, width, vector_part(&builder->spec->config), d);
}

/* The vectors of a micro-batch's samples, at their place among `total`: pooled of tokens, or the
 * rows x (batch, width) as they are. */
static void vector_pool(bp_builder *builder, bool rows, uint64_t total, bp_ref x, bp_ref y)
{
    const bp_spec *spec = builder->spec;
    const uint64_t width = spec->config.classes;
    const bp_pool_rows_scalars scalars = {.batch = spec->batch,
                                          .sequence = rows ? 1 : spec->sequence,
                                          .width = (int64_t)width,
                                          .total = (int64_t)total,
                                          .mode = rows ? BP_POOLING_CLS : spec->config.pooling,
                                          .later = total > spec->batch && builder->vectors_written};
    const bp_pool_rows_operands operands = {.y = y,
                                            .x = x,
                                            .lengths =
                                                rows ? BP_ABSENT : builder->input[BP_INPUT_LENGTHS],
                                            .step = builder->step};
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

/* Evaluates what is pooled, or rows. */
static void vector_forward(bp_builder *builder, bool rows, bp_ref x)
{
    const uint64_t batch = builder->spec->batch, out = builder->spec->config.classes;
    if (bp_ref_present(builder->vectors)) {
        vector_pool(builder, rows, vector_total(builder->spec), x, builder->vectors);
        return;
    }
    const bp_ref y = bp_ref_present(builder->logits) ? builder->logits
                                                     : vector_make(builder, batch, out, "vectors");
    vector_pool(builder, rows, batch, x, y);
    if (builder->spec->texts > 1) {
        vector_compare(builder, batch, out, y, false);
    } else {
        vector_lose_nothing(builder);
    }
}

void bp_vector_forward(bp_builder *builder, uint64_t width, bp_ref x)
{
    const bool dense = builder->spec->config.dense_count > 0;
    if (dense) {
        const vector_chain c = vector_dense(builder, width, x);
        x = c.x[c.count];
    }
    vector_forward(builder, dense, x);
}

void bp_vector_rows_forward(bp_builder *builder, bp_ref y)
{
    vector_forward(builder, true, y);
}

/* The gradient of what was pooled: tokens, or rows of samples. */
static bp_ref vector_spread(bp_builder *builder, bool rows, uint64_t total, bp_ref d)
{
    const bp_spec *spec = builder->spec;
    const uint64_t width = spec->config.classes;
    const bp_pool_rows_backward_scalars scalars = {.batch = spec->batch,
                                                   .sequence = rows ? 1 : spec->sequence,
                                                   .width = (int64_t)width,
                                                   .total = (int64_t)total,
                                                   .mode = rows ? BP_POOLING_CLS
                                                                : spec->config.pooling};
    const bp_pool_rows_backward_operands operands = {
        .d_x = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                               rows ? spec->batch : builder->rows, width,
                               rows ? "d_vectors" : "d_tokens"),
        .d_y = d,
        .lengths = rows ? BP_ABSENT : builder->input[BP_INPUT_LENGTHS],
        .step = builder->step};
    bp_build_pool_rows_backward(builder, &operands, &scalars);
    return operands.d_x;
}

/* The gradient of what is pooled, or of rows. */
static bp_ref vector_backward(bp_builder *builder, bool rows, bp_ref x)
{
    const bp_spec *spec = builder->spec;
    const bool kept = bp_ref_present(builder->vectors);
    const uint64_t total = kept ? vector_total(spec) : spec->batch, out = spec->config.classes;
    bp_ref d = builder->vectors;
    if (!kept) {
        d = vector_make(builder, total, out, "vectors");
        vector_pool(builder, rows, total, x, d);
        vector_compare(builder, total, out, d, true);
    }
    return vector_spread(builder, rows, total, d);
}

bp_ref bp_vector_backward(bp_builder *builder, uint64_t width, bp_ref x)
{
    const bool dense = builder->spec->config.dense_count > 0;
    vector_chain c = {.count = 0};
    if (dense) {
        c = vector_dense(builder, width, x);
        x = c.x[c.count];
    }
    const bp_ref d_x = vector_backward(builder, dense, x);
    return dense ? vector_dense_backward(builder, &c, d_x) : d_x;
}

bp_ref bp_vector_rows_backward(bp_builder *builder, bp_ref y)
{
    return vector_backward(builder, true, y);
}

void bp_vector_contrast(bp_builder *builder)
{
    builder->loss_written = false;
    vector_compare(builder, vector_total(builder->spec), builder->spec->config.classes,
                   builder->vectors, true);
}

bp_status bp_vector_check(const bp_spec *spec, uint64_t width, const char *family, bp_error *error)
{
    const bp_model_config *config = &spec->config;
    if (config->task != BP_TASK_EMBEDDING) {
        return BP_OK;
    }
    if (config->dense_count > 0 &&
        (config->pooling == BP_POOLING_SQRT || config->pooling == BP_POOLING_WEIGHTED)) {
        return bp_error_set(error, BP_ERR_USAGE, family,
                            "Dense modules are implemented behind the mean, the first and the last "
                            "token alone",
                            "pooling");
    }
    const bp_range counts = {"dense_count", config->dense_count, 0, BP_VECTOR_DENSE_MAX};
    BP_TRY(bp_ranges_check(&counts, 1, family, error));
    for (uint32_t i = 0; i < config->dense_count; i++) {
        const bp_range out = {"out_features", config->dense[i].width, 1, 1u << 20};
        BP_TRY(bp_ranges_check(&out, 1, family, error));
        width = config->dense[i].width;
    }
    return config->classes == width
               ? BP_OK
               : bp_error_limit(error, BP_ERR_USAGE, family,
                                "vectors of samples are as wide as those of tokens, or as the last "
                                "Dense module's",
                                "num-labels", config->classes, BP_LIMIT_EXACT, (int64_t)width);
}
