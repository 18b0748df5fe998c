/* SPDX-License-Identifier: MIT */
/* One lane's access to any state space: where it lands, and every check on the way. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/ptxvm/block.h"
#include "tools/ptxvm/exec/mbarrier.h"
#include "tools/ptxvm/exec/reading.h"

/* A resolved access: the bytes and their shadow. */
typedef struct spot {
    uint8_t *data;
    uint64_t *defined;
    uint64_t bit;
    vm_race *race;
    const char *space;
} spot;

static bool fail_bounds(vm_warp *warp, const vm_insn *in, unsigned lane, const char *space,
                        uint64_t address, unsigned bytes, uint64_t size)
{
    return vm_fail(warp, in, (int)lane, VM_ILLEGAL_ADDRESS,
                   "%s access of %u bytes at 0x%" PRIx64 " outside the %" PRIu64 " bytes there",
                   space, bytes, address, size);
}

static bool find_shared(vm_warp *warp, const vm_insn *in, unsigned lane, uint64_t address,
                        unsigned bytes, spot *found)
{
    vm_block *block = warp->block;
    uint64_t rank = address >> VM_RANK_SHIFT;
    if (rank != 0 && address <= UINT32_MAX) {
        rank--; /* as mapa made it */
        if (rank >= block->cluster->block_count) {
            return fail_bounds(warp, in, lane, "shared (cluster)", address, bytes, 0);
        }
        if (rank != block->rank && !vm_cluster_reaches(warp, in, lane, (uint32_t)rank)) {
            return false;
        }
        block = &block->cluster->blocks[rank];
        address &= (1u << VM_RANK_SHIFT) - 1;
    }
    uint64_t size = block->launch->shared_bytes;
    if (address > size || bytes > size - address) {
        return fail_bounds(warp, in, lane, "shared", address, bytes, size);
    }
    if (block->mbarrier_count != 0 && vm_mbarrier_touched(block, address, bytes)) {
        return vm_fail(warp, in, (int)lane, VM_LAUNCH_FAILED,
                       "ordinary access to shared bytes that belong to an mbarrier");
    }
    found->data = block->shared + address;
    found->defined = block->shared_defined;
    found->bit = address;
    found->race = &block->shared_race;
    found->space = "shared";
    return true;
}

static bool find_local(vm_warp *warp, const vm_insn *in, unsigned lane, uint64_t address,
                       unsigned bytes, spot *found)
{
    const vm_launch *launch = warp->block->launch;
    uint64_t own = launch->function->local_bytes;
    uint64_t offset = address;
    bool callee = address >= VM_LOCAL_CALLEE;
    if (callee) {
        offset = address - VM_LOCAL_CALLEE;
    }
    uint64_t size = callee ? launch->module->local_bytes : own;
    if (offset > size || bytes > size - offset) {
        return fail_bounds(warp, in, lane, "local", address, bytes, size);
    }
    offset += callee ? (own + 15) / 16 * 16 : 0;
    offset += (uint64_t)lane * launch->local_stride;
    found->data = warp->local + offset;
    /* Compilers copy the padding of structures, so undefined local bytes are no finding. */
    found->defined = NULL;
    found->race = NULL;
    found->space = "local";
    return true;
}

static bool find_parameter(vm_warp *warp, const vm_insn *in, unsigned lane, uint64_t address,
                           unsigned bytes, bool write, spot *found)
{
    const vm_launch *launch = warp->block->launch;
    bool frame = address >= VM_FRAME_BASE;
    uint64_t offset = frame ? address - VM_FRAME_BASE : address;
    uint64_t size = frame ? warp->function->frame_bytes : launch->function->param_bytes;
    if (offset > size || bytes > size - offset || (write && !frame)) {
        return fail_bounds(warp, in, lane, "parameter", address, bytes, size);
    }
    found->defined = NULL;
    found->race = NULL;
    found->space = "parameter";
    found->data = frame ? warp->frame + (uint64_t)lane * launch->frame_stride +
                              warp->function->frame_base + offset
                        : launch->params + offset;
    return true;
}

static bool find_constant(vm_warp *warp, const vm_insn *in, unsigned lane, uint64_t address,
                          unsigned bytes, bool write, spot *found)
{
    const vm_module *module = warp->block->launch->module;
    uint64_t size = module->constant_bytes;
    if (address > size || bytes > size - address || write) {
        return fail_bounds(warp, in, lane, "constant", address, bytes, size);
    }
    found->defined = NULL;
    found->race = NULL;
    found->space = "constant";
    found->data = module->constant_bank + address;
    return true;
}

