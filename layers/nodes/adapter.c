/* SPDX-License-Identifier: MIT */
/* Adapters as ops. What has r columns is small, so backward makes it again. */
#include "layers/nodes/adapter.h"

#include "core/plan/adapter.h"
#include "layers/nodes/dropout.h"

#define SITES 0x80000u /* adapters' dropout sites come behind all of a model's */

static uint32_t a_of(const bp_builder *builder, const bp_adapted *layer)
{
    return builder->parameters[layer->weight].adapter;
}

static int64_t rank_of(const bp_builder *builder, const bp_adapted *layer)
{
    return (int64_t)builder->parameters[a_of(builder, layer)].shape[0];
}

static bp_dropout dropout_of(const bp_builder *builder, const bp_adapted *layer)
{
    return (bp_dropout){SITES + layer->weight, layer->dropped ? 0.0 : builder->spec->lora.dropout};
}

bool bp_adapter_drops(const bp_builder *builder, const bp_adapted *layer)
{
    const bp_dropout dropout = dropout_of(builder, layer);
    return bp_dropout_probability(builder, &dropout) > 0.0;
}

bool bp_adapter_there(const bp_builder *builder, uint32_t weight)
{
    const bp_parameter *p = &builder->parameters[weight];
    return builder->status == BP_OK && p->adapter != BP_NO_PARAMETER;
}

bool bp_adapter_trains(const bp_builder *builder, uint32_t weight)
{
    const uint32_t a = builder->parameters[weight].adapter;
    return bp_build_trainable(builder, a) || bp_build_trainable(builder, a + 1) ||
           (builder->spec->lora.magnitudes && bp_build_trainable(builder, a + 2));
}

bool bp_adapter_magnitudes(const bp_builder *builder, uint32_t weight)
{
    return builder->spec->lora.magnitudes && bp_adapter_there(builder, weight);
}

/* A product that reads the matrix of an adapter. */
static void product_with(bp_builder *builder, bp_ref c, bp_ref a, uint32_t matrix,
                         bp_purpose purpose, const bp_matmul_scalars *scalars)
{
    bp_build_product(builder, c, a, bp_build_acquire(builder, matrix, purpose), scalars);
    bp_build_release(builder, matrix);
}

bp_ref bp_adapter_narrow(bp_builder *builder, const bp_adapted *layer, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), builder->rows,
                           (uint64_t)rank_of(builder, layer), name);
}

void bp_adapter_apply_scale(bp_builder *builder, const bp_adapted *layer, bp_ref u)
{
    const double factor =
        bp_adapter_scale(&builder->spec->lora, bp_adapter_part(builder, layer->weight));
    if (factor == 1.0) {
        return;
    }
    const bp_scale_scalars scalars = {.count = (int64_t)builder->rows * rank_of(builder, layer),
                                      .factor = factor};
    const bp_scale_operands operands = {.y = u, .x = u};
    bp_build_scale(builder, &operands, &scalars);
}

bp_ref bp_adapter_dropped(bp_builder *builder, const bp_adapted *layer, bp_ref x)
{
    const bp_dropout dropout = dropout_of(builder, layer);
    if (!bp_adapter_drops(builder, layer)) {
        return x;
    }
    const bp_ref y = bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                     builder->rows, layer->in, "lora_dropped");
    bp_dropout_apply(builder, &dropout, layer->in, x, BP_ABSENT, y);
    return y;
}

void bp_adapter_undropped(bp_builder *builder, const bp_adapted *layer, bp_ref x, bp_ref residual,
                          bp_ref y)
{
    const bp_dropout dropout = dropout_of(builder, layer);
    bp_dropout_apply(builder, &dropout, layer->in, x, residual, y);
}

void bp_adapter_project(bp_builder *builder, const bp_adapted *layer, bp_ref x, bp_ref u)
{
    const int64_t in = (int64_t)layer->in, rank = rank_of(builder, layer);
    product_with(builder, u, x, a_of(builder, layer), BP_FOR_FORWARD,
                 &(bp_matmul_scalars){.m = (int64_t)builder->rows,
                                      .n = rank,
                                      .k = in,
                                      .lda = in,
                                      .ldb = in,
                                      .ldc = rank,
                                      .transpose_b = 1});
}

/* s x A^T (rows, r) */
static bp_ref project_down(bp_builder *builder, const bp_adapted *layer, bp_ref x)
{
    const bp_ref u = bp_adapter_narrow(builder, layer, "lora_u");
    bp_adapter_project(builder, layer, x, u);
    bp_adapter_apply_scale(builder, layer, u);
    return u;
}

