/* SPDX-License-Identifier: MIT */
/* Blocks as lists of nodes.
 *
 * A stage's block is written once: values (what is computed, with name and shape) and nodes (who
 * computes which values from which). layers/blocks/block.h derives everything else from the list:
 * forward, backward, recomputation from any set of kept values, what can lie in one place, and
 * which sets are worth keeping.
 *
 * What a new kind of node needs is one row in node_kinds.c (or node_pieces.c): its forward, its
 * backward, what its backward reads, which input its output may take the place of, and the shapes
 * it goes with. */
#ifndef BP_LAYERS_NODE_H
#define BP_LAYERS_NODE_H

#include "core/plan/model.h"
#include "core/ops/activation.h"
#include "layers/nodes/attention.h"
#include "layers/images/batch_norm.h"
#include "layers/nodes/cross.h"
#include "layers/nodes/delta.h"
#include "layers/nodes/embedding.h"
#include "layers/nodes/experts.h"
#include "layers/images/image.h"
#include "layers/heads/loss.h"
#include "layers/nodes/norm.h"
#include "layers/recurrent/recurrent.h"
#include "layers/nodes/residual.h"
#include "layers/nodes/rotary.h"

#define BP_BLOCK_VALUES BP_TAPE_MAX /* most values of a block; a value's number is its slot */
#define BP_BLOCK_NODES  24          /* most nodes of a block */
#define BP_NODE_INPUTS  3
#define BP_NODE_OUTPUTS 3

/* The element type of a value; the first two are what `false` and `true` say. */
typedef enum bp_value_type {
    BP_VALUE_WORKING,
    BP_VALUE_F32,
    BP_VALUE_I32 /* what a router chooses, whose gradient is that of its weights */
} bp_value_type;

/* Something that a block computes. Value 0 is its input. */
typedef struct bp_value {
    const char *name;     /* in listings: "qkv" */
    const char *gradient; /* the name of its gradient, where backward makes a buffer for it */
    uint64_t shape[BP_RANK_MAX]; /* 0 ends it; the last dimension is a row, all before are rows */
    bp_value_type statistics;    /* of another type than the working one; false: of that */
} bp_value;

/* What a node computes. Inputs and outputs are named in this order. */
typedef enum bp_node_kind {
    BP_NODE_NONE,
    BP_NODE_NORM,      /* x -> y, statistics: layers/nodes/norm.h */
    BP_NODE_DENSE,     /* x -> the outputs of up to three products, which may share a value */
    BP_NODE_HEAD_NORM, /* qkv -> y, statistics: heads of the queries and of the keys normalised,
                          each  by a weight of its own; the values as they are: layers/nodes/norm.h
                        */
    BP_NODE_ROTARY,    /* x -> y in the place of x: turned by position, layers/nodes/rotary.h */
    BP_NODE_ATTENTION, /* qkv -> y, log-sum-exp: layers/nodes/attention.h */
    BP_NODE_RESIDUAL,  /* x, stream -> stream + dropout(projection of x): layers/nodes/residual.h */
    BP_NODE_GELU,      /* x -> GELU(x), by the tanh form; rides in the product before it */
    BP_NODE_ACTIVATION, /* x -> f(x): layers/nodes/activate.h */
    BP_NODE_SWIGLU,     /* gate, up -> f(gate) * up: kernels.def, swiglu_forward */
    BP_NODE_DROPOUT,    /* x -> y in the place of x; masks belong to rows */

    /* node_gates.c: */
    BP_NODE_GATED,   /* gate and up side by side -> f(gate) * up */
    BP_NODE_SCALE,   /* x -> factor * x */
    BP_NODE_ADD,     /* x, stream -> stream + x */
    BP_NODE_REGROUP, /* x, head by head -> y, part by part: kernels.def, regroup */

    /* Of mixtures of experts: node_experts.c, layers/nodes/experts.h. */
    BP_NODE_ROUTE,         /* logits -> the routing */
    BP_NODE_EXPERTS_ENTER, /* x, routing -> gates and ups of every choice */
    BP_NODE_EXPERTS_LEAVE, /* what is activated, routing, stream -> stream + the experts' sum */
    BP_NODE_ROW_GATE,      /* x, gate -> sigmoid(gate) * x, a gate for each row, or each
                              element */

    /* Of linear attention: node_delta.c, layers/nodes/delta.h. */
    BP_NODE_SPLIT,      /* x -> parts of its rows, in one or two values */
    BP_NODE_SHORT_CONV, /* x -> silu of a convolution along places */
    BP_NODE_DELTA,      /* qkv, gates -> what states give; its rows may be heads */

    /* Of decoders: node_cross.c. */
    BP_NODE_CROSS, /* q -> y, log-sum-exp, keys and values of builder->memory:
                      layers/nodes/cross.h */

    /* Of pieces of time: node_pieces.c. */
    BP_NODE_EMBEDDING, /* -> x, of builder->input[BP_INPUT_IDS]: layers/nodes/embedding.h */
    BP_NODE_RECURRENT, /* x, boundary -> states, saved, the next boundary:
                          layers/recurrent/recurrent.h */
    BP_NODE_LOSS,      /* states, boundary -> nothing: the loss of what the states give, in decode
                          the logits of what the boundary's highest layer has: heads/loss.h */

    /* Of images: node_images.c. */
    BP_NODE_CONVOLUTION, /* x -> y: layers/images/image.h */
    BP_NODE_BATCH_NORM,  /* x -> y, statistics: layers/images/batch_norm.h */
    BP_NODE_MAX_POOL,    /* x -> y, place: layers/images/image.h */
    BP_NODE_MEAN_POOL,   /* x -> y */
    BP_NODE_KIND_COUNT
} bp_node_kind;

