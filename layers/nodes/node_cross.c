/* SPDX-License-Identifier: MIT */
/* Kinds of nodes of decoders that look at an encoder's output. */
#include "layers/nodes/node_kinds.h"

static bool cross_fits(const bp_block *block, const bp_node *node)
{
    const bp_cross *cross = &node->cross;
    const bp_value *q = input_of(block, node, 0), *y = output_of(block, node, 0);
    const bp_value *lse = output_of(block, node, 1), *kv = output_of(block, node, 2);
    const uint64_t wide = cross->heads * cross->head_width;
    return value_width(q) == wide && value_same_shape(q, y) && lse->statistics &&
           value_rows(lse) == cross->heads && value_width(lse) == value_rows(q) &&
           value_width(kv) == bp_cross_width(cross) && cross->key.out == wide &&
           cross->value.out == wide && cross->key.in == cross->value.in;
}

static bool cross_trains(const bp_builder *builder, const bp_node *node)
{
    return bp_cross_trains(builder, &node->cross);
}

static bp_ref cross_made(const block_run *run, const bp_node *node, uint32_t i)
{
    const bool made = (run->making & value_bit(node->out[i])) != 0;
    return made ? ref_of_output(run, node, i) : BP_ABSENT;
}

static void cross_forward(const block_run *run, const bp_node *node)
{
    bp_cross_forward(run->builder, &node->cross, ref_of_input(run, node, 0),
                     ref_of_output(run, node, 0), cross_made(run, node, 1),
                     cross_made(run, node, 2));
}

static void cross_backward(block_run *run, const bp_node *node)
{
    const bp_cross_backward_call call = {.q = ref_of_input(run, node, 0),
                                         .out = ref_of_output(run, node, 0),
                                         .lse = ref_of_output(run, node, 1),
                                         .kv = ref_of_output(run, node, 2),
                                         .d_out = run->grad[node->out[0]],
                                         .d_q = node_make_gradient(run, node->in[0])};
    bp_cross_backward(run->builder, &node->cross, &call);
    node_take_gradient(run, node->in[0], call.d_q);
}

const node_row node_cross_rows[BP_NODE_EMBEDDING - BP_NODE_CROSS] = {
    [BP_NODE_CROSS - BP_NODE_CROSS] = {.name = "cross attention",
                                       .inputs = 1,
                                       .outputs = 3,
                                       .reads = READS_INPUT(0) | READS_OUTPUT(0) | READS_OUTPUT(1) |
                                                READS_OUTPUT(2),
                                       .fits = cross_fits,
                                       .trains = cross_trains,
                                       .forward = cross_forward,
                                       .backward = cross_backward},
};
