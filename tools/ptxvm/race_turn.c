/* SPDX-License-Identifier: MIT */
/* The race detector for the accesses of a whole warp: the states of a word that nearly every access
 * finds, decided in a few comparisons. Every other state is vm_race_touch()'s to judge. */
#include "tools/ptxvm/machine.h"
#include "tools/ptxvm/race.h"

/* Bytes of a cell that an access touches; OWN: of a cell that is one byte's. */
enum { THREAD_LANES = 32, OWN = 1, WHOLE = 15 };

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
    turn->blocks = block->launch->cluster;
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

/* What another block of the cluster has touched is not stale, and vm_race_touch()'s to judge. */
static inline bool is_stale(const vm_race_turn *turn, const vm_touch *touch)
{
    return (touch->who & VM_TOUCH_SET) == 0 || touch->launch != turn->now.launch ||
           (turn->own && touch->block != turn->now.block &&
            (turn->blocks == 1 || touch->block / turn->blocks != turn->now.block / turn->blocks));
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

/* Whether an earlier access touched just these bytes; a byte of its own has no others. */
static inline bool is_same(uint8_t touched, uint8_t bytes)
{
    return bytes == OWN || touched == bytes;
}

/* Whether nothing but a write of the same bytes by this block, that happens before now, was the
 * last one. */
static inline bool write_is_past(const vm_race_turn *turn, const vm_cell *cell, uint32_t thread,
                                 uint8_t bytes)
{
    const vm_touch *write = &cell->write;
    return is_stale(turn, write) ||
           (is_same(cell->write_bytes, bytes) && (write->who & VM_TOUCH_FLIGHT) == 0 &&
            write->block == turn->now.block && thread_ordered(turn, write, thread));
}

static inline void note_read(const vm_race_turn *turn, vm_cell *cell, uint32_t who, uint8_t bytes)
{
    cell->read = turn->now;
    cell->read.who = who | VM_TOUCH_SET;
    cell->readers = 1u << turn->warp;
    cell->read_bytes = bytes;
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

static inline bool read_cell(const vm_race_turn *turn, vm_cell *cell, uint32_t thread, bool many,
                             uint8_t bytes)
{
    uint32_t alone = many ? VM_TOUCH_MANY : thread;
    uint32_t who = thread | (many ? VM_TOUCH_MANY : 0);
    const vm_touch *read = &cell->read;
    if (!write_is_past(turn, cell, alone, bytes)) {
        return false;
    }
    if (is_stale(turn, read)) {
        note_read(turn, cell, who, bytes);
        return true;
    }
    if (!is_same(cell->read_bytes, bytes) || (read->who & VM_TOUCH_STRONG) != 0) {
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
        note_read(turn, cell, who, bytes);
    } else {
        join_readers(turn, cell, thread);
    }
    return true;
}

static inline bool write_cell(const vm_race_turn *turn, vm_cell *cell, uint32_t thread,
                              uint8_t bytes)
{
    const vm_touch *read = &cell->read;
    if (!write_is_past(turn, cell, thread, bytes)) {
        return false;
    }
    if (!is_stale(turn, read)) {
        bool past = is_same(cell->read_bytes, bytes) && read->block == turn->now.block &&
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
    cell->write_bytes = bytes;
    cell->read.who = 0;
    cell->read_bytes = 0;
    return true;
}

/* An access of the bytes of one cell. Where their histories differ each has a cell of its own; that
 * they begin to is vm_race_touch()'s to see. */
static inline bool touch_cell(const vm_race_turn *turn, vm_cell *cell, uint32_t thread, bool many,
                              uint8_t bytes, bool write)
{
    if (cell->split == 0) {
        return write ? write_cell(turn, cell, thread, bytes)
                     : read_cell(turn, cell, thread, many, bytes);
    }
    vm_cell *group = &turn->page->bytes[(size_t)4 * (cell->split - 1)];
    for (unsigned i = 0; i < 4; i++) {
        if ((bytes >> i & 1) != 0 && !(write ? write_cell(turn, &group[i], thread, OWN)
                                             : read_cell(turn, &group[i], thread, many, OWN))) {
            return false;
        }
    }
    return true;
}

/* Accesses are aligned to their size: they never cross a page, and two bytes no cell. */
static inline bool touch(vm_race_turn *turn, uint32_t thread, bool many, uint64_t offset,
                         unsigned bytes, bool write)
{
    vm_cell *cell = cell_at(turn, offset);
    if (bytes == 2) {
        return touch_cell(turn, cell, thread, many, (uint8_t)(3u << (offset & 2)), write);
    }
    bool fine = true;
    for (unsigned i = 0; i < bytes / 4 && fine; i++) {
        fine = touch_cell(turn, cell + i, thread, many, WHOLE, write);
    }
    return fine;
}

bool vm_race_turn_read(vm_race_turn *turn, unsigned lane, bool many, uint64_t offset,
                       unsigned bytes)
{
    return touch(turn, turn->warp * THREAD_LANES + lane, many, offset, bytes, false);
}

bool vm_race_turn_write(vm_race_turn *turn, unsigned lane, uint64_t offset, unsigned bytes)
{
    return touch(turn, turn->warp * THREAD_LANES + lane, false, offset, bytes, true);
}

bool vm_race_turn_row(vm_race_turn *turn, uint64_t offset, unsigned bytes, bool write)
{
    uint32_t thread = turn->warp * THREAD_LANES;
    bool fine = true;
    for (unsigned lane = 0; lane < THREAD_LANES && fine; lane++, thread++, offset += bytes) {
        fine = touch(turn, thread, false, offset, bytes, write);
    }
    return fine;
}
