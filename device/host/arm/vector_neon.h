/* SPDX-License-Identifier: MIT */
/* Sixteen floats as four 128-bit registers: the same words as vector_avx512.h, where they are
 * explained. Registers have names of their own, as an array of them would be memory. */
#ifndef BP_DEVICE_HOST_VECTOR_NEON_H
#define BP_DEVICE_HOST_VECTOR_NEON_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "device/host/arm/half_neon.h"
#include "device/host/arm/math_neon.h"

#define BP_ISA(name) name##_neon

#define BP_V 16

typedef struct bp_v {
    float32x4_t q0, q1, q2, q3;
} bp_v;

typedef struct bp_v_word {
    uint32x4_t q0, q1, q2, q3;
} bp_v_word;

typedef struct bp_part {
    bool whole;
    uint32_t count;
    bp_v_word mask; /* all bits of the lanes that take part */
} bp_part;

/* An operation of one register on each of the four, with up to three operands. */
#define BP_V_ONE(f, x)                                                                             \
    {                                                                                              \
        f((x).q0), f((x).q1), f((x).q2), f((x).q3)                                                 \
    }
#define BP_V_TWO(f, x, y)                                                                          \
    {                                                                                              \
        f((x).q0, (y).q0), f((x).q1, (y).q1), f((x).q2, (y).q2), f((x).q3, (y).q3)                 \
    }
#define BP_V_THREE(f, x, y, z)                                                                     \
    {                                                                                              \
        f((x).q0, (y).q0, (z).q0), f((x).q1, (y).q1, (z).q1), f((x).q2, (y).q2, (z).q2),           \
            f((x).q3, (y).q3, (z).q3)                                                              \
    }

static inline bp_v_word bp_v_word_set(uint32_t x)
{
    const uint32x4_t q = vdupq_n_u32(x);
    return (bp_v_word){q, q, q, q};
}

static inline bp_v_word bp_v_word_count(void)
{
    static const uint32_t first[4] = {0, 1, 2, 3};
    const uint32x4_t q = vld1q_u32(first);
    return (bp_v_word){q, vaddq_u32(q, vdupq_n_u32(4)), vaddq_u32(q, vdupq_n_u32(8)),
                       vaddq_u32(q, vdupq_n_u32(12))};
}

static inline bp_v_word bp_v_word_add(bp_v_word x, bp_v_word y)
{
    return (bp_v_word)BP_V_TWO(vaddq_u32, x, y);
}

static inline bp_v_word bp_v_word_xor(bp_v_word x, bp_v_word y)
{
    return (bp_v_word)BP_V_TWO(veorq_u32, x, y);
}

static inline uint32x4_t bp_multiply_high(uint32x4_t x, uint32x4_t y)
{
    const uint64x2_t low = vmull_u32(vget_low_u32(x), vget_low_u32(y));
    return vuzp2q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(vmull_high_u32(x, y)));
}

static inline bp_v_word bp_v_word_multiply(bp_v_word x, uint32_t factor, bp_v_word *high)
{
    const bp_v_word y = bp_v_word_set(factor);
    *high = (bp_v_word)BP_V_TWO(bp_multiply_high, x, y);
    return (bp_v_word)BP_V_TWO(vmulq_u32, x, y);
}

static inline bp_part bp_part_whole(void)
{
    return (bp_part){true, BP_V, bp_v_word_set(UINT32_MAX)};
}

static inline bp_part bp_part_first(uint64_t count)
{
    const bp_v_word limit = bp_v_word_set((uint32_t)count), lane = bp_v_word_count();
    return (bp_part){false, (uint32_t)count, BP_V_TWO(vcgtq_u32, limit, lane)};
}

static inline bp_v bp_v_set(float x)
{
    const float32x4_t q = vdupq_n_f32(x);
    return (bp_v){q, q, q, q};
}

