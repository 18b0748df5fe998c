/* SPDX-License-Identifier: MIT */
/* Loops without branches over arrays of elements, which the compiler turns into vectors (the
 * Makefile asks for it). */
#include "core/ops/convert.h"

#include <string.h>

#include "core/ops/master.h"

#define BLOCK 256 /* elements that go through fp32 at once */

static uint32_t word_at(const void *from, size_t i)
{
    uint32_t bits;
    memcpy(&bits, (const unsigned char *)from + 4 * i, 4);
    return bits;
}

static uint16_t half_at(const void *from, size_t i)
{
    uint16_t bits;
    memcpy(&bits, (const unsigned char *)from + 2 * i, 2);
    return bits;
}

static void put_word(void *to, size_t i, uint32_t bits)
{
    memcpy((unsigned char *)to + 4 * i, &bits, 4);
}

static void put_half(void *to, size_t i, uint32_t bits)
{
    const uint16_t half = (uint16_t)bits;
    memcpy((unsigned char *)to + 2 * i, &half, 2);
}

static uint32_t convert_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float convert_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* All bits, or none. */
static uint32_t mask_if(bool condition)
{
    return condition ? UINT32_MAX : 0;
}

/* As bp_f32_from_f16: a subnormal is its fraction times 2^-24. */
static uint32_t wide_from_f16(uint32_t bits)
{
    const uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    const uint32_t normal = (magnitude << 13) + 0x38000000u;
    const uint32_t small = convert_bits((float)(int32_t)magnitude * 0x1p-24f);
    const uint32_t special =
        0x7f800000u | magnitude << 13 | (mask_if(magnitude > 0x7c00u) & 0x400000u);
    const uint32_t finite =
        (small & mask_if(magnitude < 0x400u)) | (normal & mask_if(magnitude >= 0x400u));
    const uint32_t outside = mask_if(magnitude >= 0x7c00u);
    return sign | (finite & ~outside) | (special & outside);
}

/* As bp_f16_from_f32. Adding a half to a magnitude below 2^-14 leaves it rounded to even at 2^-24,
 * the step of subnormals, in the last bits of the sum. */
static uint32_t f16_from_wide(uint32_t bits)
{
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    const uint32_t moved = magnitude - 0x38000000u;
    const uint32_t normal = (moved + 0xfffu + (moved >> 13 & 1u)) >> 13;
    const uint32_t within = mask_if(magnitude < 0x38800000u);
    const uint32_t small =
        convert_bits(convert_float(magnitude & within) + 0.5f) - convert_bits(0.5f);
    const uint32_t beyond = mask_if(magnitude >= 0x47800000u);
    const uint32_t special = 0x7c00u | (mask_if(magnitude > 0x7f800000u) & 0x200u);
    return sign | (special & beyond) | (~beyond & ((small & within) | (normal & ~within)));
}

/* wide_from_f16 of f16_from_wide, which is this one's shape. */
static uint32_t rounded_to_f16(uint32_t bits)
{
    const uint32_t sign = bits & 0x80000000u, magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u)) & ~0x1fffu;
    const uint32_t within = mask_if(magnitude < 0x38800000u);
    const uint32_t small = convert_bits(convert_float(magnitude & within) + 0.5f - 0.5f);
    const uint32_t beyond = mask_if(normal >= 0x47800000u);
    const uint32_t special = 0x7f800000u | (mask_if(magnitude > 0x7f800000u) & 0x400000u);
    return sign | (special & beyond) | (~beyond & ((small & within) | (normal & ~within)));
}

/* As bp_bf16_from_f32. */
static uint32_t bf16_from_wide(uint32_t bits)
{
    const uint32_t nan = mask_if((bits & 0x7fffffffu) > 0x7f800000u);
    return ((bits >> 16 | 0x40u) & nan) | ((bits + 0x8000u) >> 16 & ~nan);
}

