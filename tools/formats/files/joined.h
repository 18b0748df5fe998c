/* SPDX-License-Identifier: MIT */
/* Several sources as one, each behind the one before. */
#ifndef BP_FORMATS_JOINED_H
#define BP_FORMATS_JOINED_H

#include "core/run/feed.h"

typedef struct bp_joined {
    bp_source source; /* what the feed is given; its name is the first one's */
    bp_source *const *parts;
    uint32_t count;
} bp_joined;

/* Joins sources of one kind: streams, or examples. They and their list must outlive the record,
 * which must not be moved afterwards. BP_ERR_DATA, naming the source: one is of another kind than
 * the first, or has labels of its own, or examples that stay together, where the first has not. */
bp_status bp_joined_init(bp_joined *joined, bp_source *const *parts, uint32_t count,
                         bp_error *error) BP_MUST_CHECK;

#endif
