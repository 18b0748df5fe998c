/* SPDX-License-Identifier: MIT */
/* What blocks of attention and a perceptron are made of, as parts of a list of nodes
 * (layers/nodes/node.h): values and nodes come in the order in which they are computed. */
#ifndef BP_LAYERS_SUBLAYER_H
#define BP_LAYERS_SUBLAYER_H

#include "layers/blocks/block.h"

/* A block's list on its way. A value is named by its number. */
typedef struct bp_block_list {
    bp_block *block;
    uint64_t rows;
    uint64_t width; /* of the stream */
} bp_block_list;

/* An empty list but for value 0, the block's input. */
bp_block_list bp_list_begin(bp_block *block, uint64_t rows, uint64_t width);

uint32_t bp_list_value(const bp_block_list *list, const char *name, const char *gradient,
                       uint64_t width);
uint32_t bp_list_statistics(const bp_block_list *list, const char *name, uint64_t count);

/* A node with one input and one output; more are for the caller to write in. */
bp_node *bp_list_node(const bp_block_list *list, bp_node_kind kind, uint32_t in, uint32_t out);

/* A norm's output, which backward makes anew. names: of the value, of its gradient and of the
 * statistics. */
uint32_t bp_list_norm(const bp_block_list *list, const bp_norm *norm, uint32_t in,
                      const char *const names[3]);

/* A product; names: of the value and of its gradient. */
uint32_t bp_list_dense(const bp_block_list *list, const bp_linear *product, uint32_t in,
                       const char *const names[2]);

/* The stream with what a sublayer's last product adds. */
uint32_t bp_list_residual(const bp_block_list *list, const bp_residual *end, uint32_t in,
                          uint32_t stream, const char *const names[2]);

/* What attention is made of. */
typedef struct bp_attention_parts {
    const bp_norm *norm;           /* before it; NULL: none */
    const char *norm_gradient;     /* the name of that value's gradient */
    uint32_t products;             /* 1, or 3 for queries, keys and values */
    bp_linear product[3];          /* their rows lie side by side */
    bool by_heads;                 /* rows have a query, a key and a value for each head in turn */
    bool gated;                    /* each query of the first product's has a gate behind it */
    const bp_head_norm *head_norm; /* of queries and of keys; NULL: none */
    bool norms_late;               /* .. once they have turned */
    const bp_rotary *rotary;       /* of queries and keys; NULL: they do not turn */
    bp_attention attention;
} bp_attention_parts;

/* Attention of `in`, before its projection; times the sigmoid of its gates where they are there. */
uint32_t bp_list_attention(const bp_block_list *list, uint32_t in, const bp_attention_parts *parts);

/* Attention of queries to an encoder's output of `rows` rows, before its projection. */
uint32_t bp_list_cross(const bp_block_list *list, const bp_cross *cross, uint32_t queries,
                       uint64_t rows);

/* A perceptron: a product, a function (bp_hidden_act_node) and a product that joins the stream.
 * names: of the value before the function, behind it, and of the sum, with their gradients. */
typedef struct bp_mlp_parts {
    bp_linear up;
    bp_node function;
    bp_residual down;
    const char *names[3][2];
} bp_mlp_parts;

uint32_t bp_list_mlp(const bp_block_list *list, uint32_t in, uint32_t stream,
                     const bp_mlp_parts *parts);

#endif
