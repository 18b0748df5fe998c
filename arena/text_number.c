/* SPDX-License-Identifier: MIT */
/* A text writer: floating-point numbers, correctly rounded, without libc. */
#include "arena/text.h"

#include <string.h>

/* A finite double is m x 2^e with a 53-bit m. For e < 0 that is m x 5^-e / 10^-e, so every double
 * is an integer of at most 768 digits over a power of ten. Its digits are formed exactly, then
 * rounded once where the format ends: no approximation, no table. */
enum {
    LIMBS = 86,         /* of nine decimal digits: 774 >= 768, and 309 for the largest double */
    DIGITS = LIMBS * 9, /* all digits of the exact value */
    MOST = 60,          /* decimals or significant digits at most */
    FIELD = 309 + MOST + 4
};

typedef struct decimal {
    char digit[DIGITS +
               1]; /* '0'..'9', most significant first; the value is 0.d1d2d3... x 10^point */
    int count;     /* digits in use, 0 for the value zero; the first one is not '0' */
    int point;     /* how many digits stand before the decimal point; may be negative */
} decimal;

/* Where a number's characters are collected before they go out. */
typedef struct field {
    char text[FIELD];
    size_t length;
} field;

static void limbs_multiply(uint32_t limbs[LIMBS], int *count, uint32_t by)
{
    uint64_t carry = 0;
    for (int i = 0; i < *count; i++) {
        uint64_t product = (uint64_t)limbs[i] * by + carry;
        limbs[i] = (uint32_t)(product % 1000000000u);
        carry = product / 1000000000u;
    }
    while (carry != 0) {
        limbs[(*count)++] = (uint32_t)(carry % 1000000000u);
        carry /= 1000000000u;
    }
}

/* limbs *= base^power, `chunk` powers at a time, chunk_value = base^chunk < 2^32. */
static void limbs_power(uint32_t limbs[LIMBS], int *count, int power, uint32_t base)
{
    int chunk = base == 5 ? 13 : 31;
    uint32_t chunk_value = base == 5 ? 1220703125u : 2147483648u;
    for (; power >= chunk; power -= chunk) {
        limbs_multiply(limbs, count, chunk_value);
    }
    for (; power > 0; power--) {
        limbs_multiply(limbs, count, base);
    }
}

/* The exact decimal digits of a finite, non-negative value. */
static void decimal_from(decimal *number, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t mantissa = bits & 0xfffffffffffffu;
    int exponent = (int)(bits >> 52 & 0x7ff);
    if (exponent == 0) {
        exponent = 1; /* subnormal: the same scale as the least normal, without the hidden bit */
    } else {
        mantissa |= (uint64_t)1 << 52;
    }
    exponent -= 1075;
    uint32_t limbs[LIMBS] = {0};
    int count = 0;
    for (uint64_t rest = mantissa; rest != 0; rest /= 1000000000u) {
        limbs[count++] = (uint32_t)(rest % 1000000000u);
    }
    limbs_power(limbs, &count, exponent < 0 ? -exponent : exponent, exponent < 0 ? 5 : 2);
    number->count = 0;
    for (int i = count - 1; i >= 0; i--) {
        for (uint32_t scale = 100000000u; scale != 0; scale /= 10) {
            char digit = (char)('0' + limbs[i] / scale % 10);
            if (number->count > 0 || digit != '0') {
                number->digit[number->count++] = digit;
            }
        }
    }
    number->point = number->count + (exponent < 0 ? exponent : 0);
}

/* Whether the digits from `keep` on are worth a step upwards: more than half, or half and odd. */
static bool decimal_rounds_up(const decimal *number, int keep)
{
    if (keep >= number->count || number->digit[keep] != '5') {
        return keep < number->count && number->digit[keep] > '5';
    }
    for (int i = keep + 1; i < number->count; i++) {
        if (number->digit[i] != '0') {
            return true;
        }
    }
    return keep > 0 && (number->digit[keep - 1] - '0') % 2 == 1;
}

/* Rounds to the first `keep` digits, ties to even. keep < 0 stands left of the first digit, where
 * even the largest rest is below a half. */