/* Gates and ups that alternate, held within bounds: kernels.def, clamped_forward. */
typedef struct bp_clamp {
    double alpha;
    double limit; /* 0: none */
} bp_clamp;

typedef struct bp_node {
    bp_node_kind kind;
    uint32_t in[BP_NODE_INPUTS];   /* values */
    uint32_t out[BP_NODE_OUTPUTS]; /* values; of BP_NODE_DENSE that of each product */
    uint32_t class_of;             /* the BP_RECOMPUTE_ bit that selective:NAMES names it by; 0 */
    bool again; /* backward makes it anew where it reads it rather than hold it until then: a norm,
                   which is little beside the products that read it */
    bool cheap; /* no tape keeps its outputs but one whose set names them: backward makes them */
    bool once;  /* it has effects: it runs in forward only, so its outputs are always kept */

    /* Of its kind. */
    bp_norm norm;
    uint32_t parts; /* BP_NODE_DENSE: products; BP_NODE_SPLIT: outputs; BP_NODE_REGROUP: parts of a
                       head */
    bp_linear part[BP_NODE_OUTPUTS];  /* their pitch is the row of the value they write into */
    bp_head_norm head_norm[2];        /* BP_NODE_HEAD_NORM: of the queries, then of the keys */
    uint64_t column[BP_NODE_OUTPUTS]; /* where their columns begin in it */
    bp_rotary rotary;
    uint64_t heads; /* BP_NODE_ROTARY: how many of a row's heads turn; BP_NODE_REGROUP: heads */
    bp_attention attention;
    bp_cross cross;
    bp_residual residual;
    bp_activation activation;
    bp_gate gate;   /* BP_NODE_SWIGLU, BP_NODE_GATED: f */
    bp_clamp clamp; /* BP_NODE_GATED, with a limit instead of f */
    double factor;  /* BP_NODE_SCALE */
    bp_experts experts;
    bp_row_parts split;
    bp_short_conv short_conv;
    bp_delta delta;
    bp_dropout dropout;
    bp_embedding embedding;
    bp_recurrent_stack stack;     /* BP_NODE_RECURRENT */
    bp_head head;                 /* BP_NODE_LOSS, */
    bp_piece piece;               /* of which the labels are */
    uint64_t row[BP_NODE_INPUTS]; /* BP_NODE_RECURRENT, BP_NODE_LOSS: from which on they read */
    bp_convolution convolution;
    bp_batch_norm batch_norm;
    bp_image_window window; /* of pools */
} bp_node;

typedef struct bp_block {
    bp_value value[BP_BLOCK_VALUES];
    uint32_t values; /* the last is the block's output */
    bool ends;       /* nobody reads the output: it is not made */
    bool poor; /* backward makes a value for each node that reads it, and holds none between */
    bp_node node[BP_BLOCK_NODES];
    uint32_t nodes;       /* each after those that make its inputs */
    uint32_t chunk_first; /* from this node on they run over chunk_rows rows after each other */
    uint32_t chunk_until; /* and those before this one, which is attention; 0: over all rows */
    uint64_t chunk_rows;  /* (layers/blocks/block_chunks.h); 0: over all rows at once */
} bp_block;

#endif
