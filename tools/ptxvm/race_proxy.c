/* SPDX-License-Identifier: MIT */
/* What the asynchronous proxy knows of stores to shared memory: each thread tells it by a fence,
 * and barriers carry on who has. */
#include "tools/ptxvm/machine.h"

void vm_race_stored(vm_warp *warp, uint32_t mask)
{
    vm_clock *clock = &warp->clock;
    for (uint32_t fresh = mask & ~clock->unfenced; fresh != 0; fresh &= fresh - 1) {
        clock->unfenced_from[vm_first_lane(fresh)] = warp->block->time;
    }
    clock->unfenced |= mask;
}

void vm_race_proxy_fence(vm_warp *warp, uint32_t mask)
{
    vm_clock *clock = &warp->clock;
    clock->unfenced &= ~mask;
    uint32_t known = warp->block->time++;
    for (uint32_t left = clock->unfenced; left != 0; left &= left - 1) {
        uint32_t before = clock->unfenced_from[vm_first_lane(left)] - 1;
        known = before < known ? before : known;
    }
    clock->proxied[warp->index] = known;
}

void vm_race_join(uint32_t *into, const uint32_t *from)
{
    for (unsigned i = 0; i < VM_WARPS_MAX; i++) {
        into[i] = from[i] > into[i] ? from[i] : into[i];
    }
}
