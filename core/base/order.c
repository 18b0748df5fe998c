/* SPDX-License-Identifier: MIT */
/* Heap sort of indices. */
#include "core/base/order.h"

static void sift_down(uint32_t *heap, uint32_t root, uint32_t count, bp_before before,
                      const void *user)
{
    uint32_t moved = heap[root];
    while (root < count / 2) {
        uint32_t child = 2 * root + 1;
        if (child + 1 < count && before(user, heap[child], heap[child + 1])) {
            child++;
        }
        if (!before(user, moved, heap[child])) {
            break;
        }
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = moved;
}

void bp_order(uint32_t *indices, uint32_t count, bp_before before, const void *user)
{
    for (uint32_t root = count / 2; root > 0; root--) {
        sift_down(indices, root - 1, count, before, user);
    }
    for (uint32_t end = count; end > 1; end--) {
        uint32_t last = indices[end - 1];
        indices[end - 1] = indices[0];
        indices[0] = last;
        sift_down(indices, 0, end - 1, before, user);
    }
}
