/* SPDX-License-Identifier: MIT */
/* Bars of bytes beside each other: a table of names, numbers and bars that fits a screen and a
 * phone. */
#ifndef BP_BEDPLATE_BARS_H
#define BP_BEDPLATE_BARS_H

#include "arena/text.h"
#include "core/ir/program.h"

typedef struct bar {
    const char *name;
    uint64_t bytes;
    const uint64_t *classes; /* [BP_CLASS_COUNT], at most `bytes` in all, in the colours of a map's
                                page; NULL: one colour */
    const char *note;        /* written behind the name: it marks the bar; NULL: nothing */
} bar;

/* Bars between these; `most` is the bytes of the longest. */
void bars_begin(bp_text *text);
void bars_put(bp_text *text, const bar *one, uint64_t most);
void bars_end(bp_text *text);

#endif
