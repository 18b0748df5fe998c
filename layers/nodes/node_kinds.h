/* SPDX-License-Identifier: MIT */
/* The table of kinds of nodes, and the emission that their functions work in: between block.c,
 * block_backward.c, block_keep.c, node_kinds.c, node_gates.c, node_experts.c, node_delta.c,
 * node_cross.c, node_pieces.c and node_images.c. */
#ifndef BP_LAYERS_NODE_KINDS_H
#define BP_LAYERS_NODE_KINDS_H

#include "layers/blocks/block.h"

/* A block's list as masks of values, and of nodes. */
typedef struct block_masks {
    uint32_t nodes;
    uint32_t ins[BP_BLOCK_NODES];
    uint32_t outs[BP_BLOCK_NODES];
    uint32_t readers[BP_BLOCK_VALUES]; /* nodes */
    uint32_t maker[BP_BLOCK_VALUES];   /* its number; BP_BLOCK_NODES: the block's input has none */
    uint32_t fuses[BP_BLOCK_NODES];    /* of a GELU the product before it; else BP_BLOCK_NODES */
    uint32_t transient;                /* values made by nodes that backward runs anew */
    uint32_t steps;    /* values that are only a step of an op in place: no bytes of their own */
    uint32_t acts;     /* nodes that forward runs though nobody reads what they make */
    uint32_t cheap;    /* values that only sets that name them keep */
    uint32_t keepable; /* what forward could keep: not the boundaries, not the steps */

    /* With a tape in 8 bits, see block_tape.c: */
    uint32_t packs;   /* values that backward reads as packing leaves them, kept or made again, */
    uint32_t derives; /* and those that it makes of such, whatever was kept */
} block_masks;

/* One forward or backward of a block. */
typedef struct block_run {
    bp_builder *builder;
    bp_block *block;
    block_masks masks;
    bool back;
    bool away;                    /* the input is offloaded: chunks bring their rows of it */
    bool chunk;                   /* it is one of a chunk of rows (block_chunks.h) */
    bp_ref ref[BP_BLOCK_VALUES];  /* where each value is now; absent: nowhere */
    bp_ref room[BP_BLOCK_VALUES]; /* a buffer made ahead, for what takes its place later */
    bp_ref code[BP_BLOCK_VALUES]; /* the tape's packed form of a value */
    bp_ref read[BP_BLOCK_VALUES]; /* backward: what is read instead of a packed or derived value */
    bp_ref grad[BP_BLOCK_VALUES]; /* backward: gradients so far; absent: 0 */
    bp_ref deltas;    /* backward in chunks, where attention's gradients take the place of what they
                         are of: attention_deltas; else absent */
    uint32_t held;    /* values that were there at the start */
    uint32_t stored;  /* values that are read after the pass that makes them */
    uint32_t packing; /* forward: values of which the packed form is */
    uint32_t making;  /* values that the pass makes */
    uint32_t fused;   /* nodes of GELU that the pass makes with the product before */
    uint32_t wanted;  /* values whose gradient is wanted */
    uint32_t placed;  /* values of which grad is that of one place of each image, all having it */
} block_run;

typedef struct node_row {
    const char *name;
    uint32_t inputs;
    uint32_t outputs; /* BP_NODE_DENSE, BP_NODE_SPLIT: as many as parts */
    uint32_t reads;   /* what backward always reads: bit i input i, bit 8 + i output i */
    uint32_t (*reads_of)(const bp_builder *builder, const bp_node *node); /* instead; NULL: that */
    uint32_t places; /* bit i: the first output may lie where input i lay */
    bool ahead;      /* backward makes a buffer for the gradient of input 0: what the node that made
                        the input reads is made first, so that it is not made beside it */
    bool acts;       /* it has effects that forward is for */
    bool must;       /* and always does: the op works in place */
    bool first_name; /* the shared buffer has the input's name where nobody keeps the output */

    /* Whether the shapes of its values go with it. */
    bool (*fits)(const bp_block *block, const bp_node *node);

    /* Whether backward has parameters to train; whether for that it reads input 0. NULL: none. */
    bool (*trains)(const bp_builder *builder, const bp_node *node);
    bool (*trains_reading)(const bp_builder *builder, const bp_node *node);

    /* Makes those outputs whose bit is set in run->making. */
    void (*forward)(const block_run *run, const bp_node *node);

    /* From the gradients of the outputs those of the parameters and the wanted ones of inputs. */
    void (*backward)(block_run *run, const bp_node *node);
} node_row;