/* The region of a window or an allocation; false when the address belongs to nothing. */
static bool find_region(vm_warp *warp, uint64_t address, vm_region *region)
{
    const vm_launch *launch = warp->block->launch;
    memset(region, 0, sizeof *region);
    if ((address & VM_GENERIC_MASK) == VM_WINDOW_BASE) {
        uint64_t slot = (address - VM_WINDOW_BASE) >> VM_WINDOW_SHIFT;
        if (slot >= launch->window_count) {
            return false;
        }
        const vm_window *window = &launch->windows[slot];
        uint64_t span =
            window->rows == 0 ? 0 : (window->rows - 1) * window->pitch + window->row_bytes;
        region->low = window->base;
        region->high = window->base + span;
        region->owner = window;
        if (span == 0) {
            return true;
        }
        region->data = window->allocation->data + window->offset;
        region->defined = window->allocation->defined;
        region->bit = window->offset;
        region->race = &window->allocation->race;
        region->window = window->rows > 1 && window->pitch != window->row_bytes ? window : NULL;
        region->writable = window->writable;
        return true;
    }
    vm_allocation *found = vm_memory_find(address);
    if (found == NULL || (launch->strict && !found->variable)) {
        return false;
    }
    region->low = found->address;
    region->high = found->address + found->bytes;
    region->data = found->data;
    region->defined = found->defined;
    region->race = found->host && !found->managed ? NULL : &found->race;
    region->writable = true;
    return true;
}

bool vm_access_region(vm_warp *warp, uint64_t address)
{
    vm_region *region = &warp->region;
    if (address >= region->low && address < region->high) {
        return true;
    }
    vm_region fresh;
    if (!find_region(warp, address, &fresh) || address < fresh.low || address >= fresh.high) {
        return false;
    }
    *region = fresh;
    return true;
}

static bool fail_global(vm_warp *warp, const vm_insn *in, unsigned lane, uint64_t address,
                        unsigned bytes, const vm_region *region)
{
    if (region->owner == NULL) {
        return vm_fail(warp, in, (int)lane, VM_ILLEGAL_ADDRESS,
                       "global access of %u bytes at 0x%" PRIx64 " belongs to no operand", bytes,
                       address);
    }
    const vm_window *window = region->owner;
    return vm_fail(warp, in, (int)lane, VM_ILLEGAL_ADDRESS,
                   "global access of %u bytes at offset %" PRId64
                   " outside the operand at parameter byte %u (%" PRIu64 " rows of %" PRIu64
                   " bytes at pitch %" PRIu64 ")",
                   bytes, (int64_t)(address - window->base), window->parameter, window->rows,
                   window->row_bytes, window->pitch);
}

static bool find_global(vm_warp *warp, const vm_insn *in, unsigned lane, uint64_t address,
                        unsigned bytes, bool write, spot *found)
{
    const vm_region *region = &warp->region;
    if (!vm_access_region(warp, address)) {
        vm_region other;
        find_region(warp, address, &other);
        return fail_global(warp, in, lane, address, bytes, &other);
    }
    uint64_t offset = address - region->low;
    if (bytes > region->high - address) {
        return fail_global(warp, in, lane, address, bytes, region);
    }
    if (region->window != NULL &&
        offset % region->window->pitch + bytes > region->window->row_bytes) {
        return fail_global(warp, in, lane, address, bytes, region);
    }
    if (write && !region->writable) {
        return vm_fail(warp, in, (int)lane, VM_ILLEGAL_ADDRESS,
                       "write to the read-only operand at parameter byte %u, offset %" PRIu64,
                       region->owner->parameter, offset);
    }
    found->data = region->data + offset;
    found->defined = region->defined;
    found->bit = region->bit + offset;
    found->race = region->race;
    found->space = "global";
    return true;
}

static bool find_spot(vm_warp *warp, const vm_insn *in, unsigned lane, vm_space space,
                      uint64_t address, unsigned bytes, bool write, spot *found)
{
    if (space == VS_GENERIC) {
        uint64_t window = address & VM_GENERIC_MASK;
        uint64_t inside = address & ~VM_GENERIC_MASK;
        switch (window) {
        case VM_SHARED_GENERIC:
            return find_shared(warp, in, lane, inside, bytes, found);
        case VM_LOCAL_GENERIC:
            return find_local(warp, in, lane, inside, bytes, found);
        case VM_CONST_GENERIC:
            return find_constant(warp, in, lane, inside, bytes, write, found);
        case VM_PARAM_GENERIC:
            return find_parameter(warp, in, lane, inside, bytes, write, found);
        default:
            return find_global(warp, in, lane, address, bytes, write, found);
        }
    }
    switch (space) {
    case VS_SHARED:
        return find_shared(warp, in, lane, address, bytes, found);
    case VS_LOCAL:
        return find_local(warp, in, lane, address, bytes, found);
    case VS_CONST:
        return find_constant(warp, in, lane, address, bytes, write, found);
    case VS_PARAM:
        return find_parameter(warp, in, lane, address, bytes, write, found);
    default:
        return find_global(warp, in, lane, address, bytes, write, found);
    }
}

