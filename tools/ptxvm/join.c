/* SPDX-License-Identifier: MIT */
/* Fragments and the joins where they meet again. */
#include "tools/ptxvm/warp.h"

int32_t vm_join_new(vm_warp *warp, int32_t pc, uint32_t function, uint32_t expected, int32_t parent)
{
    for (int32_t i = 0; i < VM_JOINS; i++) {
        if (!warp->joins[i].used) {
            vm_join made = {true, false, pc, function, expected, 0, parent, NULL};
            warp->joins[i] = made;
            return i;
        }
    }
    return VM_NO_JOIN;
}

vm_fragment *vm_fragment_add(vm_warp *warp, uint32_t mask, int32_t pc, uint32_t function,
                             int32_t join)
{
    vm_fragment *fragment = &warp->fragments[warp->fragment_count++];
    vm_fragment made = {mask, 0, pc, join, function, FS_READY};
    *fragment = made;
    return fragment;
}

void vm_warp_drop_done(vm_warp *warp)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < warp->fragment_count; i++) {
        if (warp->fragments[i].state != FS_DONE) {
            warp->fragments[kept++] = warp->fragments[i];
        }
    }
    warp->fragment_count = kept;
}

/* Lanes that have met go on behind the join; nothing left to wait for frees it. */
void vm_join_resolve(vm_warp *warp, int32_t index, bool force)
{
    vm_join *join = &warp->joins[index];
    if (join->arrived != 0 && (join->arrived == join->expected || force)) {
        vm_fragment_add(warp, join->arrived, join->pc, join->function, join->parent);
        join->expected &= ~join->arrived;
        join->arrived = 0;
    }
    if (join->expected == 0) {
        join->used = false;
    }
}

/* If the fragment stands where its lanes are to meet, it dissolves into the join: true. */
bool vm_warp_arrive(vm_warp *warp, vm_fragment *fragment)
{
    if (fragment->join < 0) {
        return false;
    }
    vm_join *join = &warp->joins[fragment->join];
    if (join->is_return || join->pc != fragment->pc || join->function != fragment->function) {
        return false;
    }
    int32_t index = fragment->join;
    fragment->state = FS_DONE;
    join->arrived |= fragment->mask;
    vm_warp_drop_done(warp);
    vm_join_resolve(warp, index, false);
    return true;
}

/* The same for every ready fragment, until none moves. */
void vm_warp_arrive_all(vm_warp *warp)
{
    for (uint32_t i = 0; i < warp->fragment_count;) {
        vm_fragment *fragment = &warp->fragments[i];
        i = fragment->state == FS_READY && vm_warp_arrive(warp, fragment) ? 0 : i + 1;
    }
}

void vm_warp_exit(vm_warp *warp, vm_fragment *fragment, uint32_t mask)
{
    warp->live &= ~mask;
    int32_t first = fragment->join;
    fragment->mask &= ~mask;
    if (fragment->mask == 0) {
        fragment->state = FS_DONE;
    }
    vm_warp_drop_done(warp);
    for (int32_t at = first; at >= 0;) {
        int32_t parent = warp->joins[at].parent;
        warp->joins[at].expected &= ~mask;
        vm_join_resolve(warp, at, false);
        at = parent;
    }
}

/* Nothing is ready: lets lanes that only wait to meet go on. False when there are none. */
bool vm_warp_break_join(vm_warp *warp)
{
    for (int32_t i = VM_JOINS - 1; i >= 0; i--) {
        if (warp->joins[i].used && warp->joins[i].arrived != 0) {
            vm_join_resolve(warp, i, true);
            return true;
        }
    }
    return false;
}
