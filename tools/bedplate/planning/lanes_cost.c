/* SPDX-License-Identifier: MIT */
/* Plans with one lane. */
#include "tools/bedplate/planning/lanes_cost.h"

#include "tools/bedplate/session/counted.h"

bp_status lanes_cost_find(const bp_spec *spec, uint64_t arena_bytes, uint64_t *more,
                          bp_error *error)
{
    bp_spec other = *spec;
    uint64_t without = arena_bytes;
    *more = 0;
    if (spec->optimizer == NULL || bp_spec_lanes(spec) == 1) {
        return BP_OK;
    }
    other.lanes = 1;
    other.ranks = 1;
    other.rank = 0;
    other.sharing = BP_SHARING_NONE;
    BP_TRY(counted_arena(&other, &without, error));
    *more = arena_bytes > without ? arena_bytes - without : 0;
    return BP_OK;
}
