/* SPDX-License-Identifier: MIT */
/* Fused multiply-add without hardware. In double the product of two 53-bit numbers and what is
 * added lie in 128 bits each; what is shifted out of them leaves its mark in the lowest bit, so
 * that the one rounding at the end sees it. In float the product is exact in a double, and the sum
 * is rounded to odd, which rounds like the exact sum afterwards (S. Boldo and G. Melquiond,
 * "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008). */
#include "core/base/fused.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FRACTION_BITS 52
#define FRACTION_MASK UINT64_C(0x000fffffffffffff)
#define HIDDEN        UINT64_C(0x0010000000000000)
#define EXPONENT_MASK 0x7ff
#define BIAS          1023
#define SIGN_MASK     UINT64_C(0x8000000000000000)
#define INFINITE      UINT64_C(0x7ff0000000000000)

typedef struct wide {
    uint64_t high;
    uint64_t low;
} wide;

/* mantissa * 2^exponent, the mantissa from 2^52 to below 2^53. */
typedef struct fused_part {
    uint64_t mantissa;
    int32_t exponent;
} fused_part;

static uint64_t double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A finite number that is not 0. */
static fused_part part_of(uint64_t bits)
{
    fused_part part = {bits & FRACTION_MASK, (int32_t)(bits >> FRACTION_BITS & EXPONENT_MASK)};
    if (part.exponent != 0) {
        part.mantissa |= HIDDEN;
    } else {
        part.exponent = 1;
        while (part.mantissa < HIDDEN) {
            part.mantissa <<= 1;
            part.exponent--;
        }
    }
    part.exponent -= BIAS + FRACTION_BITS;
    return part;
}

static wide wide_product(uint64_t a, uint64_t b)
{
    const uint64_t a_low = (uint32_t)a, a_high = a >> 32;
    const uint64_t b_low = (uint32_t)b, b_high = b >> 32;
    const uint64_t low = a_low * b_low;
    const uint64_t middle = a_high * b_low + (low >> 32);
    const uint64_t other = a_low * b_high + (uint32_t)middle;
    return (wide){a_high * b_high + (middle >> 32) + (other >> 32), other << 32 | (uint32_t)low};
}

static wide wide_left(wide x, uint32_t by)
{
    if (by >= 64) {
        return (wide){x.low << (by - 64), 0};
    }
    return by == 0 ? x : (wide){x.high << by | x.low >> (64 - by), x.low << by};
}

/* What is shifted out leaves a 1 in the lowest bit. */
static wide wide_right(wide x, uint32_t by)
{
    if (by == 0) {
        return x;
    }
    if (by > 127) {
        return (wide){0, (x.high | x.low) != 0};
    }
    const wide rest = wide_left(x, 128 - by);
    const uint64_t mark = (rest.high | rest.low) != 0;
    if (by >= 64) {
        return (wide){0, x.high >> (by - 64) | mark};
    }
    return (wide){x.high >> by, x.high << (64 - by) | x.low >> by | mark};
}

static wide wide_sum(wide a, wide b)
{
    const uint64_t low = a.low + b.low;
    return (wide){a.high + b.high + (low < a.low), low};
}

static wide wide_difference(wide a, wide b)
{
    return (wide){a.high - b.high - (a.low < b.low), a.low - b.low};
}

/* x * 2^exponent, x not 0, rounded to nearest even. */
static double fused_round(uint64_t sign, wide x, int32_t exponent)
{
    while (x.high >> 63 == 0) {
        const uint32_t by = x.high == 0 ? 64 : 1;
        x = wide_left(x, by);
        exponent -= (int32_t)by;
    }
    const int32_t top = exponent + 127; /* of the highest bit */
    const bool normal = top >= 1 - BIAS;
    const uint32_t shift = 75 + (normal ? 0u : (uint32_t)(1 - BIAS - top));
    if (top > BIAS) {
        return double_of(sign | INFINITE);
    }
    /* Two bits stay below the last one: a half, and whether there is more. */
    const uint64_t kept = wide_right(x, shift - 2).low;
    uint64_t bits = kept >> 2;
    const uint64_t rest = kept & 3;
    bits += rest > 2 || (rest == 2 && (bits & 1) != 0) ? 1 : 0;
    bits += normal ? (uint64_t)(top + BIAS - 1) << FRACTION_BITS : 0; /* its hidden bit is the 1 */
    return double_of(sign | bits);
}

