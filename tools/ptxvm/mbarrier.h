/* SPDX-License-Identifier: MIT */
/* mbarriers of a block, and the bulk copies that complete on them (PTX ISA 9.1, 9.7.13.15). */
#ifndef PTXVM_MBARRIER_H
#define PTXVM_MBARRIER_H

#include "tools/ptxvm/machine.h"

/* One mbarrier object: 8 bytes of shared memory that only its own instructions may touch. */
typedef struct vm_mbarrier {
    uint32_t address;
    bool fenced;       /* its initialiser has told other proxies of it */
    bool observed;     /* somebody has seen the end of the phase before this one */
    uint32_t expected; /* arrivals of each phase */
    uint32_t pending;  /* that this phase still waits for */
    int32_t transactions;
    uint64_t phase;         /* the one that is not complete, counted from 0 */
    uint32_t maker;         /* warp */
    uint32_t made;          /* time */
    vm_clock_set gathering; /* what arrivals of this phase bring, */
    vm_clock_set complete;  /* and those of the one before it have brought */
} vm_mbarrier;

/* A bulk copy in flight towards shared memory. */
typedef struct vm_bulk {
    uint64_t source;
    uint32_t target;
    uint32_t bytes;
    uint32_t thread;
    uint32_t mbarrier; /* address */
    const vm_insn *insn;
    const vm_function *function;
} vm_bulk;

/* Whether bytes of shared memory belong to an mbarrier. */
bool vm_mbarrier_touched(const vm_block *block, uint64_t address, unsigned bytes);

/* Warp's fence towards the asynchronous proxy, or of its mbarriers' making. */
void vm_mbarrier_fence(vm_warp *warp);

/* The live mbarrier that operand `operand` of a lane names, of whose making the warp knows; NULL:
 * the failure has been told. */
vm_mbarrier *vm_mbarrier_use(vm_warp *warp, const vm_insn *in, unsigned operand, unsigned lane);

/* Counts bytes awaited, or fewer. */
enum { VM_MBARRIER_MOST = (1 << 20) - 1 };
bool vm_mbarrier_transact(vm_warp *warp, const vm_insn *in, unsigned lane, vm_mbarrier *m,
                          int64_t by);

/* What the warp has done and seen goes with the phase: kept for a warp, as fences are. */
void vm_mbarrier_bring(vm_warp *warp, vm_mbarrier *m);

/* Ends the phase when nothing is awaited any more. */
void vm_mbarrier_settle(vm_block *block, vm_mbarrier *m);

/* Completes copies of an mbarrier that somebody waits for: all, or under a seed one. */
bool vm_bulk_deliver(vm_warp *waiter, vm_mbarrier *m);

/* At a block's end no bulk copy may be in flight. */
bool vm_bulk_finish(vm_block *block);

/* Forgets all of a block before it runs, and gives the memory back for good. */
void vm_mbarrier_start(vm_block *block);
void vm_mbarrier_free(vm_block *block);

#endif
