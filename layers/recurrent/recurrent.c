/* SPDX-License-Identifier: MIT */
/* Layers of recurrent cells as ops: the products over all steps at once where steps do not wait for
 * each other. */
#include "layers/recurrent/recurrent.h"

uint64_t bp_cell_gates(bp_cell cell)
{
    return cell == BP_CELL_LSTM ? 4 : 3;
}

uint64_t bp_cell_states(bp_cell cell)
{
    return cell == BP_CELL_LSTM ? 2 : 1;
}

static bp_ref make(bp_builder *builder, uint64_t rows, uint64_t width, const char *name)
{
    return bp_build_buffer(builder, BP_CLASS_WORKSPACE, bp_build_working(builder), rows, width,
                           name);
}

/* Step t of something that has `parts` times the width in each row. */
static bp_ref step_of(const bp_recurrent *layer, bp_ref ref, uint64_t t, uint64_t parts)
{
    return bp_ref_at(ref, t * layer->batch * parts * layer->width);
}

/* y (batch, width) = x, or 0. */
static void begin(bp_builder *builder, const bp_recurrent *layer, bp_ref x, bp_ref y)
{
    const bp_state_begin_scalars scalars = {.count = (int64_t)(layer->batch * layer->width),
                                            .decode = builder->mode == BP_MODE_DECODE ? 1 : 0};
    const bp_state_begin_operands operands = {.y = y, .x = x, .step = builder->step};
    bp_build_state_begin(builder, &operands, &scalars);
}

static void gru_step(bp_builder *builder, const bp_recurrent *layer, const bp_recurrent_tape *tape,
                     uint64_t t, bp_ref hidden)
{
    const bp_gru_forward_scalars scalars = {(int64_t)layer->batch, (int64_t)layer->width};
    const bp_gru_forward_operands operands = {.h = step_of(layer, tape->h, t + 1, 1),
                                              .kept = step_of(layer, tape->kept, t, 1),
                                              .gates = step_of(layer, tape->gates, t, 3),
                                              .hidden = hidden,
                                              .h_before = step_of(layer, tape->h, t, 1)};
    bp_linear_forward(builder, &layer->state, operands.h_before, BP_ABSENT, hidden);
    bp_build_gru_forward(builder, &operands, &scalars);
}

static void lstm_step(bp_builder *builder, const bp_recurrent *layer, const bp_recurrent_tape *tape,
                      uint64_t t)
{
    const bp_lstm_forward_scalars scalars = {(int64_t)layer->batch, (int64_t)layer->width};
    const bp_lstm_forward_operands operands = {.h = step_of(layer, tape->h, t + 1, 1),
                                               .c = step_of(layer, tape->c, t + 1, 1),
                                               .gates = step_of(layer, tape->gates, t, 4),
                                               .c_before = step_of(layer, tape->c, t, 1)};
    bp_linear_forward(builder, &layer->state, step_of(layer, tape->h, t, 1), operands.gates,
                      operands.gates);
    bp_build_lstm_forward(builder, &operands, &scalars);
}

/* Fills the tape from x (length * batch, in). In BP_MODE_DECODE the state counts only where
 * step.position is not 0. */
static void recurrent_layer_forward(bp_builder *builder, const bp_recurrent *layer, bp_ref x,
                                    const bp_recurrent_state *before, const bp_recurrent_tape *tape)
{
    const uint64_t rows = builder->rows;
    const bool lstm = layer->cell == BP_CELL_LSTM;
    begin(builder, layer, before->h, tape->h);
    if (lstm) {
        begin(builder, layer, before->c, tape->c);
    }
    builder->rows = layer->length * layer->batch;
    bp_linear_forward(builder, &layer->input, x, BP_ABSENT, tape->gates);
    builder->rows = layer->batch;
    const bp_ref hidden =
        lstm ? BP_ABSENT
             : make(builder, layer->batch, bp_cell_gates(layer->cell) * layer->width, "hidden");
    for (uint64_t t = 0; t < layer->length; t++) {
        if (lstm) {
            lstm_step(builder, layer, tape, t);
        } else {
            gru_step(builder, layer, tape, t, hidden);
        }
    }
    builder->rows = rows;
}

/* Gradients with respect to the products: of x, and of the state (the same of an LSTM). */
typedef struct products {
    bp_ref d_gates;  /* (length * batch, gates * width) */
    bp_ref d_hidden; /* the same */
} products;

