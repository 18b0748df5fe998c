/* SPDX-License-Identifier: MIT */
/* Where to cut lengths into buckets so that least padding is expected. */
#ifndef BP_BEDPLATE_BUCKETS_CUT_H
#define BP_BEDPLATE_BUCKETS_CUT_H

#include "arena/base.h"

#define BUCKETS_CUTS     512 /* most lengths that are compared */
#define BUCKETS_CUT_MOST 8

/* share[i] of all micro-batches, rising from share[0] = 0 to share[count] = 1, go into length
 * number i; a longer one costs i, however short its samples are. Fills chosen[] with the numbers
 * below count, rising, that make at most `buckets` (1 to 8) buckets with the last, `count`, such
 * that the expected cost, the sum over buckets of i (share[i] - share of the bucket before), is the
 * least; returns how many, as few as do it. Dynamic programming: buckets * count^2 / 2 steps. */
uint32_t buckets_cut(const double *share, uint32_t count, uint32_t buckets,
                     uint32_t chosen[BUCKETS_CUT_MOST]);

#endif