/* There are no masked loads and stores: a last part goes through a copy. */
static inline bp_v bp_v_load(const float *p, bp_part part)
{
    float copy[BP_V] = {0.0f};
    if (!part.whole) {
        memcpy(copy, p, part.count * sizeof(*p));
        p = copy;
    }
    return (bp_v){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}

static inline void bp_v_spill(bp_v x, float lanes[BP_V])
{
    vst1q_f32(lanes, x.q0);
    vst1q_f32(lanes + 4, x.q1);
    vst1q_f32(lanes + 8, x.q2);
    vst1q_f32(lanes + 12, x.q3);
}

static inline void bp_v_store(float *p, bp_v x, bp_part part)
{
    float copy[BP_V];
    bp_v_spill(x, part.whole ? p : copy);
    if (!part.whole) {
        memcpy(p, copy, part.count * sizeof(*p));
    }
}

static inline bp_v bp_v_load16(const uint16_t *p, bp_dtype type, bp_part part)
{
    uint16_t copy[BP_V] = {0};
    if (!part.whole) {
        memcpy(copy, p, part.count * sizeof(*p));
        p = copy;
    }
    return (bp_v){bp_half_widen_neon(vld1_u16(p), type), bp_half_widen_neon(vld1_u16(p + 4), type),
                  bp_half_widen_neon(vld1_u16(p + 8), type),
                  bp_half_widen_neon(vld1_u16(p + 12), type)};
}

static inline void bp_v_store16(uint16_t *p, bp_v x, bp_dtype type, bp_part part)
{
    uint16_t copy[BP_V];
    uint16_t *to = part.whole ? p : copy;
    vst1_u16(to, bp_half_narrow_neon(x.q0, type));
    vst1_u16(to + 4, bp_half_narrow_neon(x.q1, type));
    vst1_u16(to + 8, bp_half_narrow_neon(x.q2, type));
    vst1_u16(to + 12, bp_half_narrow_neon(x.q3, type));
    if (!part.whole) {
        memcpy(p, copy, part.count * sizeof(*p));
    }
}

static inline bp_v bp_v_choose(bp_part part, bp_v x, bp_v y)
{
    return part.whole ? x : (bp_v)BP_V_THREE(vbslq_f32, part.mask, x, y);
}

static inline bp_v bp_v_add(bp_v x, bp_v y)
{
    return (bp_v)BP_V_TWO(vaddq_f32, x, y);
}

static inline bp_v bp_v_sub(bp_v x, bp_v y)
{
    return (bp_v)BP_V_TWO(vsubq_f32, x, y);
}

static inline bp_v bp_v_mul(bp_v x, bp_v y)
{
    return (bp_v)BP_V_TWO(vmulq_f32, x, y);
}

static inline bp_v bp_v_div(bp_v x, bp_v y)
{
    return (bp_v)BP_V_TWO(vdivq_f32, x, y);
}

static inline bp_v bp_v_sqrt(bp_v x)
{
    return (bp_v)BP_V_ONE(vsqrtq_f32, x);
}

static inline bp_v bp_v_fma(bp_v x, bp_v y, bp_v z)
{
    return (bp_v)BP_V_THREE(bp_fma_neon, x, y, z);
}

static inline bp_v bp_v_fnma(bp_v x, bp_v y, bp_v z)
{
    return (bp_v)BP_V_THREE(vfmsq_f32, z, x, y);
}

static inline bp_part bp_v_less(bp_v x, bp_v y)
{
    return (bp_part){false, BP_V, BP_V_TWO(vcltq_f32, x, y)};
}

static inline bp_part bp_v_reaches(bp_v x, bp_v y)
{
    return (bp_part){false, BP_V, BP_V_TWO(vcgeq_f32, x, y)};
}

/* The processor's own answer for a NaN is another one. */
static inline bp_v bp_v_max(bp_v x, bp_v y)
{
    return bp_v_choose(bp_v_less(y, x), x, y);
}

static inline bp_v bp_v_min(bp_v x, bp_v y)
{
    return bp_v_choose(bp_v_less(x, y), x, y);
}

static inline float32x4_t bp_clear_neon(uint32x4_t mask, float32x4_t x)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), mask));
}

static inline bp_v bp_v_clear(bp_part part, bp_v x)
{
    return (bp_v)BP_V_TWO(bp_clear_neon, part.mask, x);
}

