/* SPDX-License-Identifier: MIT */
/* Dense layers as matrix products; bias, GELU and the residual ride in the product's epilogue. */
#include "layers/nodes/linear.h"

#include "core/plan/adapter.h"
#include "core/plan/passes/token_lanes.h"
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

static void release_layer(bp_builder *builder, const bp_linear *layer)
{
    bp_build_release(builder, layer->bias);
    bp_build_release(builder, layer->weight);
}

static bp_adapted adapted(const bp_linear *layer)
{
    return (bp_adapted){.weight = layer->weight,
                        .in = layer->in,
                        .out = layer->out,
                        .pitch = (uint64_t)pitch_of(layer)};
}

static bool has_adapter(const bp_builder *builder, const bp_linear *layer)
{
    return bp_adapter_there(builder, layer->weight);
}

/* Whether the layer's products have their operands in 8 bits: when training, where it is wide. */
static bool goes_narrow(const bp_builder *builder, const bp_linear *layer)
{
    const uint64_t from =
        builder->spec->products_from > 0 ? builder->spec->products_from : BP_PRODUCTS_FROM;
    return builder->spec->products == BP_PRODUCT_FP8 && builder->mode == BP_MODE_TRAIN &&
           layer->in >= from && layer->out >= from && bp_adapter_dense(builder, layer->weight);
}

static void emit_plain(bp_builder *builder, const bp_linear *layer,
                       const bp_matmul_operands *operands, const bp_matmul_scalars *s)
{
    if (!goes_narrow(builder, layer)) {
        bp_build_matmul(builder, operands, s);
        return;
    }
    const bp_matmul_fp8_operands of = {operands->c,   operands->before, operands->a,
                                       operands->b,   operands->bias,   operands->residual,
                                       operands->work};
    const bp_matmul_fp8_scalars scalars = {s->m,          s->n,   s->k,           s->lda,
                                           s->ldb,        s->ldc, s->transpose_a, s->transpose_b,
                                           s->accumulate, s->gelu};
    bp_build_matmul_fp8(builder, &of, &scalars);
    builder->narrowed = true;
}

/* A product whose b is the layer's weight, or a slice of it: as it is, as codes of fp8, or as
 * others, which are (out, in). */
static void emit_product(bp_builder *builder, const bp_linear *layer,
                         const bp_matmul_operands *operands, const bp_weight_brought *weight,
                         const bp_matmul_scalars *scalars, bool by_output)
{
    const bool fp8 = bp_build_fp8(builder, layer->weight);
    if (!fp8 && !bp_build_quantised(builder, layer->weight)) {
        bp_matmul_operands plain = *operands;
        plain.b = weight->weight;
        emit_plain(builder, layer, &plain, scalars);
        return;
    }
    const int64_t form = (int64_t)builder->parameters[layer->weight].quantised;
    const bp_matmul_quantised_operands codes = {.c = operands->c,
                                                .before = operands->before,
                                                .a = operands->a,
                                                .codes = weight->weight,
                                                .scales = weight->scales,
                                                .nested = weight->nested,
                                                .bias = operands->bias,
                                                .residual = operands->residual,
                                                .work = BP_ABSENT};
    bp_build_matmul_quantised(
        builder, &codes,
        &(bp_matmul_quantised_scalars){.m = scalars->m,
                                       .n = scalars->n,
                                       .k = scalars->k,
                                       .lda = scalars->lda,
                                       .ldc = scalars->ldc,
                                       .transpose_b = fp8 ? scalars->transpose_b : by_output,
                                       .accumulate = scalars->accumulate,
                                       .gelu = scalars->gelu,
                                       .form = fp8 ? BP_QUANTISED_FP8 : form});
}

/* The whole weight, acquired. */
static bp_weight_brought acquire_weight(bp_builder *builder, const bp_linear *layer,
                                        bp_purpose purpose)
{
    const bp_ref weight = bp_build_acquire(builder, layer->weight, purpose);
    return (bp_weight_brought){.weight = weight,
                               .scales = bp_build_scales(builder, layer->weight),
                               .nested = bp_build_nested(builder, layer->weight)};
}

/* The slices of a layer's weight, which is then held; no rows: it is brought whole. */
static bp_weight_slice hold_slices(bp_builder *builder, const bp_linear *layer)
{
    const bp_weight_slice none = {0, 0};
    const bp_weight_slice first =
        layer->output_major ? bp_build_slice_first(builder, layer->weight) : none;
    if (first.rows > 0) {
        (void)bp_build_acquire_update(builder, layer->weight);
    }
    return first;
}

