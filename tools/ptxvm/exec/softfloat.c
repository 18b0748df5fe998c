/* SPDX-License-Identifier: MIT */
/* Directed rounding by exact remainders, and conversions to the half formats by integers. */
#include "tools/ptxvm/exec/softfloat.h"

/* ---- error-free parts ---- */

/* Knuth's two-sum: a + b = *sum + the returned error, exactly, barring overflow. */
static double two_sum(double a, double b, double *sum)
{
    double s = a + b;
    double t = s - a;
    *sum = s;
    return (a - (s - t)) + (b - t);
}

/* The sign of an exact sum of up to four doubles: an expansion is grown one term at a time
 * (Shewchuk 1997, theorem 10); its last non-zero component has the sum's sign. */
static int sign_of_sum(const double *terms, int count)
{
    double parts[4] = {0};
    int used = 0;
    for (int i = 0; i < count; i++) {
        double carry = terms[i];
        for (int j = 0; j < used; j++) {
            parts[j] = two_sum(parts[j], carry, &carry);
        }
        parts[used++] = carry;
    }
    for (int j = used - 1; j >= 0; j--) {
        if (parts[j] != 0.0) {
            return parts[j] > 0.0 ? 1 : -1;
        }
    }
    return 0;
}

/* One step towards an infinity on the line of floats. */
static float step_f32(float value, bool up)
{
    uint32_t bits = vm_bits_f32(value);
    if ((bits & 0x7fffffffu) == 0) {
        return vm_f32_bits(up ? 1u : 0x80000001u);
    }
    bool away = ((bits >> 31) == 0) == up;
    return vm_f32_bits(away ? bits + 1 : bits - 1);
}

static double step_f64(double value, bool up)
{
    uint64_t bits = vm_bits_f64(value);
    if ((bits & 0x7fffffffffffffffull) == 0) {
        return vm_f64_bits(up ? 1ull : 0x8000000000000001ull);
    }
    bool away = ((bits >> 63) == 0) == up;
    return vm_f64_bits(away ? bits + 1 : bits - 1);
}

/* Whether a result that differs from the exact one (exact - result has this sign) must move, and
 * which way: 0, 1 up, -1 down. negative: the exact value's sign. */
static int correction(unsigned round, int difference, bool negative)
{
    if (difference == 0) {
        return 0;
    }
    bool want_down = round == VR_RM || (round == VR_RZ && !negative);
    bool want_up = round == VR_RP || (round == VR_RZ && negative);
    if (want_down && difference < 0) {
        return -1;
    }
    return want_up && difference > 0 ? 1 : 0;
}

float vm_round_f32(double high, double low, unsigned round)
{
    float nearest = (float)high;
    if (round == VR_RN || !isfinite(high)) {
        return nearest;
    }
    int difference = 0;
    if (isinf(nearest)) {
        difference = nearest > 0 ? -1 : 1;
    } else {
        double terms[3] = {high, low, -(double)nearest};
        difference = sign_of_sum(terms, 3);
    }
    int move = correction(round, difference, high < 0 || (high == 0 && low < 0));
    return move == 0 ? nearest : step_f32(nearest, move > 0);
}

static double correct_f64(double nearest, int difference, bool negative, unsigned round)
{
    if (isinf(nearest)) {
        difference = nearest > 0 ? -1 : 1;
        negative = nearest < 0;
    }
    int move = correction(round, difference, negative);
    return move == 0 ? nearest : step_f64(nearest, move > 0);
}

/* ---- f32 ---- */

float vm_finish_f32(float value, unsigned how)
{
    if (value != value) {
        return (how & (VF_SAT | VF_RELU)) != 0 && (how & VF_RELU) == 0 ? 0.0f
                                                                       : vm_f32_bits(0x7fffffffu);
    }
    value = vm_flush_f32(value, how);
    if ((how & VF_SAT) != 0) {
        value = value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f;
    }
    if ((how & VF_RELU) != 0) {
        value = value > 0.0f ? value : 0.0f;
    }
    return value;
}

