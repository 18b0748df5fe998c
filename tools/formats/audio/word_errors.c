/* SPDX-License-Identifier: MIT */
/* Words and their errors. */
#include "tools/formats/audio/word_errors.h"

#include <string.h>

#include "tools/formats/unicode/unicode.h"

static bool words_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next word from *at on; false: there is none. */
static bool words_next(const char *text, size_t length, size_t *at, const char **word,
                       size_t *bytes)
{
    size_t i = *at;
    while (i < length && words_space(text[i])) {
        i++;
    }
    const size_t begin = i;
    while (i < length && !words_space(text[i])) {
        i++;
    }
    *at = i;
    *word = text + begin;
    *bytes = i - begin;
    return i > begin;
}

size_t bp_words_count(const char *text, size_t length)
{
    const char *word;
    size_t at = 0, bytes, count = 0;
    while (words_next(text, length, &at, &word, &bytes)) {
        count++;
    }
    return count;
}

/* The end of what a bracket opens, or where it stands. */
static size_t words_bracket(const char *text, size_t length, size_t at)
{
    const bool round = text[at] == '(';
    for (size_t i = at + 1; i < length; i++) {
        if (round ? text[i] == ')' : text[i] == ']' || text[i] == '>') {
            return i > at + 1 || !round ? i + 1 : at;
        }
    }
    return at;
}

size_t bp_words_normalise(bp_word_form form, const char *text, size_t length, char *to)
{
    size_t used = 0;
    if (form == BP_WORDS_NONE) {
        memcpy(to, text, length);
        return length;
    }
    for (size_t i = 0; i < length;) {
        const bool opens = text[i] == '(' || text[i] == '[' || text[i] == '<';
        const size_t behind = opens ? words_bracket(text, length, i) : i;
        if (behind > i) {
            i = behind;
            continue;
        }
        size_t bytes = 0;
        const uint32_t c = bp_utf8_get((const unsigned char *)text + i, &bytes);
        i += bytes;
        if (bp_char_is_punctuation(c) || (!bp_char_is_word(c) && c > 127)) {
            to[used++] = ' ';
        } else {
            used += bp_utf8_put(bp_char_lower(c), (unsigned char *)to + used);
        }
    }
    return used;
}

size_t bp_words_errors(const char *said, size_t said_length, const char *heard, size_t heard_length,
                       size_t *row)
{
    const char *a, *b;
    size_t at = 0, bytes_a, bytes_b, count = bp_words_count(heard, heard_length);
    for (size_t j = 0; j <= count; j++) {
        row[j] = j;
    }
    /* row[j]: errors of the first j words heard to the words said so far */
    for (size_t i = 0; words_next(said, said_length, &at, &a, &bytes_a); i++) {
        size_t before = row[0], from = 0;
        row[0] = i + 1;
        for (size_t j = 1; words_next(heard, heard_length, &from, &b, &bytes_b); j++) {
            const bool same = bytes_a == bytes_b && memcmp(a, b, bytes_a) == 0;
            size_t least = before + (same ? 0 : 1);
            before = row[j];
            least = before + 1 < least ? before + 1 : least;
            least = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
            row[j] = least;
        }
    }
    return row[count];
}
