/* SPDX-License-Identifier: MIT */
/* Patterns over tensor names, with which tables say how a family's tensors are called.
 *
 * In a pattern # is one or more decimal digits and * any run of characters, also none; everything
 * else is itself. At most one * and BP_NAME_DIGITS_MAX # in a pattern. */
#ifndef BP_FORMATS_HF_NAMES_H
#define BP_FORMATS_HF_NAMES_H

#include "arena/base.h"

#define BP_NAME_DIGITS_MAX 4

/* Whether the whole of `name` matches. Time is at most the product of the two lengths. */
bool bp_name_matches(const char *pattern, const char *name);

/* If `name` matches `from`, writes `to` with its # and * replaced by what those of `from` stood for
 * (the n-th # by the n-th #), terminated, and returns true. False too when the result does not fit
 * `room` bytes. */
bool bp_name_rewrite(const char *from, const char *to, const char *name, char *out, size_t room);

#endif