/* The row of a known kind. */
const node_row *node_row_of(const bp_node *node);

/* Outputs of a node. */
uint32_t node_outputs(const bp_node *node);

/* Values that backward of a node reads in the program being written. */
uint32_t node_reads(const bp_builder *builder, const bp_node *node);

/* Fills the masks of a block's list. */
void block_masks_of(const bp_block *block, block_masks *masks);

/* What has to be computed so that the values of `target` are there beside those of `have`, and
 * `nodes` have run. */
typedef struct block_need {
    uint32_t nodes;
    uint32_t values; /* that are read or wanted, and are not there */
} block_need;

block_need block_needs(const block_masks *masks, uint32_t have, uint32_t target, uint32_t nodes);

/* The nodes of GELU whose input, made in the same pass by a product, one op makes with them. */
uint32_t block_fusions(const block_masks *masks, const block_need *need);

/* Where values lie that a pass over `need` makes: taker[v] is the value in whose buffer v lies, v
 * itself for most. Values of `stored` have places of their own. Backward shares where an op works
 * in place, and where the value has one reader whose output stays: it is never made again. */
void block_positions(const block_run *run, const block_need *need, uint32_t target,
                     uint32_t taker[BP_BLOCK_VALUES]);

/* Adds what a tape in 8 bits changes, where the spec asks for one.
 *
 * Packed are outputs of norms, products, rotary positions and attention. As they are stay the
 * block's boundaries, statistics, what a norm or a router reads and what joins the stream: of
 * those, and of nothing that was packed, values are made again, so that every kept set gives the
 * same bits. Activations and gates of packed values are derived: backward makes them of what it
 * reads. */
void block_masks_pack(const bp_builder *builder, const bp_block *block, block_masks *masks);

/* The packed and derived values to be made so that backward can read `target`, where it has those
 * of `there`; *exact: the other values that it takes. */
uint32_t block_reduced(const block_masks *masks, uint32_t target, uint32_t there, uint32_t *exact);

/* A buffer for a value's packed form, and the ops between the two forms. */
bp_ref block_packed_buffer(const block_run *run, uint32_t value, bp_class class_of);
void block_pack(const block_run *run, uint32_t value, bp_ref packed, bp_ref x);
void block_unpack(const block_run *run, uint32_t value, bp_ref x, bp_ref packed);
void block_round(const block_run *run, uint32_t value, bp_ref x);

/* Makes what backward reads as the values of `target`. */
void block_read(block_run *run, uint32_t target);

/* A node's backward, which has that to read. */
void block_go_back(block_run *run, uint32_t index);

/* bp_block_kept of a block with these masks. */
uint32_t block_kept_of(const bp_block *block, const block_masks *masks, uint32_t variant);

/* Makes the values of `target`, and what they are made of. */
void block_make(block_run *run, uint32_t target);

/* Sets up a run: the values in call->tape are there, and the input. */
void block_begin(block_run *run, bp_builder *builder, bp_block *block, const bp_stage_call *call);

/* A buffer for `first`, in which `last` will lie. */
bp_ref block_make_buffer(const block_run *run, uint32_t first, uint32_t last);

/* Whether a node's backward has something to do: parameters to train, or an input's gradient. */
bool block_node_works(const block_run *run, uint32_t index);

