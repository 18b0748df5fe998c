/* SPDX-License-Identifier: MIT */
/* The order of a feed whose groups have samples of like lengths. A file of its own, so that who
 * groups nothing links nothing of it. */
#include "core/base/sort.h"
#include "core/run/feed.h"

static int compare_lengths(const void *a, const void *b)
{
    const bp_stretch_row *x = a, *y = b;
    const bool longer = x->tokens > y->tokens || (x->tokens == y->tokens && x->place < y->place);
    return longer ? -1 : 1;
}

/* Rows of a stretch but the last one's. */
static uint64_t stretch_length(const bp_feed *feed)
{
    const uint64_t groups = feed->windows / bp_size_mul(feed->group, 4);
    return bp_size_mul(feed->group, groups == 0                  ? 1
                                    : groups < BP_STRETCH_GROUPS ? groups
                                                                 : BP_STRETCH_GROUPS);
}

bp_status bp_feed_by_length(const bp_feed *feed, uint64_t epoch, uint64_t position,
                            uint64_t *window)
{
    bp_stretch *stretch = feed->stretch;
    const uint64_t length = stretch_length(feed), first = position / length * length;
    const uint64_t left = feed->windows - first, count = left < length ? left : length;
    const uint64_t number = epoch * bp_size_ceil_div(feed->windows, length) + first / length + 1;
    if (stretch->number != number) {
        stretch->number = 0; /* until it is whole */
        for (uint64_t i = 0; i < count; i++) {
            bp_stretch_row *row = &stretch->rows[i];
            row->place = (uint32_t)i;
            row->window = bp_feed_shuffled(feed, epoch, first + i);
            BP_TRY(bp_feed_length(feed, row->window, &row->tokens));
        }
        bp_heap_sort(stretch->rows, (size_t)count, sizeof *stretch->rows, compare_lengths);
        stretch->number = number;
    }
    *window = stretch->rows[position - first].window;
    return BP_OK;
}
