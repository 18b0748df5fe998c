/* SPDX-License-Identifier: MIT */
/* Characters: UTF-8 in and out, and the classes tokenizers ask for.
 *
 * The classes are those of the tokenizers library (0.23), whatever the installed utf8proc knows:
 * letters and numbers from Unicode 16, lower case from 17, accents and punctuation of BERT from 8,
 * decompositions from 9. Where utf8proc 2.8 (Unicode 15) says something else there are tables
 * (unicode_ranges.c, made by tools/golden/formats/unicode.py). unicode.c alone calls utf8proc. */
#ifndef BP_FORMATS_UNICODE_H
#define BP_FORMATS_UNICODE_H

#include "arena/base.h"

#define BP_CHAR_REPLACEMENT 0xfffdu
#define BP_CHAR_PARTS       8 /* most characters that one decomposes to; Unicode's own limit is 4 */

#define BP_CHAR_PARTS_MOST 18 /* the same of compatible decompositions */

typedef enum bp_char_class {
    BP_CHAR_OTHER,
    BP_CHAR_LETTER, /* \p{L} */
    BP_CHAR_NUMBER, /* \p{N} */
    BP_CHAR_SPACE   /* \s: White_Space */
} bp_char_class;

bp_char_class bp_char_class_of(uint32_t c);

/* What a letter or a mark is to patterns that tell cases apart. */
typedef enum bp_char_case {
    BP_CASE_NONE,
    BP_CASE_UPPER, /* \p{Lu}, \p{Lt} */
    BP_CASE_LOWER, /* \p{Ll} */
    BP_CASE_BOTH   /* \p{Lm}, \p{Lo}, \p{M} */
} bp_char_case;

bp_char_case bp_char_case_of(uint32_t c);

/* As BERT's BasicTokenizer and the tokenizers library see them: category P and all of ASCII that is
 * neither letter, digit, space nor control; Cc, Cf and Co but tab and line ends; ideographs. */
bool bp_char_is_punctuation(uint32_t c);
bool bp_char_is_control(uint32_t c);
bool bp_char_is_ideograph(uint32_t c);
/* \w of the regex crate: letters, marks, digits, what joins words, and circled letters. */
bool bp_char_is_word(uint32_t c);
/* Category Mn: what is stripped as accents. */
bool bp_char_is_mark(uint32_t c);

/* Whether a new cluster of characters (UAX 29, extended) begins with c behind `before`; *state is 0
 * at the beginning of a text. */
bool bp_char_breaks(uint32_t before, uint32_t c, int32_t *state);

/* The simple lower-case form. */
uint32_t bp_char_lower(uint32_t c);

/* The canonical decomposition (NFD) of one character; returns how many parts it has, itself if
 * it has none. */
size_t bp_char_decompose(uint32_t c, uint32_t parts[BP_CHAR_PARTS]);
/* The compatible one (NFKD), in room for BP_CHAR_PARTS_MOST. */
size_t bp_char_decompose_compatible(uint32_t c, uint32_t *parts);
/* The same as BERT's normalizer does it, which does not know the newest characters. */
size_t bp_char_decompose_bert(uint32_t c, uint32_t parts[BP_CHAR_PARTS]);

/* Whether c neither joins what is before it nor is joined by more than marks in NFC: text may be
 * cut before it and composed in pieces. */
bool bp_char_begins(uint32_t c);

/* Composes count characters to NFC in place, canonical order included; returns how many are left.
 */
size_t bp_char_compose(uint32_t *characters, size_t count);

/* The character at `at`, which must be well-formed, and its bytes. */
static inline uint32_t bp_utf8_get(const unsigned char *at, size_t *length)
{
    if (at[0] < 0x80) {
        *length = 1;
        return at[0];
    }
    if (at[0] < 0xe0) {
        *length = 2;
        return (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu);
    }
    if (at[0] < 0xf0) {
        *length = 3;
        return (at[0] & 0x0fu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
    }
    *length = 4;
    return (at[0] & 0x07u) << 18 | (at[1] & 0x3fu) << 12 | (at[2] & 0x3fu) << 6 | (at[3] & 0x3fu);
}

/* Writes a character of at most 4 bytes and returns how many. */
size_t bp_utf8_put(uint32_t c, unsigned char *to);

/* Makes any bytes well-formed, piece by piece: every maximal part of a character, and every byte
 * that can begin none, becomes U+FFFD (The Unicode Standard, section 3.9, "substitution of maximal
 * subparts", which is also Python's "replace"). Zero is the beginning of a text. */
typedef struct bp_utf8_cleaner {
    unsigned char part[4];
    uint8_t have;
    uint8_t want;
} bp_utf8_cleaner;

/* Takes up to `count` bytes while there is room for 8 more; returns the bytes written, all of them
 * whole characters; *used becomes the bytes taken. */
size_t bp_utf8_clean(bp_utf8_cleaner *cleaner, const unsigned char *from, size_t count,
                     unsigned char *to, size_t room, size_t *used);

/* The end of the text: writes what an unfinished character becomes, 3 bytes or none. */
size_t bp_utf8_clean_end(bp_utf8_cleaner *cleaner, unsigned char *to);

#endif
