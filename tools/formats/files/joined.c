/* SPDX-License-Identifier: MIT */
/* Sources behind each other. */
#include "tools/formats/files/joined.h"

#include <string.h>

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
