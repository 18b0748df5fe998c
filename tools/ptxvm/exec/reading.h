/* SPDX-License-Identifier: MIT */
/* Shared memory that asynchronous operations read: nobody may overwrite it before the wait that
 * says that they have. */
#ifndef PTXVM_READING_H
#define PTXVM_READING_H

#include "tools/ptxvm/machine.h"

enum { VM_READERS = 4 /* warps of a warpgroup */ };

typedef struct vm_reading {
    uint32_t first;
    uint32_t bytes;
    uint32_t owner;             /* thread of a bulk copy, or warpgroup */
    uint64_t group;             /* of the owner's */
    bool matrix;                /* a warpgroup's */
    uint32_t ended[VM_READERS]; /* when which of its warps had waited; 0 not yet */
    const vm_insn *insn;
} vm_reading;

/* Adds one, in place of an older one that has ended over the same bytes. */
void vm_reading_add(vm_block *block, const vm_reading *reading);

/* A write of these bytes: false, and reported, where something may still read them. */
bool vm_reading_free(vm_warp *warp, const vm_insn *in, unsigned lane, vm_block *block,
                     uint64_t first, unsigned bytes);

/* Readings of an owner's groups before `group` have ended, as the warp knows. */
void vm_reading_end(vm_warp *warp, uint32_t owner, bool matrix, uint64_t group);

/* At a block's end nothing may be read any more. */
bool vm_reading_finish(vm_block *block);

#endif