static void decimal_round(decimal *number, int keep)
{
    if (keep < 0) {
        number->count = 0;
        return;
    }
    bool up = decimal_rounds_up(number, keep);
    number->count = keep < number->count ? keep : number->count;
    if (!up) {
        return;
    }
    int last = number->count - 1;
    while (last >= 0 && number->digit[last] == '9') {
        last--;
    }
    if (last < 0) {
        /* All nines, or nothing kept: 0.9995 becomes 1.000, one digit further left. */
        number->digit[0] = '1';
        number->count = 1;
        number->point++;
        return;
    }
    number->digit[last]++;
    number->count = last + 1;
}

static char decimal_digit(const decimal *number, int index)
{
    return index >= 0 && index < number->count ? number->digit[index] : '0';
}

static void field_char(field *out, char character)
{
    out->text[out->length++] = character;
}

/* The digits in the form 123.456 with that many decimals. */
static void field_plain(field *out, const decimal *number, int decimals)
{
    int point = number->count == 0 ? 0 : number->point;
    if (point <= 0) {
        field_char(out, '0');
    }
    for (int i = 0; i < point; i++) {
        field_char(out, decimal_digit(number, i));
    }
    if (decimals > 0) {
        field_char(out, '.');
    }
    for (int i = 0; i < decimals; i++) {
        field_char(out, decimal_digit(number, point + i));
    }
}

/* The digits in the form 1.23e-05; exponent has at least two digits as C prints it. */
static void field_exponent(field *out, const decimal *number)
{
    field_char(out, number->digit[0]);
    if (number->count > 1) {
        field_char(out, '.');
    }
    for (int i = 1; i < number->count; i++) {
        field_char(out, number->digit[i]);
    }
    int exponent = number->point - 1;
    field_char(out, 'e');
    field_char(out, exponent < 0 ? '-' : '+');
    exponent = exponent < 0 ? -exponent : exponent;
    if (exponent >= 100) {
        field_char(out, (char)('0' + exponent / 100));
    }
    field_char(out, (char)('0' + exponent / 10 % 10));
    field_char(out, (char)('0' + exponent % 10));
}

/* Writes the sign and, for what is not finite, the word; true if digits remain to be written. */
static bool field_begin(field *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    out->length = 0;
    bool finite = (bits >> 52 & 0x7ff) != 0x7ff;
    bool nan = !finite && (bits & 0xfffffffffffffu) != 0;
    if (bits >> 63 != 0 && !nan) {
        field_char(out, '-');
    }
    const char *word = finite ? "" : nan ? "nan" : "inf";
    for (; *word != '\0'; word++) {
        field_char(out, *word);
    }
    return finite;
}

static void field_fixed(field *out, double value, unsigned decimals)
{
    if (!field_begin(out, value)) {
        return;
    }
    int places = decimals < MOST ? (int)decimals : MOST;
    decimal number;
    decimal_from(&number, value);
    decimal_round(&number, number.point + places);
    field_plain(out, &number, places);
}

void bp_text_fixed(bp_text *text, double value, unsigned decimals)
{
    field out;
    field_fixed(&out, value, decimals);
    bp_text_bytes(text, out.text, out.length);
}

void bp_text_fixed_padded(bp_text *text, double value, unsigned decimals, size_t width)
{
    field out;
    field_fixed(&out, value, decimals);
    bp_text_repeat(text, ' ', width > out.length ? width - out.length : 0);
    bp_text_bytes(text, out.text, out.length);
}

void bp_text_general(bp_text *text, double value, unsigned significant)
{
    field out;
    if (field_begin(&out, value)) {
        int places = significant < MOST ? (int)significant : MOST;
        places = places == 0 ? 1 : places;
        decimal number;
        decimal_from(&number, value);
        decimal_round(&number, places);
        while (number.count > 0 && number.digit[number.count - 1] == '0') {
            number.count--;
        }
        /* The rule of C: exponent form below 1e-4 and from 10^places on. */
        bool plain = number.count == 0 || (number.point > -4 && number.point <= places);
        if (plain) {
            int decimals = number.count - number.point;
            field_plain(&out, &number, number.count == 0 || decimals < 0 ? 0 : decimals);
        } else {
            field_exponent(&out, &number);
        }
    }
    bp_text_bytes(text, out.text, out.length);
}

void bp_text_json_number(bp_text *text, double value, unsigned significant)
{
    if (value - value != 0.0) {
        bp_text_string(text, "null");
        return;
    }
    bp_text_general(text, value, significant);
}
