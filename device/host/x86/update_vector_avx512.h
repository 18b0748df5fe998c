/* SPDX-License-Identifier: MIT */
/* Whole blocks of 8-bit state, sixteen elements at a time: states of every rule there and back, and
 * for AdamW the whole of an update in two passes over the block, one that reads, moves and
 * finds the scales, and one that stores the codes. */
#ifndef BP_DEVICE_HOST_UPDATE_VECTOR_AVX512_H
#define BP_DEVICE_HOST_UPDATE_VECTOR_AVX512_H

#include "device/host/x86/codec_avx512.h"
#include "device/host/update/update.h"

#define BP_UPDATE_CODEC /* what update_blocks.h then leaves to this file */
#define BP_UPDATE_VECTOR

#define LANES   16
#define VECTORS (BP_CODEC_BLOCK / LANES)
#define GROUPS  (BP_CODEC_BLOCK / BP_CODEC_GROUP8)

/* Elements of largest magnitude, of each sign and lane (bp_codec_largest). */
typedef struct extremes {
    __m512i most, least;
} extremes;

static inline void take_extremes(extremes *e, bool has_sign, __m512 x)
{
    const __m512i bits = _mm512_castps_si512(x);
    e->most = _mm512_max_epi32(e->most, bits);
    if (has_sign) {
        const __m512i sign = _mm512_set1_epi32((int)0x80000000u);
        e->least = _mm512_max_epi32(e->least, _mm512_xor_si512(bits, sign));
    }
}

static inline float largest_of(const extremes *e)
{
    int32_t most = _mm512_reduce_max_epi32(e->most);
    int32_t least = _mm512_reduce_max_epi32(e->least);
    return most >= least ? bp_codec_float((uint32_t)most) : -bp_codec_float((uint32_t)least);
}

/* One block of BLOCK8 whose scale is known. */
static inline void finish_block8(bool has_sign, const float *x, float scale, uint8_t *state)
{
    const float inverse = bp_codec_inverse(scale);
    const __m512 factor = _mm512_set1_ps(inverse);
    const codec_in table = codec_in_of(has_sign);
    bp_codec_put_float(state, inverse != 0.0f ? scale : 0.0f);
    if (inverse == 0.0f) {
        memset(state + 4, 0, BP_CODEC_BLOCK);
        return;
    }
    for (uint32_t i = 0; i < BP_CODEC_BLOCK; i += LANES * CODEC_BESIDE) {
        if (has_sign) {
            codec_code8_signed(&table, x + i, factor, state + 4 + i);
        } else {
            codec_code8_unsigned(&table, x + i, factor, state + 4 + i);
        }
    }
}

/* The largest of each of sixteen vectors, in their order; by halves, as a transposition does it. */
static inline __m512i largest_of_each(__m512i v[16])
{
    for (uint32_t i = 0; i < 8; i++) {
        v[i] = _mm512_max_epi32(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    }
    for (uint32_t i = 0; i < 4; i++) {
        v[i] = _mm512_max_epi32(_mm512_unpacklo_epi64(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi64(v[2 * i], v[2 * i + 1]));
    }
    for (uint32_t i = 0; i < 2; i++) {
        v[i] = _mm512_max_epi32(_mm512_shuffle_i32x4(v[2 * i], v[2 * i + 1], 0x88),
                                _mm512_shuffle_i32x4(v[2 * i], v[2 * i + 1], 0xdd));
    }
    return _mm512_max_epi32(_mm512_shuffle_i32x4(v[0], v[1], 0x88),
                            _mm512_shuffle_i32x4(v[0], v[1], 0xdd));
}

/* Scales of sixteen groups from their largest magnitudes (unsigned: roots), as they are stored: of
 * the first eight in one state, of the others in another, or of both in the same. */
static inline void store_groups(__m512i largest[16], codec_groups *groups, uint8_t *first,
                                uint8_t *second)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512i up = _mm512_add_epi32(largest_of_each(largest), _mm512_set1_epi32(0xffff));
    const __m512i half = _mm512_min_epu32(_mm512_srli_epi32(up, 16), _mm512_set1_epi32(0x7f7f));
    const __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(half, 16));
    const __mmask16 normal = _mm512_cmp_ps_mask(scale, _mm512_set1_ps(0x1p-126f), _CMP_GE_OQ);
    const __m256i halves = _mm512_cvtepi32_epi16(_mm512_maskz_mov_epi32(normal, half));
    _mm512_storeu_ps(groups->inverse, _mm512_maskz_div_ps(normal, one, scale));
    _mm512_storeu_ps(groups->most, _mm512_maskz_mov_ps(normal, one));
    _mm_storeu_si128((__m128i *)(void *)first, _mm256_castsi256_si128(halves));
    _mm_storeu_si128((__m128i *)(void *)second, _mm256_extracti128_si256(halves, 1));
}

