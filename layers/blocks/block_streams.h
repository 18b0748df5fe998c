/* SPDX-License-Identifier: MIT */
/* A block whose rows live in storage (BP_OFFLOAD_STREAMS), in three passes over them in place of
 * one: chunks of rows up to queries, keys and values; attention of one key-value head after the
 * other, which alone has all rows at hand; chunks of rows of the rest. Backward makes these again,
 * goes back through the last nodes chunk by chunk, through attention head by head, whose gradients
 * take the place of queries, keys and values, and of its output, and through the first nodes. Rows
 * ascend and heads are those of one op over all, so that no bit of a result changes. */
#ifndef BP_LAYERS_BLOCK_STREAMS_H
#define BP_LAYERS_BLOCK_STREAMS_H

#include "layers/blocks/block_chunks.h"

/* Forward of a block, of which block_begin has set up the run: from call->input to call->output.
 * BP_ERR_USAGE in builder->status where the block is none that can be so. */
void block_streams_forward(block_run *run, bp_stage_call *call);

/* Backward, with reads: of bp_block_backward. call->d_input takes the place of call->d_output. */
void block_streams_backward(block_run *run, bp_stage_call *call,
                            const uint32_t reads[BP_BLOCK_NODES]);

#endif