static void gru_back(bp_builder *builder, const bp_recurrent *layer, const bp_recurrent_tape *tape,
                     const bp_recurrent_backward_call *call, const products *to, uint64_t t)
{
    const bp_gru_backward_scalars scalars = {(int64_t)layer->batch, (int64_t)layer->width};
    const bp_gru_backward_operands operands = {.d_gates = step_of(layer, to->d_gates, t, 3),
                                               .d_hidden = step_of(layer, to->d_hidden, t, 3),
                                               .d_h = call->d_state.h,
                                               .d_y = step_of(layer, call->d_y, t, 1),
                                               .gates = step_of(layer, tape->gates, t, 3),
                                               .kept = step_of(layer, tape->kept, t, 1),
                                               .h_before = step_of(layer, tape->h, t, 1)};
    bp_build_gru_backward(builder, &operands, &scalars);
    if (t > 0 || call->d_state_wanted) {
        bp_linear_backward_input_add(builder, &layer->state, operands.d_hidden, operands.d_h);
    }
}

static void lstm_back(bp_builder *builder, const bp_recurrent *layer, const bp_recurrent_tape *tape,
                      const bp_recurrent_backward_call *call, const products *to, uint64_t t)
{
    const bp_lstm_backward_scalars scalars = {(int64_t)layer->batch, (int64_t)layer->width};
    const bp_lstm_backward_operands operands = {.d_gates = step_of(layer, to->d_gates, t, 4),
                                                .d_c = call->d_state.c,
                                                .d_h = call->d_state.h,
                                                .d_y = step_of(layer, call->d_y, t, 1),
                                                .gates = step_of(layer, tape->gates, t, 4),
                                                .c = step_of(layer, tape->c, t + 1, 1),
                                                .c_before = step_of(layer, tape->c, t, 1)};
    bp_build_lstm_backward(builder, &operands, &scalars);
    if (t > 0 || call->d_state_wanted) {
        bp_linear_backward_input(builder, &layer->state, operands.d_gates, operands.d_h);
    }
}

/* Gradients of the layer's parameters, then those of the call. */
static void recurrent_layer_backward(bp_builder *builder, const bp_recurrent *layer,
                                     const bp_recurrent_tape *tape,
                                     const bp_recurrent_backward_call *call)
{
    const uint64_t rows = builder->rows, all = layer->length * layer->batch;
    const uint64_t gates = bp_cell_gates(layer->cell) * layer->width;
    const bool lstm = layer->cell == BP_CELL_LSTM;
    products to = {.d_gates = make(builder, all, gates, "d_gates")};
    to.d_hidden = lstm ? to.d_gates : make(builder, all, gates, "d_hidden");
    begin(builder, layer, call->d_after.h, call->d_state.h);
    if (lstm) {
        begin(builder, layer, call->d_after.c, call->d_state.c);
    }
    builder->rows = layer->batch;
    for (uint64_t t = layer->length; t-- > 0;) {
        if (lstm) {
            lstm_back(builder, layer, tape, call, &to, t);
        } else {
            gru_back(builder, layer, tape, call, &to, t);
        }
    }
    builder->rows = all;
    bp_linear_backward_parameters(builder, &layer->state, tape->h, to.d_hidden);
    bp_linear_backward_parameters(builder, &layer->input, call->x, to.d_gates);
    if (bp_ref_present(call->d_x)) {
        bp_linear_backward_input(builder, &layer->input, to.d_gates, call->d_x);
    }
    builder->rows = rows;
}

bp_ref bp_piece_slice(bp_builder *builder, const bp_piece *piece, bp_ref from, const char *name)
{
    const bp_ref x = bp_ref_at(from, piece->first);
    if (piece->batch == 1) {
        return x;
    }
    const bp_time_slice_scalars scalars = {.batch = (int64_t)piece->batch,
                                           .sequence = builder->spec->sequence,
                                           .length = (int64_t)piece->length};
    const bp_time_slice_operands operands = {
        .y =
            bp_build_buffer(builder, BP_CLASS_WORKSPACE, BP_I32, piece->length, piece->batch, name),
        .x = x};
    bp_build_time_slice(builder, &operands, &scalars);
    return operands.y;
}

/* Parameters of a layer. */
enum { LAYER_PARAMETERS = 4 };

bp_recurrent bp_stack_layer(const bp_recurrent_stack *stack, uint32_t index)
{
    bp_recurrent layer = stack->first;
    layer.input.weight += LAYER_PARAMETERS * index;
    layer.input.bias += LAYER_PARAMETERS * index;
    layer.state.weight += LAYER_PARAMETERS * index;
    layer.state.bias += LAYER_PARAMETERS * index;
    layer.input.in = index > 0 ? layer.width : layer.input.in;
    return layer;
}

/* Rows of a vector of each step, and of one layer's states. */
static uint64_t stack_steps(const bp_recurrent_stack *stack)
{
    return stack->first.length * stack->first.batch;
}

static uint64_t stack_layer_states(const bp_recurrent_stack *stack)
{
    return bp_cell_states(stack->first.cell) * (stack_steps(stack) + stack->first.batch);
}

uint64_t bp_stack_states(const bp_recurrent_stack *stack)
{
    return stack->layers * stack_layer_states(stack);
}

