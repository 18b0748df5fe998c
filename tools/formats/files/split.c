/* SPDX-License-Identifier: MIT */
/* Views of a source. */
#include <string.h>

#include "tools/formats/files/split.h"

static bp_status read_part(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    bp_part *split = source->context;
    return split->inner->read(split->inner, split->first + first, n, to);
}

static bp_status part_targets(bp_source *source, uint64_t first, uint32_t n, uint8_t *counts)
{
    bp_part *split = source->context;
    return split->inner->targets(split->inner, split->first + first, n, counts);
}

static bp_status part_labels(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    bp_part *split = source->context;
    return split->inner->labels(split->inner, split->first + first, n, to);
}

static bp_status part_example(bp_source *source, uint64_t index, bp_example *to)
{
    bp_part *split = source->context;
    return split->inner->example(split->inner, split->first_example + index, to);
}

/* Examples say themselves where their tokens lie, so the whole of `inner` stays readable. */
static void split_examples(bp_part *split, bp_source *inner, uint64_t first, uint64_t count)
{
    split->source = *inner;
    split->source.context = split;
    split->source.read = read_part;
    split->source.targets = inner->targets != NULL ? part_targets : NULL;
    split->source.labels = inner->labels != NULL ? part_labels : NULL;
    split->source.example = part_example;
    split->source.examples = count;
    split->inner = inner;
    split->first = 0;
    split->first_example = first;
}

bp_status bp_part_init(bp_part *split, bp_source *inner, uint64_t first, uint64_t count)
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
    split->first_example = 0;
    return BP_OK;
}

bp_status bp_part_tail(bp_part *kept, bp_part *held, bp_source *inner, double fraction)
{
    if (!(fraction > 0.0 && fraction < 1.0)) {
        return BP_ERR_USAGE;
    }
    if (inner->examples > 0) {
        uint64_t last = (uint64_t)((double)inner->examples * fraction);
        last -= inner->together > 1 ? last % inner->together : 0;
        if (last == 0 || last == inner->examples) {
            return BP_ERR_USAGE;
        }
        split_examples(kept, inner, 0, inner->examples - last);
        split_examples(held, inner, inner->examples - last, last);
        return BP_OK;
    }
    /* Below 2^53 tokens the product is below the count; beyond, bp_part_init would refuse. */
    uint64_t tail = (uint64_t)((double)inner->count * fraction);
    BP_TRY(bp_part_init(kept, inner, 0, inner->count - tail));
    return bp_part_init(held, inner, inner->count - tail, tail);
}

/* Sources behind each other. */

/* The source that token *first is of, counted from its own first token from here on. */
static bp_source *part_of(const bp_joined *joined, uint64_t *first)
{
    uint32_t i = 0;
    while (i + 1 < joined->count && *first >= joined->parts[i]->count) {
        *first -= joined->parts[i++]->count;
    }
    return joined->parts[i];
}

static bp_status joined_read(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    const bp_joined *joined = source->context;
    while (n > 0) {
        uint64_t at = first;
        bp_source *part = part_of(joined, &at);
        const uint32_t some = part->count - at < n ? (uint32_t)(part->count - at) : n;
        BP_TRY(part->read(part, at, some, to));
        first += some;
        to += some;
        n -= some;
    }
    return BP_OK;
}

static bp_status joined_targets(bp_source *source, uint64_t first, uint32_t n, uint8_t *counts)
{
    const bp_joined *joined = source->context;
    while (n > 0) {
        uint64_t at = first;
        bp_source *part = part_of(joined, &at);
        const uint32_t some = part->count - at < n ? (uint32_t)(part->count - at) : n;
        if (part->targets != NULL) {
            BP_TRY(part->targets(part, at, some, counts));
        } else {
            memset(counts, 1, some);
        }
        first += some;
        counts += some;
        n -= some;
    }
    return BP_OK;
}

static bp_status joined_example(bp_source *source, uint64_t index, bp_example *to)
{
    const bp_joined *joined = source->context;
    uint64_t before = 0;
    uint32_t i = 0;
    while (i + 1 < joined->count && index >= joined->parts[i]->examples) {
        index -= joined->parts[i]->examples;
        before += joined->parts[i++]->count;
    }
    BP_TRY(joined->parts[i]->example(joined->parts[i], index, to));
    to->first += before;
    return BP_OK;
}

bp_status bp_joined_init(bp_joined *joined, bp_source *const *parts, uint32_t count,
                         bp_error *error)
{
    *joined = (bp_joined){.parts = parts, .count = count};
    bp_source *all = &joined->source;
    *all = (bp_source){.context = joined, .name = parts[0]->name, .read = joined_read};
    for (uint32_t i = 0; i < count; i++) {
        const bp_source *part = parts[i];
        if (part->labels != NULL || part->together > 1 ||
            (part->examples > 0) != (parts[0]->examples > 0)) {
            return bp_error_set(error, BP_ERR_DATA, "data",
                                "data sets that are mixed are all streams of tokens, or all "
                                "examples, each for itself",
                                part->name);
        }
        all->count += part->count;
        all->examples += part->examples;
        all->targets = part->targets != NULL ? joined_targets : all->targets;
    }
    all->example = all->examples > 0 ? joined_example : NULL;
    return BP_OK;
}
