/* SPDX-License-Identifier: MIT */
/* The race detector for the accesses of a whole warp: the states of a word that nearly every access
 * finds, decided in a few comparisons. Every other state is vm_race_touch()'s to judge. */
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/race.h"

enum { THREAD_LANES = 32, WHOLE = 15 };

void vm_race_turn_begin(vm_race_turn *turn, const vm_warp *warp, vm_race *race)
{
    const vm_block *block = warp->block;
    turn->race = race;
    turn->page = NULL;
    turn->page_index = UINT64_MAX;
    turn->now.launch = block->launch->serial;
    turn->now.block = (uint32_t)block->linear;
    turn->now.time = block->time;
    turn->now.who = 0;
    turn->clock = &warp->clock;
    turn->warp = warp->index;
    turn->own = !race->shared_by_threads;
}

void vm_race_turn_end(vm_race_turn *turn)
{
    if (turn->page != NULL) {
        vm_page_unlock(turn->race, turn->page);
        turn->page = NULL;
    }
}

/* The cell of an offset, its page locked. */
static inline vm_cell *cell_at(vm_race_turn *turn, uint64_t offset)
{
    uint64_t index = offset / (4 * VM_PAGE_CELLS);
    if (index != turn->page_index) {
        vm_race_turn_end(turn);
        turn->page = vm_race_page(turn->race, index);
        turn->page_index = index;
        vm_page_lock(turn->race, turn->page);
    }
    return &turn->page->cells[offset / 4 % VM_PAGE_CELLS];
}

static inline bool is_stale(const vm_race_turn *turn, const vm_touch *touch)
{
    return (touch->who & VM_TOUCH_SET) == 0 || touch->launch != turn->now.launch ||
           (turn->own && touch->block != turn->now.block);
}

/* Whether all that a warp of this block did up to `time` happens before now. */
static inline bool warp_ordered(const vm_race_turn *turn, uint32_t warp, uint32_t time)
{
    return time <= (warp == turn->warp ? turn->clock->warp_time : turn->clock->seen[warp]);
}

static inline bool warps_ordered(const vm_race_turn *turn, uint32_t warps, uint32_t time)
{
    for (; warps != 0; warps &= warps - 1) {
        if (!warp_ordered(turn, vm_first_lane(warps), time)) {
            return false;
        }
    }
    return true;
}

/* Whether an earlier access by one thread of this block happens before now; `thread` is the only
 * one that acts now, or VM_TOUCH_MANY. */
static inline bool thread_ordered(const vm_race_turn *turn, const vm_touch *touch, uint32_t thread)
{
    uint32_t other = touch->who & VM_TOUCH_THREAD;
    return other == thread || warp_ordered(turn, other / THREAD_LANES, touch->time);
}

/* Whether nothing but a whole write of this block, that happens before now, was the last one. */
static inline bool write_is_past(const vm_race_turn *turn, const vm_cell *cell, uint32_t thread)
{
    const vm_touch *write = &cell->write;
    return is_stale(turn, write) ||
           (cell->write_bytes == WHOLE && (write->who & VM_TOUCH_FLIGHT) == 0 &&
            write->block == turn->now.block && thread_ordered(turn, write, thread));
}

static inline void note_read(const vm_race_turn *turn, vm_cell *cell, uint32_t who)
{
    cell->read = turn->now;
    cell->read.who = who | VM_TOUCH_SET;
    cell->readers = 1u << turn->warp;
    cell->read_bytes = WHOLE;
}

/* Adds this warp to reads that are not ordered before it. */
static inline void join_readers(const vm_race_turn *turn, vm_cell *cell, uint32_t thread)
{
    vm_touch *read = &cell->read;
    uint32_t blocks = read->block != turn->now.block ? VM_TOUCH_BLOCKS : 0;
    uint32_t time = read->time > turn->now.time ? read->time : turn->now.time;
    *read = turn->now;
    read->time = time;
    read->who = thread | VM_TOUCH_SET | VM_TOUCH_MANY | blocks;
    cell->readers |= 1u << turn->warp;
}

