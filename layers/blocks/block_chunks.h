/* SPDX-License-Identifier: MIT */
/* The end of a block in chunks of rows (bp_spec.sequence_chunk): its last nodes, which compute each
 * row from that row alone, run over one chunk of rows after the other, so that what they make
 * (norms, gates, inner activations) takes a chunk's bytes. Rows ascend, in forward as in backward:
 * every sum over rows is the chain that it is without chunks, and no bit of a result changes. */
#ifndef BP_LAYERS_BLOCK_CHUNKS_H
#define BP_LAYERS_BLOCK_CHUNKS_H

#include "layers/nodes/node_kinds.h"

/* Finds where chunks begin in a block's list, and sets its chunk_rows to `rows`: the longest run of
 * last nodes that work row by row and read one value of the rest, or, where there is none, two.
 * Leaves the list whole where rows is 0 or no less than the block's, and where its last nodes are
 * of another kind. */
void block_chunks_find(bp_block *block, uint64_t rows);

/* The values that the chunks read and do not make; 0 of a list that is whole. */
uint32_t block_chunks_inputs(const block_masks *masks, const bp_block *block);

/* Forward of the chunks; the values that they read are there. Gives the block's output its place.
 */
void block_chunks_forward(block_run *run);

/* Backward of the chunks: makes their values again, chunk by chunk. reads: of bp_block_backward.
 * Leaves the gradients of their inputs, over the place of the output's where that can be. */
void block_chunks_backward(block_run *run, const uint32_t reads[BP_BLOCK_NODES]);

#endif
