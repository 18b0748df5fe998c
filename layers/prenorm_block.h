/* SPDX-License-Identifier: MIT */
/* A block whose sublayers read normalised values: middle = x + attention(norm_1(x)),
 * out = middle + mlp(norm_2(middle)); GPT-2's and Llama's.
 *
 * A family fills bp_prenorm_block; the functions below are then its stage functions. */
#ifndef BP_LAYERS_PRENORM_BLOCK_H
#define BP_LAYERS_PRENORM_BLOCK_H

#include "core/compile/model.h"
#include "layers/attention.h"
#include "layers/mlp.h"
#include "layers/norm.h"
#include "layers/rotary.h"
#include "layers/swiglu.h"

typedef struct bp_prenorm_block {
    uint64_t width;
    bp_norm norm_1;
    uint32_t parts;    /* 1: one product makes queries, keys and values; 3: one each */
    bp_linear part[3]; /* of `parts`; they share an output of rows of qkv_width */
    uint64_t qkv_width;
    bool rotates; /* whether queries and keys are turned */
    bp_rotary rotary;
    bp_attention attention;
    bp_residual attention_end;
    bp_norm norm_2;
    bool gated;
    bp_mlp mlp;       /* where it is not gated */
    bp_swiglu swiglu; /* where it is */
} bp_prenorm_block;

/* Forward, backward and decode of bp_model for one stage. Tape variants are numbered as
 * bp_model.variants says. */
void bp_prenorm_block_forward(bp_emit *emit, bp_stage_call *call, const bp_prenorm_block *block);
void bp_prenorm_block_backward(bp_emit *emit, bp_stage_call *call, const bp_prenorm_block *block);
void bp_prenorm_block_decode(bp_emit *emit, bp_stage_call *call, const bp_prenorm_block *block);

#endif
