/* SPDX-License-Identifier: MIT */
/* Kinds of nodes of mixtures of experts. */
#include "layers/nodes/node_kinds.h"

/* Tokens of a node, of which one value has a row each. */
static uint64_t tokens_of(const block_run *run, uint32_t value)
{
    return value_rows(&run->block->value[value]);
}

static bool is_routing(const bp_value *value)
{
    return value->statistics == BP_VALUE_I32;
}

/* The router: logits -> what it chooses. */

static bool route_fits(const bp_block *block, const bp_node *node)
{
    const bp_value *logits = input_of(block, node, 0), *routing = output_of(block, node, 0);
    return value_width(logits) == node->experts.experts && is_routing(routing) &&
           count_of(routing) == bp_experts_words(&node->experts, value_rows(logits));
}

static void route_forward(const block_run *run, const bp_node *node)
{
    const uint64_t tokens = tokens_of(run, node->in[0]);
    bp_experts_route(run->builder, &node->experts, tokens, ref_of_input(run, node, 0),
                     ref_of_output(run, node, 0));
    if (!run->back) {
        bp_experts_count(run->builder, &node->experts, tokens, ref_of_input(run, node, 0),
                         ref_of_output(run, node, 0));
    }
}

static void route_backward(block_run *run, const bp_node *node)
{
    const bp_ref d_logits = node_make_gradient(run, node->in[0]);
    bp_experts_route_backward(run->builder, &node->experts, tokens_of(run, node->in[0]),
                              ref_of_input(run, node, 0), ref_of_output(run, node, 0),
                              run->grad[node->out[0]], d_logits);
    bp_experts_balance_backward(run->builder, &node->experts, tokens_of(run, node->in[0]),
                                ref_of_input(run, node, 0), d_logits);
    node_take_gradient(run, node->in[0], d_logits);
}

/* x, routing -> gates and ups of every choice. */

static bool enter_fits(const bp_block *block, const bp_node *node)
{
    const bp_experts *e = &node->experts;
    const bp_value *x = input_of(block, node, 0), *y = output_of(block, node, 0);
    return value_width(x) == e->width && value_width(y) == 2 * e->inner &&
           value_rows(y) == value_rows(x) * e->chosen && is_routing(input_of(block, node, 1));
}

static bool enter_trains(const bp_builder *builder, const bp_node *node)
{
    return bp_experts_trains(builder, &node->experts, node->experts.gate_up);
}

static bool enter_reads(const bp_builder *builder, const bp_node *node)
{
    return bp_experts_trained(builder, node->experts.gate_up);
}

static void enter_forward(const block_run *run, const bp_node *node)
{
    bp_experts_enter(run->builder, &node->experts, tokens_of(run, node->in[0]),
                     ref_of_input(run, node, 0), ref_of_input(run, node, 1),
                     ref_of_output(run, node, 0));
}

static void enter_backward(block_run *run, const bp_node *node)
{
    const uint32_t x = node->in[0];
    const bp_ref sum = run->grad[x];
    bp_ref d_x = BP_ABSENT;
    if (wants(run, node, 0)) {
        d_x = bp_ref_present(sum) ? sum : node_make_gradient(run, x);
    }
    bp_experts_enter_backward(run->builder, &node->experts, tokens_of(run, x),
                              ref_of_input(run, node, 0), ref_of_input(run, node, 1),
                              run->grad[node->out[0]], sum, d_x);
    run->grad[x] = d_x;
}

/* The activated rows, routing, stream -> stream + what the experts make. */

static bool leave_fits(const bp_block *block, const bp_node *node)
{
    const bp_experts *e = &node->experts;
    const bp_value *x = input_of(block, node, 0), *y = output_of(block, node, 0);
    return value_width(x) == e->inner && value_width(y) == e->width &&
           value_rows(x) == value_rows(y) * e->chosen && is_routing(input_of(block, node, 1)) &&
           value_same_shape(input_of(block, node, 2), y);
}

static bool leave_trains(const bp_builder *builder, const bp_node *node)
{
    return bp_experts_trains(builder, &node->experts, node->experts.down);
}

static void leave_forward(const block_run *run, const bp_node *node)
{
    bp_experts_leave(run->builder, &node->experts, tokens_of(run, node->out[0]),
                     ref_of_input(run, node, 0), ref_of_input(run, node, 1),
                     ref_of_input(run, node, 2), ref_of_output(run, node, 0));
}

