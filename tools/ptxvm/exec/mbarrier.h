/* SPDX-License-Identifier: MIT */
/* mbarriers of a block, and the bulk copies that complete on them (PTX ISA 9.1, 9.7.13.15). */
#ifndef PTXVM_MBARRIER_H
#define PTXVM_MBARRIER_H

#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/driver/tensor_map.h"

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
    /* The same from other blocks of the cluster, with .release.cluster, by rank. */
    vm_release away[VM_CLUSTER_MAX], away_complete[VM_CLUSTER_MAX];
    uint32_t away_ranks, away_complete_ranks;
} vm_mbarrier;

/* A bulk copy in flight: into shared memory, where it completes on an mbarrier, or out of it, where
 * it belongs to a group of its thread. */
typedef struct vm_bulk {
    uint64_t global; /* address; unused of a tensor's */
    uint32_t shared; /* address */
    uint32_t bytes;
    uint32_t thread;
    uint32_t mbarrier; /* address */
    uint32_t group;
    bool tensor;
    int32_t at[VM_MAP_RANK]; /* where the box begins */
    vm_tensor_map map;
    vm_warp *issuer;
    const vm_insn *insn;
    const vm_function *function;
} vm_bulk;

/* What a tensor copy wrote into 16 bytes: the copy's number (0: none did), which piece of the box,
 * and how many of them make a row. */
typedef struct vm_tag {
    uint32_t copy;
    uint32_t chunk;
    uint32_t width;
} vm_tag;

/* Reads the operands of a bulk copy's global side: a plain address, or a map and coordinates that
 * begin at operand `operand`. */
bool vm_bulk_global(vm_warp *warp, const vm_insn *in, unsigned operand, unsigned lane,
                    vm_bulk *bulk);
/* The shared address of the chunk of 16 bytes. */
uint32_t vm_bulk_place(const vm_bulk *bulk, uint32_t chunk);
/* Adds the operands of the global side; *at is the node. */
bool vm_bulk_decode(struct vm_parser *parser, vm_insn *in, size_t *at);
void vm_bulk_append(vm_bulk **list, uint32_t *count, uint32_t *capacity, const vm_bulk *bulk);

/* Whether bytes of shared memory belong to an mbarrier. */
bool vm_mbarrier_touched(const vm_block *block, uint64_t address, unsigned bytes);

/* Warp's fence towards the asynchronous proxy, or of its mbarriers' making. */
void vm_mbarrier_fence(vm_warp *warp);

/* The live mbarrier that operand `operand` of a lane names, of whose making the warp knows; NULL:
 * the failure has been told. home: the block that has it; NULL, where it must be the warp's own. */
vm_mbarrier *vm_mbarrier_use(vm_warp *warp, const vm_insn *in, unsigned operand, unsigned lane,
                             vm_block **home);

/* The live mbarrier at an address of a block, or NULL. */
vm_mbarrier *vm_mbarrier_at(const vm_block *block, uint64_t address);

/* Counts bytes awaited, or fewer. */
enum { VM_MBARRIER_MOST = (1 << 20) - 1 };
bool vm_mbarrier_transact(vm_warp *warp, const vm_insn *in, unsigned lane, vm_mbarrier *m,
                          int64_t by);

/* What the warp has done and seen goes with the phase: kept for a warp, as fences are. */
void vm_mbarrier_bring(vm_warp *warp, vm_mbarrier *m);

/* Ends the phase when nothing is awaited any more. */
void vm_mbarrier_resolve(vm_block *block, vm_mbarrier *m);

/* Completes copies of an mbarrier that somebody waits for: all, or under a seed one. */
bool vm_bulk_deliver(vm_warp *waiter, vm_mbarrier *m);

/* At a block's end no bulk copy may be in flight. */
bool vm_bulk_finish(vm_block *block);

/* Forgets all of a block before it runs, and gives the memory back for good. */
void vm_mbarrier_start(vm_block *block);
void vm_mbarrier_free(vm_block *block);

#endif