/* The exact a * b + c as two doubles; a product of floats is exact in a double. */
static float fused(double a, double b, double c, unsigned how)
{
    unsigned round = how & VF_ROUND_MASK;
    double product = a * b;
    double sum;
    double low = two_sum(product, c, &sum);
    if (sum == 0.0 && low == 0.0 && isfinite(product) && isfinite(c)) {
        bool both = signbit(product) != 0 && signbit(c) != 0;
        bool either = signbit(product) != 0 || signbit(c) != 0;
        bool exact_zeros = product == 0.0 && c == 0.0;
        bool down = round == VR_RM && (exact_zeros ? either : true);
        return both || down ? -0.0f : 0.0f;
    }
    return vm_round_f32(sum, isfinite(sum) ? low : 0.0, round);
}

float vm_slow_fma_f32(float a, float b, float c, unsigned how)
{
    float x = vm_flush_f32(a, how), y = vm_flush_f32(b, how), z = vm_flush_f32(c, how);
    float r = (how & VF_ROUND_MASK) == VR_RN ? fmaf(x, y, z)
                                             : fused((double)x, (double)y, (double)z, how);
    return vm_finish_f32(r, how);
}

float vm_slow_add_f32(float a, float b, unsigned how)
{
    float x = vm_flush_f32(a, how), y = vm_flush_f32(b, how);
    float r = (how & VF_ROUND_MASK) == VR_RN ? x + y : fused(1.0, (double)x, (double)y, how);
    return vm_finish_f32(r, how);
}

float vm_slow_sub_f32(float a, float b, unsigned how)
{
    return vm_slow_add_f32(a, b != b ? b : -b, how);
}

float vm_slow_mul_f32(float a, float b, unsigned how)
{
    float x = vm_flush_f32(a, how), y = vm_flush_f32(b, how);
    float r = vm_round_f32((double)x * (double)y, 0.0, how & VF_ROUND_MASK);
    return vm_finish_f32(r, how);
}

float vm_slow_div_f32(float a, float b, unsigned how)
{
    float x = vm_flush_f32(a, how), y = vm_flush_f32(b, how);
    unsigned round = how & VF_ROUND_MASK;
    float nearest = x / y;
    if (round != VR_RN && isfinite(x) && isfinite(y) && y != 0.0f && x != 0.0f) {
        int difference = nearest > 0 ? -1 : 1;
        if (isfinite(nearest)) {
            /* x - q * y is exact in sign, being fused in double. */
            double rest = fma(-(double)nearest, (double)y, (double)x);
            difference = rest == 0 ? 0 : ((rest > 0) == (y > 0) ? 1 : -1);
        }
        int move = correction(round, difference, (x < 0) != (y < 0));
        nearest = move == 0 ? nearest : step_f32(nearest, move > 0);
    }
    return vm_finish_f32(nearest, how);
}

float vm_slow_sqrt_f32(float a, unsigned how)
{
    float x = vm_flush_f32(a, how);
    float nearest = sqrtf(x);
    if ((how & VF_ROUND_MASK) != VR_RN && isfinite(nearest) && nearest > 0) {
        double rest = fma(-(double)nearest, (double)nearest, (double)x);
        int move = correction(how & VF_ROUND_MASK, rest > 0 ? 1 : (rest < 0 ? -1 : 0), false);
        nearest = move == 0 ? nearest : step_f32(nearest, move > 0);
    }
    return vm_finish_f32(nearest, how);
}

/* ---- f64: remainders are taken of scaled operands where they would underflow ---- */

static const double tiny = 0x1p-300;

