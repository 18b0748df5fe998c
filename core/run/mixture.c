/* SPDX-License-Identifier: MIT */
/* The order of a feed whose data sets have shares of each epoch. A file of its own, so that who
 * mixes nothing links nothing of it. */
#include "core/ops/forms.h"
#include "core/base/random.h"
#include "core/run/feed.h"

static const char where[] = "feed";

/* The shares of an epoch, rounded down; what is left goes to the largest remainders, of equal ones
 * to the first. */
static void share_out(bp_mixture *mixture, const double *weights, double sum, uint64_t windows)
{
    double rest[BP_MIXTURE_MOST];
    uint64_t given = 0;
    for (uint32_t i = 0; i < mixture->count; i++) {
        const double exact = (double)windows * (weights[i] / sum);
        mixture->part[i].each = (uint64_t)exact;
        rest[i] = exact - (double)mixture->part[i].each;
        given += mixture->part[i].each;
    }
    while (given < windows) {
        uint32_t most = 0;
        for (uint32_t i = 1; i < mixture->count; i++) {
            most = rest[i] > rest[most] ? i : most;
        }
        mixture->part[most].each++;
        rest[most] -= 1.0;
        given++;
    }
}

bp_status bp_mixture_init(bp_mixture *mixture, bp_feed *feed, const double *weights)
{
    double sum = 0.0;
    uint64_t first = 0;
    for (uint32_t i = 0; i < mixture->count; i++) {
        bp_mixture_part *part = &mixture->part[i];
        /* a stream's windows belong to the data set that their first token is of */
        const uint64_t end =
            feed->source->examples > 0 ? part->end : bp_size_ceil_div(part->end, feed->sequence);
        const uint64_t last = end < feed->windows ? end : feed->windows;
        part->first = first;
        part->windows = last > first ? last - first : 0;
        first += part->windows;
        sum += weights[i];
        if (part->windows == 0 && weights[i] > 0.0) {
            return bp_error_limit(feed->error, BP_ERR_DATA, where,
                                  "a data set has no row of its own", feed->source->name,
                                  (int64_t)i + 1, BP_LIMIT_NONE, 0);
        }
    }
    if (!(sum > 0.0)) {
        return bp_error_set(feed->error, BP_ERR_USAGE, where, "no data set has a weight above 0",
                            feed->source->name);
    }
    share_out(mixture, weights, sum, feed->windows);
    feed->mixture = mixture;
    feed->order = bp_feed_mixed;
    return BP_OK;
}

bp_status bp_feed_mixed(const bp_feed *feed, uint64_t epoch, uint64_t position, uint64_t *window)
{
    const bp_mixture *mixture = feed->mixture;
    uint64_t place = bp_random_permute(feed->seed, epoch, feed->windows, position);
    uint32_t i = 0;
    while (i + 1 < mixture->count && place >= mixture->part[i].each) {
        place -= mixture->part[i++].each;
    }
    /* a data set is gone through once and again, each time in an order of its own */
    const bp_mixture_part *part = &mixture->part[i];
    const uint64_t visit = epoch * part->each + place;
    const uint64_t key = feed->seed ^ (UINT64_C(0x6d697874757265) + i);
    *window = part->first +
              bp_random_permute(key, visit / part->windows, part->windows, visit % part->windows);
    return BP_OK;
}
