/* SPDX-License-Identifier: MIT */
/* Kinds of nodes that only some families of today have. */
#include "layers/nodes/node_kinds.h"

/* Gates and ups side by side. */

static bool gated_fits(const bp_block *block, const bp_node *node)
{
    const bp_value *x = input_of(block, node, 0), *y = output_of(block, node, 0);
    return value_rows(x) == value_rows(y) && value_width(x) == 2 * value_width(y);
}

static void clamped_forward(const block_run *run, const bp_node *node)
{
    const bp_clamped_forward_scalars scalars = {
        .count = (int64_t)count_of(output_of(run->block, node, 0)),
        .alpha = node->clamp.alpha,
        .limit = node->clamp.limit};
    const bp_clamped_forward_operands operands = {.y = ref_of_output(run, node, 0),
                                                  .x = ref_of_input(run, node, 0)};
    bp_build_clamped_forward(run->builder, &operands, &scalars);
}

static void clamped_backward(block_run *run, const bp_node *node)
{
    const bp_clamped_backward_scalars scalars = {
        .count = (int64_t)count_of(output_of(run->block, node, 0)),
        .alpha = node->clamp.alpha,
        .limit = node->clamp.limit};
    const bp_ref d_x = node_make_gradient(run, node->in[0]);
    const bp_clamped_backward_operands operands = {
        .d_x = d_x, .d_y = run->grad[node->out[0]], .x = ref_of_input(run, node, 0)};
    bp_build_clamped_backward(run->builder, &operands, &scalars);
    node_take_gradient(run, node->in[0], d_x);
}

static void gated_forward(const block_run *run, const bp_node *node)
{
    const bp_value *y = output_of(run->block, node, 0);
    const uint64_t width = value_width(y);
    if (node->clamp.limit > 0.0) {
        clamped_forward(run, node);
        return;
    }
    const bp_swiglu_forward_scalars scalars = {.count = (int64_t)count_of(y),
                                               .kind = node->gate,
                                               .width = (int64_t)width,
                                               .pitch = 2 * (int64_t)width};
    const bp_ref x = ref_of_input(run, node, 0);
    const bp_swiglu_forward_operands operands = {
        .y = ref_of_output(run, node, 0), .gate = x, .up = bp_ref_at(x, width)};
    bp_build_swiglu_forward(run->builder, &operands, &scalars);
}

static void gated_backward(block_run *run, const bp_node *node)
{
    const bp_value *y = output_of(run->block, node, 0);
    const uint64_t width = value_width(y);
    if (node->clamp.limit > 0.0) {
        clamped_backward(run, node);
        return;
    }
    const bp_swiglu_backward_scalars scalars = {.count = (int64_t)count_of(y),
                                                .kind = node->gate,
                                                .width = (int64_t)width,
                                                .pitch = 2 * (int64_t)width};
    const bp_ref x = ref_of_input(run, node, 0), d_x = node_make_gradient(run, node->in[0]);
    const bp_swiglu_backward_operands operands = {.d_gate = d_x,
                                                  .d_up = bp_ref_at(d_x, width),
                                                  .d_y = run->grad[node->out[0]],
                                                  .gate = x,
                                                  .up = bp_ref_at(x, width)};
    bp_build_swiglu_backward(run->builder, &operands, &scalars);
    node_take_gradient(run, node->in[0], d_x);
}

/* Products with a constant. */

static void scale_by(bp_builder *builder, double factor, uint64_t count, bp_ref x, bp_ref y)
{
    const bp_scale_scalars scalars = {.count = (int64_t)count, .factor = factor};
    const bp_scale_operands operands = {.y = y, .x = x};
    bp_build_scale(builder, &operands, &scalars);
}

static void scale_forward(const block_run *run, const bp_node *node)
{
    scale_by(run->builder, node->factor, count_of(input_of(run->block, node, 0)),
             ref_of_input(run, node, 0), ref_of_output(run, node, 0));
}

static void scale_backward(block_run *run, const bp_node *node)
{
    const bp_ref d = run->grad[node->out[0]];
    scale_by(run->builder, node->factor, count_of(input_of(run->block, node, 0)), d, d);
    node_take_gradient(run, node->in[0], d);
}

