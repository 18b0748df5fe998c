/* SPDX-License-Identifier: MIT */
/* The feed: which tokens each step sees. Stateless: a batch is a function of (seed, step), so any
 * position can be reached at once and resuming needs no replay.
 *
 * A source of N tokens is cut into W = ceil((N - 1) / T) windows; window w gives inputs
 * t[wT .. wT+T-1] and labels t[wT+1 .. wT+T], the last one padded with label -1. An epoch visits
 * every window once in the order of bp_random_permute(seed, epoch, W, i); a group never crosses the
 * end of an epoch, so the last group of an epoch may be short and is stepped with its true divisor.
 */
#ifndef BP_CORE_FEED_H
#define BP_CORE_FEED_H

#include "core/error.h"

/* A sequence of token ids that can be read anywhere. */
typedef struct bp_source bp_source;
struct bp_source {
    void *context;
    const char *name; /* for messages: the file */
    uint64_t count;   /* tokens */
    /* Fills to[0..n-1] with tokens first .. first+n-1, all inside count. */
    bp_status (*read)(bp_source *source, uint64_t first, uint32_t n, int32_t *to);
    /* Optional (NULL: every token counts): sets counts[i] to 0 where token first + i is no target
     * (a prompt, padding), to 1 where it is. */
    bp_status (*targets)(bp_source *source, uint64_t first, uint32_t n, uint8_t *counts);
};

typedef struct bp_feed {
    bp_source *source;
    bp_error *error;
    uint64_t seed;
    uint32_t sequence;   /* T */
    uint32_t batch;      /* sequences per micro-batch */
    uint32_t group;      /* sequences per step: batch * accumulation */
    uint32_t vocabulary; /* ids must be below it */
    bool shuffle;        /* false: windows in file order (evaluation) */
    uint64_t windows;
    uint64_t steps_per_epoch;
} bp_feed;

/* Elements of int32_t that staging needs: one window of ids and one of target marks. */
#define BP_FEED_SCRATCH(sequence) ((size_t)(sequence) + 1 + ((size_t)(sequence) + 4) / 4)

/* One group staged on the host. */
typedef struct bp_group {
    int32_t *ids;     /* (micro-batches, batch, sequence) */
    int32_t *labels;  /* the same; -1 where there is no target */
    uint32_t micros;  /* micro-batches that hold at least one window */
    uint32_t samples; /* windows in the group */
    uint64_t valid;   /* targets with label >= 0 */
} bp_group;

/* BP_ERR_DATA when the source holds fewer than batch * sequence + 1 tokens. */
bp_status bp_feed_init(bp_feed *feed, bp_error *error) BP_MUST_CHECK;

/* Stages the group of a step (0-based) into group->ids and labels, which have room for the whole
 * group. Every id is checked: BP_ERR_DATA naming the source, the id and the vocabulary. `scratch`
 * has room for sequence + 1 ids. */
bp_status bp_feed_stage(const bp_feed *feed, uint64_t step, bp_group *group,
                        int32_t *scratch) BP_MUST_CHECK;

#endif