void vm_locate(vm_warp *warp, unsigned lane, vm_space space, uint64_t address, const vm_race **race,
               uint64_t *offset)
{
    uint64_t window = space == VS_GENERIC ? address & VM_GENERIC_MASK : 0;
    bool shared = space == VS_SHARED || window == VM_SHARED_GENERIC;
    (void)lane;
    if (shared) {
        *race = &warp->block->shared_race;
        *offset = address & ~VM_GENERIC_MASK;
        return;
    }
    vm_region region;
    bool global = space == VS_GLOBAL || window == 0 || window == VM_WINDOW_BASE;
    if (global && space != VS_LOCAL && find_region(warp, address, &region)) {
        *race = region.race;
        *offset = region.bit + (address - region.low);
    }
}

/* Only global memory belongs to copies. */
static bool is_free(vm_warp *warp, const vm_insn *in, unsigned lane, const uint8_t *data,
                    unsigned bytes, bool write)
{
    const vm_launch *launch = warp->block->launch;
    const vm_owned *owned =
        vm_owned_touched(launch->owned, launch->owned_count, data, bytes, write);
    if (owned == NULL) {
        return true;
    }
    return vm_fail(warp, in, (int)lane, VM_LAUNCH_FAILED,
                   "%s of %u bytes that belong to a copy in flight, %" PRIu64
                   " bytes into its %s at 0x%" PRIx64 ": nothing orders the two",
                   write ? "write" : "read", bytes, (uint64_t)(data - owned->data),
                   owned->target ? "target" : "source", owned->address);
}

/* A store to the block's own shared memory, by an instruction or a copy. */
static bool access_stored(vm_warp *warp, const vm_insn *in, unsigned lane, uint64_t address,
                          unsigned bytes, unsigned how)
{
    vm_block *block = warp->block;
    if ((how & VA_UNCHECKED) == 0) {
        vm_race_stored(warp, VM_OF_SHARED, 1u << lane);
    }
    if (block->copies != 0) { /* what lies there is no box any more */
        for (uint64_t at = address / VM_MAP_CHUNK; at <= (address + bytes - 1) / VM_MAP_CHUNK;
             at++) {
            block->tags[at].copy = 0;
        }
    }
    return block->reading_count == 0 || vm_reading_free(warp, in, lane, block, address, bytes);
}

uint8_t *vm_access(vm_warp *warp, const vm_insn *in, unsigned lane, vm_space space,
                   uint64_t address, unsigned bytes, unsigned how)
{
    spot found;
    bool write = (how & VA_WRITE) != 0;
    if (!find_spot(warp, in, lane, space, address, bytes, write, &found)) {
        return NULL;
    }
    if (address % bytes != 0) {
        vm_fail(warp, in, (int)lane, VM_MISALIGNED_ADDRESS,
                "%s access of %u bytes at 0x%" PRIx64 " is misaligned", found.space, bytes,
                address);
        return NULL;
    }
    if (!is_free(warp, in, lane, found.data, bytes, write)) {
        return NULL;
    }
    if (found.race != NULL && (how & VA_UNCHECKED) == 0 &&
        !vm_race_touch(warp, in, lane, found.race, found.bit, bytes, how)) {
        return NULL;
    }
    if (found.defined != NULL) {
        if ((how & VA_READ) != 0 && !vm_bits_all(found.defined, found.bit, bytes)) {
            vm_fail(warp, in, (int)lane, VM_LAUNCH_FAILED,
                    "load of undefined %s bytes: %u at 0x%" PRIx64, found.space, bytes, address);
            return NULL;
        }
        if (write) {
            vm_bits_set(found.defined, found.bit, bytes, true);
        }
    }
    if (write && found.race != NULL && found.race->shared_by_threads &&
        (how & (VA_UNCHECKED | VA_ASYNC)) == 0) {
        vm_race_stored(warp, VM_OF_GLOBAL, 1u << lane);
    }
    if (write && found.race == &warp->block->shared_race &&
        !access_stored(warp, in, lane, found.bit, bytes, how)) {
        return NULL;
    }
    return found.data;
}
