/* SPDX-License-Identifier: MIT */
/* Regular expressions in linear time: a set of states is kept for each byte (Thompson 1968), so no
 * text and no pattern makes a search slow. There are no references to groups, for they cannot be
 * found so. */
#ifndef BP_BEDPLATE_PATTERN_H
#define BP_BEDPLATE_PATTERN_H

#include "core/base/error.h"

#define PATTERN_STATES 512 /* of a compiled pattern */
#define PATTERN_SETS   48  /* different sets of bytes in it */
#define PATTERN_DEPTH  32  /* groups that may be open at once */

typedef struct pattern_state {
    uint8_t kind;
    uint8_t set;   /* of bytes */
    int16_t next;  /* of a jump or fork: from here */
    int16_t other; /* the second way of a fork */
} pattern_state;

typedef struct pattern {
    uint32_t count; /* of states */
    uint32_t set_count;
    pattern_state states[PATTERN_STATES];
    uint32_t sets[PATTERN_SETS][8]; /* 256 bits each */
} pattern;

/* Compiles bytes . [..] [^..] \d \w \s \D \W \S \n \t \r ^ $ ( ) (?: ) | * + ? {m} {m,} {m,n}; . is
 * any byte, ^ and $ are the ends of the whole text. A ? behind a repetition is taken, for it
 * changes no answer. BP_ERR_USAGE: what is wrong, with its byte as what was found. */
bp_status pattern_compile(pattern *compiled, const char *text, bp_error *error) BP_MUST_CHECK;

/* Whether the pattern matches somewhere in the text. O(bytes x states). */
bool pattern_search(const pattern *compiled, const char *text, size_t bytes);

#endif
