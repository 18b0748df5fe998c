/* SPDX-License-Identifier: MIT */
/* Rectangles of bytes and sets of them. */
#include "core/ir/written.h"

bp_rectangle bp_rectangle_flat(uint64_t first, uint64_t bytes)
{
    return bytes == 0 ? (bp_rectangle){0, 0, 0, 0} : (bp_rectangle){first, 1, bytes, bytes};
}

static bp_rectangle rectangle_make(uint64_t first, uint64_t rows, uint64_t width, uint64_t pitch)
{
    if (rows == 1 || width == pitch) {
        return bp_rectangle_flat(first, rows * width);
    }
    return (bp_rectangle){first, rows, width, pitch};
}

bp_rectangle bp_rectangle_of(const bp_extent *extent, size_t element_bytes, uint64_t first)
{
    if (extent->rows == 0 || extent->width == 0) {
        return bp_rectangle_flat(0, 0);
    }
    /* The pitch of a single row says nothing and may be anything. */
    const uint64_t pitch = extent->rows == 1 ? extent->width : extent->pitch;
    return rectangle_make(first, extent->rows, extent->width * element_bytes,
                          pitch * element_bytes);
}

static uint64_t rectangle_end(const bp_rectangle *r)
{
    return r->first + (r->rows - 1) * r->pitch + r->width;
}

bp_span bp_rectangle_span(const bp_rectangle *r)
{
    return r->rows == 0 ? (bp_span){0, 0} : (bp_span){r->first, rectangle_end(r)};
}

bool bp_rectangle_equal(const bp_rectangle *a, const bp_rectangle *b)
{
    return a->first == b->first && a->rows == b->rows && a->width == b->width &&
           a->pitch == b->pitch;
}

bool bp_rectangle_contains(const bp_rectangle *outer, const bp_rectangle *inner)
{
    if (inner->rows == 0) {
        return true;
    }
    if (outer->rows == 0 || inner->first < outer->first) {
        return false;
    }
    if (outer->rows == 1) {
        return rectangle_end(inner) <= rectangle_end(outer);
    }
    /* Every row of `inner` begins at the same column when its pitch is a multiple of `outer`'s. */
    const uint64_t row = (inner->first - outer->first) / outer->pitch;
    const uint64_t column = (inner->first - outer->first) % outer->pitch;
    const uint64_t step = inner->rows > 1 ? inner->pitch / outer->pitch : 0;
    return (inner->rows == 1 || inner->pitch % outer->pitch == 0) && row < outer->rows &&
           column + inner->width <= outer->width &&
           (step == 0 || inner->rows - 1 <= (outer->rows - 1 - row) / step);
}

/* A row against a rectangle: looks at the first of its rows that ends behind the row's beginning.
 */
static bool rectangle_meets_row(const bp_rectangle *r, const bp_rectangle *row)
{
    uint64_t at = 0;
    if (r->first + r->width <= row->first) {
        at = (row->first - r->first - r->width) / r->pitch + 1;
    }
    return at < r->rows && r->first + at * r->pitch < row->first + row->width;
}

/* Two of one pitch, a not behind b. Seen from a's rows, b's first row begins `column` bytes behind
 * the beginning of row number `row`, and reaches into the next one when it does not end before it.
 */
static bool rectangle_meets(const bp_rectangle *a, const bp_rectangle *b)
{
    const uint64_t row = (b->first - a->first) / a->pitch;
    const uint64_t column = (b->first - a->first) % a->pitch;
    return (row < a->rows && column < a->width) ||
           (row + 1 < a->rows && column + b->width > a->pitch);
}

bool bp_rectangle_touch(const bp_rectangle *a, const bp_rectangle *b)
{
    if (a->rows == 0 || b->rows == 0 || rectangle_end(a) <= b->first ||
        rectangle_end(b) <= a->first) {
        return false;
    }
    if (a->rows == 1 && b->rows == 1) {
        return true;
    }
    if (a->rows == 1) {
        return rectangle_meets_row(b, a);
    }
    if (b->rows == 1) {
        return rectangle_meets_row(a, b);
    }
    if (a->pitch != b->pitch) {
        return true;
    }
    return a->first <= b->first ? rectangle_meets(a, b) : rectangle_meets(b, a);
}

