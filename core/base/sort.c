/* SPDX-License-Identifier: MIT */
/* Heap sort. */
#include "core/base/sort.h"

/* Whether the element at a goes before the one at b, by either kind of comparison. */
typedef struct heap {
    unsigned char *elements;
    size_t size;
    bp_compare compare; /* NULL: elements are indices, and before compares what they index */
    bp_before before;
    const void *user;
} heap;

static unsigned char *sort_at(const heap *h, size_t index)
{
    return h->elements + index * h->size;
}

static bool sort_before(const heap *h, size_t a, size_t b)
{
    if (h->compare != NULL) {
        return h->compare(sort_at(h, a), sort_at(h, b)) < 0;
    }
    const uint32_t *indices = (const uint32_t *)(const void *)h->elements;
    return h->before(h->user, indices[a], indices[b]);
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
        if (child + 1 < count && sort_before(h, child, child + 1)) {
            child++;
        }
        if (!sort_before(h, index, child)) {
            return;
        }
        swap(h, index, child);
        index = child;
    }
}

static void sort_all(const heap *h, size_t count)
{
    for (size_t i = count / 2; i > 0; i--) {
        sink(h, i - 1, count);
    }
    for (size_t left = count; left > 1; left--) {
        swap(h, 0, left - 1);
        sink(h, 0, left - 1);
    }
}

void bp_heap_sort(void *elements, size_t count, size_t size, bp_compare compare)
{
    const heap h = {.elements = elements, .size = size, .compare = compare};
    sort_all(&h, count);
}

void bp_order(uint32_t *indices, uint32_t count, bp_before before, const void *user)
{
    const heap h = {.elements = (unsigned char *)indices,
                    .size = sizeof *indices,
                    .before = before,
                    .user = user};
    sort_all(&h, count);
}
