/* SPDX-License-Identifier: MIT */
/* Kinds of nodes of pieces of time. */
#include "layers/nodes/node_kinds.h"

static const bp_value *value_of(const bp_block *block, uint32_t value)
{
    return &block->value[value];
}

/* What a node reads of an input: from its row on. */
static bp_ref ref_read(const block_run *run, const bp_node *node, uint32_t i)
{
    const bp_ref ref = run->ref[node->in[i]];
    const uint64_t width = value_width(value_of(run->block, node->in[i]));
    return bp_ref_present(ref) ? bp_ref_at(ref, node->row[i] * width) : ref;
}

static bp_ref workspace(bp_builder *builder, uint64_t rows, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), rows, width,
                           name);
}

/* Embeddings. */

static bool embedding_fits(const bp_block *block, const bp_node *node)
{
    return value_width(value_of(block, node->out[0])) == node->embedding.width;
}

static bool embedding_trains(const bp_builder *builder, const bp_node *node)
{
    return bp_build_trainable(builder, node->embedding.token);
}

static void embedding_forward(const block_run *run, const bp_node *node)
{
    bp_embedding_forward(run->builder, &node->embedding, run->ref[node->out[0]]);
}

static void embedding_backward(block_run *run, const bp_node *node)
{
    bp_embedding_backward(run->builder, &node->embedding, run->grad[node->out[0]]);
}

/* Layers of cells. */

static bool recurrent_fits(const bp_block *block, const bp_node *node)
{
    const bp_recurrent_stack *stack = &node->stack;
    const bp_value *x = value_of(block, node->in[0]), *states = value_of(block, node->out[0]);
    const bp_value *saved = value_of(block, node->out[1]), *after = value_of(block, node->out[2]);
    return stack->layers > 0 && value_width(x) == stack->first.input.in &&
           value_rows(x) >= node->row[0] + stack->first.length * stack->first.batch &&
           value_rows(states) == bp_stack_states(stack) &&
           value_width(states) == stack->first.width &&
           value_rows(saved) == bp_stack_saved(stack) &&
           value_width(saved) == 4 * stack->first.width && node->row[1] == 0 &&
           value_width(after) == stack->first.width &&
           value_rows(after) ==
               stack->layers * bp_cell_states(stack->first.cell) * stack->first.batch &&
           value_same_shape(value_of(block, node->in[1]), after);
}

static bool recurrent_trains(const bp_builder *builder, const bp_node *node)
{
    bool trains = false;
    for (uint32_t i = 0; i < node->stack.layers; i++) {
        const bp_recurrent layer = bp_stack_layer(&node->stack, i);
        trains = trains || bp_linear_trains(builder, &layer.input) ||
                 bp_linear_trains(builder, &layer.state);
    }
    return trains;
}

static bool recurrent_trains_reading(const bp_builder *builder, const bp_node *node)
{
    return bp_linear_trains_reading(builder, &node->stack.first.input);
}

static bp_stack_call stack_call(const block_run *run, const bp_node *node)
{
    return (bp_stack_call){.x = ref_read(run, node, 0),
                           .states = run->ref[node->out[0]],
                           .saved = run->ref[node->out[1]],
                           .before = run->ref[node->in[1]],
                           .after = BP_ABSENT,
                           .d_y = BP_ABSENT};
}

/* In decode the state goes on in its place. What backward has of `saved` already it does not make
 * again. */
static void recurrent_forward(const block_run *run, const bp_node *node)
{
    const bool decode = run->builder->mode == BP_MODE_DECODE;
    const bp_value *saved = value_of(run->block, node->out[1]);
    bp_stack_call call = stack_call(run, node);
    if ((run->making & value_bit(node->out[1])) == 0) {
        call.saved = workspace(run->builder, value_rows(saved), value_width(saved), saved->name);
    }
    bp_stack_forward(run->builder, &node->stack, &call);
    call.after = decode ? call.before : run->ref[node->out[2]];
    if (decode || (run->making & value_bit(node->out[2])) != 0) {
        bp_stack_hand_on(run->builder, &node->stack, &call);
    }
}

