/* SPDX-License-Identifier: MIT */
/* The words in which a text differs from what was said: the least number of words put in, left out
 * or replaced (Levenshtein 1966), of which the word error rate is a share. */
#ifndef BP_FORMATS_WORD_ERRORS_H
#define BP_FORMATS_WORD_ERRORS_H

#include "arena/base.h"

/* How words are made of a text: separated by white space as they are; or, before that, in small
 * letters, without what stands in brackets, and with a space for punctuation and symbols. */
typedef enum bp_word_form { BP_WORDS_NONE, BP_WORDS_BASIC } bp_word_form;

/* Writes the text's form to `to`, room for 4 * length + 1 bytes, and returns its bytes. The text is
 * UTF-8. */
size_t bp_words_normalise(bp_word_form form, const char *text, size_t length, char *to);

/* Words of a text. */
size_t bp_words_count(const char *text, size_t length);

/* The errors of `heard` to `said`; row: bp_words_count(heard) + 1 numbers. Cost: the product of
 * their words. */
size_t bp_words_errors(const char *said, size_t said_length, const char *heard, size_t heard_length,
                       size_t *row);

#endif
