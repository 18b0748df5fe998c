/* SPDX-License-Identifier: MIT */
/* One layer of recurrent cells over a piece of time. Rows are ordered by time, then sample. */
#ifndef BP_LAYERS_RECURRENT_H
#define BP_LAYERS_RECURRENT_H

#include "layers/cell.h"
#include "layers/linear.h"

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

/* Fills the tape from x (length * batch, in). In BP_MODE_DECODE the state counts only where
 * step.position is not 0. */
void bp_recurrent_forward(bp_emit *emit, const bp_recurrent *layer, bp_ref x,
                          const bp_recurrent_state *before, const bp_recurrent_tape *tape);

/* What a layer's backward reads and leaves. */
typedef struct bp_recurrent_backward_call {
    bp_ref x;                   /* as in forward */
    bp_ref d_y;                 /* (length * batch, width): gradient of what each step gave */
    bp_recurrent_state d_after; /* gradient of the last state; absent: 0 */
    bp_recurrent_state d_state; /* out: that of the first, where d_state_wanted; room in any case */
    bool d_state_wanted;
    bp_ref d_x; /* out: (length * batch, in); absent: not wanted */
} bp_recurrent_backward_call;

/* Gradients of the layer's parameters, then those of the call. */
void bp_recurrent_backward(bp_emit *emit, const bp_recurrent *layer, const bp_recurrent_tape *tape,
                           const bp_recurrent_backward_call *call);

#endif
