/* SPDX-License-Identifier: MIT */
/* One layer of recurrent cells over a piece of time. Rows are ordered by time, then sample. */
#ifndef BP_LAYERS_RECURRENT_H
#define BP_LAYERS_RECURRENT_H

#include "layers/recurrent/cell.h"
#include "layers/nodes/linear.h"

typedef struct bp_recurrent {
    bp_cell cell;
    bp_linear input; /* (in, gates * width), with bias_ih */
    bp_linear state; /* (width, gates * width), with bias_hh */
    uint64_t width;
    uint64_t batch;
    uint64_t length; /* steps */
} bp_recurrent;

/* Gates of a cell, and vectors that make up its state. */
uint64_t bp_cell_gates(bp_cell cell);
uint64_t bp_cell_states(bp_cell cell);

/* What a layer leaves of its forward. */
typedef struct bp_recurrent_tape {
    bp_ref h;     /* ((length + 1) * batch, width): before the first step, and after each */
    bp_ref c;     /* the same, of an LSTM */
    bp_ref gates; /* (length * batch, gates * width) */
    bp_ref kept;  /* (length * batch, width), of a GRU */
} bp_recurrent_tape;

/* What goes into a layer from the piece of time before: h, and c of an LSTM, (batch, width) each;
 * absent: 0. */
typedef struct bp_recurrent_state {
    bp_ref h;
    bp_ref c;
} bp_recurrent_state;

/* What a layer's backward reads and leaves. */
typedef struct bp_recurrent_backward_call {
    bp_ref x;                   /* as in forward */
    bp_ref d_y;                 /* (length * batch, width): gradient of what each step gave */
    bp_recurrent_state d_after; /* gradient of the last state; absent: 0 */
    bp_recurrent_state d_state; /* out: that of the first, where d_state_wanted; room in any case */
    bool d_state_wanted;
    bp_ref d_x; /* out: (length * batch, in); absent: not wanted */
} bp_recurrent_backward_call;

/* A piece of time of the micro-batch. */
typedef struct bp_piece {
    uint64_t first; /* step */
    uint64_t length;
    uint64_t batch;
} bp_piece;

/* What ids or labels hold for the steps of a piece, ordered by time. */
bp_ref bp_piece_slice(bp_builder *builder, const bp_piece *piece, bp_ref from, const char *name);

/* Layers one above the other over a piece of time. A *boundary* is the state of all the model's
 * layers: (layers * states * batch, width), h and then c of each; absent: 0. */
typedef struct bp_recurrent_stack {
    bp_recurrent first; /* its lowest; the four parameters of each follow those of the one below */
    uint32_t layers;
} bp_recurrent_stack;

/* One of its layers. */
bp_recurrent bp_stack_layer(const bp_recurrent_stack *stack, uint32_t index);

/* What a stack leaves: (rows, width) of states, the first thing of each layer's being h before the
 * first step and after each; and (rows, 4 * width) of what backward reads beside them. */
uint64_t bp_stack_states(const bp_recurrent_stack *stack);
uint64_t bp_stack_saved(const bp_recurrent_stack *stack);

/* The row of its states from which on its highest layer's output lies. */
uint64_t bp_stack_output(const bp_recurrent_stack *stack);

typedef struct bp_stack_call {
    bp_ref x; /* (length * batch, in) of its lowest layer */
    bp_ref states;
    bp_ref saved;
    bp_ref before; /* boundary; in backward the gradient of it, out, where wanted; room anyway */
    bp_ref after;  /* boundary; in backward the gradient of it */
    bool wanted;   /* backward: the gradient of before */
    bp_ref d_y;    /* backward: of its highest layer's output */
    bool x_wanted; /* backward: the gradient of x */
} bp_stack_call;

/* Fills states and saved; bp_stack_hand_on then its part of the boundary `after`: the state after
 * the last step, in BP_MODE_DECODE after the last row that counts. */
void bp_stack_forward(bp_builder *builder, const bp_recurrent_stack *stack,
                      const bp_stack_call *call);
void bp_stack_hand_on(bp_builder *builder, const bp_recurrent_stack *stack,
                      const bp_stack_call *call);

/* Gradients of the layers' parameters, then those of the call; returns that of x, absent where it
 * is not wanted. */
bp_ref bp_stack_backward(bp_builder *builder, const bp_recurrent_stack *stack,
                         const bp_stack_call *call);

#endif