/* The stream's gradient is that of the sum: the very buffer. */
static void leave_backward(block_run *run, const bp_node *node)
{
    const uint64_t tokens = tokens_of(run, node->out[0]);
    const bp_ref d = run->grad[node->out[0]];
    if (wants(run, node, 0) || wants(run, node, 1) || leave_trains(run->builder, node)) {
        const bp_experts_leave_call call = {
            .active = ref_of_input(run, node, 0),
            .routing = ref_of_input(run, node, 1),
            .d_y = d,
            .d_active = node_make_gradient(run, node->in[0]),
            .d_weights = bp_build_buffer(run->builder, BP_CLASS_WORKSPACE, BP_F32, tokens,
                                         node->experts.chosen, "d_weights"),
            .spare = (run->held & value_bit(node->in[0])) == 0};
        bp_experts_leave_backward(run->builder, &node->experts, tokens, &call);
        node_take_gradient(run, node->in[0], call.d_active);
        run->grad[node->in[1]] = call.d_weights;
    }
    if (wants(run, node, 2)) {
        node_take_gradient(run, node->in[2], d);
    }
}

/* Rows by their gates. */

static bool row_gate_fits(const bp_block *block, const bp_node *node)
{
    const bp_value *gate = input_of(block, node, 1);
    const bp_value *y = output_of(block, node, 0);
    return same_fits(block, node) &&
           (value_same_shape(gate, y) ||
            (value_width(gate) == 1 && value_rows(gate) == value_rows(y)));
}

/* What has a gate is a row: of one element where each has its own. */
static bp_row_gate_scalars row_gate_scalars(const block_run *run, const bp_node *node)
{
    const uint64_t rows = count_of(input_of(run->block, node, 1));
    const uint64_t count = count_of(output_of(run->block, node, 0));
    return (bp_row_gate_scalars){.rows = (int64_t)rows, .width = (int64_t)(count / rows)};
}

static void row_gate_forward(const block_run *run, const bp_node *node)
{
    const bp_row_gate_scalars scalars = row_gate_scalars(run, node);
    const bp_row_gate_operands operands = {.y = ref_of_output(run, node, 0),
                                           .x = ref_of_input(run, node, 0),
                                           .gate = ref_of_input(run, node, 1)};
    bp_build_row_gate(run->builder, &operands, &scalars);
}

static void row_gate_backward(block_run *run, const bp_node *node)
{
    const bp_ref d = run->grad[node->out[0]];
    const bp_row_gate_scalars sizes = row_gate_scalars(run, node);
    const bp_row_gate_backward_scalars scalars = {.rows = sizes.rows, .width = sizes.width};
    const bp_row_gate_backward_operands operands = {.d_x = d,
                                                    .d_gate = node_make_gradient(run, node->in[1]),
                                                    .d_y = d,
                                                    .x = ref_of_input(run, node, 0),
                                                    .gate = ref_of_input(run, node, 1)};
    bp_build_row_gate_backward(run->builder, &operands, &scalars);
    node_take_gradient(run, node->in[0], d);
    node_take_gradient(run, node->in[1], operands.d_gate);
}

const node_row node_experts_rows[BP_NODE_SPLIT - BP_NODE_ROUTE] = {
    [0] = {.name = "route",
           .inputs = 1,
           .outputs = 1,
           .reads = READS_INPUT(0) | READS_OUTPUT(0),
           .fits = route_fits,
           .forward = route_forward,
           .backward = route_backward},
    [BP_NODE_EXPERTS_ENTER - BP_NODE_ROUTE] = {.name = "experts enter",
                                               .inputs = 2,
                                               .outputs = 1,
                                               .reads = READS_INPUT(1),
                                               .ahead = true,
                                               .fits = enter_fits,
                                               .trains = enter_trains,
                                               .trains_reading = enter_reads,
                                               .forward = enter_forward,
                                               .backward = enter_backward},
    [BP_NODE_EXPERTS_LEAVE - BP_NODE_ROUTE] = {.name = "experts leave",
                                               .inputs = 3,
                                               .outputs = 1,
                                               .reads = READS_INPUT(0) | READS_INPUT(1),
                                               .ahead = true,
                                               .places = 4,
                                               .fits = leave_fits,
                                               .trains = leave_trains,
                                               .forward = leave_forward,
                                               .backward = leave_backward},
    [BP_NODE_ROW_GATE - BP_NODE_ROUTE] = {.name = "row gate",
                                          .inputs = 2,
                                          .outputs = 1,
                                          .reads = READS_INPUT(0) | READS_INPUT(1),
                                          .fits = row_gate_fits,
                                          .forward = row_gate_forward,
                                          .backward = row_gate_backward},
};
