/* SPDX-License-Identifier: MIT */
/* Choosing the next token from logits. */
#ifndef BP_BEDPLATE_SAMPLE_H
#define BP_BEDPLATE_SAMPLE_H

#include <stdint.h>

typedef struct sampling {
    double temperature; /* 0: always the likeliest (the first of equals) */
    uint64_t top_k;     /* 0: all */
    uint64_t seed;
} sampling;

/* The token chosen as number `position` of a text: a function of its arguments alone. `order` has
 * room for `count` numbers. Logits that are not numbers are never chosen. count > 0. */
uint32_t sample_token(const sampling *how, const float *logits, uint32_t count, uint64_t position,
                      uint32_t *order);

#endif
