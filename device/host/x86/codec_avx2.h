/* SPDX-License-Identifier: MIT */
/* Whole blocks of 8-bit state there and back, eight elements at a time: what
 * core/ops/codec_inline.h says with tables in registers for its chains of choices, so the same
 * bits. Registers hold eight entries; the nine decades, and the nine powers of two of a code, are
 * told apart by their number modulo 8, as the first and the last can share an entry. */
#ifndef BP_DEVICE_HOST_CODEC_AVX2_H
#define BP_DEVICE_HOST_CODEC_AVX2_H

#include <immintrin.h>

#include "core/ops/codec_inline.h"
#include "device/host/update/codec_decades.h"

#define BP_UPDATE_CODEC /* what update_blocks.h then leaves to this file */

#define GROUPS (BP_CODEC_BLOCK / BP_CODEC_GROUP8)
#define BESIDE 4 /* vectors whose codes are stored as 32 bytes */

static inline __m256 codec_abs(__m256 x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

/* bp_codec_magnitude where `most` is 1: of a NaN and a number the number. */
static inline __m256 codec_magnitude(__m256 n, __m256 most)
{
    return _mm256_min_ps(codec_abs(n), most);
}

static inline __m256 codec_entry(const float table[8], __m256i at)
{
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), at);
}

/* The index (unsigned: and 1) of magnitudes a. The upper half of a's bits, an exponent and seven
 * places, times 154 / 2^16 goes up by 1 a decade, as 128 log2(10) = 2^16 / 154.1, and from 31.3 to
 * 38.2 between 2^-23 and 1: each of these intervals from one integer to the next has in it the one
 * midpoint between the decades below and above. */
static inline __m256 codec_index(const codec_table *t, __m256 a)
{
    const __m256i bits = _mm256_castps_si256(_mm256_max_ps(a, _mm256_set1_ps(0x1p-23f)));
    __m256i at = _mm256_srli_epi32(_mm256_mulhi_epu16(bits, _mm256_set1_epi32(154 << 16)), 16);
    __m256 above = _mm256_cmp_ps(a, codec_entry(t->next, at), _CMP_GE_OQ);
    at = _mm256_sub_epi32(at, _mm256_castps_si256(above));
    __m256 place = _mm256_fmadd_ps(a, codec_entry(t->slope, at), codec_entry(t->start, at));
    return _mm256_min_ps(place, codec_entry(t->last, at));
}

/* Four vectors of 16 bits' worth, in order when they are stored by codec_store. */
static inline __m256i codec_pack(const __m256i c[BESIDE], bool has_sign)
{
    const __m256i a = _mm256_packs_epi32(c[0], c[1]), b = _mm256_packs_epi32(c[2], c[3]);
    return has_sign ? _mm256_packs_epi16(a, b) : _mm256_packus_epi16(a, b);
}

static inline void codec_store(uint8_t *to, __m256i packed)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permutevar8x32_epi32(packed, order));
}

/* bp_codec_code8_signed of 32 elements. */
static inline void codec_code8_signed(const float *x, __m256 inverse, uint8_t *to)
{
    __m256i index[BESIDE], below[BESIDE];
    for (uint32_t k = 0; k < BESIDE; k++) {
        const __m256 n = _mm256_mul_ps(_mm256_loadu_ps(x + 8 * k), inverse);
        const __m256 a = codec_magnitude(n, _mm256_set1_ps(1.0f));
        below[k] = _mm256_castps_si256(_mm256_cmp_ps(n, _mm256_setzero_ps(), _CMP_LT_OQ));
        index[k] = _mm256_cvttps_epi32(codec_index(&codec_signed, a));
    }
    const __m256i up = codec_pack(index, false), minus = codec_pack(below, true);
    const __m256i middle = _mm256_set1_epi8(127);
    __m256i down = _mm256_max_epu8(_mm256_min_epu8(up, middle), _mm256_set1_epi8(1));
    codec_store(
        to, _mm256_blendv_epi8(_mm256_add_epi8(middle, up), _mm256_sub_epi8(middle, down), minus));
}

/* bp_codec_code8_unsigned. */
static inline void codec_code8_unsigned(const float *x, __m256 inverse, uint8_t *to)
{
    __m256i index[BESIDE];
    for (uint32_t k = 0; k < BESIDE; k++) {
        const __m256 v = _mm256_loadu_ps(x + 8 * k);
        const __m256 a = codec_magnitude(_mm256_mul_ps(v, inverse), _mm256_set1_ps(1.0f));
        const __m256 above = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GT_OQ);
        const __m256 least = _mm256_and_ps(above, _mm256_set1_ps(2.0f));
        index[k] = _mm256_cvttps_epi32(_mm256_max_ps(codec_index(&codec_unsigned, a), least));
        index[k] = _mm256_sub_epi32(index[k], _mm256_set1_epi32(1));
    }
    codec_store(to, codec_pack(index, false));
}