/* Sums. */

static bool add_fits(const bp_block *block, const bp_node *node)
{
    return same_fits(block, node) &&
           value_same_shape(input_of(block, node, 0), input_of(block, node, 1));
}

static void add_forward(const block_run *run, const bp_node *node)
{
    const int64_t count = (int64_t)count_of(input_of(run->block, node, 0));
    const bp_dropout_scalars sum = {.count = count, .per_sample = count};
    const bp_dropout_operands parts = {.y = ref_of_output(run, node, 0),
                                       .x = ref_of_input(run, node, 0),
                                       .residual = ref_of_input(run, node, 1),
                                       .step = run->builder->step};
    bp_build_dropout(run->builder, &parts, &sum);
}

/* The stream's gradient is the sum's, the very buffer: x gets a copy, which others change. */
static void add_backward(block_run *run, const bp_node *node)
{
    const bp_ref d = run->grad[node->out[0]];
    if (wants(run, node, 0)) {
        const bp_ref d_x = node_make_gradient(run, node->in[0]);
        const bp_copy_scalars all = {.count = (int64_t)count_of(input_of(run->block, node, 0))};
        const bp_copy_operands copied = {.y = d_x, .x = d};
        bp_build_copy(run->builder, &copied, &all);
        node_take_gradient(run, node->in[0], d_x);
    }
    if (wants(run, node, 1)) {
        node_take_gradient(run, node->in[1], d);
    }
}

/* Parts of heads, brought together. */

static bool regroup_fits(const bp_block *block, const bp_node *node)
{
    const uint64_t pieces = node->heads * node->parts;
    return same_fits(block, node) && pieces > 0 &&
           value_width(input_of(block, node, 0)) % pieces == 0;
}

/* back: from parts to heads, which is the derivative. */
static void regroup_move(const block_run *run, const bp_node *node, bp_ref y, bp_ref x, bool back)
{
    const bp_value *value = input_of(run->block, node, 0);
    const int64_t heads = (int64_t)node->heads, parts = node->parts;
    const bp_regroup_scalars scalars = {.rows = (int64_t)value_rows(value),
                                        .groups = back ? parts : heads,
                                        .parts = back ? heads : parts,
                                        .width = (int64_t)value_width(value) / (heads * parts)};
    const bp_regroup_operands operands = {.y = y, .x = x};
    bp_build_regroup(run->builder, &operands, &scalars);
}

static void regroup_forward(const block_run *run, const bp_node *node)
{
    regroup_move(run, node, ref_of_output(run, node, 0), ref_of_input(run, node, 0), false);
}

static void regroup_backward(block_run *run, const bp_node *node)
{
    const bp_ref d_x = node_make_gradient(run, node->in[0]);
    regroup_move(run, node, d_x, run->grad[node->out[0]], true);
    node_take_gradient(run, node->in[0], d_x);
}

const node_row node_gate_rows[BP_NODE_ROUTE - BP_NODE_GATED] = {
    [0] = {.name = "gated",
           .inputs = 1,
           .outputs = 1,
           .reads = READS_INPUT(0),
           .fits = gated_fits,
           .forward = gated_forward,
           .backward = gated_backward},
    [BP_NODE_SCALE - BP_NODE_GATED] = {.name = "scale",
                                       .inputs = 1,
                                       .outputs = 1,
                                       .places = 1,
                                       .fits = same_fits,
                                       .forward = scale_forward,
                                       .backward = scale_backward},
    [BP_NODE_ADD - BP_NODE_GATED] = {.name = "add",
                                     .inputs = 2,
                                     .outputs = 1,
                                     .places = 2,
                                     .fits = add_fits,
                                     .forward = add_forward,
                                     .backward = add_backward},
    [BP_NODE_REGROUP - BP_NODE_GATED] = {.name = "regroup",
                                         .inputs = 1,
                                         .outputs = 1,
                                         .fits = regroup_fits,
                                         .forward = regroup_forward,
                                         .backward = regroup_backward},
};
