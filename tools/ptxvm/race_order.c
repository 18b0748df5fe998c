/* SPDX-License-Identifier: MIT */
/* Synchronisation: how the clocks of lanes, warps and barriers grow, and what the asynchronous
 * proxy knows of stores (each thread tells it by a fence, barriers carry on who
 * has). */
#include <stdlib.h>

#include "tools/ptxvm/machine.h"

void vm_race_warp_start(vm_warp *warp)
{
    uint32_t(*lanes)[VM_LANES] = warp->clock.lanes;
    memset(&warp->clock, 0, sizeof warp->clock);
    free(lanes);
}

/* All accesses so far lie at or before the returned time; later ones after it. */
static uint32_t tick(vm_block *block)
{
    return block->time++;
}

void vm_race_lanes_meet(vm_warp *warp, uint32_t mask)
{
    vm_clock *clock = &warp->clock;
    uint32_t time = tick(warp->block);
    if (mask == warp->live) {
        clock->warp_time = time;
        return;
    }
    if (clock->lanes == NULL) {
        clock->lanes = vm_allocate(sizeof(uint32_t[VM_LANES][VM_LANES]));
    }
    uint32_t joined[VM_LANES] = {0};
    for (unsigned l = 0; l < VM_LANES; l++) {
        for (unsigned m = 0; (mask >> l & 1) != 0 && m < VM_LANES; m++) {
            joined[m] = joined[m] > clock->lanes[l][m] ? joined[m] : clock->lanes[l][m];
        }
    }
    for (unsigned l = 0; l < VM_LANES; l++) {
        joined[l] = (mask >> l & 1) != 0 ? time : joined[l];
    }
    for (unsigned l = 0; l < VM_LANES; l++) {
        if ((mask >> l & 1) != 0) {
            memcpy(clock->lanes[l], joined, sizeof joined);
        }
    }
}

void vm_race_bring(vm_warp *warp, vm_clock_set *set)
{
    uint32_t time = tick(warp->block);
    warp->clock.warp_time = time;
    warp->clock.seen[warp->index] = time;
    vm_race_join(set->seen, warp->clock.seen);
    vm_race_join_proxied(&set->proxied, &warp->clock.proxied);
}

void vm_race_complete(vm_block *block, vm_clock_set *set, uint32_t waiting)
{
    uint32_t time = tick(block);
    for (; waiting != 0; waiting &= waiting - 1) {
        unsigned warp = vm_first_lane(waiting);
        set->seen[warp] = time;
        block->warps[warp].clock.warp_time = time;
    }
}

void vm_race_take(vm_warp *warp, const vm_clock_set *set)
{
    vm_race_join(warp->clock.seen, set->seen);
    vm_race_join_proxied(&warp->clock.proxied, &set->proxied);
}

void vm_race_fence(vm_warp *warp)
{
    warp->clock.fence_time = tick(warp->block);
}

/* ---- the asynchronous proxy ---- */

void vm_race_stored(vm_warp *warp, unsigned memory, uint32_t mask)
{
    vm_clock *clock = &warp->clock;
    for (uint32_t fresh = mask & ~clock->unfenced[memory]; fresh != 0; fresh &= fresh - 1) {
        clock->unfenced_from[memory][vm_first_lane(fresh)] = warp->block->time;
    }
    clock->unfenced[memory] |= mask;
}

void vm_race_proxy_fence(vm_warp *warp, unsigned memory, uint32_t mask)
{
    vm_clock *clock = &warp->clock;
    clock->unfenced[memory] &= ~mask;
    uint32_t known = warp->block->time++;
    for (uint32_t left = clock->unfenced[memory]; left != 0; left &= left - 1) {
        uint32_t before = clock->unfenced_from[memory][vm_first_lane(left)] - 1;
        known = before < known ? before : known;
    }
    clock->proxied.until[memory][warp->index] = known;
}

void vm_race_join(uint32_t *into, const uint32_t *from)
{
    for (unsigned i = 0; i < VM_WARPS_MAX; i++) {
        into[i] = from[i] > into[i] ? from[i] : into[i];
    }
}

void vm_race_join_proxied(vm_proxied *into, const vm_proxied *from)
{
    for (unsigned i = 0; i < VM_MEMORIES; i++) {
        vm_race_join(into->until[i], from->until[i]);
    }
}
