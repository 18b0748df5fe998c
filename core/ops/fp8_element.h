/* SPDX-License-Identifier: MIT */
/* The arithmetic of core/ops/fp8.h for one element, as inline code: the host's loops and the
 * CUDA kernels are built from this one text, so they agree to the last bit. Bits are those of fp32.
 */
#ifndef BP_CORE_FP8_ELEMENT_H
#define BP_CORE_FP8_ELEMENT_H

#include "core/ops/tape_element.h"

/* The byte of a group's scale, from its largest magnitude's bits: as for the tape, of the magnitude
 * rounded to the 20 bits that it keeps. */
static inline uint32_t bp_fp8_scale(uint32_t largest)
{
    const uint32_t rounded = (largest + 7u + (largest >> 4 & 1u)) & ~15u;
    return bp_tape_scale(largest >= 0x7f800000u ? largest : rounded);
}

/* The 24 bits of y, |y| at most 448. Adding 1/4 leaves multiples of 2^-25 in the sum's last bits.
 */
static inline uint32_t bp_fp8_bits(float y)
{
    const uint32_t bits = bp_tape_bits(y), magnitude = bits & 0x7fffffffu;
    const uint32_t low = bp_tape_bits(bp_tape_float(magnitude) + 0.25f) - 0x3e800000u;
    const uint32_t high = ((magnitude + 7u + (magnitude >> 4 & 1u)) >> 4) - (120u << 19);
    return (bits >> 8 & 0x800000u) | ((magnitude < 0x3c800000u ? low : high) & 0x7fffffu);
}

/* The code of these bits, and the bits of a code and its remainder. */
static inline uint32_t bp_fp8_code(uint32_t bits)
{
    return (bits + 0x8000u) >> 16 & 0xffu;
}

static inline uint32_t bp_fp8_join(uint32_t code, uint32_t rest)
{
    return (code - (rest >> 15)) << 16 | rest;
}

/* The number that 24 bits are, under a scale; NaN where the group is not finite. */
static inline float bp_fp8_value(uint32_t bits, uint32_t byte)
{
    const uint32_t magnitude = bits & 0x7fffffu;
    const float low = (float)(int32_t)magnitude * 0x1p-25f;
    const float high = bp_tape_float((magnitude << 4) + (120u << 23));
    const uint32_t number = bp_tape_bits(magnitude < 0x80000u ? low : high) | (bits & 0x800000u)
                                                                                  << 8;
    const float value = bp_tape_float(number) * bp_tape_float(byte << 23);
    return byte == BP_TAPE_NOT_FINITE ? bp_tape_float(0x7fc00000u) : value;
}

#endif
