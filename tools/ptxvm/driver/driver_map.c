/* SPDX-License-Identifier: MIT */
/* Memory that is mapped: addresses are reserved, memory is created, one is put behind the other,
 * and devices are let at it. */
#include <stdlib.h>

#include "tools/ptxvm/driver/driver.h"

/* Sizes, addresses and offsets are multiples of it. A driver's is larger. */
enum { GRANULARITY = 65536, LOCATION_DEVICE = 1, READ_WRITE = 3, NOBODY = 0xffff };

typedef struct map_memory {
    uint64_t bytes;
    uint64_t address; /* where it is mapped; 0: nowhere */
    uint32_t device;
    int holders; /* handles, and the mapping */
    struct map_memory *next;
} map_memory;

typedef struct map_range {
    uint64_t address, bytes;
    struct map_range *next;
} map_range;

static struct {
    map_memory *memory;
    map_range *ranges;
} mapped;

static bool whole(uint64_t bytes)
{
    return bytes > 0 && bytes % GRANULARITY == 0;
}

int cuMemGetAllocationGranularity(size_t *bytes, const abi_memory *wanted, int option)
{
    DR_ENTER(cuMemGetAllocationGranularity);
    *bytes = GRANULARITY;
    return dr_leave(wanted->type == 1 && option >= 0 && option <= 1 ? VM_OK : VM_INVALID_VALUE);
}

int cuMemAddressReserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t wanted,
                        unsigned long long flags)
{
    DR_ENTER(cuMemAddressReserve);
    if (!whole(bytes) || (alignment & (alignment - 1)) != 0 || wanted != 0 || flags != 0) {
        return dr_leave(VM_INVALID_VALUE);
    }
    map_range *made = vm_allocate(sizeof *made);
    made->address =
        (vm_device_reserve(bytes + GRANULARITY) + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
    made->bytes = bytes;
    made->next = mapped.ranges;
    mapped.ranges = made;
    dr_state.live[DK_DEVICE_MEMORY]++;
    *address = made->address;
    return dr_leave(VM_OK);
}

int cuMemAddressFree(uint64_t address, size_t bytes)
{
    DR_ENTER(cuMemAddressFree);
    for (map_range **at = &mapped.ranges; *at != NULL; at = &(*at)->next) {
        map_range *range = *at;
        if (range->address == address && range->bytes == bytes && vm_memory_find(address) == NULL) {
            *at = range->next;
            free(range);
            dr_state.live[DK_DEVICE_MEMORY]--;
            return dr_leave(VM_OK);
        }
    }
    return dr_leave(VM_INVALID_VALUE);
}

int cuMemCreate(uint64_t *handle, size_t bytes, const abi_memory *wanted, unsigned long long flags)
{
    DR_ENTER(cuMemCreate);
    uint64_t used = 0;
    if (!whole(bytes) || flags != 0 || wanted->type != 1 || wanted->location != LOCATION_DEVICE ||
        wanted->device < 0 || wanted->device >= dr_state.device_count) {
        return dr_leave(VM_INVALID_VALUE);
    }
    for (const map_memory *at = mapped.memory; at != NULL; at = at->next) {
        used += at->address == 0 && at->device == (uint32_t)wanted->device ? at->bytes : 0;
    }
    if (bytes > dr_state.memory_total ||
        used + vm_memory_used((uint32_t)wanted->device) > dr_state.memory_total - bytes) {
        return dr_leave(VM_OUT_OF_MEMORY);
    }
    map_memory *made = vm_allocate(sizeof *made);
    made->bytes = bytes;
    made->device = (uint32_t)wanted->device;
    made->holders = 1;
    made->next = mapped.memory;
    mapped.memory = made;
    dr_state.live[DK_DEVICE_MEMORY]++;
    *handle = (uint64_t)(uintptr_t)made;
    return dr_leave(VM_OK);
}

static map_memory *memory_of(uint64_t handle)
{
    map_memory *at = mapped.memory;
    while (at != NULL && (uint64_t)(uintptr_t)at != handle) {
        at = at->next;
    }
    return at;
}

static void memory_leave(map_memory *memory)
{
    if (--memory->holders > 0) {
        return;
    }
    map_memory **at = &mapped.memory;
    while (*at != memory) {
        at = &(*at)->next;
    }
    *at = memory->next;
    free(memory);
    dr_state.live[DK_DEVICE_MEMORY]--;
}

int cuMemRelease(uint64_t handle)
{
    DR_ENTER(cuMemRelease);
    map_memory *memory = memory_of(handle);
    if (memory == NULL) {
        return dr_leave(VM_INVALID_VALUE);
    }
    memory_leave(memory);
    return dr_leave(VM_OK);
}

/* The whole of it, within one range; nobody may touch it yet. */
int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle,
             unsigned long long flags)
{
    DR_ENTER(cuMemMap);
    map_memory *memory = memory_of(handle);
    bool reserved = false;
    for (const map_range *at = mapped.ranges; at != NULL; at = at->next) {
        reserved = reserved || (address >= at->address && bytes <= at->bytes &&
                                address - at->address <= at->bytes - bytes);
    }
    if (memory == NULL || memory->address != 0 || offset != 0 || flags != 0 ||
        bytes != memory->bytes || address % GRANULARITY != 0 || !reserved ||
        vm_memory_find(address) != NULL) {
        return dr_leave(VM_INVALID_VALUE);
    }
    if (vm_memory_add(address, bytes, NULL, NOBODY) == NULL) {
        return dr_leave(VM_OUT_OF_MEMORY);
    }
    memory->address = address;
    memory->holders++;
    return dr_leave(VM_OK);
}

static map_memory *memory_at(uint64_t address)
{
    map_memory *at = mapped.memory;
    while (at != NULL &&
           (at->address == 0 || address < at->address || address - at->address >= at->bytes)) {
        at = at->next;
    }
    return at;
}

int cuMemSetAccess(uint64_t address, size_t bytes, const abi_access *wanted, size_t count)
{
    DR_ENTER(cuMemSetAccess);
    const map_memory *memory = memory_at(address);
    vm_allocation *made = vm_memory_find(address);
    if (memory == NULL || made == NULL || memory->address != address || memory->bytes != bytes ||
        count != 1 || wanted->location != LOCATION_DEVICE || wanted->flags != READ_WRITE ||
        (uint32_t)wanted->device != memory->device) {
        return dr_leave(VM_INVALID_VALUE);
    }
    made->device = memory->device;
    return dr_leave(VM_OK);
}

int cuMemUnmap(uint64_t address, size_t bytes)
{
    DR_ENTER(cuMemUnmap);
    map_memory *memory = memory_at(address);
    if (memory == NULL || memory->address != address || memory->bytes != bytes) {
        return dr_leave(VM_INVALID_VALUE);
    }
    int result = dr_drain_device();
    vm_memory_remove(address);
    memory->address = 0;
    memory_leave(memory);
    return dr_leave(result);
}

int cuMemRetainAllocationHandle(uint64_t *handle, void *address)
{
    DR_ENTER(cuMemRetainAllocationHandle);
    map_memory *memory = memory_at((uint64_t)(uintptr_t)address);
    if (memory == NULL) {
        return dr_leave(VM_INVALID_VALUE);
    }
    memory->holders++;
    *handle = (uint64_t)(uintptr_t)memory;
    return dr_leave(VM_OK);
}
