/* SPDX-License-Identifier: MIT */
/* How tensor cores sum, bit for bit, as published for each architecture (arXiv 2511.10909 and
 * 2512.07004): the products of one step and the accumulator are cut toward zero to a number of
 * fraction bits below the largest exponent among them, added exactly, and the sum is cut to f32 or
 * rounded to f16. */
#include <math.h>

#include "tools/ptxvm/exec/arith.h"
#include "tools/ptxvm/exec/softfloat.h"

enum {
    SINGLE = 23,          /* fraction bits of an f32 */
    EIGHT = 13,           /* of sums of 8-bit types, before and behind the cut */
    PRODUCT = 2 * SINGLE, /* of the product of two */
    TERMS_MAX = 33,
    LOWEST = -149 /* the exponent of the smallest f32 */
};

typedef struct term {
    uint64_t significand; /* below 4, with PRODUCT fraction bits */
    int exponent;
    bool negative;
} term;

/* One process pretends to one architecture; 0: no model is asked for. */
static unsigned capability;

void vm_sums_choose(unsigned asked)
{
    capability = asked;
}

bool vm_sums_chosen(void)
{
    return capability != 0;
}

/* A finite value's significand (SINGLE fraction bits) and exponent, which is never below `least`:
 * the format's subnormal values are not normalised. A zero has the least exponent of an f32. */
static uint64_t split(float value, int least, int *exponent)
{
    const uint32_t bits = vm_bits_f32(value);
    const uint32_t field = bits >> SINGLE & 0xff;
    const uint64_t fraction = bits & 0x7fffff;
    const int found = field == 0 ? -126 : (int)field - 127;
    const uint64_t significand = field == 0 ? fraction : fraction | 1u << SINGLE;
    *exponent = found > least ? found : least;
    return found < least ? (least - found > SINGLE ? 0 : significand >> (least - found))
                         : significand;
}

/* The terms of a step that count: every product that is not zero, and c. */
static unsigned gather(term *terms, const vm_sum *sum, float c)
{
    unsigned count = 1;
    const int least = sum->half && c != 0 ? -14 : -126;
    terms[0].significand = split(c, least, &terms[0].exponent) << SINGLE;
    terms[0].negative = vm_bits_f32(c) >> 31 != 0;
    for (unsigned i = 0; i < sum->count; i++) {
        const float a = sum->a[i];
        const float b = sum->b[i * sum->stride];
        int first, second;
        const uint64_t product = split(a, sum->least, &first) * split(b, sum->least_b, &second);
        if (product != 0) {
            terms[count].significand = product;
            terms[count].exponent = first + second;
            terms[count++].negative = (vm_bits_f32(a) ^ vm_bits_f32(b)) >> 31 != 0;
        }
    }
    return count;
}

/* magnitude x 2^unit, both as they are in sums: an exact double, of a normal power. */
static double scaled(uint64_t magnitude, int unit)
{
    return (double)magnitude * vm_f64_bits((uint64_t)(unit + 1023) << 52);
}

/* magnitude x 2^unit cut toward zero to what an f32 of so many fraction bits holds. */
static double cut_to(uint64_t magnitude, int unit, int fraction)
{
    const int top = unit + (magnitude > 1 ? 63 - __builtin_clzll(magnitude) : 0);
    if (top > 127) {
        return (double)INFINITY;
    }
    const int last = top - fraction > LOWEST ? top - fraction : LOWEST;
    const int drop = last - unit;
    if (drop > 0) {
        magnitude = drop > 63 ? 0 : magnitude >> drop << drop;
    }
    return scaled(magnitude, unit);
}

/* Whether a number among them is infinite or none. */
static bool any_special(const vm_sum *sum, float c)
{
    uint32_t most = vm_bits_f32(c) & 0x7fffffff;
    for (unsigned i = 0; i < sum->count; i++) {
        const uint32_t a = vm_bits_f32(sum->a[i]) & 0x7fffffff;
        const uint32_t b = vm_bits_f32(sum->b[i * sum->stride]) & 0x7fffffff;
        most = a > most ? a : most;
        most = b > most ? b : most;
    }
    return most >= 0x7f800000;
}

/* Such a sum. */
static float special_sum(const vm_sum *sum, float c)
{
    double special = (double)c;
    for (unsigned i = 0; i < sum->count; i++) {
        special += (double)sum->a[i] * (double)sum->b[i * sum->stride];
    }
    return isnan(special) ? vm_f32_bits(0x7fffffffu) : (float)special;
}

static float step(const vm_sum *sum, float c, unsigned fraction)
{
    term terms[TERMS_MAX];
    if (any_special(sum, c)) {
        return special_sum(sum, c);
    }
    const unsigned count = gather(terms, sum, c);
    int largest = terms[0].exponent;
    for (unsigned i = 1; i < count; i++) {
        largest = terms[i].exponent > largest ? terms[i].exponent : largest;
    }
    int64_t total = 0;
    for (unsigned i = 0; i < count; i++) {
        const int drop = PRODUCT - (int)fraction + largest - terms[i].exponent;
        const int64_t kept = drop > 63 ? 0 : (int64_t)(terms[i].significand >> drop);
        total += terms[i].negative ? -kept : kept;
    }
    const int unit = largest - (int)fraction;
    const uint64_t magnitude = (uint64_t)(total < 0 ? -total : total);
    const double value =
        sum->half ? scaled(magnitude, unit) : cut_to(magnitude, unit, sum->eight ? EIGHT : SINGLE);
    const double result = total < 0 ? -value : value;
    const float rounded = (float)(sum->half ? vm_f64_of_f16(vm_f16_of_f64(result, 0)) : result);
    return rounded != 0 ? rounded : 0.0f; /* the model knows no negative zero */
}

/* Up to Ada 128 bits of each operand's k are one step; from Hopper on the instruction is one. */
float vm_sums_add(const vm_sum *sum, float c)
{
    const bool early = capability < 90;
    const unsigned at_once = !early ? sum->count : sum->tf32 ? 4 : 8;
    for (unsigned k = 0; k < sum->count; k += at_once) {
        vm_sum part = *sum;
        part.a += k;
        part.b += k * sum->stride;
        part.count = at_once;
        c = step(&part, c, sum->eight ? EIGHT : early ? 24 : 25);
    }
    return c;
}
