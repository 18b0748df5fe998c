/* SPDX-License-Identifier: MIT */
/* Ranges of characters that utf8proc 2.8 classes otherwise than the tokenizers library: for
 * unicode.c. */
#ifndef BP_FORMATS_UNICODE_RANGES_H
#define BP_FORMATS_UNICODE_RANGES_H

#include "arena/base.h"

typedef struct bp_unicode_ranges {
    const uint32_t *rows; /* each first << 11 | last - first, in order */
    size_t count;
} bp_unicode_ranges;

extern const bp_unicode_ranges bp_unicode_punctuation; /* of BERT, beyond ASCII */
extern const bp_unicode_ranges bp_unicode_marks;       /* what BERT strips as accents */
extern const bp_unicode_ranges bp_unicode_letters;     /* that Unicode 15 does not have */
extern const bp_unicode_ranges bp_unicode_numbers;     /* the same */

#endif
