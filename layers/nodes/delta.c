/* SPDX-License-Identifier: MIT */
/* The gated delta rule and what stands before it as ops. */
#include "layers/nodes/delta.h"

#include "core/plan/passes/token_lanes.h"

uint64_t bp_delta_values(const bp_delta *delta)
{
    return delta->value_heads * delta->value_width;
}

uint64_t bp_delta_row(const bp_delta *delta)
{
    return 2 * delta->key_heads * delta->key_width + bp_delta_values(delta);
}

/* Where a row's documents begin. */
static bp_ref delta_starts(const bp_builder *builder)
{
    return builder->spec->packed ? builder->input[BP_INPUT_STARTS] : BP_ABSENT;
}

/* Parts. */

static uint64_t split_group(const bp_row_parts *split)
{
    uint64_t group = 0;
    for (uint32_t i = 0; i < BP_ROW_PARTS; i++) {
        group += split->width[i];
    }
    return group;
}

uint64_t bp_row_parts_width(const bp_row_parts *split)
{
    return split->groups * split_group(split) + split->tail;
}

static void split_move(bp_builder *builder, const bp_parts_split_scalars *scalars, bp_ref x,
                       const bp_ref part[BP_ROW_PARTS], bool back)
{
    if (back) {
        const bp_parts_join_operands operands = {
            .x = x, .y0 = part[0], .y1 = part[1], .y2 = part[2], .y3 = part[3]};
        bp_build_op(builder, BP_KERNEL_parts_join, 1, (const bp_ref *)&operands, scalars);
    } else {
        const bp_parts_split_operands operands = {
            .y0 = part[0], .y1 = part[1], .y2 = part[2], .y3 = part[3], .x = x};
        bp_build_parts_split(builder, &operands, scalars);
    }
}

static void split_groups(bp_builder *builder, const bp_row_parts *split, uint64_t rows, bp_ref x,
                         const bp_ref y[BP_ROW_PARTS_OUTPUTS],
                         const uint64_t pitch[BP_ROW_PARTS_OUTPUTS], bool back)
{
    bp_ref part[BP_ROW_PARTS];
    int64_t at[BP_ROW_PARTS];
    for (uint32_t i = 0; i < BP_ROW_PARTS; i++) {
        const bool there = split->width[i] > 0;
        const bp_ref to = there ? y[split->to[i]] : BP_ABSENT;
        part[i] = bp_ref_present(to) ? bp_ref_at(to, split->column[i]) : BP_ABSENT;
        at[i] = there ? (int64_t)pitch[split->to[i]] : 0;
    }
    const bp_parts_split_scalars scalars = {.rows = (int64_t)rows,
                                            .groups = (int64_t)split->groups,
                                            .pitch = (int64_t)bp_row_parts_width(split),
                                            .width0 = (int64_t)split->width[0],
                                            .width1 = (int64_t)split->width[1],
                                            .width2 = (int64_t)split->width[2],
                                            .width3 = (int64_t)split->width[3],
                                            .pitch0 = at[0],
                                            .pitch1 = at[1],
                                            .pitch2 = at[2],
                                            .pitch3 = at[3]};
    split_move(builder, &scalars, x, part, back);
    if (split->tail > 0 && bp_ref_present(y[0])) {
        const bp_parts_split_scalars end = {.rows = (int64_t)rows,
                                            .groups = 1,
                                            .pitch = scalars.pitch,
                                            .width0 = (int64_t)split->tail,
                                            .pitch0 = (int64_t)pitch[0]};
        const bp_ref last[BP_ROW_PARTS] = {bp_ref_at(y[0], pitch[0] - split->tail), BP_ABSENT,
                                           BP_ABSENT, BP_ABSENT};
        split_move(builder, &end, bp_ref_at(x, bp_row_parts_width(split) - split->tail), last,
                   back);
    }
}

void bp_row_parts_split(bp_builder *builder, const bp_row_parts *split, uint64_t rows, bp_ref x,
                        const bp_ref y[BP_ROW_PARTS_OUTPUTS],
                        const uint64_t pitch[BP_ROW_PARTS_OUTPUTS])
{
    split_groups(builder, split, rows, x, y, pitch, false);
}

void bp_row_parts_join(bp_builder *builder, const bp_row_parts *split, uint64_t rows, bp_ref x,
                       const bp_ref y[BP_ROW_PARTS_OUTPUTS],
                       const uint64_t pitch[BP_ROW_PARTS_OUTPUTS])
{
    split_groups(builder, split, rows, x, y, pitch, true);
}

/* Convolutions. */

