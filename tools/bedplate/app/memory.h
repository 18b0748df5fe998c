/* SPDX-License-Identifier: MIT */
/* The program's memories: taken from the system at start-up, before anything is sealed. */
#ifndef BP_BEDPLATE_MEMORY_H
#define BP_BEDPLATE_MEMORY_H

#include "core/base/error.h"

typedef struct memory_block {
    void *address; /* page-aligned; NULL: none */
    size_t bytes;
} memory_block;

/* Maps `bytes` of zero bytes. With `resident` every page is made present at once, in large pages
 * where the system has them, so that no step waits for one. BP_ERR_FIT when the system says that it
 * has not as much: better now than by an out-of-memory kill later. `name` is for the message. */
bp_status memory_take(memory_block *block, uint64_t bytes, bool resident, const char *name,
                      bp_error *error) BP_MUST_CHECK;

/* Makes every page of a block present. */
void memory_resolve(const memory_block *block);

/* Gives back what lies behind the first `bytes` bytes, rounded up to whole pages. */
void memory_trim(memory_block *block, uint64_t bytes);

void memory_give_back(memory_block *block);

#endif