/* Of finite numbers that are not 0. */
static double fused_finite(uint64_t a, uint64_t b, uint64_t c)
{
    const fused_part x = part_of(a), y = part_of(b), z = part_of(c);
    const uint64_t sign = (a ^ b) & SIGN_MASK;
    /* Both with their highest bit at 124 or 125, and zeros below what they have. */
    wide product = wide_left(wide_product(x.mantissa, y.mantissa), 20);
    wide added = {z.mantissa << 8, 0};
    const int32_t of_product = x.exponent + y.exponent - 20, of_added = z.exponent - 72;
    const int32_t exponent = of_product > of_added ? of_product : of_added;
    product = wide_right(product, (uint32_t)(exponent - of_product));
    added = wide_right(added, (uint32_t)(exponent - of_added));
    if (sign == (c & SIGN_MASK)) {
        return fused_round(sign, wide_sum(product, added), exponent);
    }
    /* Of the same high word, what is added has been moved by one place at most: its 53 bits leave
     * the low word 0, and it is not above the product. */
    if (product.high < added.high) {
        return fused_round(sign ^ SIGN_MASK, wide_difference(added, product), exponent);
    }
    const wide left = wide_difference(product, added);
    return (left.high | left.low) == 0 ? 0.0 : fused_round(sign, left, exponent);
}

static bool finite_bits(uint64_t bits)
{
    return (bits & INFINITE) != INFINITE;
}

double bp_fma(double a, double b, double c)
{
    const uint64_t x = double_bits(a), y = double_bits(b), z = double_bits(c);
    if (!finite_bits(x) || !finite_bits(y) || x << 1 == 0 || y << 1 == 0) {
        return a * b + c; /* the product is exact, or there is none */
    }
    if (!finite_bits(z)) {
        return c + c;
    }
    return z << 1 == 0 ? a * b : fused_finite(x, y, z);
}

float bp_fmaf(float a, float b, float c)
{
    const double product = (double)a * (double)b, added = (double)c;
    double sum = product + added;
    uint64_t bits = double_bits(sum);
    if (!finite_bits(bits) || (bits & 1) != 0) {
        return (float)sum;
    }
    /* What the sum has lost (D. E. Knuth), exactly. */
    const double back = sum - product;
    const double lost = (product - (sum - back)) + (added - back);
    if (lost != 0.0) {
        bits += (lost > 0.0) == (sum > 0.0) ? 1 : UINT64_MAX;
        sum = double_of(bits);
    }
    return (float)sum;
}

/* Bits of a float, and of what its product and sum are made of. */
#define NARROW_HIDDEN   UINT32_C(0x00800000)
#define NARROW_INFINITE UINT32_C(0x7f800000)
#define NARROW_SIGN     UINT32_C(0x80000000)
#define NARROW_BIAS     127

typedef struct narrow_part {
    uint32_t mantissa; /* from 2^23 to below 2^24 */
    int32_t exponent;
} narrow_part;

static uint32_t narrow_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float narrow_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A finite number that is not 0. */
static narrow_part narrow_part_of(uint32_t bits)
{
    narrow_part part = {bits & (NARROW_HIDDEN - 1), (int32_t)(bits >> 23 & 0xff)};
    if (part.exponent != 0) {
        part.mantissa |= NARROW_HIDDEN;
        return part;
    }
    part.exponent = 1;
    while (part.mantissa < NARROW_HIDDEN) {
        part.mantissa <<= 1;
        part.exponent--;
    }
    return part;
}

/* What is shifted out leaves a 1 in the lowest bit. */
static uint64_t narrow_right(uint64_t x, uint32_t by)
{
    if (by == 0) {
        return x;
    }
    if (by > 63) {
        return x != 0;
    }
    return x >> by | ((x << (64 - by)) != 0);
}

