/* SPDX-License-Identifier: MIT */
/* Memory from mmap. MADV_HUGEPAGE and MAP_ANONYMOUS are not in POSIX 2008, hence the macro. */
#define _DEFAULT_SOURCE
#include "tools/bedplate/memory.h"

#include <stdio.h>
#include <sys/mman.h>

#include "tools/bedplate/process_memory.h"

enum { POPULATE_WRITE = 23, PAGE = 4096 }; /* Linux 5.14; older kernels refuse it */

/* What the kernel thinks it can still give without swapping; UINT64_MAX when it does not say. */
static uint64_t available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
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
    return bytes;
}

bp_status memory_take(memory_block *block, uint64_t bytes, bool resident, const char *name,
                      bp_error *error)
{
    *block = (memory_block){NULL, 0};
    uint64_t available = available_bytes();
    if (bytes > available) {
        return bp_error_limit(error, BP_ERR_FIT, "memory",
                              "the system has less free memory than the plan needs", name,
                              (int64_t)available, BP_LIMIT_LEAST, (int64_t)bytes);
    }
    size_t size = bytes > 0 ? (size_t)bytes : 1;
    void *address = mmap(NULL, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        return bp_error_limit(error, BP_ERR_FIT, "memory",
                              "the system refused the memory that the plan needs, bytes", name,
                              (int64_t)bytes, BP_LIMIT_NONE, 0);
    }
    *block = (memory_block){address, size};
    if (resident) {
        process_plain_pages(false);
        (void)madvise(address, size, MADV_HUGEPAGE); /* a wish */
        memory_settle(block);
        process_plain_pages(true);
    }
    return BP_OK;
}

/* An older kernel is asked page by page. */
void memory_settle(const memory_block *block)
{
    if (block->address == NULL || madvise(block->address, block->bytes, POPULATE_WRITE) == 0) {
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
