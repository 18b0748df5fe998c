/* SPDX-License-Identifier: MIT */
/* How alike two answers are, by the rules of SQuAD's evaluation: lower case, without punctuation
 * and the articles a, an and the, words parted by white space. */
#ifndef BP_FORMATS_ANSWER_SCORE_H
#define BP_FORMATS_ANSWER_SCORE_H

#include "core/base/error.h"

/* An answer as it is compared: its words, each ended by a space. Longer ones are cut. */
#define BP_ANSWER_BYTES 65536
typedef struct bp_plain_answer {
    size_t bytes;
    uint32_t words;
    char text[BP_ANSWER_BYTES];
} bp_plain_answer;

/* text is UTF-8. */
void bp_plain_answer_of(const char *text, size_t length, bp_plain_answer *plain);

/* 1 where both have the same words in the same order, else 0. */
double bp_answer_exact(const bp_plain_answer *a, const bp_plain_answer *b);

/* The harmonic mean of how many words of each are in the other one, counted as often as both have
 * them; where one has no word it is 1 if neither has. Cost: the product of the numbers of words. */
double bp_answer_f1(const bp_plain_answer *a, const bp_plain_answer *b);

#endif
