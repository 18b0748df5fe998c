/* SPDX-License-Identifier: MIT */
/* Looking up and comparing lists of keys and values. */
#include "core/base/pair.h"

#include <string.h>

const char *bp_pairs_find(bp_pairs pairs, const char *key)
{
    for (size_t i = 0; i < pairs.count; i++) {
        if (strcmp(pairs.list[i].key, key) == 0) {
            return pairs.list[i].value;
        }
    }
    return NULL;
}

int bp_pair_compare(const void *a, const void *b)
{
    const bp_pair *left = a;
    const bp_pair *right = b;
    return strcmp(left->key, right->key);
}

static size_t pair_report(bp_pairs_difference each, void *user, const char *key,
                          const char *const *two)
{
    if (each != NULL) {
        each(user, key, two[0], two[1]);
    }
    return 1;
}

size_t bp_pairs_compare(bp_pairs a, bp_pairs b, bp_pairs_difference each, void *user)
{
    size_t differences = 0;
    for (size_t i = 0; i < a.count; i++) {
        const char *two[2] = {a.list[i].value, bp_pairs_find(b, a.list[i].key)};
        if (two[1] == NULL || strcmp(two[0], two[1]) != 0) {
            differences += pair_report(each, user, a.list[i].key, two);
        }
    }
    for (size_t i = 0; i < b.count; i++) {
        if (bp_pairs_find(a, b.list[i].key) == NULL) {
            const char *two[2] = {NULL, b.list[i].value};
            differences += pair_report(each, user, b.list[i].key, two);
        }
    }
    return differences;
}
