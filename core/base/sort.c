/* SPDX-License-Identifier: MIT */
/* Heap sort. */
#include "core/base/sort.h"

typedef struct heap {
    unsigned char *elements;
    size_t size;
    bp_compare compare;
} heap;

static unsigned char *sort_at(const heap *h, size_t index)
{
    return h->elements + index * h->size;
}

static void swap(const heap *h, size_t a, size_t b)
{
    unsigned char *x = sort_at(h, a);
    unsigned char *y = sort_at(h, b);
    for (size_t i = 0; i < h->size; i++) {
        unsigned char kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
}

/* Lets the element at `index` sink until no child among the first `count` goes behind it. */
static void sink(const heap *h, size_t index, size_t count)
{
    for (size_t child = 2 * index + 1; child < count; child = 2 * index + 1) {
        if (child + 1 < count && h->compare(sort_at(h, child), sort_at(h, child + 1)) < 0) {
            child++;
        }
        if (h->compare(sort_at(h, index), sort_at(h, child)) >= 0) {
            return;
        }
        swap(h, index, child);
        index = child;
    }
}

void bp_heap_sort(void *elements, size_t count, size_t size, bp_compare compare)
{
    heap h = {elements, size, compare};
    for (size_t i = count / 2; i > 0; i--) {
        sink(&h, i - 1, count);
    }
    for (size_t left = count; left > 1; left--) {
        swap(&h, 0, left - 1);
        sink(&h, 0, left - 1);
    }
}