/* The sign of a * b + c - r, exactly. */
static int sign_of_remainder(double a, double b, double c, double r)
{
    double product = a * b;
    if (fabs(product) < tiny && fabs(c) < tiny) {
        /* The smaller factor has room to grow. */
        double *small = fabs(a) < fabs(b) ? &a : &b;
        *small *= 0x1p600;
        c *= 0x1p600;
        r *= 0x1p600;
        product = a * b;
    }
    if (fabs(product) < 0x1p-900 && a != 0.0 && b != 0.0) {
        /* Far below the last place of c or r: only its sign counts. */
        double terms[3] = {signbit(a) != signbit(b) ? -0x1p-1074 : 0x1p-1074, c, -r};
        return sign_of_sum(terms, 3);
    }
    double terms[4] = {product, fma(a, b, -product), c, -r};
    return sign_of_sum(terms, 4);
}

double vm_slow_fma_f64(double a, double b, double c, unsigned how)
{
    unsigned round = how & VF_ROUND_MASK;
    double nearest = fma(a, b, c);
    bool exact_zeros = (a == 0.0 || b == 0.0) && c == 0.0;
    if (round == VR_RN || nearest != nearest || !isfinite(a) || !isfinite(b) || !isfinite(c)) {
        return nearest;
    }
    if (exact_zeros) {
        bool product = (signbit(a) != 0) != (signbit(b) != 0);
        return round == VR_RM && product != (signbit(c) != 0) ? -0.0 : nearest;
    }
    int difference = isfinite(nearest) && isfinite(a * b) ? sign_of_remainder(a, b, c, nearest) : 0;
    if (nearest == 0.0 && difference == 0) {
        return round == VR_RM ? -0.0 : 0.0; /* exact cancellation */
    }
    bool negative = nearest == 0.0 ? difference < 0 : nearest < 0;
    return correct_f64(nearest, difference, negative, round);
}

double vm_slow_add_f64(double a, double b, unsigned how)
{
    return vm_slow_fma_f64(1.0, a, b, how);
}

double vm_slow_sub_f64(double a, double b, unsigned how)
{
    return vm_slow_fma_f64(1.0, a, b != b ? b : -b, how);
}

double vm_slow_mul_f64(double a, double b, unsigned how)
{
    double nearest = a * b;
    if (a == 0.0 || b == 0.0 || !isfinite(a) || !isfinite(b)) {
        return nearest;
    }
    int difference = isfinite(nearest) ? sign_of_remainder(a, b, 0.0, nearest) : 0;
    bool negative = (a < 0) != (b < 0);
    return correct_f64(nearest, difference, negative, how & VF_ROUND_MASK);
}

double vm_slow_div_f64(double a, double b, unsigned how)
{
    double nearest = a / b;
    if (a == 0.0 || !isfinite(a) || !isfinite(b) || b == 0.0) {
        return nearest;
    }
    int difference = 0;
    if (nearest == 0) {
        difference = (a < 0) != (b < 0) ? -1 : 1;
    } else if (isfinite(nearest)) {
        /* b becomes large enough that no product with the quotient is subnormal. */
        int shift = (fabs(nearest) < 0x1p400 ? 500 : 0) - ilogb(b);
        double rest = fma(-nearest, scalbn(b, shift), scalbn(a, shift));
        difference = rest == 0 ? 0 : ((rest > 0) == (b > 0) ? 1 : -1);
    }
    return correct_f64(nearest, difference, (a < 0) != (b < 0), how & VF_ROUND_MASK);
}

double vm_slow_sqrt_f64(double a, unsigned how)
{
    double nearest = sqrt(a);
    if (!(nearest > 0) || !isfinite(nearest)) {
        return nearest;
    }
    bool small = a < 0x1p-500;
    double root = small ? nearest * 0x1p300 : nearest;
    double rest = fma(-root, root, small ? a * 0x1p600 : a);
    return correct_f64(nearest, rest > 0 ? 1 : (rest < 0 ? -1 : 0), false, how & VF_ROUND_MASK);
}

double vm_add_odd(double a, double b)
{
    double sum;
    double low = two_sum(a, b, &sum);
    if (low == 0.0 || !isfinite(sum) || (vm_bits_f64(sum) & 1) != 0) {
        return sum;
    }
    return step_f64(sum, low > 0);
}

/* ---- half formats ---- */