static inline bool read_cell(const vm_race_turn *turn, vm_cell *cell, uint32_t thread, bool many)
{
    uint32_t alone = many ? VM_TOUCH_MANY : thread;
    uint32_t who = thread | (many ? VM_TOUCH_MANY : 0);
    const vm_touch *read = &cell->read;
    if (cell->split != 0 || !write_is_past(turn, cell, alone)) {
        return false;
    }
    if (is_stale(turn, read)) {
        note_read(turn, cell, who);
        return true;
    }
    if (cell->read_bytes != WHOLE || (read->who & VM_TOUCH_STRONG) != 0) {
        return false;
    }
    if ((read->who & VM_TOUCH_BLOCKS) != 0) {
        return true; /* no write of this launch is ordered after it: nothing to add */
    }
    bool ordered = false;
    if (read->block == turn->now.block && (read->who & VM_TOUCH_MANY) != 0) {
        if (read->time == turn->now.time && (cell->readers >> turn->warp & 1) != 0) {
            return true; /* known */
        }
        ordered = warps_ordered(turn, cell->readers, read->time);
    } else if (read->block == turn->now.block) {
        ordered = thread_ordered(turn, read, alone);
    }
    if (ordered) {
        note_read(turn, cell, who);
    } else {
        join_readers(turn, cell, thread);
    }
    return true;
}

static inline bool write_cell(const vm_race_turn *turn, vm_cell *cell, uint32_t thread)
{
    const vm_touch *read = &cell->read;
    if (cell->split != 0 || !write_is_past(turn, cell, thread)) {
        return false;
    }
    if (!is_stale(turn, read)) {
        bool past = cell->read_bytes == WHOLE && read->block == turn->now.block &&
                    (read->who & VM_TOUCH_BLOCKS) == 0;
        past = past &&
               ((read->who & VM_TOUCH_MANY) != 0 ? warps_ordered(turn, cell->readers, read->time)
                                                 : thread_ordered(turn, read, thread));
        if (!past) {
            return false;
        }
    }
    cell->write = turn->now;
    cell->write.who = thread | VM_TOUCH_SET;
    cell->write_bytes = WHOLE;
    cell->read.who = 0;
    cell->read_bytes = 0;
    return true;
}

/* Accesses are aligned to their size: they never cross a page. */
bool vm_race_turn_read(vm_race_turn *turn, unsigned lane, bool many, uint64_t offset,
                       unsigned bytes)
{
    vm_cell *cell = cell_at(turn, offset);
    uint32_t thread = turn->warp * THREAD_LANES + lane;
    bool fine = true;
    for (unsigned i = 0; i < bytes / 4 && fine; i++) {
        fine = read_cell(turn, cell + i, thread, many);
    }
    return fine;
}

bool vm_race_turn_write(vm_race_turn *turn, unsigned lane, uint64_t offset, unsigned bytes)
{
    vm_cell *cell = cell_at(turn, offset);
    uint32_t thread = turn->warp * THREAD_LANES + lane;
    bool fine = true;
    for (unsigned i = 0; i < bytes / 4 && fine; i++) {
        fine = write_cell(turn, cell + i, thread);
    }
    return fine;
}

bool vm_race_turn_row(vm_race_turn *turn, uint64_t offset, unsigned bytes, bool write)
{
    uint32_t thread = turn->warp * THREAD_LANES;
    bool fine = true;
    for (unsigned lane = 0; lane < THREAD_LANES && fine; lane++, thread++, offset += bytes) {
        vm_cell *cell = cell_at(turn, offset);
        for (unsigned i = 0; i < bytes / 4 && fine; i++) {
            fine = write ? write_cell(turn, cell + i, thread)
                         : read_cell(turn, cell + i, thread, false);
        }
    }
    return fine;
}
