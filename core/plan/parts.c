/* SPDX-License-Identifier: MIT */
/* Parts of a sample's tokens, and who has them. */
#include "core/plan/parts.h"

uint32_t bp_spec_token_lanes(const bp_spec *spec)
{
    return spec->token_lanes > 0 ? spec->token_lanes : 1;
}

uint32_t bp_spec_sequence_ranks(const bp_spec *spec)
{
    return spec->sequence_ranks > 0 ? spec->sequence_ranks : 1;
}

uint32_t bp_spec_leaves(const bp_spec *spec)
{
    return bp_spec_virtual_ranks(spec) * bp_spec_token_lanes(spec);
}

uint32_t bp_spec_data_ranks(const bp_spec *spec)
{
    return bp_spec_ranks(spec) / bp_spec_sequence_ranks(spec);
}

uint32_t bp_spec_data_rank(const bp_spec *spec)
{
    return spec->rank / bp_spec_sequence_ranks(spec);
}

uint32_t bp_spec_sequence_rank(const bp_spec *spec)
{
    return spec->rank % bp_spec_sequence_ranks(spec);
}

uint64_t bp_spec_rank_tokens(const bp_spec *spec)
{
    return spec->sequence / bp_spec_sequence_ranks(spec);
}

uint64_t bp_spec_lane_tokens(const bp_spec *spec)
{
    return spec->sequence / bp_spec_token_lanes(spec);
}
