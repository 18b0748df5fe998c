/* SPDX-License-Identifier: MIT */
/* Attention where ranks share the tokens of a sample (core/plan/passes/token_lanes.h): all-to-alls
 * turn rows of a rank's tokens into those of all tokens with the rank's heads, and back (Jacobs et
 * al., arXiv 2309.14509). A rank has whole key-value heads, and the query heads that look at them,
 * so that each head's sums are those of one rank. */
#ifndef BP_LAYERS_ATTENTION_RANKS_H
#define BP_LAYERS_ATTENTION_RANKS_H

#include "layers/nodes/attention.h"

#define BP_SEQUENCE_GROUP 1 /* the fabric's group of ranks that share the tokens of a sample */

/* This rank's heads. BP_ERR_USAGE in builder->status where they cannot be shared equally. */
bp_attention bp_attention_ranks_own(bp_builder *builder, const bp_attention *attention);

/* A new buffer (T, (H + 2 K) / N * D) from qkv (T / N, (H + 2 K) * D), N the ranks. */
bp_ref bp_attention_ranks_take(bp_builder *builder, const bp_attention *attention, bp_ref qkv);

/* The way back, of gradients. */
void bp_attention_ranks_give(bp_builder *builder, const bp_attention *attention, bp_ref own,
                             bp_ref qkv);

/* The same of out (T / N, H * D), and (T, H / N * D). */
bp_ref bp_attention_ranks_take_out(bp_builder *builder, const bp_attention *attention, bp_ref out);
void bp_attention_ranks_give_out(bp_builder *builder, const bp_attention *attention, bp_ref own,
                                 bp_ref out);

/* Losses (T) of all ranks from this one's (T / N). */
bp_ref bp_attention_ranks_losses(bp_builder *builder, bp_ref losses);

#endif