static void short_conv_decode(bp_builder *builder, const bp_short_conv *conv, bp_ref x, bp_ref y)
{
    const uint64_t sequences = bp_spec_decode_rows(builder->spec);
    const bp_short_conv_decode_scalars scalars = {.rows = (int64_t)builder->rows,
                                                  .channels = (int64_t)conv->channels,
                                                  .before = (int64_t)conv->taps - 1,
                                                  .others = (int64_t)sequences - 1,
                                                  .apart = builder->sequences > 1};
    const bp_short_conv_decode_operands operands = {
        .y = y,
        .state = bp_build_carried(builder, BP_CLASS_WORKSPACE, bp_build_working(builder),
                                  sequences * (conv->taps - 1), conv->channels, "places"),
        .x = x,
        .weight = bp_build_acquire(builder, conv->weight, BP_FOR_FORWARD),
        .step = builder->step};
    bp_build_short_conv_decode(builder, &operands, &scalars);
    bp_build_release(builder, conv->weight);
}

void bp_short_conv_apply(bp_builder *builder, const bp_short_conv *conv, bp_ref x, bp_ref y)
{
    if (builder->mode == BP_MODE_DECODE) {
        short_conv_decode(builder, conv, x, y);
        return;
    }
    bp_token_lanes_whole(builder, "linear attention goes through a sample from its first token on");
    const bp_short_conv_forward_scalars scalars = {.batch = builder->spec->batch,
                                                   .sequence = builder->spec->sequence,
                                                   .channels = (int64_t)conv->channels,
                                                   .taps = (int64_t)conv->taps};
    const bp_short_conv_forward_operands operands = {
        .y = y,
        .x = x,
        .weight = bp_build_acquire(builder, conv->weight, BP_FOR_FORWARD),
        .starts = delta_starts(builder)};
    bp_build_short_conv_forward(builder, &operands, &scalars);
    bp_build_release(builder, conv->weight);
}

static void short_conv_back_weight(bp_builder *builder, const bp_short_conv *conv, bp_ref x,
                                   bp_ref d_y)
{
    bp_short_conv_backward_weight_scalars scalars = {.batch = builder->spec->batch,
                                                     .sequence = builder->spec->sequence,
                                                     .channels = (int64_t)conv->channels,
                                                     .taps = (int64_t)conv->taps};
    const bp_short_conv_backward_weight_operands operands = {
        .d_weight = bp_build_gradient(builder, conv->weight, &scalars.accumulate),
        .d_y = d_y,
        .x = x,
        .weight = bp_build_acquire(builder, conv->weight, BP_FOR_BACKWARD),
        .starts = delta_starts(builder)};
    bp_build_short_conv_backward_weight(builder, &operands, &scalars);
    bp_build_release(builder, conv->weight);
}

void bp_short_conv_back(bp_builder *builder, const bp_short_conv *conv, bp_ref x, bp_ref d_y,
                        bp_ref d_x)
{
    if (bp_build_trainable(builder, conv->weight)) {
        short_conv_back_weight(builder, conv, x, d_y);
    }
    if (!bp_ref_present(d_x)) {
        return;
    }
    const bp_short_conv_backward_scalars scalars = {.batch = builder->spec->batch,
                                                    .sequence = builder->spec->sequence,
                                                    .channels = (int64_t)conv->channels,
                                                    .taps = (int64_t)conv->taps};
    const bp_short_conv_backward_operands operands = {
        .d_x = d_x,
        .d_y = d_y,
        .x = x,
        .weight = bp_build_acquire(builder, conv->weight, BP_FOR_BACKWARD),
        .starts = delta_starts(builder)};
    bp_build_short_conv_backward(builder, &operands, &scalars);
    bp_build_release(builder, conv->weight);
}

/* The rule. */

bool bp_delta_trains(const bp_builder *builder, const bp_delta *delta)
{
    return bp_build_trainable(builder, delta->a_log) || bp_build_trainable(builder, delta->dt_bias);
}

static void delta_acquire(bp_builder *builder, const bp_delta *delta, bp_purpose purpose,
                          bp_ref refs[2])
{
    refs[0] = bp_build_acquire(builder, delta->a_log, purpose);
    refs[1] = bp_build_acquire(builder, delta->dt_bias, purpose);
}

static void delta_release(bp_builder *builder, const bp_delta *delta)
{
    bp_build_release(builder, delta->dt_bias);
    bp_build_release(builder, delta->a_log);
}

