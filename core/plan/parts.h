/* SPDX-License-Identifier: MIT */
/* What a spec says of ranks that share the tokens of one sample (core/plan/passes/token_lanes.h).
 */
#ifndef BP_CORE_PARTS_H
#define BP_CORE_PARTS_H

#include "core/plan/spec.h"

/* Token lanes of a sample, and the ranks that share its tokens, at least 1. */
uint32_t bp_spec_token_lanes(const bp_spec *spec);
uint32_t bp_spec_sequence_ranks(const bp_spec *spec);

/* Leaves of a group's sum: virtual ranks times token lanes. */
uint32_t bp_spec_leaves(const bp_spec *spec);

/* Ranks that have micro-batches of their own, which of them this rank belongs to, and which part of
 * a sample's tokens it has. */
uint32_t bp_spec_data_ranks(const bp_spec *spec);
uint32_t bp_spec_data_rank(const bp_spec *spec);
uint32_t bp_spec_sequence_rank(const bp_spec *spec);

/* Tokens of a sample that a rank has, and those of a lane. */
uint64_t bp_spec_rank_tokens(const bp_spec *spec);
uint64_t bp_spec_lane_tokens(const bp_spec *spec);

/* What was asked for, as the option is called. */
const char *bp_token_lanes_option(const bp_spec *spec);

/* BP_ERR_USAGE: what of a spec cannot go with token lanes, or cannot be split into them. */
bp_status bp_token_lanes_check(const bp_spec *spec, bp_error *error) BP_MUST_CHECK;

#endif
