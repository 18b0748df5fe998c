/* SPDX-License-Identifier: MIT */
/* Adapters as ops. What has r columns is small, so backward makes it again. */
#include "layers/nodes/adapter.h"

#include "core/plan/adapter.h"
#include "layers/nodes/dropout.h"

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

bp_ref bp_adapter_narrow(bp_emit *emit, const bp_adapted *layer, const char *name)
{
    return bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows,
                          (uint64_t)rank_of(emit, layer), name);
}

void bp_adapter_apply_scale(bp_emit *emit, const bp_adapted *layer, bp_ref u)
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

void bp_adapter_squeeze(bp_emit *emit, const bp_adapted *layer, bp_ref x, bp_ref u)
{
    const int64_t in = (int64_t)layer->in, rank = rank_of(emit, layer);
    product_with(emit, u, x, a_of(emit, layer), BP_FOR_FORWARD,
                 &(bp_matmul_scalars){.m = (int64_t)emit->rows,
                                      .n = rank,
                                      .k = in,
                                      .lda = in,
                                      .ldb = in,
                                      .ldc = rank,
                                      .transpose_b = 1});
}

/* s x A^T (rows, r) */
static bp_ref squeeze(bp_emit *emit, const bp_adapted *layer, bp_ref x)
{
    const bp_ref u = bp_adapter_narrow(emit, layer, "lora_u");
    bp_adapter_squeeze(emit, layer, x, u);
    bp_adapter_apply_scale(emit, layer, u);
    return u;
}

bp_ref bp_adapter_squeeze_gradient(bp_emit *emit, const bp_adapted *layer, bp_ref d_y)
{
    const bp_ref d_u = bp_adapter_narrow(emit, layer, "lora_d_u");
    const int64_t rank = rank_of(emit, layer);
    product_with(emit, d_u, d_y, a_of(emit, layer) + 1, BP_FOR_BACKWARD,
                 &(bp_matmul_scalars){.m = (int64_t)emit->rows,
                                      .n = rank,
                                      .k = (int64_t)layer->out,
                                      .lda = (int64_t)layer->pitch,
                                      .ldb = rank,
                                      .ldc = rank});
    bp_adapter_apply_scale(emit, layer, d_u);
    return d_u;
}

void bp_adapter_spread(bp_emit *emit, const bp_adapted *layer, bp_ref u, bp_ref y, bool add)
{
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

void bp_adapter_forward(bp_emit *emit, const bp_adapted *layer, bp_ref x, bp_ref y, bool add)
{
    const bp_ref u = squeeze(emit, layer, bp_adapter_dropped(emit, layer, x));
    bp_adapter_spread(emit, layer, u, y, add);
}

void bp_adapter_outer_a(bp_emit *emit, const bp_adapted *layer, bp_ref d_u, bp_ref x, bp_ref d_a,
                        int64_t accumulate)
{
    const int64_t in = (int64_t)layer->in, rank = rank_of(emit, layer);
    const bp_matmul_scalars scalars = {.m = rank,
                                       .n = in,
                                       .k = (int64_t)emit->rows,
                                       .lda = rank,
                                       .ldb = in,
                                       .ldc = in,
                                       .transpose_a = 1,
                                       .accumulate = accumulate};
    bp_emit_product(emit, d_a, d_u, x, &scalars);
}

void bp_adapter_backward_b(bp_emit *emit, const bp_adapted *layer, bp_ref d_y, bp_ref u)
{
    const int64_t rank = rank_of(emit, layer);
    bp_matmul_scalars scalars = {.m = (int64_t)layer->out,
                                 .n = rank,
                                 .k = (int64_t)emit->rows,
                                 .lda = (int64_t)layer->pitch,
                                 .ldb = rank,
                                 .ldc = rank,
                                 .transpose_a = 1};
    const bp_ref d_b = bp_emit_gradient(emit, a_of(emit, layer) + 1, &scalars.accumulate);
    bp_emit_product(emit, d_b, d_y, u, &scalars);
}

void bp_adapter_backward_parameters(bp_emit *emit, const bp_adapted *layer, bp_ref x, bp_ref d_y)
{
    const uint32_t a = a_of(emit, layer);
    const bool trains_a = bp_emit_trainable(emit, a), trains_b = bp_emit_trainable(emit, a + 1);
    if (!trains_a && !trains_b) {
        return;
    }
    const bp_ref read = bp_adapter_dropped(emit, layer, x);
    if (trains_b) {
        bp_adapter_backward_b(emit, layer, d_y, squeeze(emit, layer, read));
    }
    if (trains_a) {
        int64_t accumulate = 0;
        const bp_ref d_u = bp_adapter_squeeze_gradient(emit, layer, d_y);
        const bp_ref d_a = bp_emit_gradient(emit, a, &accumulate);
        bp_adapter_outer_a(emit, layer, d_u, read, d_a, accumulate);
    }
}

void bp_adapter_widen(bp_emit *emit, const bp_adapted *layer, bp_ref d_u, bp_ref d_x, bool add)
{
    const int64_t rank = rank_of(emit, layer), in = (int64_t)layer->in;
    product_with(emit, d_x, d_u, a_of(emit, layer), BP_FOR_BACKWARD,
                 &(bp_matmul_scalars){.m = (int64_t)emit->rows,
                                      .n = in,
                                      .k = rank,
                                      .lda = rank,
                                      .ldb = in,
                                      .ldc = in,
                                      .accumulate = add});
}

void bp_adapter_backward_input(bp_emit *emit, const bp_adapted *layer, bp_ref d_y, bp_ref d_x)
{
    const bp_ref d_u = bp_adapter_squeeze_gradient(emit, layer, d_y);
    const bool drops = bp_adapter_drops(emit, layer);
    const bp_ref d = drops ? bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit),
                                            emit->rows, layer->in, "lora_d_dropped")
                           : d_x;
    bp_adapter_widen(emit, layer, d_u, d, !drops);
    if (drops) {
        bp_adapter_undropped(emit, layer, d, d_x, d_x);
    }
}