bp_ref bp_adapter_project_gradient(bp_builder *builder, const bp_adapted *layer, bp_ref d_y)
{
    const bp_ref d_u = bp_adapter_narrow(builder, layer, "lora_d_u");
    const int64_t rank = rank_of(builder, layer);
    product_with(builder, d_u, d_y, a_of(builder, layer) + 1, BP_FOR_BACKWARD,
                 &(bp_matmul_scalars){.m = (int64_t)builder->rows,
                                      .n = rank,
                                      .k = (int64_t)layer->out,
                                      .lda = (int64_t)layer->pitch,
                                      .ldb = rank,
                                      .ldc = rank});
    bp_adapter_apply_scale(builder, layer, d_u);
    return d_u;
}

void bp_adapter_spread(bp_builder *builder, const bp_adapted *layer, bp_ref u, bp_ref y, bool add)
{
    const int64_t rank = rank_of(builder, layer);
    product_with(builder, y, u, a_of(builder, layer) + 1, BP_FOR_FORWARD,
                 &(bp_matmul_scalars){.m = (int64_t)builder->rows,
                                      .n = (int64_t)layer->out,
                                      .k = rank,
                                      .lda = rank,
                                      .ldb = rank,
                                      .ldc = (int64_t)layer->pitch,
                                      .transpose_b = 1,
                                      .accumulate = add});
}

void bp_adapter_forward(bp_builder *builder, const bp_adapted *layer, bp_ref x, bp_ref y, bool add)
{
    const bp_ref u = project_down(builder, layer, bp_adapter_dropped(builder, layer, x));
    bp_adapter_spread(builder, layer, u, y, add);
}

void bp_adapter_outer_a(bp_builder *builder, const bp_adapted *layer, bp_ref d_u, bp_ref x,
                        bp_ref d_a, int64_t accumulate)
{
    const int64_t in = (int64_t)layer->in, rank = rank_of(builder, layer);
    const bp_matmul_scalars scalars = {.m = rank,
                                       .n = in,
                                       .k = (int64_t)builder->rows,
                                       .lda = rank,
                                       .ldb = in,
                                       .ldc = in,
                                       .transpose_a = 1,
                                       .accumulate = accumulate};
    bp_build_product(builder, d_a, d_u, x, &scalars);
}

void bp_adapter_backward_b(bp_builder *builder, const bp_adapted *layer, bp_ref d_y, bp_ref u)
{
    const int64_t rank = rank_of(builder, layer);
    bp_matmul_scalars scalars = {.m = (int64_t)layer->out,
                                 .n = rank,
                                 .k = (int64_t)builder->rows,
                                 .lda = (int64_t)layer->pitch,
                                 .ldb = rank,
                                 .ldc = rank,
                                 .transpose_a = 1};
    const bp_ref d_b = bp_build_gradient(builder, a_of(builder, layer) + 1, &scalars.accumulate);
    bp_build_product(builder, d_b, d_y, u, &scalars);
}

bp_ref bp_adapter_backward_parameters(bp_builder *builder, const bp_adapted *layer, bp_ref x,
                                      bp_ref d_y)
{
    const uint32_t a = a_of(builder, layer);
    const bool trains_a = bp_build_trainable(builder, a),
               trains_b = bp_build_trainable(builder, a + 1);
    if (!trains_a && !trains_b) {
        return BP_ABSENT;
    }
    const bp_ref read = bp_adapter_dropped(builder, layer, x);
    bp_ref d_u = BP_ABSENT;
    if (trains_b) {
        bp_adapter_backward_b(builder, layer, d_y, project_down(builder, layer, read));
    }
    if (trains_a) {
        int64_t accumulate = 0;
        d_u = bp_adapter_project_gradient(builder, layer, d_y);
        const bp_ref d_a = bp_build_gradient(builder, a, &accumulate);
        bp_adapter_outer_a(builder, layer, d_u, read, d_a, accumulate);
    }
    return d_u;
}

void bp_adapter_widen(bp_builder *builder, const bp_adapted *layer, bp_ref d_u, bp_ref d_x,
                      bool add)
{
    const int64_t rank = rank_of(builder, layer), in = (int64_t)layer->in;
    product_with(builder, d_x, d_u, a_of(builder, layer), BP_FOR_BACKWARD,
                 &(bp_matmul_scalars){.m = (int64_t)builder->rows,
                                      .n = in,
                                      .k = rank,
                                      .lda = rank,
                                      .ldb = in,
                                      .ldc = in,
                                      .accumulate = add});
}

void bp_adapter_backward_input(bp_builder *builder, const bp_adapted *layer, bp_ref d_y, bp_ref d_u,
                               bp_ref d_x)
{
    if (!bp_ref_present(d_u)) {
        d_u = bp_adapter_project_gradient(builder, layer, d_y);
    }
    const bool drops = bp_adapter_drops(builder, layer);
    const bp_ref d = drops ? bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                             builder->rows, layer->in, "lora_d_dropped")
                           : d_x;
    bp_adapter_widen(builder, layer, d_u, d, !drops);
    if (drops) {
        bp_adapter_undropped(builder, layer, d, d_x, d_x);
    }
}
