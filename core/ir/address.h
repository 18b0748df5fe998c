/* SPDX-License-Identifier: MIT */
/* Where bytes lie: memory spaces, and places in them as one number.
 *
 * Every space has an arena and a plan of its own. A place is the bytes from the start of the
 * space's arena with the space in the highest two bits, so that places in the device arena are
 * plain offsets. */
#ifndef BP_CORE_ADDRESS_H
#define BP_CORE_ADDRESS_H

#include "arena/base.h"

typedef enum bp_space {
    BP_SPACE_DEVICE,  /* next to what computes */
    BP_SPACE_HOST,    /* the host's memory; slower to reach, reached by copies and fabrics only */
    BP_SPACE_OFFLOAD, /* storage: no addresses, reached by copies only (core/ir/tier.h) */
    BP_SPACE_COUNT
} bp_space;

#define BP_ADDRESS_SHIFT 62
#define BP_OFFSET_ABSENT UINT64_MAX /* an operand that is not there */

static inline uint64_t bp_address(bp_space space, uint64_t offset)
{
    return (uint64_t)space << BP_ADDRESS_SHIFT | offset;
}

/* BP_SPACE_COUNT or more for what is no place. */
static inline bp_space bp_address_space(uint64_t place)
{
    return (bp_space)(place >> BP_ADDRESS_SHIFT);
}

static inline uint64_t bp_address_offset(uint64_t place)
{
    return place & (UINT64_MAX >> (64 - BP_ADDRESS_SHIFT));
}

/* "device", "host", "offload" */
const char *bp_space_name(bp_space space);

/* The memory of one space. */
typedef struct bp_region {
    void *address;
    uint64_t bytes;
} bp_region;

/* Offloaded buffers start at a multiple of this, so that storage is read and written in whole
 * pages. */
#define BP_OFFLOAD_ALIGNMENT 4096

/* From a first byte to past a last one; nothing when they are equal. */
typedef struct bp_span {
    uint64_t first, end;
} bp_span;

/* The whole pages of storage in which some bytes of an offloaded buffer lie. */
static inline bp_span bp_address_pages(bp_span bytes)
{
    return (bp_span){bytes.first / BP_OFFLOAD_ALIGNMENT * BP_OFFLOAD_ALIGNMENT,
                     bp_size_align(bytes.end, BP_OFFLOAD_ALIGNMENT)};
}

struct bp_fabric;
struct bp_tier;

/* What a device is opened over. */
typedef struct bp_regions {
    bp_region space[BP_SPACE_COUNT];
    const struct bp_fabric *fabric; /* core/ir/fabric.h; NULL: one rank, no fabric */
    void *rank;                     /* the fabric's open context */
    const struct bp_tier *tier;     /* core/ir/tier.h; NULL: nothing is offloaded */
    void *tier_context;             /* its open context */
    bool zeroed;                    /* the bytes at every address that is given are zero */
} bp_regions;

/* A device arena and nothing else. */
static inline bp_regions bp_regions_device(void *arena, uint64_t bytes)
{
    return (bp_regions){.space = {[BP_SPACE_DEVICE] = {arena, bytes}}};
}

#endif
