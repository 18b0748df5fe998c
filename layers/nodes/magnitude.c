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

static bp_ref wide_buffer(bp_emit *emit, uint64_t width, const char *name)
{
    return bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), emit->rows, width, name);
}

/* While tokens are generated weights stay: prefill makes the norms, decode finds them. */
static bp_ref norms_of(bp_emit *emit, const bp_linear *layer)
{
    const bool generates = emit->mode == BP_MODE_DECODE;
    const bp_ref norms =
        generates ? bp_emit_carried(emit, BP_CLASS_WORKSPACE, BP_F32, 1, layer->out, "norms")
                  : bp_emit_buffer(emit, BP_CLASS_WORKSPACE, BP_F32, 1, layer->out, "norms");
    if (emit->status == BP_OK && (!generates || emit->graph->program != BP_PROGRAM_DECODE)) {
        bp_adapter_norms(emit, layer->weight, norms);
    }
    return norms;
}

static magnitude_desk desk_begin(bp_emit *emit, const bp_linear *layer, bp_purpose purpose)
{
    magnitude_desk desk = {.whole = *layer, .tight = *layer};
    desk.tight.bias = BP_NO_PARAMETER;
    desk.tight.pitch = 0;
    desk.at = (bp_adapted){
        .weight = layer->weight, .in = layer->in, .out = layer->out, .pitch = layer->out};
    desk.after = desk.at;
    desk.after.dropped = true;
    desk.drops = bp_adapter_drops(emit, &desk.at);
    desk.magnitude = emit->parameters[layer->weight].adapter + 2;
    (void)bp_emit_acquire(emit, layer->weight, purpose);
    desk.norms = norms_of(emit, layer);
    return desk;
}