/* The codes of one state: `x` (unsigned: the roots), whose groups begin with number g. */
static inline void finish_companded(bool has_sign, const float *x, const codec_groups *groups,
                                    uint32_t g, uint8_t *state)
{
    for (uint32_t i = 0; i < BP_CODEC_BLOCK; i += LANES * CODEC_BESIDE) {
        if (has_sign) {
            codec_compand_signed(x + i, groups, g + i / BP_CODEC_GROUP8, state + 16 + i);
        } else {
            codec_compand_unsigned(x + i, groups, g + i / BP_CODEC_GROUP8, state + 16 + i);
        }
    }
}

static inline __m512i pair_largest(__m512 a, __m512 b)
{
    return _mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b));
}

static void encode_companded(bool has_sign, const float *x, uint8_t *state)
{
    float roots[BP_CODEC_BLOCK];
    codec_groups groups;
    __m512i largest[16];
    for (uint32_t g = 0; g < GROUPS; g++) {
        const float *at = x + BP_CODEC_GROUP8 * g;
        __m512 a = _mm512_loadu_ps(at), b = _mm512_loadu_ps(at + LANES);
        if (!has_sign) {
            a = _mm512_sqrt_ps(a);
            b = _mm512_sqrt_ps(b);
            _mm512_storeu_ps(roots + BP_CODEC_GROUP8 * g, a);
            _mm512_storeu_ps(roots + BP_CODEC_GROUP8 * g + LANES, b);
        }
        largest[g] = has_sign ? pair_largest(codec_abs(a), codec_abs(b)) : pair_largest(a, b);
        largest[g] = _mm512_max_epi32(largest[g], _mm512_setzero_si512());
        largest[GROUPS + g] = largest[g];
    }
    store_groups(largest, &groups, state, state);
    finish_companded(has_sign, has_sign ? x : roots, &groups, 0, state);
}

static void encode_block8(bool has_sign, const float *x, uint8_t *state)
{
    extremes e = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (uint32_t i = 0; i < VECTORS; i++) {
        take_extremes(&e, has_sign, _mm512_loadu_ps(x + LANES * i));
    }
    finish_block8(has_sign, x, largest_of(&e), state);
}

/* Sixteen elements of a state. */
static inline __m512 value_of(int64_t form, bool has_sign, const codec_out *table,
                              const uint8_t *state, uint32_t i)
{
    if (form == BP_CODEC_BLOCK8) {
        const __m512 scale = _mm512_set1_ps(bp_codec_get_float(state));
        return has_sign ? codec_value8_signed(table, state + 4 + LANES * i, scale)
                        : codec_value8_unsigned(table, state + 4 + LANES * i, scale);
    }
    const float scale = bp_codec_get_half(state + i / 2 * 2);
    return has_sign ? codec_expand_signed(state + 16 + LANES * i, _mm512_set1_ps(scale))
                    : codec_expand_unsigned(state + 16 + LANES * i,
                                            _mm512_set1_ps(scale * (1.0f / 255.0f)));
}

static inline void decode_values(int64_t form, bool has_sign, const uint8_t *state, float *x)
{
    const codec_out table = codec_out_of(has_sign);
    for (uint32_t i = 0; i < VECTORS; i++) {
        _mm512_storeu_ps(x + LANES * i, value_of(form, has_sign, &table, state, i));
    }
}

static void decode_block8(bool has_sign, const uint8_t *state, float *x)
{
    decode_values(BP_CODEC_BLOCK8, has_sign, state, x);
}

static void decode_companded(bool has_sign, const uint8_t *state, float *x)
{
    decode_values(BP_CODEC_COMPANDED8, has_sign, state, x);
}

/* What a block of an update works on. */
typedef struct adamw_block {
    const float *g;
    float *w;
    uint8_t *state[2];
    codec_out table[2];
} adamw_block;

/* Vectors that are worked on side by side. Roots and quotients come slowly, one after the other;
 * the values of the next vectors are found meanwhile, which the processor does not look far enough
 * ahead to see by itself. */
#define BESIDE 4

/* Where the vector one block further on lies is fetched, so that memory works while codes are made:
 * a block's reads come all at its beginning. */
static inline void fetch_ahead(const float *from)
{
    _mm_prefetch((const char *)(uintptr_t)from + BP_CODEC_BLOCK * sizeof *from, _MM_HINT_T0);
}

/* Some vectors of a block. `form` is a constant wherever it is used. */
typedef struct adamw_moments {
    __m512 m[BESIDE], v[BESIDE];
} adamw_moments;

static inline void read_first(const adamw_block *b, int64_t form, uint32_t i, adamw_moments *x)
{
    for (uint32_t k = 0; k < BESIDE; k++) {
        x->m[k] = value_of(form, true, &b->table[0], b->state[0], i + k);
    }
}

static inline void read_second(const adamw_block *b, int64_t form, uint32_t i, adamw_moments *x)
{
    for (uint32_t k = 0; k < BESIDE; k++) {
        x->v[k] = value_of(form, false, &b->table[1], b->state[1], i + k);
    }
}

/* Vectors i on, whose moments are x, move as core/ops/update.h's bp_update_adamw says; m and v
 * become the moments, of companded second moments the roots. The answer is the moments of the next
 * vectors, if there are more. */