/* Four gates, or three and what the third had of the state. */
uint64_t bp_stack_saved(const bp_recurrent_stack *stack)
{
    return stack->layers * stack_steps(stack);
}

uint64_t bp_stack_output(const bp_recurrent_stack *stack)
{
    return (stack->layers - 1) * stack_layer_states(stack) + stack->first.batch;
}

static bp_recurrent_tape stack_tape(const bp_recurrent_stack *stack, const bp_stack_call *call,
                                    uint32_t index)
{
    const uint64_t width = stack->first.width, one = stack_steps(stack) * width;
    const bool lstm = stack->first.cell == BP_CELL_LSTM;
    const bp_ref h = bp_ref_at(call->states, index * stack_layer_states(stack) * width);
    const bp_ref gates = bp_ref_at(call->saved, index * 4 * one);
    return (bp_recurrent_tape){
        .h = h,
        .c = lstm ? bp_ref_at(h, one + stack->first.batch * width) : BP_ABSENT,
        .gates = gates,
        .kept = lstm ? BP_ABSENT : bp_ref_at(gates, bp_cell_gates(stack->first.cell) * one)};
}

/* The state of a layer in a boundary. */
static bp_recurrent_state stack_state(const bp_recurrent_stack *stack, bp_ref boundary,
                                      uint32_t index)
{
    if (!bp_ref_present(boundary)) {
        return (bp_recurrent_state){BP_ABSENT, BP_ABSENT};
    }
    const uint64_t one = stack->first.batch * stack->first.width;
    const uint64_t states = bp_cell_states(stack->first.cell);
    const bp_ref h = bp_ref_at(boundary, index * states * one);
    return (bp_recurrent_state){h, states > 1 ? bp_ref_at(h, one) : BP_ABSENT};
}

/* What a layer reads: the state of the one below after each step. */
static bp_ref stack_input(const bp_recurrent_stack *stack, const bp_stack_call *call,
                          uint32_t index)
{
    return index == 0 ? call->x
                      : step_of(&stack->first, stack_tape(stack, call, index - 1).h, 1, 1);
}

void bp_stack_forward(bp_builder *builder, const bp_recurrent_stack *stack,
                      const bp_stack_call *call)
{
    for (uint32_t i = 0; i < stack->layers; i++) {
        const bp_recurrent layer = bp_stack_layer(stack, i);
        const bp_recurrent_state state = stack_state(stack, call->before, i);
        const bp_recurrent_tape tape = stack_tape(stack, call, i);
        recurrent_layer_forward(builder, &layer, stack_input(stack, call, i), &state, &tape);
    }
}

/* y = the last step of x (length + 1 steps), or of what is read of it. */
static void pass_state(bp_builder *builder, const bp_recurrent *layer, bp_ref x, bp_ref y)
{
    if (builder->mode == BP_MODE_DECODE) {
        const bp_pick_row_scalars scalars = {.rows = (int64_t)layer->length,
                                             .width = (int64_t)layer->width};
        const bp_pick_row_operands operands = {
            .y = y, .x = step_of(layer, x, 1, 1), .step = builder->step};
        bp_build_pick_row(builder, &operands, &scalars);
        return;
    }
    const bp_copy_scalars scalars = {.count = (int64_t)(layer->batch * layer->width)};
    const bp_copy_operands operands = {.y = y, .x = step_of(layer, x, layer->length, 1)};
    bp_build_copy(builder, &operands, &scalars);
}

void bp_stack_hand_on(bp_builder *builder, const bp_recurrent_stack *stack,
                      const bp_stack_call *call)
{
    for (uint32_t i = 0; i < stack->layers; i++) {
        const bp_recurrent_tape from = stack_tape(stack, call, i);
        const bp_recurrent_state to = stack_state(stack, call->after, i);
        pass_state(builder, &stack->first, from.h, to.h);
        if (stack->first.cell == BP_CELL_LSTM) {
            pass_state(builder, &stack->first, from.c, to.c);
        }
    }
}

bp_ref bp_stack_backward(bp_builder *builder, const bp_recurrent_stack *stack,
                         const bp_stack_call *call)
{
    bp_ref d_y = call->d_y;
    for (uint32_t i = stack->layers; i-- > 0;) {
        const bp_recurrent layer = bp_stack_layer(stack, i);
        const bp_recurrent_tape tape = stack_tape(stack, call, i);
        const bool wanted = i > 0 || call->x_wanted;
        const bp_recurrent_backward_call back = {
            .x = stack_input(stack, call, i),
            .d_y = d_y,
            .d_after = stack_state(stack, call->after, i),
            .d_state = stack_state(stack, call->before, i),
            .d_state_wanted = call->wanted,
            .d_x = wanted ? make(builder, stack_steps(stack), layer.input.in, "d_in") : BP_ABSENT};
        recurrent_layer_backward(builder, &layer, &tape, &back);
        d_y = back.d_x;
    }
    return d_y;
}