/* One block of BLOCK8 whose scale is known. */
static inline void finish_block8(bool has_sign, const float *x, float scale, uint8_t *state)
{
    const float inverse = bp_codec_inverse(scale);
    bp_codec_put_float(state, inverse != 0.0f ? scale : 0.0f);
    if (inverse == 0.0f) {
        memset(state + 4, 0, BP_CODEC_BLOCK);
        return;
    }
    for (uint32_t i = 0; i < BP_CODEC_BLOCK; i += 8 * BESIDE) {
        if (has_sign) {
            codec_code8_signed(x + i, _mm256_set1_ps(inverse), state + 4 + i);
        } else {
            codec_code8_unsigned(x + i, _mm256_set1_ps(inverse), state + 4 + i);
        }
    }
}

static void encode_block8(bool has_sign, const float *x, uint8_t *state)
{
    finish_block8(has_sign, x,
                  has_sign ? bp_codec_largest(x, BP_CODEC_BLOCK) : bp_codec_most(x, BP_CODEC_BLOCK),
                  state);
}

/* What y is beyond its power of two, times the width of its decade, from its low end on. */
static inline __m256 codec_codebook(const codec_table *t, __m256 y)
{
    const __m256 infinite = _mm256_set1_ps(HUGE_VALF);
    const __m256i key = _mm256_srli_epi32(_mm256_castps_si256(y), 23);
    return _mm256_fmadd_ps(_mm256_sub_ps(y, _mm256_and_ps(y, infinite)), codec_entry(t->width, key),
                           codec_entry(t->low, key));
}

/* Eight codes' values before they are scaled. Of a code, y is its interval's number and a half.
 * That of unsigned code 0 is 1 1/2, whose entry is that of 256 1/2. */
static inline __m256 codec_value8(bool has_sign, const uint8_t *codes)
{
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)codes);
    const __m256 from = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    if (has_sign) {
        const __m256 n = _mm256_sub_ps(from, _mm256_set1_ps(127.0f));
        const __m256 y = _mm256_add_ps(codec_abs(n), _mm256_set1_ps(0.5f));
        return _mm256_or_ps(codec_codebook(&codec_signed, y),
                            _mm256_and_ps(n, _mm256_set1_ps(-0.0f)));
    }
    const __m256 a = codec_codebook(&codec_unsigned, _mm256_add_ps(from, _mm256_set1_ps(1.5f)));
    return _mm256_and_ps(a, _mm256_cmp_ps(from, _mm256_setzero_ps(), _CMP_GT_OQ));
}

static void decode_block8(bool has_sign, const uint8_t *state, float *x)
{
    const __m256 scale = _mm256_set1_ps(bp_codec_get_float(state));
    for (uint32_t i = 0; i < BP_CODEC_BLOCK; i += 8) {
        _mm256_storeu_ps(x + i, _mm256_mul_ps(codec_value8(has_sign, state + 4 + i), scale));
    }
}

/* The largest of each of eight vectors, in their order; by halves, as a transposition does it. */
static inline __m256i largest_of_each(__m256i v[8])
{
    for (uint32_t i = 0; i < 4; i++) {
        v[i] = _mm256_max_epi32(_mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    }
    for (uint32_t i = 0; i < 2; i++) {
        v[i] = _mm256_max_epi32(_mm256_unpacklo_epi64(v[2 * i], v[2 * i + 1]),
                                _mm256_unpackhi_epi64(v[2 * i], v[2 * i + 1]));
    }
    return _mm256_max_epi32(_mm256_permute2x128_si256(v[0], v[1], 0x20),
                            _mm256_permute2x128_si256(v[0], v[1], 0x31));
}

/* The groups' scales into the state, and their inverses; `most` is 1, or 0 where there is no scale,
 * so that all codes are 0, a NaN's too. What has no sign is given as roots. */
static inline void store_groups(bool has_sign, const float *x, float inverse[GROUPS],
                                float most[GROUPS], uint8_t *state)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256i largest[GROUPS];
    for (uint32_t g = 0; g < GROUPS; g++) {
        largest[g] = _mm256_setzero_si256();
        for (uint32_t k = 0; k < BESIDE; k++) {
            __m256 v = _mm256_loadu_ps(x + BP_CODEC_GROUP8 * g + 8 * k);
            v = has_sign ? codec_abs(v) : v;
            largest[g] = _mm256_max_epi32(largest[g], _mm256_castps_si256(v));
        }
    }
    const __m256i top = largest_of_each(largest);
    const __m256i up = _mm256_srli_epi32(_mm256_add_epi32(top, _mm256_set1_epi32(0xffff)), 16);
    const __m256i half = _mm256_min_epi32(up, _mm256_set1_epi32(0x7f7f));
    const __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(half, 16));
    const __m256 normal = _mm256_cmp_ps(scale, _mm256_set1_ps(0x1p-126f), _CMP_GE_OQ);
    const __m256i kept = _mm256_and_si256(half, _mm256_castps_si256(normal));
    _mm256_storeu_ps(inverse, _mm256_and_ps(normal, _mm256_div_ps(one, scale)));
    _mm256_storeu_ps(most, _mm256_and_ps(normal, one));
    _mm_storeu_si128((__m128i *)(void *)state, _mm_packus_epi32(_mm256_castsi256_si128(kept),
                                                                _mm256_extracti128_si256(kept, 1)));
}

