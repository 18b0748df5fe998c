/* SPDX-License-Identifier: MIT */
/* Layer and root-mean-square normalisation as ops. */
#include "layers/nodes/norm.h"

#include "core/plan/passes/token_lanes.h"

static bool is_root_mean_square(const bp_norm *norm)
{
    return norm->bias == BP_NO_PARAMETER;
}

static bool has_bias(const bp_norm *norm)
{
    return !is_root_mean_square(norm) && norm->bias != BP_NORM_NO_BIAS;
}

uint64_t bp_norm_statistics(const bp_norm *norm)
{
    return is_root_mean_square(norm) ? 1 : 2;
}

bool bp_norm_trains(const bp_builder *builder, const bp_norm *norm)
{
    return bp_build_trainable(builder, norm->weight) ||
           (has_bias(norm) && bp_build_trainable(builder, norm->bias));
}

/* What stands for the bias, or takes the gradient, of a layer norm without: (width). */
static bp_ref norm_zeros(bp_builder *builder, const bp_norm *norm)
{
    const bp_state_begin_scalars scalars = {.count = (int64_t)norm->width};
    const bp_state_begin_operands operands = {.y = bp_build_buffer(builder, BP_CLASS_WORKSPACE,
                                                                   bp_build_working(builder), 1,
                                                                   norm->width, "no_bias"),
                                              .x = BP_ABSENT,
                                              .step = builder->step};
    bp_build_state_begin(builder, &operands, &scalars);
    return operands.y;
}

static bp_ref second_row(bp_ref statistics, uint64_t rows)
{
    return bp_ref_present(statistics) ? bp_ref_at(statistics, rows) : statistics;
}

/* A norm over whole rows. */
static bp_head_norm whole_rows(const bp_norm *norm)
{
    return (bp_head_norm){.norm = *norm, .heads = 1, .pitch = norm->width};
}

void bp_head_norm_forward(bp_builder *builder, const bp_head_norm *of, uint64_t rows, bp_ref x,
                          bp_ref y, bp_ref rstd)
{
    const bp_norm *norm = &of->norm;
    const bp_rmsnorm_forward_scalars scalars = {.rows = (int64_t)rows,
                                                .width = (int64_t)norm->width,
                                                .epsilon = norm->epsilon,
                                                .heads = (int64_t)of->heads,
                                                .pitch = (int64_t)of->pitch,
                                                .offset = norm->offset ? 1 : 0};
    const bp_rmsnorm_forward_operands operands = {
        .y = y,
        .rstd = rstd,
        .x = x,
        .weight = bp_build_acquire(builder, norm->weight, BP_FOR_FORWARD)};
    bp_build_rmsnorm_forward(builder, &operands, &scalars);
    bp_build_release(builder, norm->weight);
}

void bp_norm_forward(bp_builder *builder, const bp_norm *norm, uint64_t rows, bp_ref x, bp_ref y,
                     bp_ref statistics)
{
    if (is_root_mean_square(norm)) {
        const bp_head_norm whole = whole_rows(norm);
        bp_head_norm_forward(builder, &whole, rows, x, y, statistics);
        return;
    }
    const bp_layernorm_forward_scalars scalars = {
        .rows = (int64_t)rows, .width = (int64_t)norm->width, .epsilon = norm->epsilon};
    const bp_layernorm_forward_operands operands = {
        .y = y,
        .mean = statistics,
        .rstd = second_row(statistics, rows),
        .x = x,
        .weight = bp_build_acquire(builder, norm->weight, BP_FOR_FORWARD),
        .bias = has_bias(norm) ? bp_build_acquire(builder, norm->bias, BP_FOR_FORWARD)
                               : norm_zeros(builder, norm)};
    bp_build_layernorm_forward(builder, &operands, &scalars);
    if (has_bias(norm)) {
        bp_build_release(builder, norm->bias);
    }
    bp_build_release(builder, norm->weight);
}

static void rms_backward_weight(bp_builder *builder, const bp_head_norm *of,
                                const bp_norm_backward_call *call)
{
    bp_rmsnorm_backward_weight_scalars scalars = {.rows = (int64_t)builder->rows,
                                                  .width = (int64_t)of->norm.width,
                                                  .heads = (int64_t)of->heads,
                                                  .pitch = (int64_t)of->pitch};
    const bp_rmsnorm_backward_weight_operands operands = {
        .d_weight = bp_build_gradient(builder, of->norm.weight, &scalars.accumulate),
        .d_y = bp_token_lane_at(builder, call->d_y, of->pitch),
        .x = bp_token_lane_at(builder, call->x, of->pitch),
        .rstd = bp_token_lane_at(builder, call->statistics, of->heads)};
    bp_build_rmsnorm_backward_weight(builder, &operands, &scalars);
}

