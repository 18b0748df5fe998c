/* SPDX-License-Identifier: MIT */
/* Device memory with its shadow: which bytes are defined, and who touched them last. */
#ifndef PTXVM_MEMORY_H
#define PTXVM_MEMORY_H

#include "tools/ptxvm/text/program.h"
#include "tools/ptxvm/race.h"

typedef struct vm_allocation {
    uint64_t address;
    uint64_t bytes;
    uint8_t *data;
    uint64_t *defined; /* one bit per byte; NULL: every byte is (pinned host memory) */
    vm_race race;
    bool host;
    bool managed; /* and the device's: it counts as that one's, and has no shadow */
    uint32_t
        device;    /* whose it is, and whose kernels alone may touch it, unless it is the host's */
    bool variable; /* a module's, reachable from any kernel of it */
} vm_allocation;

/* Memory that belongs to a copy in flight: rows of row_bytes at a pitch. Nobody else may write the
 * source, or touch the target. */
enum { VM_OWNED_MAX = 64 };
typedef struct vm_owned {
    const uint8_t *data;
    uint64_t address;
    uint64_t rows;
    uint64_t row_bytes;
    uint64_t pitch;
    bool target;
} vm_owned;

/* The first of them that an access of these bytes may not touch; NULL when it may. */
const vm_owned *vm_owned_touched(const vm_owned *owned, uint32_t count, const uint8_t *data,
                                 uint64_t bytes, bool write);

/* A pointer parameter of one launch: rows of row_bytes at a pitch, seen at its own address. */
typedef struct vm_window {
    vm_allocation *allocation;
    uint64_t offset; /* of the first byte in the allocation */
    uint64_t base;   /* the address that the kernel sees */
    uint64_t rows;
    uint64_t row_bytes;
    uint64_t pitch;
    uint32_t parameter; /* byte offset in the blob */
    bool writable;
} vm_window;

/* A stretch of addresses that one lookup serves. */
typedef struct vm_region {
    uint64_t low;
    uint64_t high; /* exclusive; low == high: no region */
    uint8_t *data; /* of low */
    uint64_t *defined;
    uint64_t bit; /* of low in defined, and its byte in race */
    vm_race *race;
    const vm_window *window; /* whose pitch leaves gaps, or NULL */
    const vm_window *owner;  /* the window, gaps or not */
    bool writable;
    bool atomic_lock; /* shared between host threads */
    vm_space space;
    uint32_t block_rank;
} vm_region;

/* Address space for device memory is handed out once and never again. */
uint64_t vm_device_reserve(uint64_t bytes);

/* The registry. `address` 0: reserve one. NULL: no memory. `device` without host_data. */
vm_allocation *vm_memory_add(uint64_t address, uint64_t bytes, uint8_t *host_data, uint32_t device);
bool vm_memory_remove(uint64_t address);
/* The allocation that holds the byte, or NULL. */
vm_allocation *vm_memory_find(uint64_t address);
uint64_t vm_memory_used(uint32_t device);
/* Whether the host may touch managed memory. */
void vm_memory_guard(bool open);

void vm_defined_set(vm_allocation *allocation, uint64_t offset, uint64_t bytes, bool defined);
void vm_bits_set(uint64_t *bits, uint64_t from, uint64_t count, bool value);
bool vm_bits_all(const uint64_t *bits, uint64_t from, uint64_t count);

struct vm_warp;
struct vm_insn;

/* How an access counts for the checks. */
/* ASYNC: of global memory, through the asynchronous proxy. */
enum { VA_READ = 1, VA_WRITE = 2, VA_STRONG = 4, VA_UNCHECKED = 8, VA_ASYNC = 16 };

/* Checks one lane's access of `bytes` bytes (a power of two up to 32) and returns the bytes, or
 * NULL after a report. Reads must find defined bytes; writes define them. */
uint8_t *vm_access(struct vm_warp *warp, const struct vm_insn *in, unsigned lane, vm_space space,
                   uint64_t address, unsigned bytes, unsigned how);

/* The same for the weak accesses of all lanes of `mask` at once, in 2 to 32 bytes each: data[lane]
 * points to a lane's bytes. False, and nothing is reported, where the lanes have to be asked one by
 * one. */
bool vm_access_together(struct vm_warp *warp, uint32_t mask, vm_space space,
                        const uint64_t *addresses, unsigned bytes, bool write, uint8_t **data);

/* Makes warp->region the one that holds the address; false when there is none. */
bool vm_access_region(struct vm_warp *warp, uint64_t address);

/* The history that an address belongs to, without any check; *race stays NULL where none is kept.
 */
void vm_locate(struct vm_warp *warp, unsigned lane, vm_space space, uint64_t address,
               const vm_race **race, uint64_t *offset);

/* Everything a DMA may do: plain copies between allocations or host memory, with definedness. */
bool vm_memory_write(uint64_t target, const void *source, uint64_t bytes);
bool vm_memory_read(void *target, uint64_t source, uint64_t bytes);
bool vm_memory_copy(uint64_t target, uint64_t source, uint64_t bytes);
bool vm_memory_fill(uint64_t target, uint64_t pattern, unsigned element, uint64_t count);

#endif
