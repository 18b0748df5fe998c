/* SPDX-License-Identifier: MIT */
/* Lists of keys and values: file metadata, and the options that a checkpoint remembers. */
/* Installed as part of <bedplate/store.h>. */
#ifndef BP_CORE_PAIR_H
#define BP_CORE_PAIR_H

#include "arena/base.h"

/* Terminated strings that somebody else owns. */
typedef struct bp_pair {
    const char *key;
    const char *value;
} bp_pair;

/* A table of pairs; the order means nothing unless a function says so. */
typedef struct bp_pairs {
    const bp_pair *list;
    size_t count;
} bp_pairs;

/* The value of a key, NULL when there is none. O(count). */
const char *bp_pairs_find(bp_pairs pairs, const char *key);

/* A bp_compare by key, as strcmp. */
int bp_pair_compare(const void *a, const void *b);

/* Told of a key whose values differ; the side that lacks the key gives NULL. */
typedef void (*bp_pairs_difference)(void *user, const char *key, const char *a, const char *b);

/* Calls each(user, ...), in the order of a and then of b, for every key that only one of the lists
 * has or that has two values, and returns how many these are. each may be NULL. Keys are unique
 * within a list. O(a.count x b.count). */
size_t bp_pairs_compare(bp_pairs a, bp_pairs b, bp_pairs_difference each, void *user);

#endif
