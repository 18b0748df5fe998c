/* SPDX-License-Identifier: MIT */
/* Dense layers as matrix products; bias, GELU and the residual ride in the product's epilogue. */
#include "layers/nodes/linear.h"

#include "core/plan/adapter.h"
#include "layers/nodes/adapter.h"
#include "layers/nodes/magnitude.h"

static int64_t pitch_of(const bp_linear *layer)
{
    return (int64_t)(layer->pitch != 0 ? layer->pitch : layer->out);
}

/* Elements from row to row of the stored weight. */
static int64_t weight_pitch(const bp_linear *layer)
{
    return (int64_t)(layer->output_major ? layer->in : layer->out);
}

static void release_layer(bp_emit *emit, const bp_linear *layer)
{
    bp_emit_release(emit, layer->bias);
    bp_emit_release(emit, layer->weight);
}

static bp_adapted adapted(const bp_linear *layer)
{
    return (bp_adapted){.weight = layer->weight,
                        .in = layer->in,
                        .out = layer->out,
                        .pitch = (uint64_t)pitch_of(layer)};
}

static bool has_adapter(const bp_emit *emit, const bp_linear *layer)
{
    return bp_adapter_there(emit, layer->weight);
}

/* Whether the layer's products have their operands in 8 bits: when training, where it is wide. */
static bool goes_narrow(const bp_emit *emit, const bp_linear *layer)
{
    const uint64_t from =
        emit->spec->products_from > 0 ? emit->spec->products_from : BP_PRODUCTS_FROM;
    return emit->spec->products == BP_PRODUCT_FP8 && emit->mode == BP_MODE_TRAIN &&
           layer->in >= from && layer->out >= from && bp_adapter_dense(emit, layer->weight);
}

static void emit_plain(bp_emit *emit, const bp_linear *layer, const bp_matmul_operands *operands,
                       const bp_matmul_scalars *s)
{
    if (!goes_narrow(emit, layer)) {
        bp_emit_matmul(emit, operands, s);
        return;
    }
    const bp_matmul_fp8_operands of = {operands->c,   operands->before, operands->a,
                                       operands->b,   operands->bias,   operands->residual,
                                       operands->work};
    const bp_matmul_fp8_scalars scalars = {s->m,          s->n,   s->k,           s->lda,
                                           s->ldb,        s->ldc, s->transpose_a, s->transpose_b,
                                           s->accumulate, s->gelu};
    bp_emit_matmul_fp8(emit, &of, &scalars);
    emit->narrowed = true;
}

/* A product whose b is the layer's weight: as it is, as codes of fp8, or as others, which are
 * (out, in). */
static void emit_product(bp_emit *emit, const bp_linear *layer, const bp_matmul_operands *operands,
                         const bp_matmul_scalars *scalars, bool by_output)
{
    const bool fp8 = bp_emit_fp8(emit, layer->weight);
    if (!fp8 && !bp_emit_quantised(emit, layer->weight)) {
        emit_plain(emit, layer, operands, scalars);
        return;
    }
    const bp_parameter *weight = &emit->parameters[layer->weight];
    const bp_matmul_quantised_operands codes = {.c = operands->c,
                                                .before = operands->before,
                                                .a = operands->a,
                                                .codes = operands->b,
                                                .scales = bp_emit_scales(emit, layer->weight),
                                                .nested = bp_emit_nested(emit, layer->weight),
                                                .bias = operands->bias,
                                                .residual = operands->residual,
                                                .work = BP_ABSENT};
    bp_emit_matmul_quantised(emit, &codes,
                             &(bp_matmul_quantised_scalars){
                                 .m = scalars->m,
                                 .n = scalars->n,
                                 .k = scalars->k,
                                 .lda = scalars->lda,
                                 .ldc = scalars->ldc,
                                 .transpose_b = fp8 ? scalars->transpose_b : by_output,
                                 .gelu = scalars->gelu,
                                 .form = fp8 ? BP_QUANTISED_FP8 : (int64_t)weight->quantised});
}

static void emit_forward(bp_emit *emit, const bp_linear *layer, const bp_matmul_operands *operands,
                         int64_t gelu)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)emit->rows,
                                       .n = (int64_t)layer->out,
                                       .k = (int64_t)layer->in,
                                       .lda = (int64_t)layer->in,
                                       .ldb = weight_pitch(layer),
                                       .ldc = pitch_of(layer),
                                       .transpose_b = layer->output_major,
                                       .gelu = gelu};
    emit_product(emit, layer, operands, &scalars, true);
}

void bp_linear_plain_forward(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref residual,
                             bp_ref y)
{
    const bp_matmul_operands operands = {.c = y,
                                         .before = BP_ABSENT,
                                         .a = x,
                                         .b = bp_emit_acquire(emit, layer->weight, BP_FOR_FORWARD),
                                         .bias = bp_emit_acquire(emit, layer->bias, BP_FOR_FORWARD),
                                         .residual = residual,
                                         .work = BP_ABSENT};
    emit_forward(emit, layer, &operands, 0);
    release_layer(emit, layer);
}

void bp_linear_forward(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref residual, bp_ref y)
{
    const bp_adapted at = adapted(layer);
    if (bp_adapter_magnitudes(emit, layer->weight)) {
        bp_magnitude_forward(emit, layer, x, residual, y);
        return;
    }
    bp_linear_plain_forward(emit, layer, x, residual, y);
    if (has_adapter(emit, layer)) {
        bp_adapter_forward(emit, &at, x, y, true);
    }
}

