/* SPDX-License-Identifier: MIT */
/* core/ops/codec_element.h for sixteen elements at a time: line by line what it says, with
 * tables in registers for its chains of choices, so the same bits. */
#ifndef BP_DEVICE_HOST_CODEC_AVX512_H
#define BP_DEVICE_HOST_CODEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#include "core/ops/codec_inline.h"

/* How a magnitude a in [0, 1] finds its decade, 0 to 8: no two of the midpoints between decades lie
 * in one power of two, so with b the bits of a the decade is (b + table[b >> 23]) >> 23, rounded
 * down, the table being that of a's power from 2^-31 (entry 0) to 1: `d` decades end below it, and
 * one more ends inside it, at the number of these bits, or does not. */
#define IN(d, bits)    ((((d) + 1) << 23) - (bits))
#define NONE(d, power) (((d) - (power)) * (1 << 23))
static const int32_t signed_decades[32] = {
    NONE(0, 96),       NONE(0, 97),       NONE(0, 98),       NONE(0, 99),       NONE(0, 100),
    NONE(0, 101),      NONE(0, 102),      NONE(0, 103),      NONE(0, 104),      IN(0, 0x3493a3b6),
    NONE(1, 106),      IN(1, 0x35ff0381), NONE(2, 108),      NONE(2, 109),      IN(2, 0x37734507),
    NONE(3, 111),      NONE(3, 112),      NONE(3, 113),      IN(3, 0x39007358), NONE(4, 115),
    NONE(4, 116),      IN(4, 0x3a91d14e), NONE(5, 118),      NONE(5, 119),      IN(5, 0x3c2d0e56),
    NONE(6, 121),      NONE(6, 122),      IN(6, 0x3dd28f5c), NONE(7, 124),      NONE(7, 125),
    IN(7, 0x3f7f199a), NONE(8, 127)};
static const int32_t unsigned_decades[32] = {
    NONE(0, 96),       NONE(0, 97),       NONE(0, 98),       NONE(0, 99),       NONE(0, 100),
    NONE(0, 101),      NONE(0, 102),      NONE(0, 103),      IN(0, 0x342e7ba9), NONE(1, 105),
    NONE(1, 106),      IN(1, 0x35c29d9f), NONE(2, 108),      NONE(2, 109),      IN(2, 0x374d8559),
    NONE(3, 111),      NONE(3, 112),      IN(3, 0x38e94ee4), NONE(4, 114),      NONE(4, 115),
    NONE(4, 116),      IN(4, 0x3a8a71de), NONE(5, 118),      NONE(5, 119),      IN(5, 0x3c2872b0),
    NONE(6, 121),      NONE(6, 122),      IN(6, 0x3dcfae14), NONE(7, 124),      NONE(7, 125),
    IN(7, 0x3f7f8ccd), NONE(8, 127)};
#undef IN
#undef NONE

/* By decade: place = a * slope + start, at most last (bp_codec_index_signed, _unsigned); from 16 on
 * for negative values, whose index is 1 to 127 (bp_codec_around). */
static const float signed_slope[16] = {0.0f,
                                       0x1.0f4472p+20f,
                                       0x1.b2071cp+17f,
                                       0x1.5b38e4p+15f,
                                       0x1.15c71cp+13f,
                                       0x1.bc71c8p+10f,
                                       0x1.638e38p+8f,
                                       0x1.1c71c8p+6f};
static const float signed_start[32] = {
    0.0f,           0x1.c71c72p-1f, 0x1.c71c72p+0f, 0x1.c71c72p+1f, 0x1.c71c72p+2f, 0x1.c71c72p+3f,
    0x1.c71c72p+4f, 0x1.c71c72p+5f, 128.0f,         [16] = 1.0f,    0x1.c71c72p-1f, 0x1.c71c72p+0f,
    0x1.c71c72p+1f, 0x1.c71c72p+2f, 0x1.c71c72p+3f, 0x1.c71c72p+4f, 0x1.c71c72p+5f, 127.0f};
static const float signed_last[32] = {0.0f,  1.0f,   3.0f,   7.0f,        15.0f,  31.0f,
                                      63.0f, 127.0f, 128.0f, [16] = 1.0f, 1.0f,   3.0f,
                                      7.0f,  15.0f,  31.0f,  63.0f,       127.0f, 127.0f};
static const float unsigned_slope[16] = {0.0f,
                                         0x1.0f4472p+21f,
                                         0x1.b2071cp+18f,
                                         0x1.5b38e4p+16f,
                                         0x1.15c71cp+14f,
                                         0x1.bc71c8p+11f,
                                         0x1.638e38p+9f,
                                         0x1.1c71c8p+7f};