static void widen(bp_dtype from, const void *in, void *out, size_t count)
{
    if (from == BP_F16) {
        for (size_t i = 0; i < count; i++) {
            put_word(out, i, wide_from_f16(half_at(in, i)));
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        put_word(out, i, (uint32_t)half_at(in, i) << 16);
    }
}

/* 1 for a finite value whose narrow form is infinite. */
static uint32_t lost(uint32_t wide, uint32_t narrow, uint32_t infinity)
{
    const bool finite = (wide & 0x7fffffffu) < 0x7f800000u;
    return mask_if(finite) & mask_if((narrow & 0x7fffu) == infinity) & 1u;
}

static bool narrow(const void *in, bp_dtype to, void *out, size_t count)
{
    uint32_t any = 0;
    if (to == BP_F16) {
        for (size_t i = 0; i < count; i++) {
            const uint32_t wide = word_at(in, i), bits = f16_from_wide(wide);
            any |= lost(wide, bits, 0x7c00u);
            put_half(out, i, bits);
        }
        return any == 0;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t wide = word_at(in, i), bits = bf16_from_wide(wide);
        any |= lost(wide, bits, 0x7f80u);
        put_half(out, i, bits);
    }
    return any == 0;
}

bool bp_elements_convert(bp_dtype from, const void *in, bp_dtype to, void *out, size_t count)
{
    if (from == to) {
        memcpy(out, in, count * bp_dtype_bytes(from));
        return true;
    }
    if (from == BP_F32) {
        return narrow(in, to, out, count);
    }
    if (to == BP_F32) {
        widen(from, in, out, count);
        return true;
    }
    float wide[BLOCK];
    bool kept = true;
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t some = count - done < BLOCK ? count - done : BLOCK;
        widen(from, (const unsigned char *)in + 2 * done, wide, some);
        kept = narrow(wide, to, (unsigned char *)out + 2 * done, some) && kept;
    }
    return kept;
}

/* Infinities are as good as any. */
void bp_elements_round(bp_dtype to, float *values, size_t count)
{
    if (to == BP_F16) {
        for (size_t i = 0; i < count; i++) {
            put_word(values, i, rounded_to_f16(word_at(values, i)));
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        put_word(values, i, bf16_from_wide(word_at(values, i)) << 16);
    }
}

bool bp_elements_finite(bp_dtype dtype, const void *elements, size_t count)
{
    int32_t most = 0;
    if (dtype == BP_F32) {
        for (size_t i = 0; i < count; i++) {
            const int32_t size = (int32_t)(word_at(elements, i) & 0x7fffffffu);
            most = size > most ? size : most;
        }
        return most < 0x7f800000;
    }
    int16_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        const int16_t size = (int16_t)(half_at(elements, i) & 0x7fffu);
        largest = size > largest ? size : largest;
    }
    return largest < (dtype == BP_F16 ? 0x7c00 : 0x7f80);
}

static void store_split(uint16_t *weights, uint16_t *masters, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = word_at(values, i);
        weights[i] = (uint16_t)((bits + 0x8000u) >> 16);
        masters[i] = (uint16_t)bits;
    }
}

static void store_split8(uint16_t *weights, uint8_t *masters, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = word_at(values, i);
        const uint32_t b24 = (bits >> 8) + (bits >> 7 & 1u);
        weights[i] = (uint16_t)((b24 + 0x80u) >> 8);
        masters[i] = (uint8_t)b24;
    }
}

void bp_elements_store(bp_dtype dtype, bp_master form, void *weights, void *masters,
                       const float *values, size_t count)
{
    if (form == BP_MASTER_FP8) {
        bp_fp8_store(values, count, weights, masters);
    } else if (form == BP_MASTER_SPLIT8) {
        store_split8(weights, masters, values, count);
    } else if (form == BP_MASTER_SPLIT) {
        store_split(weights, masters, values, count);
    } else {
        (void)bp_elements_convert(BP_F32, values, dtype, weights, count);
    }
    if (form == BP_MASTER_FP32) {
        memcpy(masters, values, count * sizeof *values);
    }
}

void bp_elements_load(bp_dtype dtype, bp_master form, const void *weights, const void *masters,
                      float *values, size_t count)
{
    if (form == BP_MASTER_FP32) {
        memcpy(values, masters, count * sizeof *values);
        return;
    }
    if (form == BP_MASTER_FP8) {
        bp_fp8_load(weights, masters, count, values);
        return;
    }
    if (form == BP_MASTER_SPLIT || form == BP_MASTER_SPLIT8) {
        for (size_t i = 0; i < count; i++) {
            values[i] = bp_master_load(dtype, form, weights, masters, i);
        }
        return;
    }
    (void)bp_elements_convert(dtype, weights, BP_F32, values, count);
}
