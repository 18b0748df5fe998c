/* SPDX-License-Identifier: MIT */
/* A block in chunks of rows (bp_spec.sequence_chunk). Nodes that compute each row from that row
 * alone run over one chunk of rows after the other, so that what they make (norms, gates, inner
 * activations) takes a chunk's bytes: the last nodes of the block, and, where what they read is
 * attention's output and the block's input, those before attention too. Then queries, keys and
 * values, attention's output and the stream are all that has the bytes of all rows. Rows ascend, in
 * forward as in backward: every sum over rows is the chain that it is without chunks, and no bit of
 * a result changes. */
#ifndef BP_LAYERS_BLOCK_CHUNKS_H
#define BP_LAYERS_BLOCK_CHUNKS_H

#include "layers/nodes/node_kinds.h"

/* Finds where chunks begin in a block's list, and sets its chunk_rows to those of the spec: at the
 * node behind attention, with those before attention as chunks too (chunk_until), where all of them
 * work row by row and the last ones read the block's input and what attention makes alone; else at
 * the longest run of last nodes that work so and read one value of the rest, or, where there is
 * none, two. Leaves the list whole where the spec has no chunks or they have no fewer rows than the
 * block, and where its last nodes are of another kind. */
void block_chunks_find(const bp_builder *builder, bp_block *block);

/* The values that the last nodes read and do not make; 0 of a list that is whole. */
uint32_t block_chunks_inputs(const block_masks *masks, const bp_block *block);

/* Makes what attention reads, chunk by chunk, where the nodes before it are chunks and it is not
 * there. */
void block_chunks_before(block_run *run);

/* Forward of the last nodes; the values that they read are there. Gives the block's output its
 * place. */
void block_chunks_forward(block_run *run);

/* Backward of the last nodes: makes their values again, chunk by chunk. reads: of
 * bp_block_backward. Leaves the gradients of their inputs, over the place of the output's where
 * that can be. */
void block_chunks_backward(block_run *run, const uint32_t reads[BP_BLOCK_NODES]);

/* Backward of the nodes before attention, likewise; the gradient of what it reads is there. The
 * gradient of the block's input takes the place of what the last nodes left of it. */
void block_chunks_before_backward(block_run *run, const uint32_t reads[BP_BLOCK_NODES]);

#endif
