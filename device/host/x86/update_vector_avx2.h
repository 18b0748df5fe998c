/* SPDX-License-Identifier: MIT */
/* AdamW over whole blocks of 8-bit state, eight elements at a time: one pass that reads, moves and
 * finds the scales, so that tables, roots and quotients are at work side by side, and one that
 * stores the codes. */
#ifndef BP_DEVICE_HOST_UPDATE_VECTOR_AVX2_H
#define BP_DEVICE_HOST_UPDATE_VECTOR_AVX2_H

#include "device/host/x86/codec_avx2.h"
#include "device/host/update/update.h"

#define BP_UPDATE_VECTOR /* what update_blocks.h then leaves to this file */

/* A block, and what its moments become: of companded second moments the roots. */
typedef struct adamw_block {
    const float *g;
    float *w;
    uint8_t *state[2];
    float m[BP_CODEC_BLOCK];
    float v[BP_CODEC_BLOCK];
} adamw_block;

/* Elements of largest magnitude, of each sign and lane (bp_codec_largest). */
typedef struct extremes {
    __m256i most, least;
} extremes;

static inline int32_t largest_lane(__m256i x)
{
    __m128i y = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    y = _mm_max_epi32(y, _mm_shuffle_epi32(y, 0x4e));
    y = _mm_max_epi32(y, _mm_shuffle_epi32(y, 0xb1));
    return _mm_cvtsi128_si32(y);
}

static inline float largest_of(const extremes *e)
{
    const int32_t most = largest_lane(e->most), least = largest_lane(e->least);
    return most >= least ? bp_codec_float((uint32_t)most) : -bp_codec_float((uint32_t)least);
}

static inline __m256 value_of(int64_t form, bool has_sign, const uint8_t *state, uint32_t i)
{
    if (form == BP_CODEC_BLOCK8) {
        const __m256 scale = _mm256_set1_ps(bp_codec_get_float(state));
        return _mm256_mul_ps(codec_value8(has_sign, state + 4 + i), scale);
    }
    return codec_expanded(has_sign, state + 16 + i,
                          bp_codec_get_half(state + i / BP_CODEC_GROUP8 * 2));
}

/* The vector one block further on is fetched: a block's reads come all at its beginning. */
static inline __m256 take(const float *from)
{
    _mm_prefetch((const char *)(uintptr_t)from + BP_CODEC_BLOCK * sizeof *from, _MM_HINT_T0);
    return _mm256_loadu_ps(from);
}

/* Eight elements move as core/ops/update.h's bp_update_adamw says. */
static inline void adamw_eight(adamw_block *b, const bp_update_factors *f, int64_t form, uint32_t i,
                               extremes e[2])
{
    const __m256i sign = _mm256_set1_epi32((int)0x80000000u);
    const __m256 g = take(b->g + i);
    __m256 w = take(b->w + i), m = value_of(form, true, b->state[0], i);
    __m256 v = value_of(form, false, b->state[1], i);
    v = _mm256_fmadd_ps(_mm256_mul_ps(g, _mm256_set1_ps(f->v_gain)), g,
                        _mm256_mul_ps(v, _mm256_set1_ps(f->v_keep)));
    const __m256 root = _mm256_sqrt_ps(v);
    m = _mm256_fmadd_ps(_mm256_set1_ps(f->m_gain), _mm256_sub_ps(g, m), m);
    const __m256 below =
        _mm256_fmadd_ps(root, _mm256_set1_ps(f->v_scale), _mm256_set1_ps(f->epsilon));
    w = _mm256_mul_ps(w, _mm256_set1_ps(f->keep));
    w = _mm256_fmadd_ps(_mm256_set1_ps(-f->rate), _mm256_div_ps(m, below), w);
    _mm256_storeu_ps(b->w + i, w);
    _mm256_storeu_ps(b->m + i, m);
    _mm256_storeu_ps(b->v + i, form == BP_CODEC_BLOCK8 ? v : root);
    if (form == BP_CODEC_BLOCK8) {
        const __m256i bits = _mm256_castps_si256(m);
        e[0].most = _mm256_max_epi32(e[0].most, bits);
        e[0].least = _mm256_max_epi32(e[0].least, _mm256_xor_si256(bits, sign));
        e[1].most = _mm256_max_epi32(e[1].most, _mm256_castps_si256(v));
    }
}

static void adamw_block8(adamw_block *b, const bp_update_factors *factors)
{
    const bp_update_factors f = *factors; /* which no store can change */
    const __m256i none = _mm256_setzero_si256();
    extremes e[2] = {{none, none}, {none, none}};
    for (uint32_t i = 0; i < BP_CODEC_BLOCK; i += 8) {
        adamw_eight(b, &f, BP_CODEC_BLOCK8, i, e);
    }
    finish_block8(true, b->m, largest_of(&e[0]), b->state[0]);
    finish_block8(false, b->v, largest_of(&e[1]), b->state[1]);
}

static void adamw_companded(adamw_block *b, const bp_update_factors *factors)
{
    const bp_update_factors f = *factors;
    for (uint32_t i = 0; i < BP_CODEC_BLOCK; i += 8) {
        adamw_eight(b, &f, BP_CODEC_COMPANDED8, i, NULL);
    }
    finish_companded(true, b->m, b->state[0]);
    finish_companded(false, b->v, b->state[1]);
}

/* Whether update_block_whole is for this. */
static bool updates_whole(uint32_t rule, const bp_update_factors *f, int64_t form)
{
    bool eight = form == BP_CODEC_BLOCK8 || form == BP_CODEC_COMPANDED8;
    return rule == BP_UPDATE_adamw && eight && f->fold == BP_UPDATE_ACCUMULATE_NONE;
}

/* g is clipped. */
static void update_block_whole(const bp_update_factors *f, int64_t form, const float *g, float *w,
                               uint8_t *const state[2])
{
    adamw_block b;
    b.g = g;
    b.w = w;
    b.state[0] = state[0];
    b.state[1] = state[1];
    if (form == BP_CODEC_BLOCK8) {
        adamw_block8(&b, f);
    } else {
        adamw_companded(&b, f);
    }
}

#endif
