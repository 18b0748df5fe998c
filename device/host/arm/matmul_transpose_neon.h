/* SPDX-License-Identifier: MIT */
/* Eight rows transposed into columns in pairs of 128-bit registers, and sixteen bytes in one: the
 * words of matmul_transpose.h. */
#ifndef BP_DEVICE_HOST_MATMUL_TRANSPOSE_NEON_H
#define BP_DEVICE_HOST_MATMUL_TRANSPOSE_NEON_H

#include <arm_neon.h>
#include <stdint.h>

#define BP_TRANSPOSED 8

typedef struct bp_transposed {
    float32x4_t low, high;
} bp_transposed;

static inline bp_transposed bp_transposed_load(const float *p)
{
    return (bp_transposed){vld1q_f32(p), vld1q_f32(p + 4)};
}

static inline void bp_transposed_store(float *p, bp_transposed x)
{
    vst1q_f32(p, x.low);
    vst1q_f32(p + 4, x.high);
}

/* 4 rows x 4 columns. */
static inline void bp_transpose_four(float32x4_t column[4], const float *const row[4], int64_t j)
{
    const float64x2_t r0 = vreinterpretq_f64_f32(vld1q_f32(row[0] + j));
    const float64x2_t r1 = vreinterpretq_f64_f32(vld1q_f32(row[1] + j));
    const float64x2_t r2 = vreinterpretq_f64_f32(vld1q_f32(row[2] + j));
    const float64x2_t r3 = vreinterpretq_f64_f32(vld1q_f32(row[3] + j));
    const float32x4_t low02 = vreinterpretq_f32_f64(vzip1q_f64(r0, r2));
    const float32x4_t low13 = vreinterpretq_f32_f64(vzip1q_f64(r1, r3));
    const float32x4_t high02 = vreinterpretq_f32_f64(vzip2q_f64(r0, r2));
    const float32x4_t high13 = vreinterpretq_f32_f64(vzip2q_f64(r1, r3));
    column[0] = vtrn1q_f32(low02, low13);
    column[1] = vtrn2q_f32(low02, low13);
    column[2] = vtrn1q_f32(high02, high13);
    column[3] = vtrn2q_f32(high02, high13);
}

static inline void bp_transpose_columns4(bp_transposed column[4],
                                         const float *const row[BP_TRANSPOSED], int64_t j)
{
    float32x4_t low[4], high[4];
    bp_transpose_four(low, row, j);
    bp_transpose_four(high, row + 4, j);
    column[0] = (bp_transposed){low[0], high[0]};
    column[1] = (bp_transposed){low[1], high[1]};
    column[2] = (bp_transposed){low[2], high[2]};
    column[3] = (bp_transposed){low[3], high[3]};
}

typedef uint8x16_t bp_bytes;

static inline bp_bytes bp_bytes_load(const uint8_t *p)
{
    return vld1q_u8(p);
}

static inline void bp_bytes_store(uint8_t *p, bp_bytes x)
{
    vst1q_u8(p, x);
}

static inline void bp_bytes_store_low(uint8_t *p, bp_bytes x)
{
    vst1_u8(p, vget_low_u8(x));
}

static inline void bp_bytes_store_high(uint8_t *p, bp_bytes x)
{
    vst1_u8(p, vget_high_u8(x));
}

static inline bp_bytes bp_bytes_zip_low(bp_bytes x, bp_bytes y)
{
    return vzip1q_u8(x, y);
}

static inline bp_bytes bp_bytes_zip_high(bp_bytes x, bp_bytes y)
{
    return vzip2q_u8(x, y);
}

static inline bp_bytes bp_bytes_join_low(bp_bytes x, bp_bytes y)
{
    return vcombine_u8(vget_low_u8(x), vget_low_u8(y));
}

static inline bp_bytes bp_bytes_join_high(bp_bytes x, bp_bytes y)
{
    return vcombine_u8(vget_high_u8(x), vget_high_u8(y));
}

#endif