static inline adamw_moments adamw_vectors(const adamw_block *b, const bp_update_factors *f,
                                          int64_t form, uint32_t i, bool more, adamw_moments x,
                                          __m512 *m, __m512 *v)
{
    __m512 w[BESIDE], root[BESIDE];
    adamw_moments next = x;
    for (uint32_t k = 0; k < BESIDE; k++) {
        const __m512 g = _mm512_loadu_ps(b->g + LANES * (i + k));
        w[k] = _mm512_loadu_ps(b->w + LANES * (i + k));
        fetch_ahead(b->g + LANES * (i + k));
        fetch_ahead(b->w + LANES * (i + k));
        x.v[k] = _mm512_fmadd_ps(_mm512_mul_ps(g, _mm512_set1_ps(f->v_gain)), g,
                                 _mm512_mul_ps(x.v[k], _mm512_set1_ps(f->v_keep)));
        root[k] = _mm512_sqrt_ps(x.v[k]);
        m[k] = _mm512_fmadd_ps(_mm512_set1_ps(f->m_gain), _mm512_sub_ps(g, x.m[k]), x.m[k]);
        v[k] = form == BP_CODEC_BLOCK8 ? x.v[k] : root[k];
    }
    if (more) {
        read_first(b, form, i + BESIDE, &next);
    }
    for (uint32_t k = 0; k < BESIDE; k++) {
        root[k] = _mm512_fmadd_ps(root[k], _mm512_set1_ps(f->v_scale), _mm512_set1_ps(f->epsilon));
        root[k] = _mm512_div_ps(m[k], root[k]);
    }
    if (more) {
        read_second(b, form, i + BESIDE, &next);
    }
    for (uint32_t k = 0; k < BESIDE; k++) {
        w[k] = _mm512_mul_ps(w[k], _mm512_set1_ps(f->keep));
        w[k] = _mm512_fmadd_ps(_mm512_set1_ps(-f->rate), root[k], w[k]);
        _mm512_storeu_ps(b->w + LANES * (i + k), w[k]);
    }
    return next;
}

static inline void adamw_values(const adamw_block *b, const bp_update_factors *f, int64_t form,
                                __m512 *m, __m512 *v)
{
    adamw_moments x;
    read_first(b, form, 0, &x);
    read_second(b, form, 0, &x);
    for (uint32_t i = 0; i < VECTORS - BESIDE; i += BESIDE) {
        x = adamw_vectors(b, f, form, i, true, x, m + i, v + i);
    }
    const uint32_t last = VECTORS - BESIDE;
    (void)adamw_vectors(b, f, form, last, false, x, m + last, v + last);
}

static void adamw_block8(const adamw_block *b, const bp_update_factors *f)
{
    __m512 m[VECTORS], v[VECTORS];
    const __m512i none = _mm512_setzero_si512();
    extremes first = {none, none}, second = {none, none};
    adamw_values(b, f, BP_CODEC_BLOCK8, m, v);
    for (uint32_t i = 0; i < VECTORS; i++) {
        take_extremes(&first, true, m[i]);
        take_extremes(&second, false, v[i]);
    }
    const float scale = largest_of(&first), other = largest_of(&second);
    finish_block8(true, (const float *)m, scale, b->state[0]);
    finish_block8(false, (const float *)v, other, b->state[1]);
}

static void adamw_companded(const adamw_block *b, const bp_update_factors *f)
{
    __m512 m[VECTORS], v[VECTORS];
    __m512i largest[2 * GROUPS];
    codec_groups groups;
    adamw_values(b, f, BP_CODEC_COMPANDED8, m, v);
    for (uint32_t g = 0; g < GROUPS; g++) {
        largest[g] = pair_largest(codec_abs(m[2 * g]), codec_abs(m[2 * g + 1]));
        largest[GROUPS + g] =
            _mm512_max_epi32(pair_largest(v[2 * g], v[2 * g + 1]), _mm512_setzero_si512());
    }
    store_groups(largest, &groups, b->state[0], b->state[1]);
    finish_companded(true, (const float *)m, &groups, 0, b->state[0]);
    finish_companded(false, (const float *)v, &groups, GROUPS, b->state[1]);
}

/* Whether update_block_whole is for this. */
static bool updates_whole(uint32_t rule, const bp_update_factors *f, int64_t form)
{
    bool eight = form == BP_CODEC_BLOCK8 || form == BP_CODEC_COMPANDED8;
    return rule == BP_UPDATE_adamw && eight && f->fold == BP_UPDATE_ACCUMULATE_NONE;
}

/* By form of state; as calls, so that each is compiled by itself. */
typedef void adamw_form(const adamw_block *b, const bp_update_factors *f);

static adamw_form *const adamw_forms[] = {
    [BP_CODEC_BLOCK8] = adamw_block8, [BP_CODEC_COMPANDED8] = adamw_companded};

/* g is clipped. */
static void update_block_whole(const bp_update_factors *f, int64_t form, const float *g, float *w,
                               uint8_t *const state[2])
{
    const adamw_block b = {g, w, {state[0], state[1]}, {codec_out_of(true), codec_out_of(false)}};
    adamw_forms[form](&b, f);
}

#endif
