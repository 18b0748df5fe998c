/* SPDX-License-Identifier: MIT */
/* Walking the process's own mappings. prctl and madvise are not in POSIX 2008, hence the macro. */
#define _DEFAULT_SOURCE
#include "tools/bedplate/app/process_memory.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "device/registry.h"

#define PAGE ((uintptr_t)4096)

enum { POPULATE_READ = 22 }; /* Linux 5.14; before, pages come as they are touched */

/* Measured: tables, heap, the main stack; and each further thread's. docs/figures/memory.md has
 * the runs.
 */
#define OWN_BYTES    ((uint64_t)1120 << 10)
#define STACK_BYTES  ((size_t)100 << 10)
#define THREAD_BYTES ((uint64_t)20 << 10)

void process_plain_pages(bool plain)
{
    (void)prctl(PR_SET_THP_DISABLE, plain ? 1ul : 0ul, 0ul, 0ul, 0ul); /* a wish */
}

typedef struct page_range {
    uintptr_t begin;
    uintptr_t end;
} page_range;

/* Whole pages that hold nothing but what a device on other memory reads (PTX of GPUs). */
static page_range unread_pages(void)
{
    const bp_device_entry *entry;
    page_range pages = {0, 0};
    for (uint32_t i = 0; (entry = bp_device_at(i)) != NULL; i++) {
        if (entry->unread != NULL) {
            entry->unread(&pages.begin, &pages.end);
        }
    }
    pages.begin = (pages.begin + PAGE - 1) / PAGE * PAGE;
    pages.end = pages.end / PAGE * PAGE;
    return pages.begin < pages.end ? pages : (page_range){0, 0};
}

/* The next readable mapping of a file; false behind the last. */
static bool next_file(FILE *maps, page_range *pages)
{
    char line[512];
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long long begin, end, inode;
        char mode[5];
        if (sscanf(line, "%llx-%llx %4s %*s %*s %llu", &begin, &end, mode, &inode) == 4 &&
            inode != 0 && mode[0] == 'r') {
            *pages = (page_range){(uintptr_t)begin, (uintptr_t)end};
            return true;
        }
    }
    return false;
}

static void resolve_pages(uintptr_t begin, uintptr_t end)
{
    if (begin < end) {
        (void)madvise((void *)begin, end - begin, POPULATE_READ);
    }
}

/* Bytes of all of them; `resolve`: they are made resident, where the kernel knows how, but for the
 * PTX, which together with small arenas would be more than a run ever has. */
static uint64_t walk_files(bool resolve)
{
    const page_range ptx = unread_pages();
    FILE *maps = fopen("/proc/self/maps", "r");
    page_range pages;
    uint64_t bytes = 0;
    while (maps != NULL && next_file(maps, &pages)) {
        bytes += pages.end - pages.begin;
        if (resolve) {
            resolve_pages(pages.begin, pages.end < ptx.begin ? pages.end : ptx.begin);
            resolve_pages(pages.begin > ptx.end ? pages.begin : ptx.end, pages.end);
        }
    }
    if (maps != NULL) {
        (void)fclose(maps); /* it was only read */
    }
    return bytes;
}

uint64_t process_bytes(uint32_t threads)
{
    const page_range ptx = unread_pages();
    const uint64_t further = threads > 1 ? threads - 1 : 0;
    const uint64_t files = walk_files(false), gpu = ptx.end - ptx.begin;
    return (files > gpu ? files - gpu : 0) + OWN_BYTES + further * THREAD_BYTES;
}

/* How deep the main stack will be is a matter of what is asked for; no run is deeper than this. */
static void resolve_stack(void)
{
    volatile unsigned char deep[STACK_BYTES];
    for (size_t i = 0; i < sizeof deep; i += PAGE) {
        deep[i] = 0;
    }
}

void process_resolve(void)
{
    const page_range ptx = unread_pages();
    resolve_stack();
    (void)walk_files(true);
    if (ptx.begin < ptx.end) {
        (void)madvise((void *)ptx.begin, ptx.end - ptx.begin, MADV_DONTNEED);
    }
}

uint64_t process_peak(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    unsigned long long kibibytes = 0;
    char line[256];
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "VmHWM: %llu kB", &kibibytes) == 1) {
            break;
        }
    }
    if (status != NULL) {
        (void)fclose(status); /* it was only read */
    }
    return (uint64_t)kibibytes * 1024;
}
