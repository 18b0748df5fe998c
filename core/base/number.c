/* SPDX-License-Identifier: MIT */
/* Decimal text to numbers: the JSON grammar, and exact long arithmetic for the rounding. */
#include "core/base/number.h"

#include <string.h>

/* Room for 10^343 (1140 bits) and for a 64-bit mantissa times 10^308 (1088 bits), and one more bit
 * for the doubling in the division. */
enum { LIMBS = 38 };

typedef struct wide {
    uint32_t limb[LIMBS]; /* least significant first */
} wide;

static void wide_multiply(wide *number, uint32_t by)
{
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += (uint64_t)number->limb[i] * by;
        number->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static void wide_times_power_of_ten(wide *number, int power)
{
    for (; power >= 9; power -= 9) {
        wide_multiply(number, 1000000000u);
    }
    for (; power > 0; power--) {
        wide_multiply(number, 10);
    }
}

static int wide_bits(const wide *number)
{
    int top = LIMBS - 1;
    while (top > 0 && number->limb[top] == 0) {
        top--;
    }
    int bits = 32 * top;
    for (uint32_t rest = number->limb[top]; rest != 0; rest >>= 1) {
        bits++;
    }
    return bits;
}

static void wide_shift_left(wide *number, int by)
{
    for (; by >= 31; by -= 31) {
        wide_multiply(number, 0x80000000u);
    }
    wide_multiply(number, (uint32_t)1 << by);
}

static bool wide_offloaded(const wide *a, const wide *b)
{
    for (int i = LIMBS - 1; i >= 0; i--) {
        if (a->limb[i] != b->limb[i]) {
            return a->limb[i] < b->limb[i];
        }
    }
    return false;
}

/* a -= b, a >= b. */
static void wide_subtract(wide *a, const wide *b)
{
    uint64_t borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        uint64_t difference = (uint64_t)a->limb[i] - b->limb[i] - borrow;
        a->limb[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
}

/* Rounds quotient x 2^(exponent - 63), top bit of quotient set, plus a rest that is not zero when
 * `sticky`, to the bits of the nearest double, ties to even. */
static uint64_t round_to_double(uint64_t quotient, bool sticky, int exponent)
{
    int drop = 11;
    uint64_t base = (uint64_t)(exponent + 1022) << 52;
    if (exponent < -1022) {
        drop += -1022 - exponent;
        base = 0;
    }
    if (drop > 64) {
        return 0;
    }
    uint64_t kept = drop < 64 ? quotient >> drop : 0;
    uint64_t half = (uint64_t)1 << (drop - 1);
    uint64_t rest = quotient & (half | (half - 1));
    bool above = rest > half || (rest == half && (sticky || (kept & 1) != 0));
    /* For a normal number the leading bit of kept adds one to the exponent field; so may a carry.
     */
    return base + kept + (above ? 1 : 0);
}

/* mantissa x 10^power as the bits of a double; mantissa > 0, -343 <= power <= 308. */
static uint64_t bits_of_decimal(uint64_t mantissa, int power)
{
    wide top = {{(uint32_t)mantissa, (uint32_t)(mantissa >> 32)}};
    wide bottom = {{1}};
    wide_times_power_of_ten(power > 0 ? &top : &bottom, power > 0 ? power : -power);
    int exponent = wide_bits(&top) - wide_bits(&bottom);
    wide_shift_left(exponent > 0 ? &bottom : &top, exponent > 0 ? exponent : -exponent);
    if (wide_offloaded(&top, &bottom)) {
        wide_shift_left(&top, 1);
        exponent--;
    }
    /* Now 1 <= top / bottom < 2; long division, one bit at a time. */
    uint64_t quotient = 0;
    for (int i = 0; i < 64; i++) {
        quotient <<= 1;
        if (!wide_offloaded(&top, &bottom)) {
            wide_subtract(&top, &bottom);
            quotient |= 1;
        }
        wide_shift_left(&top, 1);
    }
    static const wide zero;
    return round_to_double(quotient, wide_offloaded(&zero, &top), exponent);
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Powers of ten that a double holds exactly. */
enum { EXACT_POWERS = 23 };
static const double exact_power[EXACT_POWERS] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* The common case: both factors are exact, so that one operation rounds once. */
static bool real_is_short(uint64_t mantissa, int64_t power, double *real)
{
    if (mantissa > (uint64_t)1 << 53 || power <= -EXACT_POWERS || power >= EXACT_POWERS) {
        return false;
    }
    double whole = (double)mantissa;
    *real = power < 0 ? whole / exact_power[-power] : whole * exact_power[power];
    return true;
}

static bp_status real_of(uint64_t mantissa, int64_t power, double *real)
{
    if (real_is_short(mantissa, power, real)) {
        return BP_OK;
    }
    /* 10^19 x 10^-344 is below half of the least subnormal. */
    if (mantissa == 0 || power < -343) {
        *real = 0.0;
        return BP_OK;
    }
    uint64_t infinity = (uint64_t)0x7ff << 52;
    uint64_t bits = power > 308 ? infinity : bits_of_decimal(mantissa, (int)power);
    *real = double_of(bits);
    return bits >= infinity ? BP_ERR_OVERFLOW : BP_OK;
}

/* What the grammar has taken so far. */
typedef struct scan {
    const char *at;
    const char *end;
    uint64_t mantissa; /* the first 19 significant digits */
    int taken;         /* how many of them there are */
    int64_t power;     /* of ten, that the mantissa is to be multiplied with */
    bool plain;        /* neither fraction nor exponent so far */
} scan;

static bool is_digit(const scan *s)
{
    return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

/* Digits of the mantissa; false if there is none. `step` is -1 behind the point. */
static bool scan_digits(scan *s, int step)
{
    const char *start = s->at;
    for (; is_digit(s); s->at++) {
        if (s->taken < 19) {
            s->mantissa = s->mantissa * 10 + (uint64_t)(*s->at - '0');
            s->taken += s->mantissa != 0 ? 1 : 0;
            s->power += step;
        } else {
            s->power += step + 1; /* a digit that is cut */
        }
    }
    return s->at > start;
}

static bool scan_exponent(scan *s)
{
    bool negative = s->at < s->end && *s->at == '-';
    if (s->at < s->end && (*s->at == '-' || *s->at == '+')) {
        s->at++;
    }
    const char *start = s->at;
    int64_t exponent = 0;
    for (; is_digit(s); s->at++) {
        if (exponent < INT32_MAX) {
            exponent = exponent * 10 + (*s->at - '0');
        }
    }
    s->power += negative ? -exponent : exponent;
    return s->at > start;
}

static bool scan_number(scan *s)
{
    bool zero = s->at < s->end && *s->at == '0';
    if (zero) {
        s->at++;
        if (is_digit(s)) {
            return false; /* a leading zero */
        }
    } else if (!scan_digits(s, 0)) {
        return false;
    }
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        s->plain = false;
        if (!scan_digits(s, -1)) {
            return false;
        }
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        s->at++;
        s->plain = false;
        if (!scan_exponent(s)) {
            return false;
        }
    }
    return s->at == s->end;
}

bp_status bp_number_parse(const char *text, size_t length, bp_number *number)
{
    scan s = {.at = text, .end = text + length, .plain = true};
    number->integer = false;
    number->i64 = 0;
    number->real = 0.0;
    number->negative = length > 0 && text[0] == '-';
    s.at += number->negative ? 1 : 0;
    if (!scan_number(&s)) {
        return BP_ERR_DATA;
    }
    BP_TRY(real_of(s.mantissa, s.power, &number->real));
    uint64_t most = (uint64_t)INT64_MAX + (number->negative ? 1 : 0);
    if (s.plain && s.power == 0 && s.mantissa <= most) {
        number->integer = true;
        /* Minus in unsigned arithmetic: the least integer has no positive counterpart. */
        uint64_t bits = number->negative ? 0 - s.mantissa : s.mantissa;
        memcpy(&number->i64, &bits, sizeof bits);
    }
    number->real = number->negative ? -number->real : number->real;
    return BP_OK;
}

void bp_number_put(bp_text *text, double value)
{
    char digits[40];
    bp_number number;
    unsigned significant = 1;
    do {
        bp_text one;
        bp_text_init(&one, NULL, NULL, digits, sizeof digits);
        bp_text_general(&one, value, significant++);
        const bp_status fits = bp_text_flush(&one);
        const bp_status reads = bp_number_parse(digits, strlen(digits), &number);
        (void)fits; /* 17 digits fit, and what was written is a number */
        (void)reads;
    } while (significant <= 17 && number.real != value);
    bp_text_string(text, digits);
    bp_text_string(text, strpbrk(digits, ".e") == NULL ? ".0" : "");
}

bool bp_number_whole(double number, double least, double most, int64_t *value)
{
    if (!(number >= least && number <= most) || (double)(int64_t)number != number) {
        return false;
    }
    *value = (int64_t)number;
    return true;
}