static const float unsigned_start[32] = {1.0f,           0x1.c71c72p+0f, 0x1.c71c72p+1f,
                                         0x1.c71c72p+2f, 0x1.c71c72p+3f, 0x1.c71c72p+4f,
                                         0x1.c71c72p+5f, 0x1.c71c72p+6f, 256.0f};
static const float unsigned_last[32] = {1.0f,  3.0f,   7.0f,   15.0f, 31.0f,
                                        63.0f, 127.0f, 255.0f, 256.0f};

/* Values by code: `low` and `width` of a decade (bp_codec_midpoint), at the last four bits of the
 * exponent of y, which is the interval's number and a half. Where there is one value, width is 0.
 */
#define LOWS                                                                                       \
    0x1.0c6f7ap-20f, 0x1.4f8b58p-17f, 0x1.a36e2ep-14f, 0x1.0624dep-10f, 0x1.47ae14p-7f,            \
        0x1.99999ap-4f
static const float signed_low[16] = {LOWS, 1.0f, [15] = 0x1.ad7f2ap-24f};
static const float signed_width[16] = {
    0x1.2dfd6ap-18f, 0x1.797cc4p-16f, 0x1.d7dbf4p-14f,       0x1.26e978p-11f,
    0x1.70a3d8p-9f,  0x1.ccccccp-7f,  [15] = 0x1.e32f0ep-21f};
static const float unsigned_low[16] = {0x1.ad7f2ap-24f, LOWS, 1.0f};
static const float unsigned_width[16] = {0x1.e32f0ep-22f, 0x1.2dfd6ap-19f, 0x1.797cc4p-17f,
                                         0x1.d7dbf4p-15f, 0x1.26e978p-12f, 0x1.70a3d8p-10f,
                                         0x1.ccccccp-8f};
#undef LOWS

/* The tables that one state is stored with. */
typedef struct codec_in {
    __m512i decade[2];
    __m512 slope, start[2], last[2];
} codec_in;

typedef struct codec_out {
    __m512 low, width;
} codec_out;

static inline codec_in codec_in_of(bool has_sign)
{
    const int32_t *decades = has_sign ? signed_decades : unsigned_decades;
    const float *start = has_sign ? signed_start : unsigned_start;
    const float *last = has_sign ? signed_last : unsigned_last;
    return (codec_in){
        {_mm512_loadu_si512(decades), _mm512_loadu_si512(decades + 16)},
        _mm512_loadu_ps(has_sign ? signed_slope : unsigned_slope),
        {_mm512_loadu_ps(start), _mm512_loadu_ps(start + 16)},
        {_mm512_loadu_ps(last), _mm512_loadu_ps(last + 16)},
    };
}

static inline codec_out codec_out_of(bool has_sign)
{
    return (codec_out){_mm512_loadu_ps(has_sign ? signed_low : unsigned_low),
                       _mm512_loadu_ps(has_sign ? signed_width : unsigned_width)};
}

static inline __m512 codec_abs(__m512 x)
{
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)));
}

/* bp_codec_magnitude where `most` is 1: the lesser of the two magnitudes, of a NaN and a number the
 * number. */
static inline __m512 codec_magnitude(__m512 n, float most)
{
    return _mm512_range_ps(n, _mm512_set1_ps(most), 10);
}

/* Vectors whose codes are found side by side, since one after the other they would wait. */
#define CODEC_BESIDE 4

/* Codes of four vectors, 16 bits each after `more` is added, as 64 bytes in order. */
static inline void codec_store(uint8_t *to, const __m512i c[CODEC_BESIDE], int more, bool has_sign)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i add = _mm512_set1_epi16((short)more);
    __m512i a = _mm512_add_epi16(_mm512_packs_epi32(c[0], c[1]), add);
    __m512i b = _mm512_add_epi16(_mm512_packs_epi32(c[2], c[3]), add);
    __m512i packed = has_sign ? _mm512_packs_epi16(a, b) : _mm512_packus_epi16(a, b);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, packed));
}

