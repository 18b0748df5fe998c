/* SPDX-License-Identifier: MIT */
/* The arithmetic of core/ops/tape.h for one element, as inline code: the host's loops and the
 * CUDA kernels are built from this one text, so they agree to the last bit. Bits are those of fp32.
 * No step meets a number too small to be normal whose bits count. */
#ifndef BP_CORE_TAPE_ELEMENT_H
#define BP_CORE_TAPE_ELEMENT_H

#include <stdint.h>
#include <string.h>

#define BP_TAPE_NOT_FINITE 255u /* the byte of a block's scale */

static inline uint32_t bp_tape_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float bp_tape_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The byte of the scale, from the largest magnitude's bits: 448 is 1.75 * 2^8. */
static inline uint32_t bp_tape_scale(uint32_t largest)
{
    const uint32_t exponent = largest >> 23;
    const uint32_t byte = exponent - 8u + ((largest & 0x7fffffu) > 0x600000u ? 1u : 0u);
    return largest >= 0x7f800000u ? BP_TAPE_NOT_FINITE : exponent < 18u ? 10u : byte;
}

/* What elements are multiplied by for their codes: 2^-e; 0 where the block is not finite. */
static inline float bp_tape_inverse(uint32_t byte)
{
    return bp_tape_float(byte == BP_TAPE_NOT_FINITE ? 0u : (254u - byte) << 23);
}

/* The code of y, |y| at most 448. Adding 2^14 leaves multiples of 2^-9, the least code's step, in
 * the last bits of the sum. A NaN or what is larger has some code. */
static inline uint32_t bp_tape_code(float y)
{
    const uint32_t bits = bp_tape_bits(y), magnitude = bits & 0x7fffffffu;
    const uint32_t low = bp_tape_bits(bp_tape_float(magnitude) + 16384.0f) & 0xfu;
    const uint32_t high = ((magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20) - 960u;
    return (bits >> 24 & 0x80u) | ((magnitude < 0x3c800000u ? low : high) & 0x7fu);
}

/* A code's value; NaN where the block is not finite. */
static inline float bp_tape_value(uint32_t code, uint32_t byte)
{
    const uint32_t magnitude = code & 0x7fu;
    const float low = (float)(int32_t)magnitude * 0x1p-9f;
    const float high = bp_tape_float((magnitude + 960u) << 20);
    const uint32_t number = bp_tape_bits(magnitude < 8u ? low : high) | (code & 0x80u) << 24;
    const float value = bp_tape_float(number) * bp_tape_float(byte << 23);
    return byte == BP_TAPE_NOT_FINITE ? bp_tape_float(0x7fc00000u) : value;
}

#endif
