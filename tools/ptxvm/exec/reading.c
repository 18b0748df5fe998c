/* SPDX-License-Identifier: MIT */
/* What asynchronous operations read from shared memory, until a wait. */
#include "tools/ptxvm/exec/reading.h"

static bool has_ended(const vm_reading *reading)
{
    bool ended = false;
    for (unsigned i = 0; i < VM_READERS; i++) {
        ended = ended || reading->ended[i] != 0;
    }
    return ended;
}

/* The warp whose wait ended[i] tells of. */
static uint32_t reader_of(const vm_reading *reading, unsigned i)
{
    return reading->matrix ? reading->owner * VM_READERS + i : reading->owner / VM_LANES;
}

void vm_reading_add(vm_block *block, const vm_reading *reading)
{
    for (uint32_t i = 0; i < block->reading_count; i++) {
        vm_reading *old = &block->readings[i];
        const bool same = old->first == reading->first && old->bytes == reading->bytes &&
                          old->owner == reading->owner && old->matrix == reading->matrix;
        if (same && (old->group == reading->group || has_ended(old))) {
            *old = *reading;
            return;
        }
    }
    if (block->reading_count == block->reading_capacity) {
        block->reading_capacity = 2 * block->reading_capacity + 16;
        block->readings = vm_resize(block->readings, block->reading_capacity * sizeof(vm_reading));
    }
    block->readings[block->reading_count++] = *reading;
}

/* Whether a lane knows that the reading is over: one of the waits is ordered before it. */
static bool reading_known(const vm_warp *warp, unsigned lane, const vm_block *block,
                          const vm_reading *reading)
{
    const vm_clock *clock = &warp->clock;
    for (unsigned i = 0; i < VM_READERS; i++) {
        const uint32_t time = reading->ended[i];
        const uint32_t reader = reader_of(reading, i);
        if (time == 0) {
            continue;
        }
        if (warp->block != block) {
            return true; /* orders between blocks are not followed */
        }
        const bool own = reader == warp->index;
        const bool thread =
            own && (reading->matrix || reading->owner == warp->index * VM_LANES + lane);
        if (thread || time <= (own ? clock->warp_time : clock->seen[reader])) {
            return true;
        }
    }
    return false;
}

bool vm_reading_free(vm_warp *warp, const vm_insn *in, unsigned lane, vm_block *block,
                     uint64_t first, unsigned bytes)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < block->reading_count; i++) {
        const vm_reading reading = block->readings[i];
        const bool touched =
            first < (uint64_t)reading.first + reading.bytes && reading.first < first + bytes;
        if (touched && !reading_known(warp, lane, block, &reading)) {
            return vm_fail(warp, in, (int)lane, VM_LAUNCH_FAILED,
                           "a write to shared bytes at 0x%x that the asynchronous operation of "
                           "PTX line %u %s",
                           (unsigned)first, reading.insn->line,
                           has_ended(&reading)
                               ? "read: nothing orders the write after the wait for it"
                               : "may still read");
        }
        const bool covered =
            touched && first <= reading.first && reading.first + reading.bytes <= first + bytes;
        if (!covered) {
            block->readings[kept++] = reading;
        }
    }
    block->reading_count = kept;
    return true;
}

void vm_reading_end(vm_warp *warp, uint32_t owner, bool matrix, uint64_t group)
{
    vm_block *block = warp->block;
    const uint32_t time = block->time++;
    for (uint32_t i = 0; i < block->reading_count; i++) {
        vm_reading *reading = &block->readings[i];
        const unsigned slot = matrix ? warp->index % VM_READERS : 0;
        if (reading->owner == owner && reading->matrix == matrix && reading->group < group &&
            reading->ended[slot] == 0) {
            reading->ended[slot] = time;
        }
    }
}

bool vm_reading_finish(vm_block *block)
{
    for (uint32_t i = 0; i < block->reading_count; i++) {
        const vm_reading *reading = &block->readings[i];
        if (!has_ended(reading)) {
            return vm_fail(&block->warps[reader_of(reading, 0)], reading->insn, VM_FULL,
                           VM_LAUNCH_FAILED,
                           "shared memory may still be read by an asynchronous operation at the "
                           "block's end: nobody has waited for it");
        }
    }
    return true;
}
