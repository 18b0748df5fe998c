/* SPDX-License-Identifier: MIT */
/* Buckets of lengths by dynamic programming. */
#include "tools/bedplate/planning/buckets_cut.h"

/* from[k][i]: the bucket before number i where that is the last of at most k + 1; NONE: the first;
 * FEWER: the same as with one bucket less. */
enum { NONE = 0, FEWER = UINT16_MAX };

static double cut_cost(const double *share, uint32_t before, uint32_t i)
{
    return (double)i * (share[i] - share[before]);
}

/* One row more of the table from the row before it, `best`, which it replaces: from the last number
 * on, as each looks only at smaller ones. */
static void add_bucket(const double *share, uint32_t count, double *best, uint16_t *from)
{
    for (uint32_t i = count; i > 0; i--) {
        from[i] = FEWER;
        for (uint32_t before = 1; before < i; before++) {
            const double cost = best[before] + cut_cost(share, before, i);
            if (cost < best[i]) {
                best[i] = cost;
                from[i] = (uint16_t)before;
            }
        }
    }
}

uint32_t buckets_cut(const double *share, uint32_t count, uint32_t buckets,
                     uint32_t chosen[BUCKETS_CUT_MOST])
{
    static double best[BUCKETS_CUTS + 1];
    static uint16_t from[BUCKETS_CUT_MOST][BUCKETS_CUTS + 1];
    uint32_t found[BUCKETS_CUT_MOST], used = 0, at = count;
    for (uint32_t i = 0; i <= count; i++) {
        best[i] = cut_cost(share, 0, i);
        from[0][i] = NONE;
    }
    for (uint32_t k = 1; k < buckets; k++) {
        add_bucket(share, count, best, from[k]);
    }
    for (uint32_t k = buckets - 1; k > 0; k--) {
        if (from[k][at] != FEWER) {
            at = from[k][at];
            found[used++] = at;
        }
    }
    for (uint32_t i = 0; i < used; i++) {
        chosen[i] = found[used - 1 - i];
    }
    return used;
}