static bp_ref at_column(bp_ref ref, uint64_t column)
{
    return bp_ref_present(ref) ? bp_ref_at(ref, column) : ref;
}

/* y from column `first` on, of rows of the weight. */
static void linear_columns(bp_builder *builder, const bp_linear *layer,
                           const bp_matmul_operands *all, int64_t gelu, bp_weight_slice slice,
                           const bp_weight_brought *weight)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)builder->rows,
                                       .n = (int64_t)slice.rows,
                                       .k = (int64_t)layer->in,
                                       .lda = (int64_t)layer->in,
                                       .ldb = weight_pitch(layer),
                                       .ldc = pitch_of(layer),
                                       .transpose_b = layer->output_major,
                                       .gelu = gelu};
    bp_matmul_operands operands = *all;
    operands.c = at_column(all->c, slice.first);
    operands.before = at_column(all->before, slice.first);
    operands.bias = at_column(all->bias, slice.first);
    operands.residual = at_column(all->residual, slice.first);
    emit_product(builder, layer, &operands, weight, &scalars, true);
}

/* The product of y, of which `all` lacks the weight and the bias; each column is a product of its
 * own. */
static void emit_forward(bp_builder *builder, const bp_linear *layer, bp_matmul_operands all,
                         int64_t gelu)
{
    bp_weight_slice slice = hold_slices(builder, layer);
    if (slice.rows == 0) {
        const bp_weight_brought weight = acquire_weight(builder, layer, BP_FOR_FORWARD);
        all.bias = bp_build_acquire(builder, layer->bias, BP_FOR_FORWARD);
        linear_columns(builder, layer, &all, gelu, (bp_weight_slice){0, layer->out}, &weight);
    } else {
        all.bias = bp_build_acquire(builder, layer->bias, BP_FOR_FORWARD);
    }
    for (; slice.rows > 0; slice = bp_build_slice_next(builder, layer->weight, slice)) {
        const bp_weight_brought weight = bp_build_slice_bring(builder, layer->weight, slice);
        linear_columns(builder, layer, &all, gelu, slice, &weight);
    }
    release_layer(builder, layer);
}

void bp_linear_plain_forward(bp_builder *builder, const bp_linear *layer, bp_ref x, bp_ref residual,
                             bp_ref y)
{
    const bp_matmul_operands operands = {.c = y,
                                         .before = BP_ABSENT,
                                         .a = x,
                                         .b = BP_ABSENT,
                                         .bias = BP_ABSENT,
                                         .residual = residual,
                                         .work = BP_ABSENT};
    emit_forward(builder, layer, operands, 0);
}

void bp_linear_forward(bp_builder *builder, const bp_linear *layer, bp_ref x, bp_ref residual,
                       bp_ref y)
{
    const bp_adapted at = adapted(layer);
    if (bp_adapter_magnitudes(builder, layer->weight)) {
        bp_magnitude_forward(builder, layer, x, residual, y);
        return;
    }
    bp_linear_plain_forward(builder, layer, x, residual, y);
    if (has_adapter(builder, layer)) {
        bp_adapter_forward(builder, &at, x, y, true);
    }
}

/* GELU after the adapter, which the product's epilogue cannot have. */
static void forward_gelu_adapted(bp_builder *builder, const bp_linear *layer, bp_ref x,
                                 bp_ref before, bp_ref y)
{
    const bp_ref sum = bp_ref_present(before) ? before : y;
    bp_linear_forward(builder, layer, x, BP_ABSENT, sum);
    const bp_gelu_forward_scalars scalars = {.count = (int64_t)(builder->rows * layer->out)};
    const bp_gelu_forward_operands operands = {.y = y, .x = sum};
    bp_build_gelu_forward(builder, &operands, &scalars);
}