/* bp_codec_compand_signed of numbers n with magnitudes a, or _unsigned: there a root's quotient by
 * a normal scale, 2^64 at most, is above 0 where it is itself. */
static inline __m256i codec_compand(bool has_sign, __m256 x, __m256 a)
{
    const __m256 zero = _mm256_setzero_ps(), round = _mm256_set1_ps(BP_CODEC_ROUND);
    if (has_sign) {
        const __m256i below = _mm256_castps_si256(_mm256_cmp_ps(x, zero, _CMP_LT_OQ));
        __m256 q = _mm256_div_ps(_mm256_mul_ps(_mm256_set1_ps(254.0f), a),
                                 _mm256_add_ps(_mm256_set1_ps(1.0f), a));
        __m256i code = _mm256_castps_si256(_mm256_add_ps(q, round));
        code = _mm256_and_si256(code, _mm256_set1_epi32(0x7f));
        return _mm256_sub_epi32(_mm256_xor_si256(code, below), below);
    }
    __m256 q = _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(255.0f), a), round);
    __m256i code = _mm256_and_si256(_mm256_castps_si256(q), _mm256_set1_epi32(0xff));
    __m256i above = _mm256_castps_si256(_mm256_cmp_ps(x, zero, _CMP_GT_OQ));
    return _mm256_max_epi32(code, _mm256_srli_epi32(above, 31));
}

/* A state's codes, of values or, without a sign, of their roots. */
static inline void finish_companded(bool has_sign, const float *x, uint8_t *state)
{
    float inverse[GROUPS], most[GROUPS];
    store_groups(has_sign, x, inverse, most, state);
    for (uint32_t g = 0; g < GROUPS; g++) {
        __m256i code[BESIDE];
        for (uint32_t k = 0; k < BESIDE; k++) {
            const __m256 v = _mm256_loadu_ps(x + BP_CODEC_GROUP8 * g + 8 * k);
            const __m256 n = _mm256_mul_ps(v, _mm256_set1_ps(inverse[g]));
            code[k] = codec_compand(has_sign, v, codec_magnitude(n, _mm256_set1_ps(most[g])));
        }
        codec_store(state + 16 + BP_CODEC_GROUP8 * g, codec_pack(code, has_sign));
    }
}

static void encode_companded(bool has_sign, const float *x, uint8_t *state)
{
    float root[BP_CODEC_BLOCK];
    for (uint32_t i = 0; !has_sign && i < BP_CODEC_BLOCK; i += 8) {
        _mm256_storeu_ps(root + i, _mm256_sqrt_ps(_mm256_loadu_ps(x + i)));
    }
    finish_companded(has_sign, has_sign ? x : root, state);
}

/* The nearest float to c / d (codec_avx512.h's codec_quotient): y is 1 / d within 2^-22. */
static inline __m256 codec_quotient(__m256 c, __m256 d)
{
    __m256 y = _mm256_rcp_ps(d);
    y = _mm256_fmadd_ps(_mm256_fnmadd_ps(d, y, _mm256_set1_ps(1.0f)), y, y);
    const __m256 q = _mm256_mul_ps(c, y);
    return _mm256_fmadd_ps(_mm256_fnmadd_ps(d, q, c), y, q);
}

/* bp_codec_expand_signed, _unsigned of eight codes of a group with this scale. */
static inline __m256 codec_expanded(bool has_sign, const uint8_t *codes, float scale)
{
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)codes);
    if (has_sign) {
        const __m256 c = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
        const __m256 d = _mm256_sub_ps(_mm256_set1_ps(254.0f), codec_abs(c));
        return _mm256_mul_ps(_mm256_set1_ps(scale), codec_quotient(c, d));
    }
    const __m256 c = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    const __m256 root = _mm256_mul_ps(c, _mm256_set1_ps(scale * (1.0f / 255.0f)));
    return _mm256_mul_ps(root, root);
}

static void decode_companded(bool has_sign, const uint8_t *state, float *x)
{
    for (uint32_t i = 0; i < BP_CODEC_BLOCK; i += 8) {
        const float scale = bp_codec_get_half(state + i / BP_CODEC_GROUP8 * 2);
        _mm256_storeu_ps(x + i, codec_expanded(has_sign, state + 16 + i, scale));
    }
}

#endif
