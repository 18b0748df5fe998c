/* SPDX-License-Identifier: MIT */
/* A part of a source as a source of its own: training and held-out parts of one file. */
#ifndef BP_FORMATS_SPLIT_H
#define BP_FORMATS_SPLIT_H

#include "core/run/feed.h"

typedef struct bp_part {
    bp_source source; /* what the feed is given */
    bp_source *inner;
    uint64_t first;         /* token of inner that is token 0 here */
    uint64_t first_example; /* example of inner that is example 0 here */
} bp_part;

/* Makes tokens first .. first + count - 1 of `inner`, which must outlive the split, a source.
 * BP_ERR_USAGE when that range is not inside it. The split must not be moved afterwards. */
bp_status bp_part_init(bp_part *split, bp_source *inner, uint64_t first,
                       uint64_t count) BP_MUST_CHECK;

/* Cuts `inner` in two: `held` gets the last floor(count * fraction) tokens (of a source of
 * examples, examples, and those that stay together whole), `kept` the others. BP_ERR_USAGE unless 0
 * < fraction < 1 and, of examples, both get one.
 */
bp_status bp_part_tail(bp_part *kept, bp_part *held, bp_source *inner,
                       double fraction) BP_MUST_CHECK;

/* Several sources as one, each behind the one before. */
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