/* The indices (unsigned: and 1) of magnitudes; `below` says which are of negative values. */
static inline void codec_index(const codec_in *t, const __m512 a[CODEC_BESIDE],
                               const __mmask16 below[CODEC_BESIDE], __m512i index[CODEC_BESIDE])
{
    const __m512i other = _mm512_set1_epi32(16);
    __m512i d[CODEC_BESIDE];
    for (uint32_t k = 0; k < CODEC_BESIDE; k++) {
        __m512i b = _mm512_castps_si512(_mm512_max_ps(a[k], _mm512_set1_ps(0x1p-31f)));
        __m512i power = _mm512_srli_epi32(b, 23);
        __m512i step = _mm512_permutex2var_epi32(t->decade[0], power, t->decade[1]);
        d[k] = _mm512_srai_epi32(_mm512_add_epi32(b, step), 23);
        d[k] = _mm512_mask_or_epi32(d[k], below[k], d[k], other);
    }
    for (uint32_t k = 0; k < CODEC_BESIDE; k++) {
        __m512 place = _mm512_fmadd_ps(a[k], _mm512_permutexvar_ps(d[k], t->slope),
                                       _mm512_permutex2var_ps(t->start[0], d[k], t->start[1]));
        place = _mm512_min_ps(place, _mm512_permutex2var_ps(t->last[0], d[k], t->last[1]));
        index[k] = _mm512_cvttps_epi32(place);
    }
}

/* bp_codec_code8_signed of four vectors. */
static inline void codec_code8_signed(const codec_in *t, const float *x, __m512 inverse,
                                      uint8_t *to)
{
    __m512 a[CODEC_BESIDE];
    __m512i index[CODEC_BESIDE];
    __mmask16 below[CODEC_BESIDE];
    for (uint32_t k = 0; k < CODEC_BESIDE; k++) {
        __m512 n = _mm512_mul_ps(_mm512_loadu_ps(x + 16 * k), inverse);
        below[k] = _mm512_cmp_ps_mask(n, _mm512_setzero_ps(), _CMP_LT_OQ);
        a[k] = codec_magnitude(n, 1.0f);
    }
    codec_index(t, a, below, index);
    for (uint32_t k = 0; k < CODEC_BESIDE; k++) {
        index[k] = _mm512_mask_sub_epi32(index[k], below[k], _mm512_setzero_si512(), index[k]);
    }
    codec_store(to, index, 127, false);
}

static inline void codec_code8_unsigned(const codec_in *t, const float *x, __m512 inverse,
                                        uint8_t *to)
{
    const __mmask16 none[CODEC_BESIDE] = {0};
    __m512 a[CODEC_BESIDE];
    __m512i index[CODEC_BESIDE];
    for (uint32_t k = 0; k < CODEC_BESIDE; k++) {
        a[k] = codec_magnitude(_mm512_mul_ps(_mm512_loadu_ps(x + 16 * k), inverse), 1.0f);
    }
    codec_index(t, a, none, index);
    for (uint32_t k = 0; k < CODEC_BESIDE; k++) {
        const __m512 v = _mm512_loadu_ps(x + 16 * k);
        __mmask16 above = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_GT_OQ);
        index[k] = _mm512_mask_max_epi32(index[k], above, index[k], _mm512_set1_epi32(2));
    }
    codec_store(to, index, -1, false);
}

/* What y is beyond its power of two, times the width of its decade, from its low end on. */
static inline __m512 codec_codebook(const codec_out *t, __m512 y)
{
    __m512i b = _mm512_castps_si512(y), key = _mm512_srli_epi32(b, 23);
    __m512 power = _mm512_castsi512_ps(_mm512_and_si512(b, _mm512_set1_epi32(0x7f800000)));
    return _mm512_fmadd_ps(_mm512_sub_ps(y, power), _mm512_permutexvar_ps(key, t->width),
                           _mm512_permutexvar_ps(key, t->low));
}

/* Sixteen codes as numbers less `less`: as the last bits of 2^23 first. */
static inline __m512 codec_codes(const uint8_t *codes, float less)
{
    const __m512i power = _mm512_set1_epi32(0x4b000000);
    __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)codes));
    return _mm512_sub_ps(_mm512_castsi512_ps(_mm512_or_si512(wide, power)),
                         _mm512_set1_ps(0x1p23f + less));
}

static inline __m512 codec_value8_signed(const codec_out *t, const uint8_t *codes, __m512 scale)
{
    const __m512i sign = _mm512_set1_epi32((int)0x80000000u);
    __m512 from = codec_codes(codes, 127.0f);
    __m512 a = codec_codebook(t, _mm512_add_ps(codec_abs(from), _mm512_set1_ps(0.5f)));
    __m512i bits = _mm512_ternarylogic_epi32(_mm512_castps_si512(a), _mm512_castps_si512(from),
                                             sign, 0xf8); /* a or (from and sign) */
    return _mm512_mul_ps(_mm512_castsi512_ps(bits), scale);
}

