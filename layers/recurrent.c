/* SPDX-License-Identifier: MIT */
/* Layers of recurrent cells as ops: the products over all steps at once where steps do not wait for
 * each other. */
#include "layers/recurrent.h"

uint64_t bp_cell_gates(bp_cell cell)
{
    return cell == BP_CELL_LSTM ? 4 : 3;
}

uint64_t bp_cell_states(bp_cell cell)
{
    return cell == BP_CELL_LSTM ? 2 : 1;
}

static bp_ref make(bp_emit *emit, uint64_t rows, uint64_t width, const char *name)
{
    return bp_emit_buffer(emit, BP_CLASS_WORKSPACE, bp_emit_working(emit), rows, width, name);
}

/* Step t of something that has `parts` times the width in each row. */
static bp_ref step_of(const bp_recurrent *layer, bp_ref ref, uint64_t t, uint64_t parts)
{
    return bp_ref_at(ref, t * layer->batch * parts * layer->width);
}

/* y (batch, width) = x, or 0. */
static void begin(bp_emit *emit, const bp_recurrent *layer, bp_ref x, bp_ref y)
{
    const bp_state_begin_scalars scalars = {.count = (int64_t)(layer->batch * layer->width),
                                            .decode = emit->mode == BP_MODE_DECODE ? 1 : 0};
    const bp_state_begin_operands operands = {.y = y, .x = x, .step = emit->step};
    bp_emit_state_begin(emit, &operands, &scalars);
}

static void gru_step(bp_emit *emit, const bp_recurrent *layer, const bp_recurrent_tape *tape,
                     uint64_t t, bp_ref hidden)
{
    const bp_gru_forward_scalars scalars = {(int64_t)layer->batch, (int64_t)layer->width};
    const bp_gru_forward_operands operands = {.h = step_of(layer, tape->h, t + 1, 1),
                                              .kept = step_of(layer, tape->kept, t, 1),
                                              .gates = step_of(layer, tape->gates, t, 3),
                                              .hidden = hidden,
                                              .h_before = step_of(layer, tape->h, t, 1)};
    bp_linear_forward(emit, &layer->state, operands.h_before, BP_ABSENT, hidden);
    bp_emit_gru_forward(emit, &operands, &scalars);
}

static void lstm_step(bp_emit *emit, const bp_recurrent *layer, const bp_recurrent_tape *tape,
                      uint64_t t)
{
    const bp_lstm_forward_scalars scalars = {(int64_t)layer->batch, (int64_t)layer->width};
    const bp_lstm_forward_operands operands = {.h = step_of(layer, tape->h, t + 1, 1),
                                               .c = step_of(layer, tape->c, t + 1, 1),
                                               .gates = step_of(layer, tape->gates, t, 4),
                                               .c_before = step_of(layer, tape->c, t, 1)};
    bp_linear_forward(emit, &layer->state, step_of(layer, tape->h, t, 1), operands.gates,
                      operands.gates);
    bp_emit_lstm_forward(emit, &operands, &scalars);
}

void bp_recurrent_forward(bp_emit *emit, const bp_recurrent *layer, bp_ref x,
                          const bp_recurrent_state *before, const bp_recurrent_tape *tape)
{
    const uint64_t rows = emit->rows;
    const bool lstm = layer->cell == BP_CELL_LSTM;
    begin(emit, layer, before->h, tape->h);
    if (lstm) {
        begin(emit, layer, before->c, tape->c);
    }
    emit->rows = layer->length * layer->batch;
    bp_linear_forward(emit, &layer->input, x, BP_ABSENT, tape->gates);
    emit->rows = layer->batch;
    const bp_ref hidden =
        lstm ? BP_ABSENT
             : make(emit, layer->batch, bp_cell_gates(layer->cell) * layer->width, "hidden");
    for (uint64_t t = 0; t < layer->length; t++) {
        if (lstm) {
            lstm_step(emit, layer, tape, t);
        } else {
            gru_step(emit, layer, tape, t, hidden);
        }
    }
    emit->rows = rows;
}

/* Gradients with respect to the products: of x, and of the state (the same of an LSTM). */
typedef struct products {
    bp_ref d_gates;  /* (length * batch, gates * width) */
    bp_ref d_hidden; /* the same */
} products;

static void gru_back(bp_emit *emit, const bp_recurrent *layer, const bp_recurrent_tape *tape,
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
    bp_emit_gru_backward(emit, &operands, &scalars);
    if (t > 0 || call->d_state_wanted) {
        bp_linear_backward_input_add(emit, &layer->state, operands.d_hidden, operands.d_h);
    }
}

static void lstm_back(bp_emit *emit, const bp_recurrent *layer, const bp_recurrent_tape *tape,
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
    bp_emit_lstm_backward(emit, &operands, &scalars);
    if (t > 0 || call->d_state_wanted) {
        bp_linear_backward_input(emit, &layer->state, operands.d_gates, operands.d_h);
    }
}

void bp_recurrent_backward(bp_emit *emit, const bp_recurrent *layer, const bp_recurrent_tape *tape,
                           const bp_recurrent_backward_call *call)
{
    const uint64_t rows = emit->rows, all = layer->length * layer->batch;
    const uint64_t gates = bp_cell_gates(layer->cell) * layer->width;
    const bool lstm = layer->cell == BP_CELL_LSTM;
    products to = {.d_gates = make(emit, all, gates, "d_gates")};
    to.d_hidden = lstm ? to.d_gates : make(emit, all, gates, "d_hidden");
    begin(emit, layer, call->d_after.h, call->d_state.h);
    if (lstm) {
        begin(emit, layer, call->d_after.c, call->d_state.c);
    }
    emit->rows = layer->batch;
    for (uint64_t t = layer->length; t-- > 0;) {
        if (lstm) {
            lstm_back(emit, layer, tape, call, &to, t);
        } else {
            gru_back(emit, layer, tape, call, &to, t);
        }
    }
    emit->rows = all;
    bp_linear_backward_parameters(emit, &layer->state, tape->h, to.d_hidden);
    bp_linear_backward_parameters(emit, &layer->input, call->x, to.d_gates);
    if (bp_ref_present(call->d_x)) {
        bp_linear_backward_input(emit, &layer->input, to.d_gates, call->d_x);
    }
    emit->rows = rows;
}
