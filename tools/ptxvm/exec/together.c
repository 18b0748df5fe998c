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
    vm_race *race;
    const vm_window *window; /* whose pitch leaves gaps, or NULL */
} stretch;

static bool find_shared(const vm_warp *warp, stretch *found)
{
    vm_block *block = warp->block;
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

/* Whether the lanes' addresses are `apart` bytes from one another. */
static bool in_steps(const uint64_t *addresses, uint64_t apart)
{
    uint64_t other = 0;
    for (unsigned lane = 1; lane < VM_LANES; lane++) {
        other |= (addresses[lane - 1] + apart) ^ addresses[lane];
    }
    return other == 0;
}

/* Whether that many bytes from an address on may be touched, and lie in one row of a window. */
static bool is_inside(const stretch *at, uint64_t address, uint64_t bytes)
{
    const uint64_t offset = address - at->low;
    return offset < at->size && bytes <= at->size - offset &&
           (at->window == NULL || offset % at->window->pitch + bytes <= at->window->row_bytes);
}

/* The first lane's bytes; the others' follow. NULL where the lanes have to be asked one by one. */
static uint8_t *together_row(const stretch *at, vm_race_turn *turn, uint64_t address,
                             unsigned bytes, bool write)
{
    const uint64_t offset = address - at->low, all = (uint64_t)bytes * VM_LANES;
    const uint64_t bit = at->bit + offset;
    if ((address & (bytes - 1)) != 0 ||
        (!write && at->defined != NULL && !vm_bits_all(at->defined, bit, all)) ||
        (at->race != NULL && !vm_race_turn_row(turn, bit, bytes, write))) {
        return NULL;
    }
    if (write && at->defined != NULL) {
        vm_bits_set(at->defined, bit, all, true);
    }
    return at->data + offset;
}

/* One lane after the other, those of `same` as the lane that is first[lane]. */
static bool together_lanes(const stretch *at, vm_race_turn *turn, uint32_t mask,
                           const uint64_t *addresses, unsigned bytes, bool write, uint8_t **data)
{
    uint8_t first[VM_LANES];
    uint32_t same = write ? 0 : followers(addresses, mask, first), followed = 0;
    for (uint32_t left = same; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        first[lane] = (same >> first[lane] & 1) != 0 ? first[first[lane]] : first[lane];
        followed |= 1u << first[lane];
    }
    for (uint32_t left = mask & ~same; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        bool many = (followed >> lane & 1) != 0;
        data[lane] = together_check(at, turn, lane, many, addresses[lane], bytes, write);
        if (data[lane] == NULL) {
            return false;
        }
    }
    for (uint32_t left = same; left != 0; left &= left - 1) {
        unsigned lane = vm_first_lane(left);
        data[lane] = data[first[lane]];
    }
    return true;
}

bool vm_access_together(vm_warp *warp, uint32_t mask, vm_space space, const uint64_t *addresses,
                        unsigned bytes, bool write, uint8_t **data)
{
    stretch at = {0};
    vm_race_turn turn;
    if (space == VS_PARAM && !write) {
        return together_parameters(warp, mask, addresses, bytes, data);
    }
    bool found = space == VS_SHARED ? find_shared(warp, &at)
                 : space == VS_GLOBAL
                     ? find_global(warp, addresses[vm_first_lane(mask)], write, &at)
                     : false;
    const bool early = warp->block->launch->prerequisite != 0 && !warp->grid_waited;
    if (!found || bytes < 2 || (early && space == VS_GLOBAL)) {
        return false;
    }
    at.race = vm_race_watched ? at.race : NULL;
    if (at.race != NULL) {
        vm_race_turn_begin(&turn, warp, at.race);
    }
    const uint64_t address = addresses[0];
    const bool row = mask == VM_ALL_LANES && in_steps(addresses, bytes) &&
                     is_inside(&at, address, (uint64_t)bytes * VM_LANES);
    bool fine;
    if (row || (mask == VM_ALL_LANES && !write && in_steps(addresses, 0))) {
        uint8_t *first = row ? together_row(&at, &turn, address, bytes, write)
                             : together_check(&at, &turn, 0, true, address, bytes, write);
        fine = first != NULL;
        for (unsigned lane = 0; lane < VM_LANES && fine; lane++) {
            data[lane] = first + (row ? (size_t)lane * bytes : 0);
        }
    } else {
        fine = together_lanes(&at, &turn, mask, addresses, bytes, write, data);
    }
    if (at.race != NULL) {
        vm_race_turn_end(&turn);
    }
    if (write) {
        vm_race_stored(warp, space == VS_SHARED ? VM_OF_SHARED : VM_OF_GLOBAL, mask);
    }
    return fine;
}
