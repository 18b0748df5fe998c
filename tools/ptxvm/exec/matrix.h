/* SPDX-License-Identifier: MIT */
/* Warpgroups: operands of wgmma in shared memory, and what is in flight. */
#ifndef PTXVM_MATRIX_H
#define PTXVM_MATRIX_H

#include "tools/ptxvm/exec/mbarrier.h"
#include "tools/ptxvm/exec/reading.h"

enum {
    VM_MATRIX_ROWS = 64, /* of A */
    VM_MATRIX_SLAB = 16, /* of A, that one warp multiplies */
    VM_MATRIX_COLUMNS = 256,
    VM_MATRIX_DEPTH = 32,
    VM_MATRIX_AHEAD = 64 /* steps that the warps of a warpgroup may be apart */
};

/* What happened last to a register of a kernel that has wgmma: epochs are those between fences. */
typedef struct vm_mark {
    uint32_t touched; /* the epoch of the last ordinary access */
    uint32_t group;   /* of the wgmma that has it, 0 none */
    uint32_t start;   /* the warp's when this was written: what is older says nothing */
    uint16_t shape;
    bool source; /* holds A */
} vm_mark;

/* What the four warps have done; every warp of the group must do the same. */
typedef struct vm_warpgroup {
    uint64_t latest;
    uint64_t signatures[VM_MATRIX_AHEAD];
    uint64_t steps[VM_READERS];
    uint32_t committed[VM_READERS];
} vm_warpgroup;

/* Where an operand of `rows` x `depth` elements lies: its pieces of 16 bytes. */
typedef struct vm_matrix_operand {
    const vm_insn *insn;
    uint64_t descriptor;
    unsigned rows;  /* M or N */
    unsigned depth; /* K */
    unsigned size;  /* bytes of an element */
    bool major;     /* pieces run along M or N, not along K */
    const char *name;
} vm_matrix_operand;

/* Checks everything about the operand's bytes and gathers them as rows x depth elements in order:
 * rows [from, from + count) into bytes, K fastest. */
bool vm_matrix_gather(vm_warp *warp, const vm_matrix_operand *operand, unsigned from,
                      unsigned count, uint8_t *bytes);
/* The span of shared memory that it covers is being read by the warp's group from now on. */
void vm_matrix_reads(vm_warp *warp, const vm_matrix_operand *operand);

/* The mark of a register of the running function, as of this start of the warp. */
static inline vm_mark *vm_matrix_mark(const vm_warp *warp, const vm_operand *operand)
{
    vm_mark *mark = &warp->marks[(warp->function->register_base + operand->offset) / 4];
    if (mark->start != warp->mark_start) {
        const vm_mark none = {.start = warp->mark_start};
        *mark = none;
    }
    return mark;
}

/* Notes that registers of an instruction are used: false, and reported, where a wgmma has them. */
bool vm_matrix_touch(vm_warp *warp, const vm_insn *in);
void vm_matrix_start(vm_warp *warp);
bool vm_matrix_finish(vm_block *block);

#endif