/* Whether the kept magnitude grows by one, given the bits below it. */
static bool rounds_up(unsigned round, bool negative, bool odd, uint64_t rest, uint64_t half)
{
    switch (round) {
    case VR_RZ:
        return false;
    case VR_RM:
        return negative && rest != 0;
    case VR_RP:
        return !negative && rest != 0;
    case VR_RNA:
        return rest >= half;
    default:
        return rest > half || (rest == half && odd);
    }
}

/* A double into a 16-bit format of `fraction` fraction bits, largest exponent field `top` and bias
 * `bias`. Saturation (to the largest finite) and .relu follow the flags. */
static uint16_t narrow(double value, unsigned how, int fraction, int top, int bias)
{
    unsigned round = how & VF_ROUND_MASK;
    uint64_t bits = vm_bits_f64(value);
    bool negative = (bits >> 63) != 0;
    uint16_t sign = (uint16_t)(negative ? 0x8000u : 0u);
    if (value != value) {
        return 0x7fffu;
    }
    if ((how & VF_RELU) != 0 && negative) {
        return 0;
    }
    uint16_t infinity = (uint16_t)((unsigned)top << fraction);
    if (isinf(value)) {
        return (uint16_t)(sign | ((how & VF_SAT) != 0 ? infinity - 1 : infinity));
    }
    if (value == 0.0) {
        return sign;
    }
    /* A subnormal double is far below half of either format's least subnormal. */
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t whole = (bits & 0xfffffffffffffull) | 1ull << 52;
    int field = exponent - 1023 + bias;
    int drop = 52 - fraction + (field < 1 ? 1 - field : 0);
    if (drop > 62) {
        drop = 62; /* far below half of the least subnormal, yet not zero */
    }
    uint64_t kept = whole >> drop;
    uint64_t rest = whole & ((1ull << drop) - 1);
    kept += rounds_up(round, negative, (kept & 1) != 0, rest, 1ull << (drop - 1)) ? 1 : 0;
    /* For a normal number the leading bit adds one to the exponent field. */
    uint64_t pattern = field < 1 ? kept : kept + ((uint64_t)(field - 1) << fraction);
    if (pattern >= infinity) {
        bool toward = (how & VF_SAT) != 0 || round == VR_RZ || (round == VR_RM && !negative) ||
                      (round == VR_RP && negative);
        pattern = toward ? infinity - 1u : infinity;
    }
    return (uint16_t)(sign | pattern);
}

uint16_t vm_f16_of_f64(double value, unsigned how)
{
    return narrow(value, how, 10, 31, 15);
}

uint16_t vm_bf16_of_f64(double value, unsigned how)
{
    return narrow(value, how, 7, 255, 127);
}

/* tf32 keeps 10 fraction bits of an f32; the low 13 become zero. */
uint32_t vm_tf32_of_f32(float value, unsigned how)
{
    uint32_t bits = vm_bits_f32(value);
    if (value != value) {
        return 0x7fffffffu;
    }
    bool negative = (bits >> 31) != 0;
    if ((how & VF_RELU) != 0 && negative) {
        return 0;
    }
    uint32_t rest = bits & 0x1fffu;
    uint32_t kept = bits & ~0x1fffu;
    if ((bits & 0x7f800000u) != 0x7f800000u &&
        rounds_up(how & VF_ROUND_MASK, negative, ((bits >> 13) & 1) != 0, rest, 0x1000u)) {
        kept += 0x2000u;
    }
    return kept;
}

float vm_f32_of_e4m3(uint8_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x80u) << 24;
    const uint32_t exponent = bits >> 3 & 15, fraction = bits & 7;
    if (exponent == 15 && fraction == 7) {
        return vm_f32_bits(0x7fffffffu);
    }
    if (exponent == 0) { /* multiples of 2^-9 */
        const float value = (float)fraction * 0x1p-9f;
        return vm_f32_bits(vm_bits_f32(value) | sign);
    }
    return vm_f32_bits(sign | (exponent + 120) << 23 | fraction << 20);
}