void bp_linear_forward_gelu(bp_builder *builder, const bp_linear *layer, bp_ref x, bp_ref before,
                            bp_ref y)
{
    if (has_adapter(builder, layer)) {
        forward_gelu_adapted(builder, layer, x, before, y);
        return;
    }
    const bp_matmul_operands operands = {.c = y,
                                         .before = before,
                                         .a = x,
                                         .b = BP_ABSENT,
                                         .bias = BP_ABSENT,
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    emit_forward(builder, layer, operands, 1);
}

static void backward_bias(bp_builder *builder, const bp_linear *layer, bp_ref d_y)
{
    bp_bias_backward_scalars bias = {
        .rows = (int64_t)builder->rows, .n = (int64_t)layer->out, .pitch = pitch_of(layer)};
    const bp_bias_backward_operands bias_operands = {
        .d_bias = bp_build_gradient(builder, layer->bias, &bias.accumulate), .d_y = d_y};
    bp_build_bias_backward(builder, &bias_operands, &bias);
}

/* x^T d_y (in, out), or d_y^T x (out, in). */
void bp_linear_plain_backward_weight(bp_builder *builder, const bp_linear *layer, bp_ref x,
                                     bp_ref d_y)
{
    if (!bp_build_trainable(builder, layer->weight)) {
        return;
    }
    const bool swap = layer->output_major;
    const int64_t in = (int64_t)layer->in;
    bp_share rows;
    int64_t accumulate = 0;
    const bp_ref gradient = bp_build_gradient_rows(builder, layer->weight, &rows, &accumulate);
    bp_matmul_scalars scalars = {.m = (int64_t)rows.count,
                                 .accumulate = accumulate,
                                 .n = (int64_t)(swap ? layer->in : layer->out),
                                 .k = (int64_t)builder->rows,
                                 .lda = swap ? pitch_of(layer) : in,
                                 .ldb = swap ? in : pitch_of(layer),
                                 .ldc = weight_pitch(layer),
                                 .transpose_a = 1};
    const bp_matmul_operands operands = {.c = gradient,
                                         .before = BP_ABSENT,
                                         .a = at_column(swap ? d_y : x, rows.first),
                                         .b = swap ? x : d_y,
                                         .bias = BP_ABSENT,
                                         .residual = BP_ABSENT,
                                         .work = BP_ABSENT};
    emit_plain(builder, layer, &operands, &scalars);
}

static bp_ref backward_rows(bp_builder *builder, const bp_linear *layer, bp_ref x, bp_ref d_y)
{
    const bool magnitudes = bp_adapter_magnitudes(builder, layer->weight);
    if (!magnitudes) {
        bp_linear_plain_backward_weight(builder, layer, x, d_y);
    }
    if (layer->bias != BP_NO_PARAMETER && bp_build_trainable(builder, layer->bias)) {
        backward_bias(builder, layer, d_y);
    }
    if (magnitudes) {
        bp_magnitude_backward_parameters(builder, layer, x, d_y);
    } else if (has_adapter(builder, layer)) {
        const bp_adapted at = adapted(layer);
        return bp_adapter_backward_parameters(builder, &at, x, d_y);
    }
    return BP_ABSENT;
}

bp_ref bp_linear_backward_parameters(bp_builder *builder, const bp_linear *layer, bp_ref x,
                                     bp_ref d_y)
{
    bp_ref d_u = BP_ABSENT;
    for (uint32_t lane = 0; lane < bp_token_lanes_count(builder); lane++) {
        bp_token_lane_begin(builder, lane);
        d_u = backward_rows(builder, layer, bp_token_lane_at(builder, x, layer->in),
                            bp_token_lane_at(builder, d_y, (uint64_t)pitch_of(layer)));
        bp_token_lane_end(builder, lane);
    }
    const bool whole = bp_token_lanes_count(builder) == 1; /* else these are a lane's rows */
    return whole && builder->spec->device->launches ? d_u : BP_ABSENT;
}

bool bp_linear_trains_reading(const bp_builder *builder, const bp_linear *layer)
{
    return bp_build_trainable(builder, layer->weight) ||
           (has_adapter(builder, layer) && bp_adapter_trains(builder, layer->weight));
}

bool bp_linear_trains(const bp_builder *builder, const bp_linear *layer)
{
    return bp_linear_trains_reading(builder, layer) ||
           (layer->bias != BP_NO_PARAMETER && bp_build_trainable(builder, layer->bias));
}

/* c (+)= columns of d_y times rows of the weight, which are its terms, + residual. */
static void linear_terms(bp_builder *builder, const bp_linear *layer,
                         const bp_matmul_operands *operands, bp_weight_slice slice,
                         const bp_weight_brought *weight)
{
    const bp_matmul_scalars scalars = {.m = (int64_t)builder->rows,
                                       .n = (int64_t)layer->in,
                                       .k = (int64_t)slice.rows,
                                       .lda = pitch_of(layer),
                                       .ldb = weight_pitch(layer),
                                       .ldc = (int64_t)layer->in,
                                       .transpose_b = !layer->output_major,
                                       .accumulate = slice.first > 0 ? 1 : 0};
    emit_product(builder, layer, operands, weight, &scalars, false);
}

/* d_x = what slices have summed in fp32, rounded, + d_x where there is a residual: then rounded
 * once, as the product rounds the two. */
static void finish_sums(bp_builder *builder, uint64_t count, bp_ref sums, bool residual, bp_ref d_x)
{
    if (residual) {
        const bp_bias_backward_scalars scalars = {
            .rows = 1, .n = (int64_t)count, .pitch = (int64_t)count, .accumulate = 1};
        const bp_bias_backward_operands operands = {.d_bias = d_x, .d_y = sums};
        bp_build_bias_backward(builder, &operands, &scalars);
        return;
    }
    const bp_store_values_operands operands = {.y = d_x, .master = BP_ABSENT, .x = sums};
    const bp_store_values_scalars scalars = {
        .count = (int64_t)count, .form = BP_MASTER_WEIGHT, .even = 1};
    bp_build_store_values(builder, &operands, &scalars);
}

/* From slices of the weight: sums go on in fp32 from where they were, as those of one product do.
 */
static void backward_slices(bp_builder *builder, const bp_linear *layer, bp_weight_slice slice,
                            bp_ref d_y, bp_ref residual, bp_ref d_x)
{
    const bool adds = bp_ref_present(residual), wide = d_x.dtype == BP_F32 && !adds;
    const bp_ref sums = wide ? d_x
                             : bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, builder->rows,
                                               layer->in, "d_input_sums");
    for (; slice.rows > 0; slice = bp_build_slice_next(builder, layer->weight, slice)) {
        const bp_weight_brought weight = bp_build_slice_bring(builder, layer->weight, slice);
        const bp_matmul_operands operands = {.c = sums,
                                             .before = BP_ABSENT,
                                             .a = bp_ref_at(d_y, slice.first),
                                             .b = BP_ABSENT,
                                             .bias = BP_ABSENT,
                                             .residual = BP_ABSENT,
                                             .work = BP_ABSENT};
        linear_terms(builder, layer, &operands, slice, &weight);
    }
    if (!wide) {
        finish_sums(builder, builder->rows * layer->in, sums, adds, d_x);
    }
}

