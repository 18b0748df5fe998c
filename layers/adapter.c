/* SPDX-License-Identifier: MIT */
/* Adapters as ops. What has r columns is small, so backward makes it again. */
#include "layers/adapter.h"

#include "core/compile/adapter.h"
#include "layers/dropout.h"

#define SITES 0x80000u /* adapters' dropout sites come behind all of a model's */

static uint32_t a_of(const bp_emit *emit, const bp_adapted *layer)
{
    return emit->parameters[layer->weight].adapter;
}

static int64_t rank_of(const bp_emit *emit, const bp_adapted *layer)
{
    return (int64_t)emit->parameters[a_of(emit, layer)].shape[0];
}

static bp_dropout dropout_of(const bp_emit *emit, const bp_adapted *layer)
{
    return (bp_dropout){SITES + layer->weight, layer->dropped ? 0.0 : emit->spec->lora.dropout};
}

bool bp_adapter_drops(const bp_emit *emit, const bp_adapted *layer)
{
    const bp_dropout dropout = dropout_of(emit, layer);
    return bp_dropout_probability(emit, &dropout) > 0.0;
}

bool bp_adapter_there(const bp_emit *emit, uint32_t weight)
{
    const bp_parameter *p = &emit->parameters[weight];
    return emit->status == BP_OK && p->adapter != BP_NO_PARAMETER;
}

bool bp_adapter_trains(const bp_emit *emit, uint32_t weight)
{
    const uint32_t a = emit->parameters[weight].adapter;
    return bp_emit_trainable(emit, a) || bp_emit_trainable(emit, a + 1) ||
           (emit->spec->lora.magnitudes && bp_emit_trainable(emit, a + 2));
}

bool bp_adapter_magnitudes(const bp_emit *emit, uint32_t weight)
{
    return emit->spec->lora.magnitudes && bp_adapter_there(emit, weight);
}

/* A product that reads the matrix of an adapter. */
static void product_with(bp_emit *emit, bp_ref c, bp_ref a, uint32_t matrix, bp_purpose purpose,
                         const bp_matmul_scalars *scalars)
{
    bp_emit_product(emit, c, a, bp_emit_acquire(emit, matrix, purpose), scalars);
    bp_emit_release(emit, matrix);
}

static bp_ref narrow_buffer(bp_emit *emit, const bp_adapted *layer, const char *name)
{
    return bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows,
                          (uint64_t)rank_of(emit, layer), name);
}

static void apply_scale(bp_emit *emit, const bp_adapted *layer, bp_ref u)
{
    const double factor = bp_adapter_scale(&emit->spec->lora, bp_adapter_part(emit, layer->weight));
    if (factor == 1.0) {
        return;
    }
    const bp_scale_scalars scalars = {.count = (int64_t)emit->rows * rank_of(emit, layer),
                                      .factor = factor};
    const bp_scale_operands operands = {.y = u, .x = u};
    bp_emit_scale(emit, &operands, &scalars);
}

bp_ref bp_adapter_dropped(bp_emit *emit, const bp_adapted *layer, bp_ref x)
{
    const bp_dropout dropout = dropout_of(emit, layer);
    if (!bp_adapter_drops(emit, layer)) {
        return x;
    }
    const bp_ref y = bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows,
                                    layer->in, "lora_dropped");
    bp_dropout_apply(emit, &dropout, layer->in, x, BP_ABSENT, y);
    return y;
}

void bp_adapter_undropped(bp_emit *emit, const bp_adapted *layer, bp_ref x, bp_ref residual,
                          bp_ref y)
{
    const bp_dropout dropout = dropout_of(emit, layer);
    bp_dropout_apply(emit, &dropout, layer->in, x, residual, y);
}

/* s x A^T (rows, r) */
static bp_ref squeeze(bp_emit *emit, const bp_adapted *layer, bp_ref x)
{
    const bp_ref u = narrow_buffer(emit, layer, "lora_u");
    const int64_t in = (int64_t)layer->in, rank = rank_of(emit, layer);
    product_with(emit, u, x, a_of(emit, layer), BP_FOR_FORWARD,
                 &(bp_matmul_scalars){.m = (int64_t)emit->rows,
                                      .n = rank,
                                      .k = in,
                                      .lda = in,
                                      .ldb = in,
                                      .ldc = rank,
                                      .transpose_b = 1});
    apply_scale(emit, layer, u);
    return u;
}