/* A block with what its nodes cost, counted. */
typedef struct block_costs {
    block_masks masks;
    uint32_t parts[BP_BLOCK_NODES];                     /* products of a BP_NODE_DENSE; else 0 */
    uint32_t part_out[BP_BLOCK_NODES][BP_NODE_OUTPUTS]; /* the values that they make */
    uint32_t once;                                      /* values that are always kept */
    uint32_t reads[BP_BLOCK_NODES];                     /* values that backward of a node needs */
    uint64_t bytes[BP_BLOCK_VALUES];                 /* of each value, as the arena rounds them */
    double seconds[BP_BLOCK_NODES][BP_NODE_OUTPUTS]; /* of a node, in the first; of each product */
    double fused[BP_BLOCK_NODES];                    /* of a GELU with the product before it */
    double packed[BP_BLOCK_VALUES];                  /* of packing and unpacking a value, */
    double rounded[BP_BLOCK_VALUES];                 /* and of both at once */
} block_costs;

/* One kept set that no other beats. */
typedef struct block_kept {
    uint32_t kept;
    uint64_t bytes;
    double seconds; /* that backward recomputes for */
} block_kept;

/* The kept sets of which none is both larger and slower than another; of equal ones the first found
 * stays. In increasing bytes, at most `limit` (of which there is room). */
uint32_t block_frontier(const block_costs *costs, block_kept *sets, uint32_t limit);

#define BLOCK_SETS_MOST 128 /* that the search holds at one time */

#define READS_INPUT(i)  ((uint32_t)1 << (i))
#define READS_OUTPUT(i) ((uint32_t)1 << (8 + (i)))

/* Rows of the kinds from BP_NODE_GATED, BP_NODE_ROUTE, BP_NODE_SPLIT, BP_NODE_CROSS,
 * BP_NODE_EMBEDDING and BP_NODE_CONVOLUTION on. */
extern const node_row node_gate_rows[BP_NODE_ROUTE - BP_NODE_GATED];
extern const node_row node_experts_rows[BP_NODE_SPLIT - BP_NODE_ROUTE];
extern const node_row node_delta_rows[BP_NODE_CROSS - BP_NODE_SPLIT];
extern const node_row node_cross_rows[BP_NODE_EMBEDDING - BP_NODE_CROSS];
extern const node_row node_piece_rows[BP_NODE_CONVOLUTION - BP_NODE_EMBEDDING];
extern const node_row node_image_rows[BP_NODE_KIND_COUNT - BP_NODE_CONVOLUTION];

/* Gives a value's gradient, `count` numbers, or adds to it: d is then no longer needed. */
void node_add_gradient(block_run *run, uint32_t value, bp_ref d, uint64_t count);

uint64_t value_rows(const bp_value *value);
uint64_t value_width(const bp_value *value);
bool value_same_shape(const bp_value *a, const bp_value *b);

/* A value's gradient as a new buffer; and that buffer given to it, or added. */
bp_ref node_make_gradient(const block_run *run, uint32_t value);

/* The element type of a value. */
static inline bp_dtype value_dtype(const bp_builder *builder, const bp_value *value)
{
    return value->statistics == BP_VALUE_I32   ? BP_I32
           : value->statistics == BP_VALUE_F32 ? BP_F32
                                               : bp_build_working(builder);
}

static inline uint32_t value_bit(uint32_t value)
{
    return (uint32_t)1 << value;
}

static inline const bp_value *input_of(const bp_block *block, const bp_node *node, uint32_t i)
{
    return &block->value[node->in[i]];
}

static inline const bp_value *output_of(const bp_block *block, const bp_node *node, uint32_t i)
{
    return &block->value[node->out[i]];
}

static inline bp_ref ref_of_input(const block_run *run, const bp_node *node, uint32_t i)
{
    return run->ref[node->in[i]];
}

static inline bp_ref ref_of_output(const block_run *run, const bp_node *node, uint32_t i)
{
    return run->ref[node->out[i]];
}

static inline bool wants(const block_run *run, const bp_node *node, uint32_t i)
{
    return (run->wanted & value_bit(node->in[i])) != 0;
}

static inline uint64_t count_of(const bp_value *value)
{
    return value_rows(value) * value_width(value);
}

static inline bool same_fits(const bp_block *block, const bp_node *node)
{
    return value_same_shape(input_of(block, node, 0), output_of(block, node, 0));
}

static inline void node_take_gradient(block_run *run, uint32_t value, bp_ref d)
{
    node_add_gradient(run, value, d, count_of(&run->block->value[value]));
}

#endif
