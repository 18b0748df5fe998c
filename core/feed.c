/* SPDX-License-Identifier: MIT */
/* Deterministic batches: windows of a source in the order of a permutation. */
#include "core/feed.h"

#include <string.h>

#include "core/random.h"

static const char where[] = "feed";

bp_status bp_feed_init(bp_feed *feed, bp_error *error)
{
    feed->error = error;
    uint64_t least = bp_size_add(bp_size_mul(feed->batch, feed->sequence), 1);
    if (feed->source->count < least) {
        return bp_error_numbers(error, BP_ERR_DATA, where,
                                "the data holds fewer tokens than one batch needs",
                                feed->source->name, (int64_t)feed->source->count, (int64_t)least);
    }
    feed->windows = bp_size_ceil_div(feed->source->count - 1, feed->sequence);
    feed->steps_per_epoch = bp_size_ceil_div(feed->windows, feed->group);
    return BP_OK;
}

static bp_status check_ids(const bp_feed *feed, const int32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if ((uint32_t)ids[i] >= feed->vocabulary) {
            return bp_error_numbers(feed->error, BP_ERR_DATA, where,
                                    "a token id is not below the model's vocabulary",
                                    feed->source->name, ids[i], feed->vocabulary);
        }
    }
    return BP_OK;
}

static bp_status read_window(const bp_feed *feed, uint64_t first, uint32_t have, int32_t *ids,
                             uint8_t *counts)
{
    bp_source *source = feed->source;
    memset(counts, 1, have);
    bp_status status = source->read(source, first, have, ids);
    if (status == BP_OK && source->targets != NULL) {
        status = source->targets(source, first, have, counts);
    }
    if (status != BP_OK) {
        return bp_error_set(feed->error, status, where, "the data cannot be read", source->name);
    }
    return check_ids(feed, ids, have);
}

/* Writes one window as a row of ids and a row of labels; what lies beyond the source is padding. */
static bp_status stage_window(const bp_feed *feed, uint64_t window, int32_t *ids, int32_t *labels,
                              int32_t *scratch)
{
    uint64_t first = window * feed->sequence;
    uint64_t left = feed->source->count - first;
    uint32_t have = left <= feed->sequence ? (uint32_t)left : feed->sequence + 1;
    uint8_t *counts = (uint8_t *)(scratch + feed->sequence + 1);
    BP_TRY(read_window(feed, first, have, scratch, counts));
    for (uint32_t t = 0; t < feed->sequence; t++) {
        bool there = t + 1 < have;
        ids[t] = there ? scratch[t] : 0;
        labels[t] = there && counts[t + 1] != 0 ? scratch[t + 1] : -1;
    }
    return BP_OK;
}

static void stage_padding(const bp_feed *feed, int32_t *ids, int32_t *labels)
{
    for (uint32_t t = 0; t < feed->sequence; t++) {
        ids[t] = 0;
        labels[t] = -1;
    }
}

bp_status bp_feed_stage(const bp_feed *feed, uint64_t step, bp_group *group, int32_t *scratch)
{
    uint64_t epoch = step / feed->steps_per_epoch;
    uint64_t first = step % feed->steps_per_epoch * feed->group;
    uint64_t left = feed->windows - first;
    group->samples = left < feed->group ? (uint32_t)left : feed->group;
    group->micros = (uint32_t)bp_size_ceil_div(group->samples, feed->batch);
    group->valid = 0;
    for (uint32_t s = 0; s < group->micros * feed->batch; s++) {
        int32_t *ids = group->ids + (size_t)s * feed->sequence;
        int32_t *labels = group->labels + (size_t)s * feed->sequence;
        if (s >= group->samples) {
            stage_padding(feed, ids, labels);
            continue;
        }
        uint64_t window = first + s;
        if (feed->shuffle) {
            window = bp_random_permute(feed->seed, epoch, feed->windows, window);
        }
        BP_TRY(stage_window(feed, window, ids, labels, scratch));
        for (uint32_t t = 0; t < feed->sequence; t++) {
            group->valid += labels[t] >= 0 ? 1 : 0;
        }
    }
    return BP_OK;
}
