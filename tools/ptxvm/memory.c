/* SPDX-License-Identifier: MIT */
/* The registry of device memory, its shadow bits, and copies made by the driver. */
#include "tools/ptxvm/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "tools/ptxvm/machine.h"

/* Unmapped space behind every allocation, so that a stray pointer meets nothing. */
#define GUARD 0x100000ull

/* The registry is the driver's, one per process; kernels only read it. */
static struct {
    uint64_t next;
    vm_allocation **items; /* by address */
    size_t count;
    size_t capacity;
} registry = {VM_DEVICE_BASE, NULL, 0, 0};

uint64_t vm_device_reserve(uint64_t bytes)
{
    uint64_t address = registry.next;
    registry.next += (bytes + GUARD) / 4096 * 4096 + 4096;
    return address;
}

static size_t find_index(uint64_t address)
{
    size_t low = 0;
    size_t high = registry.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (registry.items[middle]->address + registry.items[middle]->bytes > address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

vm_allocation *vm_memory_find(uint64_t address)
{
    size_t at = find_index(address);
    bool inside = at < registry.count && registry.items[at]->address <= address;
    return inside ? registry.items[at] : NULL;
}

vm_allocation *vm_memory_add(uint64_t address, uint64_t bytes, uint8_t *host_data, uint32_t device)
{
    vm_allocation *made = vm_allocate(sizeof *made);
    made->bytes = bytes;
    made->host = host_data != NULL;
    made->device = device;
    made->address = address != 0 ? address : vm_device_reserve(bytes);
    made->data = host_data != NULL ? host_data : calloc((size_t)bytes + 64, 1);
    if (made->data == NULL) {
        free(made);
        return NULL;
    }
    if (!made->host) {
        made->defined = vm_allocate((size_t)(bytes / 64 + 2) * 8);
    }
    vm_race_init(&made->race, bytes, true);
    if (registry.count == registry.capacity) {
        registry.capacity = registry.capacity == 0 ? 16 : registry.capacity * 2;
        registry.items = vm_resize(registry.items, registry.capacity * sizeof *registry.items);
    }
    size_t at = find_index(made->address);
    memmove(&registry.items[at + 1], &registry.items[at],
            (registry.count - at) * sizeof *registry.items);
    registry.items[at] = made;
    registry.count++;
    return made;
}

bool vm_memory_remove(uint64_t address)
{
    size_t at = find_index(address);
    if (at == registry.count || registry.items[at]->address != address) {
        return false;
    }
    vm_allocation *gone = registry.items[at];
    registry.count--;
    memmove(&registry.items[at], &registry.items[at + 1],
            (registry.count - at) * sizeof *registry.items);
    vm_race_free(&gone->race);
    if (!gone->host) {
        free(gone->data);
    }
    free(gone->defined);
    free(gone);
    return true;
}

uint64_t vm_memory_used(uint32_t device)
{
    uint64_t used = 0;
    for (size_t i = 0; i < registry.count; i++) {
        const vm_allocation *at = registry.items[i];
        used += (!at->host || at->managed) && at->device == device ? at->bytes : 0;
    }
    return used;
}

void vm_memory_guard(bool open)
{
    for (size_t i = 0; i < registry.count; i++) {
        const vm_allocation *at = registry.items[i];
        if (at->managed) {
            (void)mprotect(at->data, (size_t)at->bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
        }
    }
}

/* ---- bits ---- */

void vm_bits_set(uint64_t *bits, uint64_t from, uint64_t count, bool value)
{
    while (count > 0) {
        uint64_t shift = from % 64;
        uint64_t part = 64 - shift < count ? 64 - shift : count;
        uint64_t mask = (part == 64 ? ~0ull : (1ull << part) - 1) << shift;
        uint64_t *word = &bits[from / 64];
        /* Blocks on several host threads define bytes of one word at once. */
        if (value && (__atomic_load_n(word, __ATOMIC_RELAXED) & mask) != mask) {
            __atomic_fetch_or(word, mask, __ATOMIC_RELAXED);
        } else if (!value && part == 64) {
            __atomic_store_n(word, 0, __ATOMIC_RELAXED);
        } else if (!value) {
            __atomic_fetch_and(word, ~mask, __ATOMIC_RELAXED);
        }
        from += part;
        count -= part;
    }
}

bool vm_bits_all(const uint64_t *bits, uint64_t from, uint64_t count)
{
    while (count > 0) {
        uint64_t shift = from % 64;
        uint64_t part = 64 - shift < count ? 64 - shift : count;
        uint64_t mask = (part == 64 ? ~0ull : (1ull << part) - 1) << shift;
        if ((__atomic_load_n(&bits[from / 64], __ATOMIC_RELAXED) & mask) != mask) {
            return false;
        }
        from += part;
        count -= part;
    }
    return true;
}

void vm_defined_set(vm_allocation *allocation, uint64_t offset, uint64_t bytes, bool defined)
{
    if (allocation->defined != NULL) {
        vm_bits_set(allocation->defined, offset, bytes, defined);
    }
}

/* ---- copies ---- */

static vm_allocation *find_range(uint64_t address, uint64_t bytes, uint64_t *offset)
{
    vm_allocation *found = vm_memory_find(address);
    if (found == NULL || bytes > found->bytes - (address - found->address)) {
        return NULL;
    }
    *offset = address - found->address;
    return found;
}

bool vm_memory_write(uint64_t target, const void *source, uint64_t bytes)
{
    uint64_t offset = 0;
    vm_allocation *found = bytes == 0 ? NULL : find_range(target, bytes, &offset);
    if (found == NULL) {
        return bytes == 0;
    }
    memcpy(found->data + offset, source, (size_t)bytes);
    vm_defined_set(found, offset, bytes, true);
    return true;
}

bool vm_memory_read(void *target, uint64_t source, uint64_t bytes)
{
    uint64_t offset = 0;
    vm_allocation *found = bytes == 0 ? NULL : find_range(source, bytes, &offset);
    if (found == NULL) {
        return bytes == 0;
    }
    memcpy(target, found->data + offset, (size_t)bytes);
    return true;
}

bool vm_memory_copy(uint64_t target, uint64_t source, uint64_t bytes)
{
    uint64_t to = 0;
    uint64_t from = 0;
    if (bytes == 0) {
        return true;
    }
    vm_allocation *into = find_range(target, bytes, &to);
    vm_allocation *out = find_range(source, bytes, &from);
    if (into == NULL || out == NULL) {
        return false;
    }
    memmove(into->data + to, out->data + from, (size_t)bytes);
    if (out->defined == NULL || vm_bits_all(out->defined, from, bytes)) {
        vm_defined_set(into, to, bytes, true);
        return true;
    }
    for (uint64_t i = 0; i < bytes && into->defined != NULL; i++) {
        vm_bits_set(into->defined, to + i, 1, vm_bits_all(out->defined, from + i, 1));
    }
    return true;
}

bool vm_memory_fill(uint64_t target, uint64_t pattern, unsigned element, uint64_t count)
{
    uint64_t offset = 0;
    if (count == 0) {
        return true;
    }
    if (count > UINT64_MAX / element) {
        return false;
    }
    vm_allocation *found = find_range(target, count * element, &offset);
    if (found == NULL) {
        return false;
    }
    /* What is there is copied behind itself: a copy for each element takes a sanitizer minutes. */
    uint8_t *data = found->data + offset;
    uint64_t bytes = count * element;
    memcpy(data, &pattern, element);
    for (uint64_t done = element; done < bytes; done *= 2) {
        memcpy(data + done, data, done < bytes - done ? done : bytes - done);
    }
    vm_defined_set(found, offset, bytes, true);
    return true;
}

const vm_owned *vm_owned_touched(const vm_owned *owned, uint32_t count, const uint8_t *data,
                                 uint64_t bytes, bool write)
{
    for (uint32_t i = 0; i < count; i++) {
        const vm_owned *at = &owned[i];
        uintptr_t low = (uintptr_t)at->data, from = (uintptr_t)data;
        uint64_t span = (at->rows - 1) * at->pitch + at->row_bytes;
        if ((!write && !at->target) || from + bytes <= low || from >= low + span) {
            continue;
        }
        uint64_t first = from > low ? from - low : 0;
        uint64_t last = from + bytes - low;
        uint64_t row = first / at->pitch;
        if (first % at->pitch < at->row_bytes || (row + 1) * at->pitch < last) {
            return at;
        }
    }
    return NULL;
}