/* x * 2^exponent, x not 0 and below 2^63, rounded to nearest even. */
static float narrow_round(uint32_t sign, uint64_t x, int32_t exponent)
{
    while (x >> 32 == 0) {
        x <<= 31;
        exponent -= 31;
    }
    while (x >> 62 == 0) {
        x <<= 1;
        exponent--;
    }
    const int32_t top = exponent + 62; /* of the highest bit */
    if (top > NARROW_BIAS) {
        return narrow_float(sign | NARROW_INFINITE);
    }
    const bool normal = top >= 1 - NARROW_BIAS;
    /* Two bits stay below the last one: a half, and whether there is more. */
    const uint32_t kept =
        (uint32_t)narrow_right(x, 37 + (normal ? 0u : (uint32_t)(1 - NARROW_BIAS - top)));
    const uint32_t rest = kept & 3;
    uint32_t bits = kept >> 2;
    bits += rest > 2 || (rest == 2 && (bits & 1) != 0) ? 1 : 0;
    bits += normal ? (uint32_t)(top + NARROW_BIAS - 1) << 23 : 0; /* its hidden bit is the 1 */
    return narrow_float(sign | bits);
}

/* Of finite numbers that are not 0. Both lie with their highest bit at 60 or 61: what a shift of 38
 * or 15 places loses is far from the 24 bits of the sum, which cancels by one place at most then.
 */
static float narrow_finite(uint32_t a, uint32_t b, uint32_t c)
{
    const narrow_part x = narrow_part_of(a), y = narrow_part_of(b), z = narrow_part_of(c);
    const uint32_t sign = (a ^ b) & NARROW_SIGN;
    uint64_t product = (uint64_t)x.mantissa * y.mantissa << 14;
    uint64_t added = (uint64_t)z.mantissa << 37;
    const int32_t of_product = x.exponent + y.exponent - 2 * (NARROW_BIAS + 23) - 14;
    const int32_t of_added = z.exponent - (NARROW_BIAS + 23) - 37;
    const int32_t exponent = of_product > of_added ? of_product : of_added;
    product = narrow_right(product, (uint32_t)(exponent - of_product));
    added = narrow_right(added, (uint32_t)(exponent - of_added));
    if (sign == (c & NARROW_SIGN)) {
        return narrow_round(sign, product + added, exponent);
    }
    if (product < added) {
        return narrow_round(sign ^ NARROW_SIGN, added - product, exponent);
    }
    return product == added ? 0.0f : narrow_round(sign, product - added, exponent);
}

float bp_fmaf_integers(float a, float b, float c)
{
    const uint32_t x = narrow_bits(a), y = narrow_bits(b), z = narrow_bits(c);
    const bool finite =
        (x & NARROW_INFINITE) != NARROW_INFINITE && (y & NARROW_INFINITE) != NARROW_INFINITE;
    if (!finite || x << 1 == 0 || y << 1 == 0) {
        return a * b + c; /* the product is exact, or there is none */
    }
    if ((z & NARROW_INFINITE) == NARROW_INFINITE) {
        return c + c;
    }
    return z << 1 == 0 ? a * b : narrow_finite(x, y, z);
}

const char *bp_fused_fault(void)
{
    static const struct {
        double a, b, c, right;
    } wide_case = {0x1.0000002p+0, 0x1.ffffffcp-1, -1.0, -0x1p-54};
    static const struct {
        float a, b, c, right;
    } cases[] = {
        {0x1.002p+0f, 0x1.002p+0f, 0x1p-80f, 0x1.004004p+0f}, /* a tie but for what is added */
        {0x1p-126f, 0.5f, 0.0f, 0x1p-127f},                   /* a denormal comes out */
        {0x1p-140f, 0x1p+20f, 0.0f, 0x1p-120f},               /* and goes in */
    };
    const volatile double a = wide_case.a, b = wide_case.b, c = wide_case.c;
    if (fma(a, b, c) != wide_case.right) {
        return "fma in double rounds twice on this machine";
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const volatile float x = cases[i].a, y = cases[i].b, z = cases[i].c;
        if (fmaf(x, y, z) != cases[i].right) {
            return i == 0 ? "fmaf rounds twice on this machine"
                          : "this machine is set to take denormals for 0";
        }
    }
    return NULL;
}
