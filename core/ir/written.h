/* SPDX-License-Identifier: MIT */
/* Rectangles of bytes inside a buffer, and what is known to be written of one: a small set of them.
 *
 * All answers are exact but for two that err to the safe side: rectangles of two different pitches
 * touch when the spans from their first to past their last byte do, and a set holds what fits into
 * BP_WRITTEN_MAX rectangles, so that a buffer that is written in more scattered pieces counts as
 * written in fewer places than it is. No call takes longer for larger rectangles. */
#ifndef BP_CORE_WRITTEN_H
#define BP_CORE_WRITTEN_H

#include "core/ir/address.h"
#include "core/ops/kernel.h"

/* `rows` runs of `width` bytes, `pitch` bytes apart. One row has its width for a pitch, rows that
 * touch one another are one row, and nothing is all zeros: each set of bytes has one form. */
typedef struct bp_rectangle {
    uint64_t first; /* byte of the buffer */
    uint64_t rows;
    uint64_t width;
    uint64_t pitch;
} bp_rectangle;

#define BP_WRITTEN_MAX 4

/* What is known of integers that things are looked up by. */
typedef struct bp_indices {
    uint64_t below; /* every one is; 0: nothing is known */
    bool negative;  /* some may be negative */
} bp_indices;

/* The union of `count` rectangles. */
typedef struct bp_written {
    bp_rectangle part[BP_WRITTEN_MAX];
    uint32_t count;
    bool grown;         /* bytes were added since the caller last cleared this */
    bp_indices indices; /* of a buffer of integers */
    uint32_t list;      /* the list op that the spans belong to, by a number of its own */
    bp_span wrote;      /* where its tuples so far have written, */
    bp_span read;       /* and read */
} bp_written;

/* `bytes` bytes in a row from `first`. */
bp_rectangle bp_rectangle_flat(uint64_t first, uint64_t bytes);

/* The bytes of an extent of elements of element_bytes, `first` bytes into the buffer. The extent's
 * end has been looked at: neither bp_extent_bytes nor `first` added to it overflows. */
bp_rectangle bp_rectangle_of(const bp_extent *extent, size_t element_bytes, uint64_t first);

/* Whether nothing is in it. */
static inline bool bp_rectangle_empty(const bp_rectangle *r)
{
    return r->rows == 0;
}

/* From its first byte to past its last. */
bp_span bp_rectangle_span(const bp_rectangle *r);

/* Whether they are the same bytes. */
bool bp_rectangle_equal(const bp_rectangle *a, const bp_rectangle *b);

/* Whether every byte of `inner` is one of `outer`; false also where pitches differ and `inner`
 * could still lie inside row by row. */
bool bp_rectangle_contains(const bp_rectangle *outer, const bp_rectangle *inner);

/* Whether they share a byte. */
bool bp_rectangle_touch(const bp_rectangle *a, const bp_rectangle *b);

/* Whether a set is known to hold all of a rectangle. */
bool bp_written_contains(const bp_written *set, const bp_rectangle *r);

/* Adds a rectangle, joined with its neighbours wherever the two together are one rectangle. */
void bp_written_add(bp_written *set, const bp_rectangle *r);

/* Integers that are about to be written join those that are there. */
void bp_written_indices(bp_written *set, bp_indices indices);

/* Forgets every rectangle of the set that shares a byte with r. */
void bp_written_forget(bp_written *set, const bp_rectangle *r);

#endif
