/* SPDX-License-Identifier: MIT */
/* Blocks of 16 lanes in plain C, for kernels that are written once and compiled for every form and
 * every working type (element.h). Elements come and go by vectors where a vector header was
 * included before: no compiler finds those for 16 bits. */
#ifndef BP_DEVICE_HOST_PLAIN_H
#define BP_DEVICE_HOST_PLAIN_H

#include <string.h>

#include "device/host/vector/element.h"

#ifdef BP_V
#include "device/host/vector/element_vector.h"
#endif

typedef struct bp_plain_block {
    float lane[BP_LANES];
} bp_plain_block;

#ifdef BP_V

/* The first `count` <= 16 elements; the other lanes are 0. */
static inline bp_plain_block bp_plain_load(const bp_element *from, uint64_t count)
{
    bp_plain_block block;
    if (count < BP_LANES) {
        bp_v_spill(bp_v_get(from, bp_part_first(count)), block.lane);
    } else {
        bp_v_spill(bp_v_get(from, bp_part_whole()), block.lane);
    }
    return block;
}

static inline void bp_plain_store(bp_element *to, uint64_t count, const bp_plain_block *block)
{
    bp_v x = bp_v_load(block->lane, bp_part_whole());
    if (count < BP_LANES) {
        bp_v_put(to, x, bp_part_first(count));
    } else {
        bp_v_put(to, x, bp_part_whole());
    }
}

#else

/* The first `count` <= 16 elements; the other lanes are 0. */
static inline bp_plain_block bp_plain_load(const bp_element *from, uint64_t count)
{
    bp_element part[BP_LANES];
    bp_plain_block block;
    if (count < BP_LANES) {
        memset(part, 0, sizeof(part));
        memcpy(part, from, count * sizeof(bp_element));
    } else {
        memcpy(part, from, sizeof(part));
    }
    for (uint64_t l = 0; l < BP_LANES; l++) {
        block.lane[l] = bp_get(part, l);
    }
    return block;
}

static inline void bp_plain_store(bp_element *to, uint64_t count, const bp_plain_block *block)
{
    bp_element part[BP_LANES];
    for (uint64_t l = 0; l < BP_LANES; l++) {
        bp_put(part, l, block->lane[l]);
    }
    memcpy(to, part, (count < BP_LANES ? count : BP_LANES) * sizeof(bp_element));
}

#endif

#endif
