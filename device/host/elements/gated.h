/* SPDX-License-Identifier: MIT */
/* Where the elements of gates and ups lie that swiglu_forward and swiglu_backward go through in
 * order of their products. */
#ifndef BP_DEVICE_HOST_GATED_H
#define BP_DEVICE_HOST_GATED_H

#include "device/host/kernel.h"
#include "device/host/vector/lanes.h"

typedef struct bp_gated_position {
    uint64_t i;      /* of the product */
    uint64_t from;   /* of gate and up */
    uint64_t column; /* in its row */
    uint64_t width;
    uint64_t pitch;
} bp_gated_position;

/* Both rows of kernels.def have the same scalars. */
static inline bp_gated_position bp_gated_begin(const bp_swiglu_forward_scalars *s, uint64_t i)
{
    bp_gated_position at = {.i = i, .width = (uint64_t)s->width, .pitch = (uint64_t)s->pitch};
    at.column = i % at.width;
    at.from = i / at.width * at.pitch + at.column;
    return at;
}

/* How many elements follow one another from there, at most `most`. */
static inline uint64_t bp_gated_count(const bp_gated_position *at, uint64_t end, uint64_t most)
{
    const uint64_t left = bp_least(end - at->i, at->width - at->column);
    return bp_least(left, most);
}

static inline void bp_gated_next(bp_gated_position *at, uint64_t count)
{
    at->i += count;
    at->from += count;
    at->column += count;
    if (at->column == at->width) {
        at->column = 0;
        at->from += at->pitch - at->width;
    }
}

#endif
