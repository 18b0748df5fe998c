/* SPDX-License-Identifier: MIT */
/* Token lanes: the tokens of a sample are split into L parts of equal length, and what is added up
 * over tokens (gradients of weights, losses) is added up part by part. Each part of each virtual
 * rank is a leaf of the group's one tree of additions (core/plan/passes/virtual_ranks.h), the parts
 * of a sample neighbours. So L shapes the result, as the number of virtual ranks does.
 *
 * Ranks share the lanes: rank n of N of a sample has its lanes n L/N .. (n + 1) L/N - 1, and of its
 * tokens those alone, everywhere but in attention. Around attention an all-to-all turns the rows of
 * a rank's tokens into those of all tokens with the rank's own heads, whole key-value heads with
 * the query heads that look at them, and back (layers/nodes/attention.h). It adds nothing, so
 * N changes no bit. Inputs are whole on every rank: a label at the end of a part is the next part's
 * first token, and a rank reads from where its part begins.
 *
 * A layer that adds up over tokens does so lane by lane: for each it writes its ops between begin
 * and end, over the rows of the lane. */
#ifndef BP_CORE_TOKEN_LANES_H
#define BP_CORE_TOKEN_LANES_H

#include "core/plan/builder.h"

/* Lanes of this rank's tokens; 1 where the tokens of a sample are one part. */
uint32_t bp_token_lanes_count(const bp_builder *builder);

/* The ops of a lane: builder->rows are its tokens, inputs and losses begin with its first, and
 * gradients and the loss go to its leaf. Nothing where the tokens are one part. */
void bp_token_lane_begin(bp_builder *builder, uint32_t lane);
void bp_token_lane_end(bp_builder *builder, uint32_t lane);

/* Where the lane begins in rows of all lanes, `width` elements each; absent stays absent. */
bp_ref bp_token_lane_at(const bp_builder *builder, bp_ref ref, uint64_t width);

/* The ops of rows first .. first + rows - 1 of the builder's, `all` keeps what these have. */
void bp_row_window_begin(bp_builder *builder, uint64_t first, uint64_t rows, bp_row_window *all);
void bp_row_window_end(bp_builder *builder, const bp_row_window *all);

/* Ops that would part what tokens share, `what` in words, are refused where there are lanes:
 * builder->status becomes BP_ERR_USAGE. */
void bp_token_lanes_whole(bp_builder *builder, const char *what);

#define BP_TOKEN_LANES_DROPOUT                                                                     \
    "what dropout leaves out here is drawn by places of a whole sample, which are split among "    \
    "lanes"

/* The compiler's. Around every action of a micro-batch. */
void bp_token_lanes_enter(struct bp_compile *compile, bp_builder *builder, uint32_t micro);
void bp_token_lanes_leave(struct bp_compile *compile, bp_builder *builder, uint32_t micro);

/* Inputs with a value for each token begin with this rank's first one. */
void bp_token_lanes_place(bp_builder *builder);

#endif