/* GELU after the adapter, which the product's epilogue cannot have. */
static void forward_gelu_adapted(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref before,
                                 bp_ref y)
{
    const bp_ref sum = bp_ref_present(before) ? before : y;
    bp_linear_forward(emit, layer, x, BP_ABSENT, sum);
    const bp_gelu_forward_scalars scalars = {.count = (int64_t)(emit->rows * layer->out)};
    const bp_gelu_forward_operands operands = {.y = y, .x = sum};
    bp_emit_gelu_forward(emit, &operands, &scalars);
}

void bp_linear_forward_gelu(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref before,
                            bp_ref y)
{
    if (has_adapter(emit, layer)) {
        forward_gelu_adapted(emit, layer, x, before, y);
        return;
    }
    const bp_matmul_operands operands = {.c = y,
                                         .before = before,
                                         .a = x,
                                         .b = bp_emit_acquire(emit, layer->weight, BP_FOR_FORWARD),
                                         .bias = bp_emit_acquire(emit, layer->bias, BP_FOR_FORWARD),
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    emit_forward(emit, layer, &operands, 1);
    release_layer(emit, layer);
}

static void backward_bias(bp_emit *emit, const bp_linear *layer, bp_ref d_y)
{
    bp_bias_backward_scalars bias = {
        .rows = (int64_t)emit->rows, .n = (int64_t)layer->out, .pitch = pitch_of(layer)};
    const bp_bias_backward_operands bias_operands = {
        .d_bias = bp_emit_gradient(emit, layer->bias, &bias.accumulate), .d_y = d_y};
    bp_emit_bias_backward(emit, &bias_operands, &bias);
}

/* x^T d_y (in, out), or d_y^T x (out, in). */
void bp_linear_plain_backward_weight(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref d_y)
{
    if (!bp_emit_trainable(emit, layer->weight)) {
        return;
    }
    const bool swap = layer->output_major;
    const int64_t in = (int64_t)layer->in;
    bp_matmul_scalars scalars = {.m = (int64_t)(swap ? layer->out : layer->in),
                                 .n = (int64_t)(swap ? layer->in : layer->out),
                                 .k = (int64_t)emit->rows,
                                 .lda = swap ? pitch_of(layer) : in,
                                 .ldb = swap ? in : pitch_of(layer),
                                 .ldc = weight_pitch(layer),
                                 .transpose_a = 1};
    const bp_matmul_operands operands = {
        .c = bp_emit_gradient(emit, layer->weight, &scalars.accumulate),
        .before = BP_ABSENT,
        .a = swap ? d_y : x,
        .b = swap ? x : d_y,
        .bias = BP_ABSENT,
        .residual = BP_ABSENT,
        .work = BP_ABSENT};
    emit_plain(emit, layer, &operands, &scalars);
}

void bp_linear_backward_parameters(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref d_y)
{
    const bool magnitudes = bp_adapter_magnitudes(emit, layer->weight);
    if (!magnitudes) {
        bp_linear_plain_backward_weight(emit, layer, x, d_y);
    }
    if (layer->bias != BP_NO_PARAMETER && bp_emit_trainable(emit, layer->bias)) {
        backward_bias(emit, layer, d_y);
    }
    if (magnitudes) {
        bp_magnitude_backward_parameters(emit, layer, x, d_y);
    } else if (has_adapter(emit, layer)) {
        const bp_adapted at = adapted(layer);
        bp_adapter_backward_parameters(emit, &at, x, d_y);
    }
}

bool bp_linear_trains_reading(const bp_emit *emit, const bp_linear *layer)
{
    return bp_emit_trainable(emit, layer->weight) ||
           (has_adapter(emit, layer) && bp_adapter_trains(emit, layer->weight));
}

bool bp_linear_trains(const bp_emit *emit, const bp_linear *layer)
{
    return bp_linear_trains_reading(emit, layer) ||
           (layer->bias != BP_NO_PARAMETER && bp_emit_trainable(emit, layer->bias));
}

void bp_linear_plain_backward_input(bp_emit *emit, const bp_linear *layer, bp_ref d_y,
                                    bp_ref residual, bp_ref d_x)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)emit->rows,
                                       .n = (int64_t)layer->in,
                                       .k = (int64_t)layer->out,
                                       .lda = pitch_of(layer),
                                       .ldb = weight_pitch(layer),
                                       .ldc = (int64_t)layer->in,
                                       .transpose_b = !layer->output_major};
    const bp_matmul_operands operands = {.c = d_x,
                                         .before = BP_ABSENT,
                                         .a = d_y,
                                         .b = bp_emit_acquire(emit, layer->weight, BP_FOR_BACKWARD),
                                         .bias = BP_ABSENT,
                                         .residual = residual,
                                         .work = BP_ABSENT};
    emit_product(emit, layer, &operands, &scalars, false);
    bp_emit_release(emit, layer->weight);
}

static void backward_input(bp_emit *emit, const bp_linear *layer, bp_ref d_y, bp_ref d_x,
                           bp_ref residual)
{
    const bp_adapted at = adapted(layer);
    if (bp_adapter_magnitudes(emit, layer->weight)) {
        bp_magnitude_backward_input(emit, layer, d_y, residual, d_x);
        return;
    }
    bp_linear_plain_backward_input(emit, layer, d_y, residual, d_x);
    if (has_adapter(emit, layer)) {
        bp_adapter_backward_input(emit, &at, d_y, d_x);
    }
}

void bp_linear_backward_input(bp_emit *emit, const bp_linear *layer, bp_ref d_y, bp_ref d_x)
{
    backward_input(emit, layer, d_y, d_x, BP_ABSENT);
}

void bp_linear_backward_input_add(bp_emit *emit, const bp_linear *layer, bp_ref d_y, bp_ref d_x)
{
    backward_input(emit, layer, d_y, d_x, d_x);
}
