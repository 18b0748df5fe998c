/* SPDX-License-Identifier: MIT */
/* Blocks of 16 lanes in plain C, for kernels that are written once and compiled for every form. */
#ifndef BP_DEVICE_HOST_PLAIN_H
#define BP_DEVICE_HOST_PLAIN_H

#include <string.h>

#include "device/host/kernel.h"
#include "device/host/lanes.h"

typedef struct bp_plain_block {
    float lane[BP_LANES];
} bp_plain_block;

/* The first `count` <= 16 elements; the other lanes are 0. */
static inline bp_plain_block bp_plain_load(const float *from, uint64_t count)
{
    bp_plain_block block;
    if (count == BP_LANES) {
        memcpy(block.lane, from, sizeof(block.lane));
        return block;
    }
    memset(block.lane, 0, sizeof(block.lane));
    memcpy(block.lane, from, count * sizeof(float));
    return block;
}

static inline void bp_plain_store(float *to, uint64_t count, const bp_plain_block *block)
{
    if (count == BP_LANES) {
        memcpy(to, block->lane, sizeof(block->lane));
    } else {
        memcpy(to, block->lane, count * sizeof(float));
    }
}

#endif
