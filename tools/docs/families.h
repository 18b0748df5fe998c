/* SPDX-License-Identifier: MIT */
/* The part of docs/families.md that follows from the descriptors. */
#ifndef BP_DOCS_FAMILIES_H
#define BP_DOCS_FAMILIES_H

/* Writes it to the standard output. */
void families_page(void);

#endif