static void recurrent_backward(block_run *run, const bp_node *node)
{
    const uint32_t before = node->in[1];
    const bp_value *boundary = value_of(run->block, before);
    bp_stack_call call = stack_call(run, node);
    if (!bp_ref_present(run->grad[before])) {
        run->grad[before] = workspace(run->builder, value_rows(boundary), value_width(boundary),
                                      boundary->gradient);
    }
    call.before = run->grad[before];
    call.after = run->grad[node->out[2]];
    call.wanted = (run->wanted & value_bit(before)) != 0;
    call.d_y = run->grad[node->out[0]];
    call.x_wanted = (run->wanted & value_bit(node->in[0])) != 0;
    const bp_ref d_x = bp_stack_backward(run->builder, &node->stack, &call);
    if (call.x_wanted) {
        const bp_recurrent *first = &node->stack.first;
        node_add_gradient(run, node->in[0], d_x, first->length * first->batch * first->input.in);
    }
}

/* The loss of a piece. */

static bool loss_fits(const bp_block *block, const bp_node *node)
{
    const bp_value *x = value_of(block, node->in[0]), *boundary = value_of(block, node->in[1]);
    return value_width(x) == node->head.width && value_width(boundary) == node->head.width &&
           value_rows(x) >= node->row[0] + node->piece.length * node->piece.batch &&
           value_rows(boundary) > node->row[1];
}

/* Its value is wanted whatever is trained. */
static bool loss_trains(const bp_builder *builder, const bp_node *node)
{
    (void)builder;
    (void)node;
    return true;
}

/* Puts the labels of a piece where the loss reads them; returns those of before. */
static bp_ref loss_labels(bp_builder *builder, const bp_node *node)
{
    const bp_ref whole = builder->input[BP_INPUT_LABELS];
    builder->input[BP_INPUT_LABELS] = bp_piece_slice(builder, &node->piece, whole, "labels");
    return whole;
}

/* In training backward forms it. */
static void loss_forward(const block_run *run, const bp_node *node)
{
    bp_builder *builder = run->builder;
    if (builder->mode == BP_MODE_DECODE) {
        bp_head_logits(builder, &node->head, 1, ref_read(run, node, 1));
    } else if (builder->mode == BP_MODE_EVAL) {
        const bp_ref whole = loss_labels(builder, node);
        bp_loss_forward(builder, &node->head, ref_read(run, node, 0));
        builder->input[BP_INPUT_LABELS] = whole;
    }
}

static void loss_backward(block_run *run, const bp_node *node)
{
    const uint64_t rows = node->piece.length * node->piece.batch;
    const bp_ref d_x = workspace(run->builder, rows, node->head.width, "d_loss");
    const bp_ref whole = loss_labels(run->builder, node);
    bp_loss_backward(run->builder, &node->head, ref_read(run, node, 0), d_x, BP_ABSENT);
    run->builder->input[BP_INPUT_LABELS] = whole;
    node_add_gradient(run, node->in[0], d_x, rows * node->head.width);
}

const node_row node_piece_rows[BP_NODE_CONVOLUTION - BP_NODE_EMBEDDING] = {
    [BP_NODE_EMBEDDING - BP_NODE_EMBEDDING] = {.name = "embedding",
                                               .outputs = 1,
                                               .fits = embedding_fits,
                                               .trains = embedding_trains,
                                               .forward = embedding_forward,
                                               .backward = embedding_backward},
    [BP_NODE_RECURRENT - BP_NODE_EMBEDDING] = {.name = "recurrent",
                                               .inputs = 2,
                                               .outputs = 3,
                                               .reads = READS_OUTPUT(0) | READS_OUTPUT(1),
                                               .fits = recurrent_fits,
                                               .trains = recurrent_trains,
                                               .trains_reading = recurrent_trains_reading,
                                               .forward = recurrent_forward,
                                               .backward = recurrent_backward},
    [BP_NODE_LOSS - BP_NODE_EMBEDDING] = {.name = "loss",
                                          .inputs = 2,
                                          .reads = READS_INPUT(0),
                                          .acts = true,
                                          .fits = loss_fits,
                                          .trains = loss_trains,
                                          .forward = loss_forward,
                                          .backward = loss_backward},
};
