/* SPDX-License-Identifier: MIT */
/* The map of shards: which elements of every tensor each rank owns.
 *
 * A tensor is cut into units of BP_SHARD_UNIT elements, the last one shorter. A unit holds whole
 * blocks of every quantised state and whole partial sums of the gradient norm, so what a rank
 * computes of its units is what one rank computes of the tensor. Each rank owns one run of units of
 * a tensor: of U units and N ranks everybody has U / N, and the rest goes, one each, to those ranks
 * that have the fewest bytes so far. The runs lie in the order of ranks, turned so that the last
 * unit falls to the rank that has most, but where all have as much. Tensors are dealt by size, the
 * largest first, so that small ones level what large ones leave: no two ranks differ by more than
 * one unit's bytes. A pure function of the tensors and N. */
#ifndef BP_CORE_SHARDS_H
#define BP_CORE_SHARDS_H

#include "arena/arena.h"
#include "core/plan/spec.h"

#define BP_SHARD_UNIT  65536 /* BP_CLIP_CHUNK, and a multiple of every block of a state */
#define BP_SHARD_RANKS 65536 /* most ranks */

/* "none", "optimizer", "gradients", "parameters" */
const char *bp_sharing_name(bp_sharing sharing);

/* A tensor as the map sees it: what its owner keeps for it. */
typedef struct bp_shard_tensor {
    uint64_t count;      /* elements */
    uint64_t unit_bytes; /* of a whole unit */
    uint64_t last_bytes; /* of the last unit, which may be shorter; unit_bytes where it is not */
} bp_shard_tensor;

/* A run of elements; count 0: none. */
typedef struct bp_share {
    uint64_t first;
    uint64_t count;
} bp_share;

/* The map. What it points to is the arena's. */
typedef struct bp_shards {
    uint32_t tensors;
    uint32_t ranks;
    uint64_t *bits;  /* [tensors][words]: the ranks that have one unit more than U / N */
    uint64_t *load;  /* [ranks]: bytes that each owns */
    uint64_t *start; /* [tensors]: the rank that has the first units */
} bp_shards;

/* Takes what a map needs from an arena, or counts it. BP_ERR_FIT where it does not fit, and for no
 * rank or more than BP_SHARD_RANKS. */
bp_status bp_shards_take(bp_shards *shards, uint32_t tensors, uint32_t ranks,
                         bp_arena *memory) BP_MUST_CHECK;

/* Units of a tensor of so many elements. */
uint64_t bp_shards_units(uint64_t count);

/* Deals out tensors, of which there are at most as many as the map was taken for. Cost: a few
 * steps for each tensor and rank. */
void bp_shards_deal(bp_shards *shards, const bp_shard_tensor *tensors, uint32_t count);

/* What a rank owns of tensor number `tensor`, which has `count` elements. */
bp_share bp_shards_share(const bp_shards *shards, uint32_t tensor, uint64_t count, uint32_t rank);

/* The rank that owns an element of a tensor. */
uint32_t bp_shards_owner(const bp_shards *shards, uint32_t tensor, uint64_t count,
                         uint64_t element);

/* Whether all shares of a tensor are equal, so that they lie in it in the order of ranks. */
bool bp_shards_equal(const bp_shards *shards, uint64_t count);

/* The fewest and the most bytes that a rank owns. */
void bp_shards_spread(const bp_shards *shards, uint64_t *least, uint64_t *most);

#endif