static inline __m512 codec_value8_unsigned(const codec_out *t, const uint8_t *codes, __m512 scale)
{
    __m512 a = codec_codebook(t, _mm512_add_ps(codec_codes(codes, 0.0f), _mm512_set1_ps(1.5f)));
    return _mm512_mul_ps(a, scale);
}

/* Groups' inverses of their scales; `most` is 1, or 0 where there is no scale, so that all codes
 * are 0, a NaN's too. */
typedef struct codec_groups {
    float inverse[16];
    float most[16];
} codec_groups;

/* bp_codec_compand_signed of four vectors, which belong to groups `g` and g + 1. */
static inline void codec_compand_signed(const float *x, const codec_groups *groups, uint32_t g,
                                        uint8_t *to)
{
    __m512 q[CODEC_BESIDE];
    __m512i code[CODEC_BESIDE];
    __mmask16 below[CODEC_BESIDE];
    for (uint32_t k = 0; k < CODEC_BESIDE; k++) {
        const __m512 inverse = _mm512_set1_ps(groups->inverse[g + k / 2]);
        const __m512 n = _mm512_mul_ps(_mm512_loadu_ps(x + 16 * k), inverse);
        const __m512 a = codec_magnitude(n, groups->most[g + k / 2]);
        below[k] = _mm512_cmp_ps_mask(n, _mm512_setzero_ps(), _CMP_LT_OQ);
        q[k] = _mm512_div_ps(_mm512_mul_ps(_mm512_set1_ps(254.0f), a),
                             _mm512_add_ps(_mm512_set1_ps(1.0f), a));
    }
    for (uint32_t k = 0; k < CODEC_BESIDE; k++) {
        __m512i bits = _mm512_castps_si512(_mm512_add_ps(q[k], _mm512_set1_ps(BP_CODEC_ROUND)));
        code[k] = _mm512_and_si512(bits, _mm512_set1_epi32(0x7f));
        code[k] = _mm512_mask_sub_epi32(code[k], below[k], _mm512_setzero_si512(), code[k]);
    }
    codec_store(to, code, 0, true);
}

/* bp_codec_compand_unsigned, from the roots of what is stored. */
static inline void codec_compand_unsigned(const float *root, const codec_groups *groups, uint32_t g,
                                          uint8_t *to)
{
    __m512i code[CODEC_BESIDE];
    for (uint32_t k = 0; k < CODEC_BESIDE; k++) {
        const __m512 inverse = _mm512_set1_ps(groups->inverse[g + k / 2]);
        const __m512 x = _mm512_loadu_ps(root + 16 * k);
        const __m512 n = _mm512_mul_ps(x, inverse);
        const __m512 a = codec_magnitude(n, groups->most[g + k / 2]);
        __m512 q = _mm512_mul_ps(_mm512_set1_ps(255.0f), a);
        __m512i bits = _mm512_castps_si512(_mm512_add_ps(q, _mm512_set1_ps(BP_CODEC_ROUND)));
        __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ);
        code[k] = _mm512_and_si512(bits, _mm512_set1_epi32(0xff));
        code[k] = _mm512_mask_max_epi32(code[k], above, code[k], _mm512_set1_epi32(1));
    }
    codec_store(to, code, 0, false);
}

/* The nearest float to c / d, of whole numbers |c| <= 128 and 126 <= d <= 254, as division gives it
 * but beside the roots and quotients that wait for the divider: y is 1 / d within 2^-23, so q has
 * an error of a few last places, the remainder is exact, and the sum before it is rounded is within
 * 2^-45 of c / d, which is 2^-33 or more from where two floats are equally near. */
static inline __m512 codec_quotient(__m512 c, __m512 d)
{
    __m512 y = _mm512_rcp14_ps(d);
    y = _mm512_fmadd_ps(_mm512_fnmadd_ps(d, y, _mm512_set1_ps(1.0f)), y, y);
    const __m512 q = _mm512_mul_ps(c, y);
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(d, q, c), y, q);
}

static inline __m512 codec_expand_signed(const uint8_t *codes, __m512 scale)
{
    __m128i packed = _mm_loadu_si128((const __m128i *)(const void *)codes);
    __m512 c = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(packed));
    __m512 below = _mm512_sub_ps(_mm512_set1_ps(254.0f), codec_abs(c));
    return _mm512_mul_ps(scale, codec_quotient(c, below));
}

static inline __m512 codec_expand_unsigned(const uint8_t *codes, __m512 unit)
{
    __m512 root = _mm512_mul_ps(codec_codes(codes, 0.0f), unit);
    return _mm512_mul_ps(root, root);
}

#endif
