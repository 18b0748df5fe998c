/* SPDX-License-Identifier: MIT */
/* What all pages have in common: their head and their style, for light and dark, screen and phone.
 * A page loads nothing from elsewhere. */
#ifndef BP_ARENA_PAGE_H
#define BP_ARENA_PAGE_H

#include "arena/text.h"

/* From the first byte into the element <title>. */
void bp_page_head(bp_text *out);

/* The end of <title> and the common rules, in an element <style> that is left open. */
void bp_page_style(bp_text *out);

#endif
