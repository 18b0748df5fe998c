/* SPDX-License-Identifier: MIT */
/* Magnitudes of adapted layers as ops. The weight is held throughout, so that where it has to be
 * brought it is brought once. */
#include "layers/nodes/magnitude.h"

#include "core/plan/adapter.h"
#include "layers/nodes/adapter.h"

/* A layer while its ops are written. */
typedef struct magnitude_desk {
    bp_linear whole;
    bp_linear tight;  /* without bias, and results without padding between rows */
    bp_adapted at;    /* what the adapter sees of the tight layer */
    bp_adapted after; /* the same, of an x that went through dropout already */
    uint32_t magnitude;
    bp_ref norms;
    bool drops;
} magnitude_desk;

static bp_ref wide_buffer(bp_builder *builder, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), builder->rows,
                           width, name);
}

/* While tokens are generated weights stay: prefill makes the norms, decode finds them. */
static bp_ref norms_of(bp_builder *builder, const bp_linear *layer)
{
    const bool generates = builder->mode == BP_MODE_DECODE;
    const bp_ref norms =
        generates ? bp_build_carried(builder, BP_CLASS_WORKSPACE, BP_F32, 1, layer->out, "norms")
                  : bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, 1, layer->out, "norms");
    if (builder->status == BP_OK && (!generates || builder->graph->program != BP_PROGRAM_DECODE)) {
        bp_adapter_norms(builder, layer->weight, norms);
    }
    return norms;
}

static magnitude_desk desk_begin(bp_builder *builder, const bp_linear *layer, bp_purpose purpose)
{
    magnitude_desk desk = {.whole = *layer, .tight = *layer};
    desk.tight.bias = BP_NO_PARAMETER;
    desk.tight.pitch = 0;
    desk.at = (bp_adapted){
        .weight = layer->weight, .in = layer->in, .out = layer->out, .pitch = layer->out};
    desk.after = desk.at;
    desk.after.dropped = true;
    desk.drops = bp_adapter_drops(builder, &desk.at);
    desk.magnitude = builder->parameters[layer->weight].adapter + 2;
    (void)bp_build_acquire(builder, layer->weight, purpose);
    desk.norms = norms_of(builder, layer);
    return desk;
}

static void desk_end(bp_builder *builder, const magnitude_desk *desk)
{
    bp_build_release(builder, desk->whole.weight);
}

static int64_t pitch_of(const bp_linear *layer)
{
    return (int64_t)(layer->pitch != 0 ? layer->pitch : layer->out);
}

/* y (rows, out; y_pitch) = (f - less) x (rows, out; x_pitch) + bias + residual */
typedef struct magnitude_sum {
    bp_ref y;
    bp_ref x;
    bp_ref residual;
    uint32_t bias;
    int64_t y_pitch;
    int64_t x_pitch;
    double less;
} magnitude_sum;

static void apply(bp_builder *builder, const magnitude_desk *desk, const magnitude_sum *sum)
{
    const bp_magnitude_apply_operands operands = {
        .y = sum->y,
        .x = sum->x,
        .magnitude = bp_build_acquire(builder, desk->magnitude, BP_FOR_FORWARD),
        .norms = desk->norms,
        .bias = bp_build_acquire(builder, sum->bias, BP_FOR_FORWARD),
        .residual = sum->residual};
    bp_build_magnitude_apply(builder, &operands,
                             &(bp_magnitude_apply_scalars){.rows = (int64_t)builder->rows,
                                                           .n = (int64_t)desk->whole.out,
                                                           .pitch = sum->y_pitch,
                                                           .x_pitch = sum->x_pitch,
                                                           .less = sum->less});
    bp_build_release(builder, sum->bias);
    bp_build_release(builder, desk->magnitude);
}

/* The derivative (f - less) d_y (rows, out), without padding. */
static bp_ref scaled_gradient(bp_builder *builder, const magnitude_desk *desk, bp_ref d_y,
                              double less)
{
    const bp_ref to = wide_buffer(builder, desk->whole.out, less > 0.0 ? "d_less" : "d_direction");
    const magnitude_sum sum = {.y = to,
                               .x = d_y,
                               .residual = BP_ABSENT,
                               .bias = BP_NO_PARAMETER,
                               .y_pitch = (int64_t)desk->whole.out,
                               .x_pitch = pitch_of(&desk->whole),
                               .less = less};
    apply(builder, desk, &sum);
    return to;
}

/* W x' + L x' (rows, out), of an x' that went through dropout. */
static bp_ref direction(bp_builder *builder, const magnitude_desk *desk, bp_ref x)
{
    const bp_ref v = wide_buffer(builder, desk->whole.out, "direction");
    bp_linear_plain_forward(builder, &desk->tight, x, BP_ABSENT, v);
    bp_adapter_forward(builder, &desk->after, x, v, true);
    return v;
}

