/* SPDX-License-Identifier: MIT */
/* The weak accesses of a whole warp at once: what nearly every load and store is. Each address is
 * checked once, however many lanes name it. Whatever is not plainly in order is left to
 * vm_access(), lane by lane, which finds the words for it. */
#include "tools/ptxvm/machine.h"

/* The bytes that the lanes may touch, and their shadow. */
typedef struct stretch {
    uint64_t low;
    uint64_t size;
    uint8_t *data;
    uint64_t *defined;
    uint64_t bit;
    const vm_race *race;
    const vm_window *window; /* whose pitch leaves gaps, or NULL */
} stretch;

static bool find_shared(const vm_warp *warp, stretch *found)
{
    const vm_block *block = warp->block;
    stretch all = {0, block->launch->shared_bytes, block->shared, block->shared_defined,
                   0, &block->shared_race,         NULL};
    *found = all;
    return block->mbarrier_count == 0 && block->reading_count == 0 && block->copies == 0;
}

static bool find_global(vm_warp *warp, uint64_t address, bool write, stretch *found)
{
    if (warp->block->launch->owned_count != 0 || !vm_access_region(warp, address)) {
        return false;
    }
    const vm_region *region = &warp->region;
    stretch all = {region->low,   region->high - region->low,
                   region->data,  region->defined,
                   region->bit,   region->race,
                   region->window};
    *found = all;
    return !write || region->writable;
}

/* Lanes that name the address of an earlier one of the mask; first[lane] is that one. Only lanes 1,
 * 4, 8 and 16 before are looked at, and only where the outermost pair is equal: rows, columns and
 * whole warps of the usual tiles. */
static uint32_t followers(const uint64_t *addresses, uint32_t mask, uint8_t *first)
{
    static const unsigned apart[] = {1, 8, 16, 4};
    uint32_t same = 0;
    for (unsigned k = 0; k < sizeof apart / sizeof apart[0]; k++) {
        unsigned distance = apart[k];
        uint32_t equal = 0;
        if (addresses[0] != addresses[distance] &&
            addresses[VM_LANES - 1 - distance] != addresses[VM_LANES - 1]) {
            continue;
        }
        for (unsigned lane = distance; lane < VM_LANES; lane++) {
            equal |= (uint32_t)(addresses[lane] == addresses[lane - distance]) << lane;
        }
        equal &= mask & (mask << distance) & ~same;
        same |= equal;
        for (; equal != 0; equal &= equal - 1) {
            unsigned lane = vm_first_lane(equal);
            first[lane] = (uint8_t)(lane - distance);
        }
    }
    return same;
}

static bool is_defined(const stretch *at, uint64_t bit, unsigned bytes)
{
    uint64_t mask = (1ull << bytes) - 1; /* at most 32, aligned: one word holds them */
    uint64_t word = __atomic_load_n(&at->defined[bit / 64], __ATOMIC_RELAXED);
    return (word >> (bit % 64) & mask) == mask;
}

/* One lane's bytes, or NULL. many: other lanes name them, too. */
static uint8_t *together_check(const stretch *at, vm_race_turn *turn, unsigned lane, bool many,
                               uint64_t address, unsigned bytes, bool write)
{
    uint64_t offset = address - at->low;
    if (offset >= at->size || bytes > at->size - offset || (address & (bytes - 1)) != 0 ||
        (at->window != NULL && offset % at->window->pitch + bytes > at->window->row_bytes)) {
        return NULL;
    }
    uint64_t bit = at->bit + offset;
    if (!write && at->defined != NULL && !is_defined(at, bit, bytes)) {
        return NULL;
    }
    if (at->race != NULL && !(write ? vm_race_turn_write(turn, lane, bit, bytes)
                                    : vm_race_turn_read(turn, lane, many, bit, bytes))) {
        return NULL;
    }
    if (write && at->defined != NULL && !is_defined(at, bit, bytes)) {
        vm_bits_set(at->defined, bit, bytes, true);
    }
    return at->data + offset;
}

/* A kernel's own parameters, which all lanes see alike. */
static bool together_parameters(const vm_warp *warp, uint32_t mask, const uint64_t *addresses,
                                unsigned bytes, uint8_t **data)
{
    const vm_launch *launch = warp->block->launch;
    uint64_t size = launch->function->param_bytes;
    for (; mask != 0; mask &= mask - 1) {
        unsigned lane = vm_first_lane(mask);
        uint64_t address = addresses[lane];
        if (address > size || bytes > size - address || (address & (bytes - 1)) != 0) {
            return false;
        }
        data[lane] = launch->params + address;
    }
    return true;
}

bool vm_access_together(vm_warp *warp, uint32_t mask, vm_space space, const uint64_t *addresses,
                        unsigned bytes, bool write, uint8_t **data)
{
    stretch at = {0};
    vm_race_turn turn;
    uint8_t first[VM_LANES];
    if (space == VS_PARAM && !write) {
        return together_parameters(warp, mask, addresses, bytes, data);
    }
    bool found = space == VS_SHARED ? find_shared(warp, &at)
                 : space == VS_GLOBAL
                     ? find_global(warp, addresses[vm_first_lane(mask)], write, &at)
                     : false;
    const bool early = warp->block->launch->prerequisite != 0 && !warp->grid_waited;
    if (!found || bytes < 4 || (early && space == VS_GLOBAL)) {
        return false;
    }
    uint32_t same = write ? 0 : followers(addresses, mask, first), followed = 0;
    for (uint32_t left = same; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        first[lane] = (same >> first[lane] & 1) != 0 ? first[first[lane]] : first[lane];
        followed |= 1u << first[lane];
    }
    if (at.race != NULL) {
        vm_race_turn_begin(&turn, warp, at.race);
    }
    bool fine = true;
    for (uint32_t left = mask & ~same; left != 0 && fine; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        bool many = (followed >> lane & 1) != 0;
        data[lane] = together_check(&at, &turn, lane, many, addresses[lane], bytes, write);
        fine = data[lane] != NULL;
    }
    if (at.race != NULL) {
        vm_race_turn_end(&turn);
    }
    for (uint32_t left = same; left != 0 && fine; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        data[lane] = data[first[lane]];
    }
    if (write) {
        vm_race_stored(warp, space == VS_SHARED ? VM_OF_SHARED : VM_OF_GLOBAL, mask);
    }
    return fine;
}
