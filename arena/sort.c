/* SPDX-License-Identifier: MIT */
/* Sorting of indices: bottom-up merge sort. */
#include "arena/sort.h"

#include <string.h>

/* Merges order[from, middle) and order[middle, to) into spare[from, to). Runs that follow each
 * other already, as buffers in the order of their making mostly do, are copied after one look. */
static void sort_merge(const uint32_t *order, uint32_t *spare, const uint32_t bounds[3],
                       bp_before before, const void *context)
{
    uint32_t left = bounds[0];
    uint32_t right = bounds[1];
    if (right == bounds[2] || !before(context, order[right], order[right - 1])) {
        memcpy(spare + left, order + left, (bounds[2] - left) * sizeof *order);
        return;
    }
    for (uint32_t at = bounds[0]; at < bounds[2]; at++) {
        bool take_right = left == bounds[1];
        if (!take_right && right < bounds[2]) {
            take_right = before(context, order[right], order[left]);
        }
        spare[at] = take_right ? order[right++] : order[left++];
    }
}

void bp_sort(uint32_t *order, uint32_t *spare, uint32_t count, bp_before before,
             const void *context)
{
    uint32_t *from = order;
    uint32_t *to = spare;
    for (uint64_t width = 1; width < count; width *= 2) {
        for (uint64_t start = 0; start < count; start += 2 * width) {
            uint64_t middle = start + width < count ? start + width : count;
            uint64_t end = middle + width < count ? middle + width : count;
            const uint32_t bounds[3] = {(uint32_t)start, (uint32_t)middle, (uint32_t)end};
            sort_merge(from, to, bounds, before, context);
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order) {
        memcpy(order, from, count * sizeof *order);
    }
}