static inline bp_v bp_v_exp(bp_v x)
{
    return (bp_v)BP_V_ONE(bp_exp_neon, x);
}

static inline bp_v bp_v_gelu(bp_v x)
{
    return (bp_v)BP_V_ONE(bp_gelu_neon, x);
}

static inline bp_v bp_v_gelu_slope(bp_v x)
{
    return (bp_v)BP_V_ONE(bp_gelu_slope_neon, x);
}

static inline float bp_v_sum(bp_v x)
{
    const float32x4_t four = vaddq_f32(vaddq_f32(x.q0, x.q2), vaddq_f32(x.q1, x.q3));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(vpadd_f32(two, two), 0);
}

static inline float bp_v_most(bp_v x)
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.q0, x.q1), vmaxq_f32(x.q2, x.q3)));
}

typedef struct bp_v_double {
    float64x2_t d0, d1, d2, d3, d4, d5, d6, d7;
} bp_v_double;

static inline bp_v_double bp_v_double_zero(void)
{
    const float64x2_t zero = vdupq_n_f64(0.0);
    return (bp_v_double){zero, zero, zero, zero, zero, zero, zero, zero};
}

static inline float64x2_t bp_square_low(float64x2_t sum, float32x4_t x)
{
    const float64x2_t d = vcvt_f64_f32(vget_low_f32(x));
    return vfmaq_f64(sum, d, d);
}

static inline float64x2_t bp_square_high(float64x2_t sum, float32x4_t x)
{
    const float64x2_t d = vcvt_high_f64_f32(x);
    return vfmaq_f64(sum, d, d);
}

/* Lanes that take no part hold 0, whose square leaves a sum of squares as it is. */
static inline bp_v_double bp_v_double_add_square(bp_v_double sum, bp_v x, bp_part part)
{
    (void)part;
    return (bp_v_double){bp_square_low(sum.d0, x.q0), bp_square_high(sum.d1, x.q0),
                         bp_square_low(sum.d2, x.q1), bp_square_high(sum.d3, x.q1),
                         bp_square_low(sum.d4, x.q2), bp_square_high(sum.d5, x.q2),
                         bp_square_low(sum.d6, x.q3), bp_square_high(sum.d7, x.q3)};
}

static inline void bp_v_double_spill(bp_v_double x, double lanes[BP_V])
{
    vst1q_f64(lanes, x.d0);
    vst1q_f64(lanes + 2, x.d1);
    vst1q_f64(lanes + 4, x.d2);
    vst1q_f64(lanes + 6, x.d3);
    vst1q_f64(lanes + 8, x.d4);
    vst1q_f64(lanes + 10, x.d5);
    vst1q_f64(lanes + 12, x.d6);
    vst1q_f64(lanes + 14, x.d7);
}

static inline float32x4_t bp_keep_neon(uint32x4_t word, uint32x4_t threshold, uint32x4_t factor)
{
    return vreinterpretq_f32_u32(vandq_u32(vcgeq_u32(word, threshold), factor));
}

static inline bp_v bp_v_word_keep(bp_v_word word, uint32_t threshold, float factor)
{
    const bp_v_word limit = bp_v_word_set(threshold);
    const bp_v_word kept = bp_v_word_set(bp_float_bits(factor));
    return (bp_v)BP_V_THREE(bp_keep_neon, word, limit, kept);
}

static inline void bp_v_store_interleaved(float *p, const bp_v x[4])
{
    vst4q_f32(p, ((float32x4x4_t){{x[0].q0, x[1].q0, x[2].q0, x[3].q0}}));
    vst4q_f32(p + 16, ((float32x4x4_t){{x[0].q1, x[1].q1, x[2].q1, x[3].q1}}));
    vst4q_f32(p + 32, ((float32x4x4_t){{x[0].q2, x[1].q2, x[2].q2, x[3].q2}}));
    vst4q_f32(p + 48, ((float32x4x4_t){{x[0].q3, x[1].q3, x[2].q3, x[3].q3}}));
}

#endif
