/* SPDX-License-Identifier: MIT */
/* A tile of c in 128-bit registers, 6 rows x 16 columns, and how it begins and ends: for the files
 * that say what is added in between. They are included in functions with the tile `t`, and `whole`
 * where all columns are there. */
#ifndef BP_DEVICE_HOST_MATMUL_TILE_NEON_H
#define BP_DEVICE_HOST_MATMUL_TILE_NEON_H

#include <arm_neon.h>

#include "device/host/matmul/matmul_pack.h"

#define ROWS    6
#define COLUMNS 16

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)

/* The first of four floats, of which `left` are there; the others are 0. */
static inline float32x4_t load_four(const float *p, int64_t left)
{
    float32x4_t x = vdupq_n_f32(0.0f);
    if (left >= 4) {
        return vld1q_f32(p);
    }
    x = left > 0 ? vld1q_lane_f32(p, x, 0) : x;
    x = left > 1 ? vld1q_lane_f32(p + 1, x, 1) : x;
    return left > 2 ? vld1q_lane_f32(p + 2, x, 2) : x;
}

static inline void store_four(float *p, float32x4_t x, int64_t left)
{
    if (left >= 4) {
        vst1q_f32(p, x);
        return;
    }
    if (left > 0) {
        vst1q_lane_f32(p, x, 0);
    }
    if (left > 1) {
        vst1q_lane_f32(p + 1, x, 1);
    }
    if (left > 2) {
        vst1q_lane_f32(p + 2, x, 2);
    }
}

/* The tile's 24 vectors are variables c<row><vector>, so that they stay in registers. Rows that are
 * not there are computed and not stored. */
#define DECLARE(i)                                                                                 \
    float32x4_t c##i##0 = vdupq_n_f32(0.0f), c##i##1 = c##i##0, c##i##2 = c##i##0,                 \
                c##i##3 = c##i##0;

/* Four vectors of what lies at p, of which the tile's columns are there. */
#define FOUR(v, p)                                                                                 \
    const float *v##_at = (p);                                                                     \
    const float32x4_t v##0 = whole ? vld1q_f32(v##_at) : load_four(v##_at, t->columns);            \
    const float32x4_t v##1 =                                                                       \
        whole ? vld1q_f32(v##_at + 4) : load_four(v##_at + 4, t->columns - 4);                     \
    const float32x4_t v##2 =                                                                       \
        whole ? vld1q_f32(v##_at + 8) : load_four(v##_at + 8, t->columns - 8);                     \
    const float32x4_t v##3 =                                                                       \
        whole ? vld1q_f32(v##_at + 12) : load_four(v##_at + 12, t->columns - 12);

#define LOAD(i)                                                                                    \
    if (i < t->rows) {                                                                             \
        FOUR(from, t->from + i * t->from_pitch)                                                    \
        c##i##0 = from0, c##i##1 = from1, c##i##2 = from2, c##i##3 = from3;                        \
    }

#define ADD(i, v)                                                                                  \
    c##i##0 = vaddq_f32(c##i##0, v##0), c##i##1 = vaddq_f32(c##i##1, v##1);                        \
    c##i##2 = vaddq_f32(c##i##2, v##2), c##i##3 = vaddq_f32(c##i##3, v##3);

#define ADD_BIAS(i) ADD(i, bias)

#define ADD_RESIDUAL(i)                                                                            \
    if (i < t->rows) {                                                                             \
        FOUR(r, t->residual + i * t->to_pitch)                                                     \
        ADD(i, r)                                                                                  \
    }

#define STORE(i)                                                                                   \
    if (i < t->rows) {                                                                             \
        float *to = t->to + i * t->to_pitch;                                                       \
        const int64_t left = whole ? COLUMNS : t->columns;                                         \
        store_four(to, c##i##0, left);                                                             \
        store_four(to + 4, c##i##1, left - 4);                                                     \
        store_four(to + 8, c##i##2, left - 8);                                                     \
        store_four(to + 12, c##i##3, left - 12);                                                   \
    }

/* What follows the finished chains. */
#define FINISH                                                                                     \
    if (t->bias != NULL) {                                                                         \
        FOUR(bias, t->bias)                                                                        \
        EACH_ROW(ADD_BIAS)                                                                         \
    }                                                                                              \
    if (t->residual != NULL) {                                                                     \
        EACH_ROW(ADD_RESIDUAL)                                                                     \
    }                                                                                              \
    EACH_ROW(STORE)

#endif
