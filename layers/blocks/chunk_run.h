/* SPDX-License-Identifier: MIT */
/* One chunk of rows of a block: what blocks in chunks (block_chunks.c) and those whose rows live in
 * storage (block_streams.c) share. Ranges are of nodes, [range[0], range[1]). */
#ifndef BP_LAYERS_CHUNK_RUN_H
#define BP_LAYERS_CHUNK_RUN_H

#include "layers/blocks/block_chunks.h"

/* Acquires the parameters of a range for all chunks, or releases them. */
void chunk_hold(const block_run *run, const uint32_t range[2], bool hold, bp_purpose purpose);

/* What a chunk changes of the block and the builder until it is over. */
void chunk_rows_set(const block_run *run, uint64_t first, uint64_t rows);

/* Rows of the chunk that begins with row `first`: the last one may have fewer. */
uint64_t block_chunk_rows(const bp_block *block, uint64_t first, uint64_t all);

/* A run over `rows` rows from `first` on, which finds of all values those of `inputs` alone. */
void chunk_begin(const block_run *run, block_run *part, uint32_t inputs, uint64_t first,
                 uint64_t rows);

/* Values that a range makes. */
uint32_t chunk_made_by(const block_run *run, const uint32_t range[2]);

/* Backward of a range in a chunk, which `inner` has the values of. */
void chunk_go_back(block_run *part, const uint32_t range[2], uint32_t inner,
                   const uint32_t reads[BP_BLOCK_NODES]);

#endif