bool bp_written_contains(const bp_written *set, const bp_rectangle *r)
{
    if (r->rows == 0) {
        return true;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        if (bp_rectangle_contains(&set->part[i], r)) {
            return true;
        }
    }
    return false;
}

/* Two rows, side by side or overlapping. */
static bool rectangle_join_flat(const bp_rectangle *left, const bp_rectangle *right,
                                bp_rectangle *both)
{
    const uint64_t end = rectangle_end(left);
    if (right->first > end) {
        return false;
    }
    const uint64_t other = rectangle_end(right);
    *both = bp_rectangle_flat(left->first, (end > other ? end : other) - left->first);
    return true;
}

/* Two that begin in the same row and have equally many: side by side or overlapping. */
static bool rectangle_join_columns(const bp_rectangle *left, const bp_rectangle *right,
                                   bp_rectangle *both)
{
    const uint64_t shift = right->first - left->first;
    const uint64_t end = shift + right->width;
    const uint64_t width = end > left->width ? end : left->width;
    if (left->rows != right->rows || shift > left->width || width > left->pitch) {
        return false;
    }
    *both = rectangle_make(left->first, left->rows, width, left->pitch);
    return true;
}

/* Two of the same columns, one above the other or overlapping; one of them may be a single row. */
static bool rectangle_join_rows(const bp_rectangle *upper, const bp_rectangle *lower,
                                uint64_t pitch, bp_rectangle *both)
{
    const uint64_t shift = lower->first - upper->first;
    if (upper->width != lower->width || shift % pitch != 0 || shift / pitch > upper->rows) {
        return false;
    }
    const uint64_t end = shift / pitch + lower->rows;
    *both =
        rectangle_make(upper->first, end > upper->rows ? end : upper->rows, upper->width, pitch);
    return true;
}

/* Whether the two together are one rectangle. */
static bool rectangle_join(const bp_rectangle *x, const bp_rectangle *y, bp_rectangle *both)
{
    const bp_rectangle *a = x->first <= y->first ? x : y;
    const bp_rectangle *b = a == x ? y : x;
    if (a->rows == 1 && b->rows == 1) {
        return rectangle_join_flat(a, b, both);
    }
    if (bp_rectangle_contains(a, b)) {
        *both = *a;
        return true;
    }
    if (bp_rectangle_contains(b, a)) {
        *both = *b;
        return true;
    }
    if (a->rows > 1 && b->rows > 1 && a->pitch != b->pitch) {
        return false;
    }
    return rectangle_join_columns(a, b, both) ||
           rectangle_join_rows(a, b, a->rows > 1 ? a->pitch : b->pitch, both);
}

void bp_written_add(bp_written *set, const bp_rectangle *r)
{
    if (bp_written_contains(set, r)) {
        return;
    }
    bp_rectangle whole = *r;
    set->grown = true;
    /* Each join takes one away, and what has grown may now join one that it passed before. */
    for (uint32_t i = 0; i < set->count;) {
        if (rectangle_join(&set->part[i], &whole, &whole)) {
            set->part[i] = set->part[--set->count];
            i = 0;
        } else {
            i++;
        }
    }
    if (set->count == BP_WRITTEN_MAX) {
        set->count--;
    }
    set->part[set->count++] = whole;
}

void bp_written_indices(bp_written *set, bp_indices indices)
{
    bool unknown = indices.below == 0 || (set->count > 0 && set->indices.below == 0);
    if (set->count > 0) {
        indices.negative = indices.negative || set->indices.negative;
        indices.below = indices.below > set->indices.below ? indices.below : set->indices.below;
    }
    indices.below = unknown ? 0 : indices.below;
    set->indices = indices;
}

void bp_written_forget(bp_written *set, const bp_rectangle *r)
{
    for (uint32_t i = 0; i < set->count;) {
        if (bp_rectangle_touch(&set->part[i], r)) {
            set->part[i] = set->part[--set->count];
        } else {
            i++;
        }
    }
}