static void delta_decode(bp_builder *builder, const bp_delta *delta, bp_ref qkv, bp_ref gates,
                         bp_ref y)
{
    const uint64_t sequences = bp_spec_decode_rows(builder->spec);
    const bp_delta_decode_scalars scalars = {.rows = (int64_t)builder->rows,
                                             .key_heads = (int64_t)delta->key_heads,
                                             .value_heads = (int64_t)delta->value_heads,
                                             .key_width = (int64_t)delta->key_width,
                                             .value_width = (int64_t)delta->value_width,
                                             .others = (int64_t)sequences - 1,
                                             .apart = builder->sequences > 1};
    bp_ref own[2];
    delta_acquire(builder, delta, BP_FOR_FORWARD, own);
    const bp_delta_decode_operands operands = {
        .y = y,
        .state =
            bp_build_carried(builder, BP_CLASS_WORKSPACE, BP_F32, sequences * delta->value_heads,
                             delta->key_width * delta->value_width, "states"),
        .qkv = qkv,
        .gates = gates,
        .a_log = own[0],
        .dt_bias = own[1],
        .step = builder->step,
        .work = BP_ABSENT};
    bp_build_delta_decode(builder, &operands, &scalars);
    delta_release(builder, delta);
}

static bp_delta_forward_scalars delta_scalars(const bp_builder *builder, const bp_delta *delta)
{
    return (bp_delta_forward_scalars){.batch = builder->spec->batch,
                                      .sequence = builder->spec->sequence,
                                      .key_heads = (int64_t)delta->key_heads,
                                      .value_heads = (int64_t)delta->value_heads,
                                      .key_width = (int64_t)delta->key_width,
                                      .value_width = (int64_t)delta->value_width};
}

void bp_delta_apply(bp_builder *builder, const bp_delta *delta, bp_ref qkv, bp_ref gates, bp_ref y)
{
    if (builder->mode == BP_MODE_DECODE) {
        delta_decode(builder, delta, qkv, gates, y);
        return;
    }
    const bp_delta_forward_scalars scalars = delta_scalars(builder, delta);
    bp_ref own[2];
    delta_acquire(builder, delta, BP_FOR_FORWARD, own);
    const bp_delta_forward_operands operands = {.y = y,
                                                .qkv = qkv,
                                                .gates = gates,
                                                .a_log = own[0],
                                                .dt_bias = own[1],
                                                .starts = delta_starts(builder),
                                                .work = BP_ABSENT};
    bp_build_delta_forward(builder, &operands, &scalars);
    delta_release(builder, delta);
}

/* One op writes both gradients, so a frozen one of the two is formed too and then left alone. */
static void delta_back_parameters(bp_builder *builder, const bp_delta *delta,
                                  const bp_delta_call *call, bp_ref d_steps, const bp_ref own[2])
{
    bp_delta_gates_parameters_scalars scalars = {.rows = (int64_t)builder->rows,
                                                 .value_heads = (int64_t)delta->value_heads};
    const bp_delta_gates_parameters_operands operands = {
        .d_a_log = bp_build_gradient(builder, delta->a_log, &scalars.accumulate),
        .d_dt_bias = bp_build_gradient(builder, delta->dt_bias, &scalars.accumulate),
        .d_steps = d_steps,
        .gates = call->gates,
        .a_log = own[0],
        .dt_bias = own[1]};
    bp_build_delta_gates_parameters(builder, &operands, &scalars);
}

void bp_delta_back(bp_builder *builder, const bp_delta *delta, const bp_delta_call *call)
{
    const bp_delta_forward_scalars scalars = delta_scalars(builder, delta);
    const bp_ref d_steps = bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_F32, builder->rows,
                                           2 * delta->value_heads, "d_steps");
    bp_ref own[2];
    delta_acquire(builder, delta, BP_FOR_BACKWARD, own);
    const bp_delta_backward_operands operands = {.d_qkv = call->d_qkv,
                                                 .d_steps = d_steps,
                                                 .d_y = call->d_y,
                                                 .qkv = call->qkv,
                                                 .gates = call->gates,
                                                 .a_log = own[0],
                                                 .dt_bias = own[1],
                                                 .starts = delta_starts(builder),
                                                 .work = BP_ABSENT};
    /* The rows have the same scalars. */
    bp_build_op(builder, BP_KERNEL_delta_backward, 1, (const bp_ref *)&operands, &scalars);
    const bp_delta_gates_backward_scalars gates = {.rows = (int64_t)builder->rows,
                                                   .value_heads = (int64_t)delta->value_heads};
    const bp_delta_gates_backward_operands back = {.d_gates = call->d_gates,
                                                   .d_steps = d_steps,
                                                   .gates = call->gates,
                                                   .a_log = own[0],
                                                   .dt_bias = own[1]};
    bp_build_delta_gates_backward(builder, &back, &gates);
    if (bp_delta_trains(builder, delta)) {
        delta_back_parameters(builder, delta, call, d_steps, own);
    }
    delta_release(builder, delta);
}
