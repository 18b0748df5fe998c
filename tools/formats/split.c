/* SPDX-License-Identifier: MIT */
/* Views of a source. */
#include "tools/formats/split.h"

static bp_status read_part(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    bp_split *split = source->context;
    return split->inner->read(split->inner, split->first + first, n, to);
}

static bp_status part_targets(bp_source *source, uint64_t first, uint32_t n, uint8_t *counts)
{
    bp_split *split = source->context;
    return split->inner->targets(split->inner, split->first + first, n, counts);
}

bp_status bp_split_init(bp_split *split, bp_source *inner, uint64_t first, uint64_t count)
{
    if (first > inner->count || count > inner->count - first) {
        return BP_ERR_USAGE;
    }
    split->source = (bp_source){.context = split,
                                .name = inner->name,
                                .count = count,
                                .read = read_part,
                                .targets = inner->targets != NULL ? part_targets : NULL};
    split->inner = inner;
    split->first = first;
    return BP_OK;
}

bp_status bp_split_tail(bp_split *kept, bp_split *held, bp_source *inner, double fraction)
{
    if (!(fraction > 0.0 && fraction < 1.0)) {
        return BP_ERR_USAGE;
    }
    /* Below 2^53 tokens the product is below the count; beyond, bp_split_init would refuse. */
    uint64_t tail = (uint64_t)((double)inner->count * fraction);
    BP_TRY(bp_split_init(kept, inner, 0, inner->count - tail));
    return bp_split_init(held, inner, inner->count - tail, tail);
}
