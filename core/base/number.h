/* SPDX-License-Identifier: MIT */
/* Decimal text to numbers, independent of any locale. */
#ifndef BP_CORE_NUMBER_H
#define BP_CORE_NUMBER_H

#include "arena/text.h"

typedef struct bp_number {
    bool integer;  /* no fraction, no exponent, and the value fits int64_t */
    int64_t i64;   /* the value when integer, else 0 */
    double real;   /* the value as a double, always */
    bool negative; /* a minus sign was there, "-0" included */
} bp_number;

/* Reads the whole of text[0..length) as a number in the grammar of JSON (RFC 8259 section 6):
 *     -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
 * real is correctly rounded (ties to even) for up to 19 significant digits; digits beyond those are
 * cut, which adds less than 2^-10 units in the last place to the error. Too small a magnitude
 * becomes a subnormal or zero. BP_ERR_DATA: not a number in this grammar. BP_ERR_OVERFLOW: the
 * magnitude is above the largest double. */
bp_status bp_number_parse(const char *text, size_t length, bp_number *number) BP_MUST_CHECK;

/* A finite number in the fewest digits, up to 17, that read back as the same double, with a point
 * or an exponent, so that it stays no integer: 0.1, 1.0, 1e-05. Cost: as many readings as digits.
 */
void bp_number_put(bp_text *text, double value);

/* A number of a file as an integer: true where it is whole and within least .. most, which lie
 * within 2^53 of zero. What is none, NaN too, leaves *value. The one cast of such numbers. */
bool bp_number_whole(double number, double least, double most, int64_t *value);

#endif