/* With dropout: three parts, of which the last two share a buffer. */
static void forward_dropped(bp_builder *builder, const magnitude_desk *desk, bp_ref x,
                            bp_ref residual, bp_ref y)
{
    const bp_ref left = bp_adapter_dropped(builder, &desk->at, x);
    const bp_ref v = wide_buffer(builder, desk->whole.out, "direction");
    magnitude_sum sum = {.y = y,
                         .x = v,
                         .residual = y,
                         .bias = BP_NO_PARAMETER,
                         .y_pitch = pitch_of(&desk->whole),
                         .x_pitch = (int64_t)desk->whole.out,
                         .less = 1.0};
    bp_linear_plain_forward(builder, &desk->whole, x, residual, y);
    bp_linear_plain_forward(builder, &desk->tight, left, BP_ABSENT, v);
    apply(builder, desk, &sum);
    bp_adapter_forward(builder, &desk->after, left, v, false);
    sum.less = 0.0;
    apply(builder, desk, &sum);
}

void bp_magnitude_forward(bp_builder *builder, const bp_linear *layer, bp_ref x, bp_ref residual,
                          bp_ref y)
{
    const magnitude_desk desk = desk_begin(builder, layer, BP_FOR_FORWARD);
    if (desk.drops) {
        forward_dropped(builder, &desk, x, residual, y);
    } else {
        const magnitude_sum sum = {.y = y,
                                   .x = direction(builder, &desk, x),
                                   .residual = residual,
                                   .bias = layer->bias,
                                   .y_pitch = pitch_of(layer),
                                   .x_pitch = (int64_t)layer->out};
        apply(builder, &desk, &sum);
    }
    desk_end(builder, &desk);
}

static void backward_magnitude(bp_builder *builder, const magnitude_desk *desk, bp_ref x,
                               bp_ref d_y)
{
    bp_magnitude_backward_scalars scalars = {.rows = (int64_t)builder->rows,
                                             .n = (int64_t)desk->whole.out,
                                             .pitch = pitch_of(&desk->whole)};
    const bp_ref v = direction(builder, desk, x);
    const bp_magnitude_backward_operands operands = {
        .d_magnitude = bp_build_gradient(builder, desk->magnitude, &scalars.accumulate),
        .d_y = d_y,
        .x = v,
        .norms = desk->norms};
    bp_build_magnitude_backward(builder, &operands, &scalars);
}

void bp_magnitude_backward_parameters(bp_builder *builder, const bp_linear *layer, bp_ref x,
                                      bp_ref d_y)
{
    if (!bp_linear_trains_reading(builder, layer)) {
        return;
    }
    const magnitude_desk desk = desk_begin(builder, layer, BP_FOR_BACKWARD);
    const bp_ref left = bp_adapter_dropped(builder, &desk.at, x);
    if (bp_build_trainable(builder, desk.magnitude)) {
        backward_magnitude(builder, &desk, left, d_y);
    }
    const bp_ref d_v = scaled_gradient(builder, &desk, d_y, 0.0);
    if (!desk.drops) {
        bp_linear_plain_backward_weight(builder, &desk.tight, left, d_v);
    } else if (bp_build_trainable(builder, layer->weight)) {
        const bp_ref d_less = scaled_gradient(builder, &desk, d_y, 1.0);
        bp_linear_plain_backward_weight(builder, layer, x, d_y);
        bp_linear_plain_backward_weight(builder, &desk.tight, left, d_less);
    }
    (void)bp_adapter_backward_parameters(builder, &desk.after, left, d_v);
    desk_end(builder, &desk);
}

/* With dropout: what came past it, and what it masks. */
static void backward_input_dropped(bp_builder *builder, const magnitude_desk *desk, bp_ref d_y,
                                   bp_ref residual, bp_ref d_x)
{
    const bp_ref d_left = wide_buffer(builder, desk->whole.in, "d_left");
    const bp_ref d_less = scaled_gradient(builder, desk, d_y, 1.0);
    bp_linear_plain_backward_input(builder, &desk->whole, d_y, residual, d_x);
    bp_linear_plain_backward_input(builder, &desk->tight, d_less, BP_ABSENT, d_left);
    bp_adapter_backward_input(builder, &desk->after, scaled_gradient(builder, desk, d_y, 0.0),
                              BP_ABSENT, d_left);
    bp_adapter_undropped(builder, &desk->at, d_left, d_x, d_x);
}

void bp_magnitude_backward_input(bp_builder *builder, const bp_linear *layer, bp_ref d_y,
                                 bp_ref residual, bp_ref d_x)
{
    const magnitude_desk desk = desk_begin(builder, layer, BP_FOR_BACKWARD);
    if (desk.drops) {
        backward_input_dropped(builder, &desk, d_y, residual, d_x);
    } else {
        const bp_ref d_v = scaled_gradient(builder, &desk, d_y, 0.0);
        bp_linear_plain_backward_input(builder, &desk.tight, d_v, residual, d_x);
        bp_adapter_backward_input(builder, &desk.at, d_v, BP_ABSENT, d_x);
    }
    desk_end(builder, &desk);
}
