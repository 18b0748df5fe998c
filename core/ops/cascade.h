/* SPDX-License-Identifier: MIT */
/* The mean of floats, summed in the order of PyTorch's CPU sum with one thread, so that what is
 * made from it has the same bits (aten/src/ATen/native/cpu/SumKernel.cpp, cascade_sum over vectors
 * of eight): 32 running sums, whose rows go up to a next level after every 2^power of them; what is
 * left behind whole rows is added last. Of up to 32,768 numbers PyTorch gives the same with any
 * number of threads. */
#ifndef BP_CORE_CASCADE_H
#define BP_CORE_CASCADE_H

#include "arena/base.h"

#define BP_CASCADE_LANES  8
#define BP_CASCADE_ROW    32 /* four vectors */
#define BP_CASCADE_LEVELS 4

/* A sum on its way. Zero it not: bp_cascade_begin does. */
typedef struct bp_cascade {
    uint64_t count; /* of all numbers that will come */
    uint64_t taken;
    uint32_t power; /* rows of 2^power are summed before they go up a level */
    float sums[BP_CASCADE_LEVELS][BP_CASCADE_ROW];
    float rest[BP_CASCADE_ROW]; /* what is behind the last whole row, in order */
} bp_cascade;

/* count: how many numbers will be added, 1 at least. */
void bp_cascade_begin(bp_cascade *cascade, uint64_t count);

void bp_cascade_add(bp_cascade *cascade, float value);

/* The mean, once all numbers are added. */
float bp_cascade_mean(const bp_cascade *cascade);

#endif