/* One op writes both gradients, so a frozen one of the two is formed too and then left alone. */
static void backward_parameters(bp_builder *builder, const bp_norm *norm,
                                const bp_norm_backward_call *call, uint64_t all)
{
    bp_layernorm_backward_parameters_scalars scalars = {.rows = (int64_t)builder->rows,
                                                        .width = (int64_t)norm->width};
    /* Both gradients are written by this one op, so one flag holds for both. */
    const bp_layernorm_backward_parameters_operands operands = {
        .d_weight = bp_build_gradient(builder, norm->weight, &scalars.accumulate),
        .d_bias = has_bias(norm) ? bp_build_gradient(builder, norm->bias, &scalars.accumulate)
                                 : norm_zeros(builder, norm),
        .d_y = bp_token_lane_at(builder, call->d_y, norm->width),
        .x = bp_token_lane_at(builder, call->x, norm->width),
        .mean = bp_token_lane_at(builder, call->statistics, 1),
        .rstd = second_row(bp_token_lane_at(builder, call->statistics, 1), all)};
    bp_build_layernorm_backward_parameters(builder, &operands, &scalars);
}

static void rms_backward_input(bp_builder *builder, const bp_head_norm *of,
                               const bp_norm_backward_call *call)
{
    const bp_norm *norm = &of->norm;
    const bp_rmsnorm_backward_input_scalars scalars = {.rows = (int64_t)builder->rows,
                                                       .width = (int64_t)norm->width,
                                                       .heads = (int64_t)of->heads,
                                                       .pitch = (int64_t)of->pitch,
                                                       .offset = norm->offset ? 1 : 0};
    const bp_rmsnorm_backward_input_operands operands = {
        .d_x = call->over ? call->residual : call->d_y,
        .d_y = call->d_y,
        .x = call->x,
        .weight = bp_build_acquire(builder, norm->weight, BP_FOR_BACKWARD),
        .rstd = call->statistics,
        .residual = call->residual};
    bp_build_rmsnorm_backward_input(builder, &operands, &scalars);
    bp_build_release(builder, norm->weight);
}

static void backward_input(bp_builder *builder, const bp_norm *norm,
                           const bp_norm_backward_call *call)
{
    const bp_layernorm_backward_input_scalars scalars = {.rows = (int64_t)builder->rows,
                                                         .width = (int64_t)norm->width};
    const bp_layernorm_backward_input_operands operands = {
        .d_x = call->over ? call->residual : call->d_y,
        .d_y = call->d_y,
        .x = call->x,
        .weight = bp_build_acquire(builder, norm->weight, BP_FOR_BACKWARD),
        .mean = call->statistics,
        .rstd = second_row(call->statistics, builder->rows),
        .residual = call->residual};
    bp_build_layernorm_backward_input(builder, &operands, &scalars);
    bp_build_release(builder, norm->weight);
}

void bp_head_norm_backward(bp_builder *builder, const bp_head_norm *norm,
                           const bp_norm_backward_call *call)
{
    const bool trains = bp_norm_trains(builder, &norm->norm);
    for (uint32_t lane = 0; trains && lane < bp_token_lanes_count(builder); lane++) {
        bp_token_lane_begin(builder, lane);
        rms_backward_weight(builder, norm, call);
        bp_token_lane_end(builder, lane);
    }
    if (call->input_wanted) {
        rms_backward_input(builder, norm, call);
    }
}

void bp_norm_backward(bp_builder *builder, const bp_norm *norm, const bp_norm_backward_call *call)
{
    if (is_root_mean_square(norm)) {
        const bp_head_norm whole = whole_rows(norm);
        bp_head_norm_backward(builder, &whole, call);
        return;
    }
    const uint64_t all = builder->rows;
    const bool trains = bp_norm_trains(builder, norm);
    for (uint32_t lane = 0; trains && lane < bp_token_lanes_count(builder); lane++) {
        bp_token_lane_begin(builder, lane);
        backward_parameters(builder, norm, call, all);
        bp_token_lane_end(builder, lane);
    }
    if (call->input_wanted) {
        backward_input(builder, norm, call);
    }
}
