/* SPDX-License-Identifier: MIT */
/* Fragments of a warp and the joins where their lanes meet: used by the scheduler only. */
#ifndef PTXVM_WARP_H
#define PTXVM_WARP_H

#include "tools/ptxvm/machine.h"

enum { VM_NO_JOIN = -1 };

/* A new join, or VM_NO_JOIN when there are too many. */
int32_t vm_join_new(vm_warp *warp, int32_t pc, uint32_t function, uint32_t expected,
                    int32_t parent);
/* Lanes that have met go on behind the join (all of them, or with force those that came); nothing
 * left to wait for frees it. */
void vm_join_resolve(vm_warp *warp, int32_t index, bool force);

vm_fragment *vm_fragment_add(vm_warp *warp, uint32_t mask, int32_t pc, uint32_t function,
                             int32_t join);
/* Takes fragments in state FS_DONE out of the list: pointers into it move. */
void vm_warp_drop_done(vm_warp *warp);
/* If the fragment stands where its lanes are to meet, it dissolves into the join: true. */
bool vm_warp_arrive(vm_warp *warp, vm_fragment *fragment);
/* The same for every ready fragment, until none moves. */
void vm_warp_arrive_all(vm_warp *warp);
/* Nothing is ready: lets lanes that only wait to meet go on. False when there are none. */
bool vm_warp_break_join(vm_warp *warp);

#endif
