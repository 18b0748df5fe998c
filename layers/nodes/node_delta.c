/* SPDX-License-Identifier: MIT */
/* Kinds of nodes of linear attention, and of gates beside queries. */
#include "layers/nodes/node_kinds.h"

/* Parts of rows. */

static bool split_fits(const bp_block *block, const bp_node *node)
{
    const bp_row_parts *split = &node->split;
    const bp_value *x = input_of(block, node, 0);
    bool fits = value_width(x) == bp_row_parts_width(split) && split->groups > 0;
    for (uint32_t i = 0; i < BP_ROW_PARTS; i++) {
        const bool there = split->width[i] > 0;
        fits = fits && (!there || split->to[i] < node->parts);
        if (fits && there) {
            const bp_value *y = output_of(block, node, split->to[i]);
            fits = value_rows(y) == value_rows(x) &&
                   split->column[i] + split->groups * split->width[i] <= value_width(y);
        }
    }
    return fits;
}

/* Where the outputs that are made, or the gradients of all, are, and the widths of their rows. */
static void split_outputs(const block_run *run, const bp_node *node, bool back,
                          bp_ref y[BP_ROW_PARTS_OUTPUTS], uint64_t pitch[BP_ROW_PARTS_OUTPUTS])
{
    for (uint32_t i = 0; i < BP_ROW_PARTS_OUTPUTS; i++) {
        const bool there = i < node->parts;
        const bool made = there && (run->making & value_bit(node->out[i])) != 0;
        y[i] = there && back ? run->grad[node->out[i]]
               : made        ? ref_of_output(run, node, i)
                             : BP_ABSENT;
        pitch[i] = there ? value_width(output_of(run->block, node, i)) : 0;
    }
}

static void split_forward(const block_run *run, const bp_node *node)
{
    bp_ref y[BP_ROW_PARTS_OUTPUTS];
    uint64_t pitch[BP_ROW_PARTS_OUTPUTS];
    split_outputs(run, node, false, y, pitch);
    bp_row_parts_split(run->builder, &node->split, value_rows(input_of(run->block, node, 0)),
                       ref_of_input(run, node, 0), y, pitch);
}

static void split_backward(block_run *run, const bp_node *node)
{
    bp_ref y[BP_ROW_PARTS_OUTPUTS];
    uint64_t pitch[BP_ROW_PARTS_OUTPUTS];
    const bp_ref d_x = node_make_gradient(run, node->in[0]);
    split_outputs(run, node, true, y, pitch);
    bp_row_parts_join(run->builder, &node->split, value_rows(input_of(run->block, node, 0)), d_x, y,
                      pitch);
    node_take_gradient(run, node->in[0], d_x);
}

/* Short convolutions. */

static bool conv_fits(const bp_block *block, const bp_node *node)
{
    return same_fits(block, node) &&
           value_width(input_of(block, node, 0)) == node->short_conv.channels;
}

static bool conv_trains(const bp_builder *builder, const bp_node *node)
{
    return bp_build_trainable(builder, node->short_conv.weight);
}

static void conv_forward(const block_run *run, const bp_node *node)
{
    bp_short_conv_apply(run->builder, &node->short_conv, ref_of_input(run, node, 0),
                        ref_of_output(run, node, 0));
}

static void conv_backward(block_run *run, const bp_node *node)
{
    const bool wanted = wants(run, node, 0);
    const bp_ref d_x = wanted ? node_make_gradient(run, node->in[0]) : BP_ABSENT;
    bp_short_conv_back(run->builder, &node->short_conv, ref_of_input(run, node, 0),
                       run->grad[node->out[0]], d_x);
    if (wanted) {
        node_take_gradient(run, node->in[0], d_x);
    }
}

/* The gated delta rule. */

static bool delta_fits(const bp_block *block, const bp_node *node)
{
    const bp_delta *delta = &node->delta;
    const bp_value *qkv = input_of(block, node, 0), *gates = input_of(block, node, 1);
    const bp_value *y = output_of(block, node, 0);
    return value_width(qkv) == bp_delta_row(delta) && value_rows(gates) == value_rows(qkv) &&
           value_width(gates) == 2 * delta->value_heads &&
           value_rows(y) * value_width(y) == value_rows(qkv) * bp_delta_values(delta);
}

static bool delta_trains(const bp_builder *builder, const bp_node *node)
{
    return bp_delta_trains(builder, &node->delta);
}

static void delta_forward(const block_run *run, const bp_node *node)
{
    bp_delta_apply(run->builder, &node->delta, ref_of_input(run, node, 0),
                   ref_of_input(run, node, 1), ref_of_output(run, node, 0));
}

static void delta_backward(block_run *run, const bp_node *node)
{
    const bp_delta_call call = {.qkv = ref_of_input(run, node, 0),
                                .gates = ref_of_input(run, node, 1),
                                .d_y = run->grad[node->out[0]],
                                .d_qkv = node_make_gradient(run, node->in[0]),
                                .d_gates = node_make_gradient(run, node->in[1])};
    bp_delta_back(run->builder, &node->delta, &call);
    node_take_gradient(run, node->in[0], call.d_qkv);
    node_take_gradient(run, node->in[1], call.d_gates);
}

const node_row node_delta_rows[BP_NODE_CROSS - BP_NODE_SPLIT] = {
    [0] = {.name = "split",
           .inputs = 1,
           .fits = split_fits,
           .forward = split_forward,
           .backward = split_backward},
    [BP_NODE_SHORT_CONV - BP_NODE_SPLIT] = {.name = "short convolution",
                                            .inputs = 1,
                                            .outputs = 1,
                                            .reads = READS_INPUT(0),
                                            .fits = conv_fits,
                                            .trains = conv_trains,
                                            .forward = conv_forward,
                                            .backward = conv_backward},
    [BP_NODE_DELTA - BP_NODE_SPLIT] = {.name = "delta rule",
                                       .inputs = 2,
                                       .outputs = 1,
                                       .reads = READS_INPUT(0) | READS_INPUT(1),
                                       .fits = delta_fits,
                                       .trains = delta_trains,
                                       .forward = delta_forward,
                                       .backward = delta_backward},
};
