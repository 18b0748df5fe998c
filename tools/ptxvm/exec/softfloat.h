/* SPDX-License-Identifier: MIT */
/* Exact roundings that the processor's own mode does not give: directed ones, halves, flushes.
 * Nothing here touches the floating-point environment. */
#ifndef PTXVM_SOFTFLOAT_H
#define PTXVM_SOFTFLOAT_H

#include <math.h>
#include <string.h>

#include "tools/ptxvm/text/types.h"

static inline uint32_t vm_bits_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float vm_f32_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t vm_bits_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double vm_f64_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* .ftz: a subnormal becomes a zero of its sign. */
static inline float vm_flush_f32(float value, unsigned how)
{
    const uint32_t bits = vm_bits_f32(value);
    const bool flush = (how & VF_FTZ) != 0 && (bits & 0x7f800000u) == 0;
    return vm_f32_bits(flush ? bits & 0x80000000u : bits);
}

/* min and max: -0 < +0; one NaN gives the other operand, or the canonical NaN with .NaN. */
static inline float vm_min_max_f32(float a, float b, unsigned how, bool largest)
{
    float x = vm_flush_f32(a, how), y = vm_flush_f32(b, how);
    uint32_t sign = 0;
    if ((how & VF_XORSIGN) != 0) {
        sign = (vm_bits_f32(x) ^ vm_bits_f32(y)) & 0x80000000u;
        x = fabsf(x);
        y = fabsf(y);
    }
    bool nan_x = x != x, nan_y = y != y;
    bool first = largest ? x > y : x < y;
    if (x == y) { /* differs only for zeros */
        first = ((vm_bits_f32(x) >> 31) != 0) != largest;
    }
    float r = nan_x ? y : (nan_y || first ? x : y);
    if ((nan_x && nan_y) || ((how & VF_NAN) != 0 && (nan_x || nan_y))) {
        return vm_f32_bits(0x7fffffffu);
    }
    return (how & VF_XORSIGN) != 0 ? vm_f32_bits(vm_bits_f32(r) | sign) : r;
}
static inline float vm_min_f32(float a, float b, unsigned how)
{
    return vm_min_max_f32(a, b, how, false);
}
static inline float vm_max_f32(float a, float b, unsigned how)
{
    return vm_min_max_f32(a, b, how, true);
}

/* Any rounding, .ftz and .sat. */
float vm_slow_add_f32(float a, float b, unsigned how);
float vm_slow_sub_f32(float a, float b, unsigned how);
float vm_slow_mul_f32(float a, float b, unsigned how);
float vm_slow_fma_f32(float a, float b, float c, unsigned how);
float vm_slow_div_f32(float a, float b, unsigned how);
float vm_slow_sqrt_f32(float a, unsigned how);
double vm_slow_add_f64(double a, double b, unsigned how);
double vm_slow_sub_f64(double a, double b, unsigned how);
double vm_slow_mul_f64(double a, double b, unsigned how);
double vm_slow_fma_f64(double a, double b, double c, unsigned how);
double vm_slow_div_f64(double a, double b, unsigned how);
double vm_slow_sqrt_f64(double a, unsigned how);

/* After arithmetic: canonical NaN, flushed result, clamp to [0, 1] (NaN becomes 0). */
float vm_finish_f32(float value, unsigned how);

/* high + low, with |low| at most half a unit in the last place of high, rounded once. */
float vm_round_f32(double high, double low, unsigned round);
/* The sum rounded to odd: a later rounding to a format of at most 51 bits is then right. */
double vm_add_odd(double a, double b);

/* Half formats: 16-bit patterns. NaN becomes 0x7fff. */
static inline double vm_f64_of_f16(uint16_t half)
{
    uint64_t sign = (uint64_t)(half & 0x8000u) << 48;
    uint64_t exponent = (half >> 10) & 31u;
    uint64_t fraction = half & 0x3ffu;
    if (exponent == 0) {
        double value = (double)fraction * 0x1p-24;
        return sign != 0 ? -value : value;
    }
    uint64_t field = exponent == 31 ? 0x7ff : exponent + 1023 - 15;
    return vm_f64_bits(sign | field << 52 | fraction << 42);
}

static inline double vm_f64_of_bf16(uint16_t half)
{
    return (double)vm_f32_bits((uint32_t)half << 16);
}
/* Four exponent bits, three of the fraction, no infinity. */
float vm_f32_of_e4m3(uint8_t bits);
uint16_t vm_f16_of_f64(double value, unsigned how);
uint16_t vm_bf16_of_f64(double value, unsigned how);
uint32_t vm_tf32_of_f32(float value, unsigned how);

#endif
