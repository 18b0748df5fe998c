/* SPDX-License-Identifier: MIT */
/* Virtual ranks: a group of micro-batches is split into L virtual ranks of whole micro-batches, and
 * its gradient is one fixed binary tree of fp32 additions over them, neighbours first. A leaf is
 * what one virtual rank's micro-batches add up to from zero, as ever, in the gradient's own type;
 * it is widened before it is added, and the root stays in fp32, which norms and updates read.
 * Losses are added up in the same tree, in double.
 *
 * Ranks share the virtual ranks: rank r of N goes through virtual ranks r L/N .. (r + 1) L/N - 1,
 * which are a subtree, and its root is what travels. Each rank gets one Nth of every rank's root
 * (exchange), adds the N pieces in the order of the tree (tree_sum), and gathers the sums of all
 * (all_gather). No addition is made by anything but the kernels, so neither N nor what carries the
 * bytes changes a bit.
 *
 * Where ranks have no more of the sums than they own, the piece of each is what it owns.
 *
 * Gradients that are complete after the same stage lie one behind the other in a window, each at a
 * multiple of BP_WINDOW_ALIGN elements, and travel in buckets of BP_BUCKET_BYTES
 * (core/plan/passes/exchange.c says when). Of a rank's one virtual rank the leaves stay until their
 * bucket is made; of several the sums of the window do. */
#ifndef BP_CORE_VIRTUAL_RANKS_H
#define BP_CORE_VIRTUAL_RANKS_H

#include "core/plan/compile.h"

#define BP_WINDOW_ALIGN 64                   /* elements */
#define BP_BUCKET_BYTES (UINT64_C(16) << 20) /* of all ranks' pieces, or */
#define BP_BUCKET_PIECE                                                                            \
    (UINT64_C(256) << 10) /* this for each rank where that is more; unless                         \
                             spec.bucket_bytes says another number */

/* The tables that virtual ranks add to bp_compile, whose stages and micros are known. */
bp_status bp_virtual_ranks_allocate(bp_compile *compile, const bp_spec *spec,
                                    bp_arena *memory) BP_MUST_CHECK;

/* The first virtual rank's first micro-batch is about to be written. */
void bp_virtual_ranks_begin(bp_compile *compile, bp_builder *builder);
/* Nothing of a gradient is written yet: a backward part begins. */
void bp_virtual_ranks_forget(bp_compile *compile, const bp_builder *builder);

/* The first leaf of this rank that a micro-batch adds to: it has as many as there are token lanes
 * here. */
uint32_t bp_virtual_ranks_lane(const bp_compile *compile, uint32_t micro);

/* Around the ops of a leaf: its gradients and losses are the emitter's. */
void bp_virtual_ranks_enter(bp_compile *compile, bp_builder *builder, uint32_t lane);
void bp_virtual_ranks_leave(bp_compile *compile, bp_builder *builder, uint32_t lane);

/* A virtual rank's gradient of a parameter, made by the caller. */
void bp_virtual_ranks_put(bp_compile *compile, const bp_builder *builder, uint32_t lane,
                          uint32_t parameter, uint32_t buffer);

/* Adds the gradients of `virtual rank` that are ready to the tree of `row` (a stage;
 * compile->stages for slices of a table). A virtual rank's buffers are its own for the last time.
 */
void bp_virtual_ranks_accumulate(bp_compile *compile, bp_builder *builder, uint32_t row,
                                 uint32_t lane);

/* After the last virtual rank's: one rank has the root, and norms and updates read it. */
void bp_virtual_ranks_root(const bp_compile *compile, bp_builder *builder, uint32_t row);

/* The same on several ranks, whose window has yet to travel: its size, buckets and sums. */
void bp_virtual_ranks_open(const bp_compile *compile, const bp_builder *builder, uint32_t row,
                           bp_window *window);

/* Begins to exchange the next bucket of a window, whose parameters are marked as due. */
void bp_virtual_ranks_send(bp_builder *builder, bp_window *window, bp_bucket *bucket);

/* The next part of a bucket's way: the sum of the pieces, then the sums of all. */
void bp_virtual_ranks_advance(bp_builder *builder, bp_window *window, bp_bucket *bucket);

/* Norms and updates read the gradients that are ready in the window, which is whole. */
void bp_virtual_ranks_deliver(bp_builder *builder, const bp_window *window);

/* Adds up the losses of all virtual ranks into the result, once; before the first decision. */
void bp_virtual_ranks_losses(bp_compile *compile, bp_builder *builder);

#endif
