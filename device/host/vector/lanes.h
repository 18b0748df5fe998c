/* SPDX-License-Identifier: MIT */
/* Sums and maxima along a row in 16 lanes, the order that every form keeps. */
#ifndef BP_DEVICE_HOST_LANES_H
#define BP_DEVICE_HOST_LANES_H

#include <math.h>

#define BP_LANES 16

/* Tasks of elementwise kernels are runs of this many elements; of column reductions, this many
 * columns. */
#define BP_RUN_ELEMENTS 4096
#define BP_COLUMNS      64

/* Adds the lanes pairwise at distance 8, 4, 2, 1. */
static inline float bp_lanes_sum(float lane[BP_LANES])
{
    for (int distance = BP_LANES / 2; distance > 0; distance /= 2) {
        for (int i = 0; i < distance; i++) {
            lane[i] += lane[i + distance];
        }
    }
    return lane[0];
}

static inline double bp_lanes_sum_double(double lane[BP_LANES])
{
    for (int distance = BP_LANES / 2; distance > 0; distance /= 2) {
        for (int i = 0; i < distance; i++) {
            lane[i] += lane[i + distance];
        }
    }
    return lane[0];
}

/* The largest of count values that is a number; -infinity if there is none. Any order gives the
 * same value. */
static inline float bp_row_max(const float *x, uint64_t count)
{
    float most = -INFINITY;
    for (uint64_t i = 0; i < count; i++) {
        most = x[i] > most ? x[i] : most;
    }
    return most;
}

static inline uint64_t bp_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Tasks of `size` things that cover count things. */
static inline uint64_t bp_cut(int64_t count, uint64_t size)
{
    return ((uint64_t)count + size - 1) / size;
}

#endif