static void desk_end(bp_emit *emit, const magnitude_desk *desk)
{
    bp_emit_release(emit, desk->whole.weight);
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

static void apply(bp_emit *emit, const magnitude_desk *desk, const magnitude_sum *sum)
{
    const bp_magnitude_apply_operands operands = {
        .y = sum->y,
        .x = sum->x,
        .magnitude = bp_emit_acquire(emit, desk->magnitude, BP_FOR_FORWARD),
        .norms = desk->norms,
        .bias = bp_emit_acquire(emit, sum->bias, BP_FOR_FORWARD),
        .residual = sum->residual};
    bp_emit_magnitude_apply(emit, &operands,
                            &(bp_magnitude_apply_scalars){.rows = (int64_t)emit->rows,
                                                          .n = (int64_t)desk->whole.out,
                                                          .pitch = sum->y_pitch,
                                                          .x_pitch = sum->x_pitch,
                                                          .less = sum->less});
    bp_emit_release(emit, sum->bias);
    bp_emit_release(emit, desk->magnitude);
}

/* The derivative (f - less) d_y (rows, out), without padding. */
static bp_ref scaled_gradient(bp_emit *emit, const magnitude_desk *desk, bp_ref d_y, double less)
{
    const bp_ref to = wide_buffer(emit, desk->whole.out, less > 0.0 ? "d_less" : "d_direction");
    const magnitude_sum sum = {.y = to,
                               .x = d_y,
                               .residual = BP_ABSENT,
                               .bias = BP_NO_PARAMETER,
                               .y_pitch = (int64_t)desk->whole.out,
                               .x_pitch = pitch_of(&desk->whole),
                               .less = less};
    apply(emit, desk, &sum);
    return to;
}

/* W x' + L x' (rows, out), of an x' that went through dropout. */
static bp_ref direction(bp_emit *emit, const magnitude_desk *desk, bp_ref x)
{
    const bp_ref v = wide_buffer(emit, desk->whole.out, "direction");
    bp_linear_plain_forward(emit, &desk->tight, x, BP_ABSENT, v);
    bp_adapter_forward(emit, &desk->after, x, v, true);
    return v;
}

/* With dropout: three parts, of which the last two share a buffer. */
static void forward_dropped(bp_emit *emit, const magnitude_desk *desk, bp_ref x, bp_ref residual,
                            bp_ref y)
{
    const bp_ref left = bp_adapter_dropped(emit, &desk->at, x);
    const bp_ref v = wide_buffer(emit, desk->whole.out, "direction");
    magnitude_sum sum = {.y = y,
                         .x = v,
                         .residual = y,
                         .bias = BP_NO_PARAMETER,
                         .y_pitch = pitch_of(&desk->whole),
                         .x_pitch = (int64_t)desk->whole.out,
                         .less = 1.0};
    bp_linear_plain_forward(emit, &desk->whole, x, residual, y);
    bp_linear_plain_forward(emit, &desk->tight, left, BP_ABSENT, v);
    apply(emit, desk, &sum);
    bp_adapter_forward(emit, &desk->after, left, v, false);
    sum.less = 0.0;
    apply(emit, desk, &sum);
}

void bp_magnitude_forward(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref residual,
                          bp_ref y)
{
    const magnitude_desk desk = desk_begin(emit, layer, BP_FOR_FORWARD);
    if (desk.drops) {
        forward_dropped(emit, &desk, x, residual, y);
    } else {
        const magnitude_sum sum = {.y = y,
                                   .x = direction(emit, &desk, x),
                                   .residual = residual,
                                   .bias = layer->bias,
                                   .y_pitch = pitch_of(layer),
                                   .x_pitch = (int64_t)layer->out};
        apply(emit, &desk, &sum);
    }
    desk_end(emit, &desk);
}

static void backward_magnitude(bp_emit *emit, const magnitude_desk *desk, bp_ref x, bp_ref d_y)
{
    bp_magnitude_backward_scalars scalars = {.rows = (int64_t)emit->rows,
                                             .n = (int64_t)desk->whole.out,
                                             .pitch = pitch_of(&desk->whole)};
    const bp_ref v = direction(emit, desk, x);
    const bp_magnitude_backward_operands operands = {
        .d_magnitude = bp_emit_gradient(emit, desk->magnitude, &scalars.accumulate),
        .d_y = d_y,
        .x = v,
        .norms = desk->norms};
    bp_emit_magnitude_backward(emit, &operands, &scalars);
}

void bp_magnitude_backward_parameters(bp_emit *emit, const bp_linear *layer, bp_ref x, bp_ref d_y)
{
    if (!bp_linear_trains_reading(emit, layer)) {
        return;
    }
    const magnitude_desk desk = desk_begin(emit, layer, BP_FOR_BACKWARD);
    const bp_ref left = bp_adapter_dropped(emit, &desk.at, x);
    if (bp_emit_trainable(emit, desk.magnitude)) {
        backward_magnitude(emit, &desk, left, d_y);
    }
    const bp_ref d_v = scaled_gradient(emit, &desk, d_y, 0.0);
    if (!desk.drops) {
        bp_linear_plain_backward_weight(emit, &desk.tight, left, d_v);
    } else if (bp_emit_trainable(emit, layer->weight)) {
        const bp_ref d_less = scaled_gradient(emit, &desk, d_y, 1.0);
        bp_linear_plain_backward_weight(emit, layer, x, d_y);
        bp_linear_plain_backward_weight(emit, &desk.tight, left, d_less);
    }
    bp_adapter_backward_parameters(emit, &desk.after, left, d_v);
    desk_end(emit, &desk);
}

/* With dropout: what came past it, and what it masks. */
static void backward_input_dropped(bp_emit *emit, const magnitude_desk *desk, bp_ref d_y,
                                   bp_ref residual, bp_ref d_x)
{
    const bp_ref d_left = wide_buffer(emit, desk->whole.in, "d_left");
    const bp_ref d_less = scaled_gradient(emit, desk, d_y, 1.0);
    bp_linear_plain_backward_input(emit, &desk->whole, d_y, residual, d_x);
    bp_linear_plain_backward_input(emit, &desk->tight, d_less, BP_ABSENT, d_left);
    bp_adapter_backward_input(emit, &desk->after, scaled_gradient(emit, desk, d_y, 0.0), d_left);
    bp_adapter_undropped(emit, &desk->at, d_left, d_x, d_x);
}

void bp_magnitude_backward_input(bp_emit *emit, const bp_linear *layer, bp_ref d_y, bp_ref residual,
                                 bp_ref d_x)
{
    const magnitude_desk desk = desk_begin(emit, layer, BP_FOR_BACKWARD);
    if (desk.drops) {
        backward_input_dropped(emit, &desk, d_y, residual, d_x);
    } else {
        const bp_ref d_v = scaled_gradient(emit, &desk, d_y, 0.0);
        bp_linear_plain_backward_input(emit, &desk.tight, d_v, residual, d_x);
        bp_adapter_backward_input(emit, &desk.at, d_v, d_x);
    }
    desk_end(emit, &desk);
}
