/* SPDX-License-Identifier: MIT */
/* Memory from mmap. MADV_HUGEPAGE and MAP_ANONYMOUS are not in POSIX 2008, hence the macro. */
#define _DEFAULT_SOURCE
#include "tools/bedplate/app/memory.h"

#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "tools/bedplate/app/group_memory.h"
#include "tools/bedplate/app/process_memory.h"

enum { POPULATE_WRITE = 23, PAGE = 4096 }; /* Linux 5.14; older kernels refuse it */

#define PIECE ((size_t)16 << 20) /* made present in large pages at once */

/* Where memory is in pieces, the kernel moves what lies in the way of each large page: 2 GiB took
 * 5.1 s of its time instead of 0.3, and 0.7 to 1.2 in small ones (docs/figures/loading.md). Such
 * time, what is beyond a GiB/s, is spent up to this many seconds in all. */
#define MOVING_SECONDS 0.1

/* What the kernel thinks it can still give without swapping, and lets this process have; UINT64_MAX
 * when it does not say. */
static uint64_t available_bytes(uint64_t enough)
{
    FILE *file = fopen("/proc/meminfo", "r");
    const uint64_t group = group_memory_available("/proc/self/cgroup", "/sys/fs/cgroup", enough);
    uint64_t bytes = UINT64_MAX;
    char line[128];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        unsigned long long kibibytes;
        if (sscanf(line, "MemAvailable: %llu kB", &kibibytes) == 1) {
            bytes = (uint64_t)kibibytes * 1024;
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return group < bytes ? group : bytes;
}

/* Makes pages present; false where the kernel does not know how. */
static bool populate(void *address, size_t bytes)
{
    return madvise(address, bytes, POPULATE_WRITE) == 0;
}

static double thread_seconds(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* known to every kernel that populates */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Large pages as long as they are at hand, small ones from there on. The wish for large ones stays:
 * the kernel joins small ones by and by, beside the run. */
static void resolve_large(const memory_block *block)
{
    char *at = block->address;
    size_t left = block->bytes;
    double moving = 0;
    (void)madvise(at, left, MADV_HUGEPAGE); /* a wish */
    while (left > 0 && moving < MOVING_SECONDS) {
        const size_t piece = left < PIECE ? left : PIECE;
        const double began = thread_seconds();
        if (!populate(at, piece)) {
            break;
        }
        const double beyond = thread_seconds() - began - (double)piece / (1u << 30);
        moving += beyond > 0 ? beyond : 0;
        at += piece;
        left -= piece;
    }
    if (left > 0) {
        (void)madvise(at, left, MADV_NOHUGEPAGE);
        memory_resolve(&(memory_block){at, left});
        (void)madvise(at, left, MADV_HUGEPAGE);
    }
}

bp_status memory_take(memory_block *block, uint64_t bytes, bool resident, const char *name,
                      bp_error *error)
{
    *block = (memory_block){NULL, 0};
    uint64_t available = available_bytes(bytes);
    if (bytes > available) {
        return bp_error_limit(error, BP_ERR_FIT, "memory",
                              "the system has less free memory than the plan needs", name,
                              bp_size_signed(available), BP_LIMIT_LEAST, bp_size_signed(bytes));
    }
    size_t size = bytes > 0 ? (size_t)bytes : 1;
    void *address = mmap(NULL, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        return bp_error_limit(error, BP_ERR_FIT, "memory",
                              "the system refused the memory that the plan needs, bytes", name,
                              bp_size_signed(bytes), BP_LIMIT_NONE, 0);
    }
    *block = (memory_block){address, size};
    if (resident) {
        process_plain_pages(false);
        resolve_large(block);
        process_plain_pages(true);
    }
    return BP_OK;
}

/* An older kernel is asked page by page. */
void memory_resolve(const memory_block *block)
{
    if (block->address == NULL || populate(block->address, block->bytes)) {
        return;
    }
    volatile unsigned char *bytes = block->address;
    for (size_t i = 0; i < block->bytes; i += PAGE) {
        bytes[i] = bytes[i];
    }
}

void memory_trim(memory_block *block, uint64_t bytes)
{
    const size_t kept = (size_t)bp_size_align(bytes, PAGE);
    if (block->address != NULL && kept > 0 && kept < block->bytes) {
        (void)munmap((char *)block->address + kept, block->bytes - kept);
        block->bytes = kept;
    }
}

void memory_give_back(memory_block *block)
{
    if (block->address != NULL) {
        (void)munmap(block->address, block->bytes);
        block->address = NULL;
    }
}
