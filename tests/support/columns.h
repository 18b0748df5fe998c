/* SPDX-License-Identifier: MIT */
/* A group of rows of tokens over memory of the test's own. */
#ifndef BP_TESTS_SUPPORT_COLUMNS_H
#define BP_TESTS_SUPPORT_COLUMNS_H

#include "core/run/feed.h"

/* Ids and labels (rows, sequence), lengths (rows) and types (rows, sequence); NULL: no column. */
static inline bp_group columns_of(uint32_t sequence, int32_t *ids, int32_t *labels,
                                  int32_t *lengths, int32_t *types)
{
    const bp_column all[] = {{BP_INPUT_IDS, BP_I32, sequence, 0, ids},
                             {BP_INPUT_LABELS, BP_I32, sequence, -1, labels},
                             {BP_INPUT_LENGTHS, BP_I32, 1, 0, lengths},
                             {BP_INPUT_TYPES, BP_I32, sequence, 0, types}};
    bp_group group = {.columns = 0};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].data != NULL) {
            group.column[group.columns++] = all[i];
        }
    }
    return group;
}

#endif