void bp_linear_plain_backward_input(bp_builder *builder, const bp_linear *layer, bp_ref d_y,
                                    bp_ref residual, bp_ref d_x)
{
    const bool other = bp_ref_present(residual) &&
                       (residual.buffer != d_x.buffer || residual.offset != d_x.offset);
    const bp_weight_slice slice = other ? (bp_weight_slice){0, 0} : hold_slices(builder, layer);
    if (slice.rows > 0) {
        backward_slices(builder, layer, slice, d_y, residual, d_x);
    } else {
        const bp_weight_brought weight = acquire_weight(builder, layer, BP_FOR_BACKWARD);
        const bp_matmul_operands operands = {.c = d_x,
                                             .before = BP_ABSENT,
                                             .a = d_y,
                                             .b = BP_ABSENT,
                                             .bias = BP_ABSENT,
                                             .residual = residual,
                                             .work = BP_ABSENT};
        linear_terms(builder, layer, &operands, (bp_weight_slice){0, layer->out}, &weight);
    }
    bp_build_release(builder, layer->weight);
}

void bp_linear_backward_input_from(bp_builder *builder, const bp_linear *layer, bp_ref d_y,
                                   bp_ref d_u, bp_ref d_x, bool add)
{
    const bp_ref residual = add ? d_x : BP_ABSENT;
    const bp_adapted at = adapted(layer);
    if (bp_adapter_magnitudes(builder, layer->weight)) {
        bp_magnitude_backward_input(builder, layer, d_y, residual, d_x);
        return;
    }
    bp_linear_plain_backward_input(builder, layer, d_y, residual, d_x);
    if (has_adapter(builder, layer)) {
        bp_adapter_backward_input(builder, &at, d_y, d_u, d_x);
    }
}

void bp_linear_backward_input(bp_builder *builder, const bp_linear *layer, bp_ref d_y, bp_ref d_x)
{
    bp_linear_backward_input_from(builder, layer, d_y, BP_ABSENT, d_x, false);
}

void bp_linear_backward_input_add(bp_builder *builder, const bp_linear *layer, bp_ref d_y,
                                  bp_ref d_x)
{
    bp_linear_backward_input_from(builder, layer, d_y, BP_ABSENT, d_x, true);
}
