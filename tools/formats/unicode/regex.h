/* SPDX-License-Identifier: MIT */
/* Regular expressions of Python, as configurations name modules with them: does the whole of a text
 * match (re.fullmatch)?
 *
 * Understood are literals, ., classes, \d \w \s and their opposites, escapes of punctuation, groups
 * ( ), (?: ) and (?P<name> ), |, the repeats * + ? {m} {m,} {,n} {m,n} and their lazy forms, ^ and
 * $. Look-around, back references, word boundaries and flags are refused. Texts are bytes. All
 * states are followed at once (Thompson, CACM 11(6), 1968): the cost is a text's length times the
 * states, whatever the expression. */
#ifndef BP_FORMATS_REGEX_H
#define BP_FORMATS_REGEX_H

#include "arena/base.h"

#define BP_REGEX_STATES 512
#define BP_REGEX_SETS   48

typedef struct bp_regex_state {
    uint8_t kind;
    uint8_t set;     /* of the bytes that it takes */
    uint16_t out[2]; /* where it goes on */
} bp_regex_state;

/* An expression; a plain record. */
typedef struct bp_regex {
    bp_regex_state states[BP_REGEX_STATES];
    uint32_t sets[BP_REGEX_SETS][8]; /* a bit for each byte */
    uint16_t state_count;
    uint16_t set_count;
    uint16_t start;
} bp_regex;

/* NULL, or what is wrong with the expression, or not implemented: a static text. */
const char *bp_regex_make(bp_regex *regex, const char *pattern) BP_MUST_CHECK;

/* Whether all of the text matches. */
bool bp_regex_matches(const bp_regex *regex, const char *text, size_t length);

#endif