/* s d_y B (rows, r) */
static bp_ref squeeze_gradient(bp_emit *emit, const bp_adapted *layer, bp_ref d_y)
{
    const bp_ref d_u = narrow_buffer(emit, layer, "lora_d_u");
    const int64_t rank = rank_of(emit, layer);
    product_with(emit, d_u, d_y, a_of(emit, layer) + 1, BP_FOR_BACKWARD,
                 &(bp_matmul_scalars){.m = (int64_t)emit->rows,
                                      .n = rank,
                                      .k = (int64_t)layer->out,
                                      .lda = (int64_t)layer->pitch,
                                      .ldb = rank,
                                      .ldc = rank});
    apply_scale(emit, layer, d_u);
    return d_u;
}

void bp_adapter_forward(bp_emit *emit, const bp_adapted *layer, bp_ref x, bp_ref y, bool add)
{
    const bp_ref u = squeeze(emit, layer, bp_adapter_dropped(emit, layer, x));
    const int64_t rank = rank_of(emit, layer);
    product_with(emit, y, u, a_of(emit, layer) + 1, BP_FOR_FORWARD,
                 &(bp_matmul_scalars){.m = (int64_t)emit->rows,
                                      .n = (int64_t)layer->out,
                                      .k = rank,
                                      .lda = rank,
                                      .ldb = rank,
                                      .ldc = (int64_t)layer->pitch,
                                      .transpose_b = 1,
                                      .accumulate = add});
}

/* gradient (m, n) (+)= left^T right over all rows */
static void outer(bp_emit *emit, uint32_t parameter, bp_ref left, uint64_t m, uint64_t left_pitch,
                  bp_ref right, uint64_t n)
{
    bp_matmul_scalars scalars = {.m = (int64_t)m,
                                 .n = (int64_t)n,
                                 .k = (int64_t)emit->rows,
                                 .lda = (int64_t)left_pitch,
                                 .ldb = (int64_t)n,
                                 .ldc = (int64_t)n,
                                 .transpose_a = 1};
    const bp_ref gradient = bp_emit_gradient(emit, parameter, &scalars.accumulate);
    bp_emit_product(emit, gradient, left, right, &scalars);
}

void bp_adapter_backward_parameters(bp_emit *emit, const bp_adapted *layer, bp_ref x, bp_ref d_y)
{
    const uint32_t a = a_of(emit, layer);
    const uint64_t rank = (uint64_t)rank_of(emit, layer);
    const bool trains_a = bp_emit_trainable(emit, a), trains_b = bp_emit_trainable(emit, a + 1);
    if (!trains_a && !trains_b) {
        return;
    }
    const bp_ref read = bp_adapter_dropped(emit, layer, x);
    if (trains_b) {
        outer(emit, a + 1, d_y, layer->out, layer->pitch, squeeze(emit, layer, read), rank);
    }
    if (trains_a) {
        outer(emit, a, squeeze_gradient(emit, layer, d_y), rank, rank, read, layer->in);
    }
}

void bp_adapter_backward_input(bp_emit *emit, const bp_adapted *layer, bp_ref d_y, bp_ref d_x)
{
    const bp_ref d_u = squeeze_gradient(emit, layer, d_y);
    const bool drops = bp_adapter_drops(emit, layer);
    const bp_ref d = drops ? bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit),
                                            emit->rows, layer->in, "lora_d_dropped")
                           : d_x;
    const int64_t rank = rank_of(emit, layer), in = (int64_t)layer->in;
    product_with(emit, d, d_u, a_of(emit, layer), BP_FOR_BACKWARD,
                 &(bp_matmul_scalars){.m = (int64_t)emit->rows,
                                      .n = in,
                                      .k = rank,
                                      .lda = rank,
                                      .ldb = in,
                                      .ldc = in,
                                      .accumulate = drops ? 0 : 1});
    if (drops) {
        bp_adapter_undropped(emit, layer, d, d_x, d_x);
    }
}
