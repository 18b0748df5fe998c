/* SPDX-License-Identifier: MIT */
/* The race detector: cells of four bytes, split into bytes where their histories differ. */
#include "tools/ptxvm/race.h"

#include <stdlib.h>

#include "tools/ptxvm/machine.h"

enum { THREAD_LANES = 32, LOCATION_BUCKETS = 256 };

bool vm_race_concurrent;
bool vm_race_watched = true;

void vm_race_init(vm_race *race, uint64_t bytes, bool shared_by_threads)
{
    race->page_count = (bytes + 4 * VM_PAGE_CELLS - 1) / (4 * VM_PAGE_CELLS);
    race->pages = vm_allocate((size_t)(race->page_count + 1) * sizeof(vm_page *));
    race->shared_by_threads = shared_by_threads;
}

void vm_race_free(vm_race *race)
{
    for (uint64_t i = 0; i < race->page_count; i++) {
        if (race->pages[i] != NULL) {
            free(race->pages[i]->bytes);
            free(race->pages[i]);
        }
    }
    free(race->pages);
    race->pages = NULL;
    race->page_count = 0;
}

vm_page *vm_race_page(vm_race *race, uint64_t index)
{
    vm_page *page = __atomic_load_n(&race->pages[index], __ATOMIC_ACQUIRE);
    if (page == NULL) {
        vm_page *made = vm_allocate(sizeof *made);
        if (__atomic_compare_exchange_n(&race->pages[index], &page, made, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            page = made;
        } else {
            free(made);
        }
    }
    return page;
}

/* ---- the order ---- */

typedef struct now {
    const vm_warp *warp;
    const vm_block *block;
    unsigned lane;
    uint32_t thread;
    uint32_t launch;
    uint32_t linear;
    uint32_t time;
    uint32_t prerequisite; /* a launch that may still be running, 0 none */
    uint32_t blocks;       /* of a cluster */
    bool shared;           /* memory of one block: records of other clusters' blocks are stale */
} now;

static inline bool is_stale(const now *at, const vm_touch *touch)
{
    return (touch->who & VM_TOUCH_SET) == 0 || touch->launch != at->launch ||
           (at->shared && touch->block / at->blocks != at->linear / at->blocks);
}

/* By a launch that nobody has waited for. */
static inline bool is_running(const now *at, const vm_touch *touch)
{
    return at->prerequisite != 0 && (touch->who & VM_TOUCH_SET) != 0 &&
           touch->launch == at->prerequisite;
}

bool vm_race_acquired(const vm_block *block, uint32_t other, uint32_t warp, uint32_t time)
{
    for (uint32_t i = 0; i < block->acquired.count; i++) {
        if (block->acquired.items[i].block == other) {
            return time <= block->acquired.items[i].seen[warp];
        }
    }
    return false;
}

/* Whether a touch by another block, or by several warps of it, is known to this one. */
static bool acquired_from(const vm_block *block, const vm_touch *touch, uint32_t readers)
{
    if ((touch->who & VM_TOUCH_MANY) == 0) {
        readers = 1u << (touch->who & VM_TOUCH_THREAD) / THREAD_LANES;
    }
    for (; readers != 0; readers &= readers - 1) {
        if (!vm_race_acquired(block, touch->block, vm_first_lane(readers), touch->time)) {
            return false;
        }
    }
    return true;
}

static inline bool warp_ordered(const now *at, uint32_t warp, uint32_t time)
{
    const vm_clock *clock = &at->warp->clock;
    return time <= (warp == at->warp->index ? clock->warp_time : clock->seen[warp]);
}

/* Whether everything in `touch` happens before now. */
static inline bool is_ordered(const now *at, const vm_touch *touch, uint32_t readers)
{
    if ((touch->who & VM_TOUCH_BLOCKS) != 0) {
        return at->shared; /* readers of several blocks of a cluster: not followed */
    }
    if (touch->block != at->linear) {
        return acquired_from(at->block, touch, readers);
    }
    if ((touch->who & VM_TOUCH_MANY) != 0) {
        for (; readers != 0; readers &= readers - 1) {
            if (!warp_ordered(at, vm_first_lane(readers), touch->time)) {
                return false;
            }
        }
        return true;
    }
    uint32_t thread = touch->who & VM_TOUCH_THREAD;
    if (thread == at->thread && (touch->who & VM_TOUCH_ASYNC) == 0) {
        return true; /* but not what its bulk copies have written, before a wait for them */
    }
    uint32_t warp = thread / THREAD_LANES;
    if (warp_ordered(at, warp, touch->time)) {
        return true;
    }
    const vm_clock *clock = &at->warp->clock;
    return warp == at->warp->index && clock->lanes != NULL &&
           touch->time <= clock->lanes[at->lane][thread % THREAD_LANES];
}

static inline void set_touch(const now *at, vm_touch *touch, uint32_t flags)
{
    touch->launch = at->launch;
    touch->block = at->linear;
    touch->time = at->time;
    touch->who = at->thread | VM_TOUCH_SET | flags;
}

/* NULL: fine. Else what the access collides with. */
static inline const char *touch_cell(const now *at, vm_cell *cell, uint8_t bytes, unsigned how,
                                     const vm_touch **other)
{
    uint32_t strong = (how & VA_STRONG) != 0 ? VM_TOUCH_STRONG : 0;
    if (is_running(at, &cell->write)) {
        *other = &cell->write;
        return "a write by the kernel before it, without griddepcontrol.wait:";
    }
    if ((how & VA_WRITE) != 0 && is_running(at, &cell->read)) {
        *other = &cell->read;
        return "a read by the kernel before it, without griddepcontrol.wait:";
    }
    if (is_stale(at, &cell->write)) {
        cell->write.who = 0;
        cell->write_bytes = 0;
    }
    if (is_stale(at, &cell->read)) {
        cell->read.who = 0;
        cell->read_bytes = 0;
    }
    if (cell->write.who != 0) {
        *other = &cell->write;
        if ((cell->write.who & VM_TOUCH_FLIGHT) != 0) {
            return "an asynchronous copy in flight";
        }
        bool both = strong != 0 && (cell->write.who & VM_TOUCH_STRONG) != 0;
        if (!both && !is_ordered(at, &cell->write, 0)) {
            return "a write";
        }
    }
    bool ordered = cell->read.who == 0 || is_ordered(at, &cell->read, cell->readers);
    if ((how & VA_WRITE) != 0) {
        bool both = strong != 0 && (cell->read.who & VM_TOUCH_STRONG) != 0;
        if (!ordered && !both) {
            *other = &cell->read;
            return "a read";
        }
        set_touch(at, &cell->write, strong | ((how & VA_ASYNC) != 0 ? VM_TOUCH_PROXY : 0));
        cell->write_bytes = bytes;
        cell->read.who = 0;
        cell->read_bytes = 0;
        return NULL;
    }
    uint32_t mine = 1u << at->warp->index;
    if (ordered) {
        set_touch(at, &cell->read, strong);
        cell->readers = mine;
    } else {
        uint32_t blocks = cell->read.block != at->linear ? VM_TOUCH_BLOCKS : 0;
        uint32_t kept = cell->read.who & (VM_TOUCH_BLOCKS | (strong != 0 ? VM_TOUCH_STRONG : 0));
        uint32_t time = cell->read.time;
        set_touch(at, &cell->read, VM_TOUCH_MANY | blocks | kept);
        cell->read.time = time > at->time ? time : at->time;
        cell->readers |= mine;
    }
    cell->read_bytes = bytes;
    return NULL;
}

static vm_cell *split_cell(vm_page *page, vm_cell *cell)
{
    if (cell->split == 0) {
        if (page->byte_groups == page->byte_capacity) {
            page->byte_capacity = page->byte_capacity == 0 ? 16 : page->byte_capacity * 2;
            page->bytes = vm_resize(page->bytes, page->byte_capacity * 4 * sizeof(vm_cell));
        }
        vm_cell *group = &page->bytes[(size_t)4 * page->byte_groups];
        for (unsigned i = 0; i < 4; i++) {
            group[i] = *cell;
            if ((cell->write_bytes >> i & 1) == 0) {
                group[i].write.who = 0;
            }
            if ((cell->read_bytes >> i & 1) == 0) {
                group[i].read.who = 0;
            }
        }
        cell->split = ++page->byte_groups;
    }
    return &page->bytes[(size_t)4 * (cell->split - 1)];
}

static inline const char *touch_bytes(const now *at, vm_page *page, vm_cell *cell, uint8_t bytes,
                                      unsigned how, vm_touch *other)
{
    const vm_touch *found = NULL;
    const char *what = NULL;
    bool same =
        (cell->write.who == 0 || cell->write_bytes == bytes || is_stale(at, &cell->write)) &&
        (cell->read.who == 0 || cell->read_bytes == bytes || is_stale(at, &cell->read));
    if (cell->split == 0 && same) {
        what = touch_cell(at, cell, bytes, how, &found);
    } else {
        vm_cell *group = split_cell(page, cell);
        for (unsigned i = 0; i < 4 && what == NULL; i++) {
            if ((bytes >> i & 1) != 0) {
                what = touch_cell(at, &group[i], 1, how, &found);
            }
        }
    }
    if (what != NULL) {
        *other = *found;
    }
    return what;
}

/* A weak read of a whole cell: touch_bytes() without what it need not ask. */
static inline const char *read_word(const now *at, vm_page *page, vm_cell *cell, vm_touch *other)
{
    bool written = !is_stale(at, &cell->write), read = !is_stale(at, &cell->read);
    if (cell->split != 0 || at->prerequisite != 0 || (written && cell->write_bytes != 15) ||
        (read && cell->read_bytes != 15) ||
        (written &&
         ((cell->write.who & VM_TOUCH_FLIGHT) != 0 || !is_ordered(at, &cell->write, 0)))) {
        return touch_bytes(at, page, cell, 15, VA_READ, other);
    }
    if (!written) {
        cell->write.who = 0;
        cell->write_bytes = 0;
    }
    uint32_t mine = 1u << at->warp->index;
    if (!read || is_ordered(at, &cell->read, cell->readers)) {
        set_touch(at, &cell->read, 0);
        cell->readers = mine;
        cell->read_bytes = 15;
        return NULL;
    }
    uint32_t blocks = cell->read.block != at->linear ? VM_TOUCH_BLOCKS : 0;
    uint32_t kept = cell->read.who & VM_TOUCH_BLOCKS;
    uint32_t time = cell->read.time;
    set_touch(at, &cell->read, VM_TOUCH_MANY | blocks | kept);
    cell->read.time = time > at->time ? time : at->time;
    cell->readers |= mine;
    return NULL;
}

static inline void fill_now(now *at, vm_warp *warp, unsigned lane, const vm_race *race)
{
    vm_block *block = warp->block;
    at->warp = warp;
    at->block = block;
    at->lane = lane;
    at->thread = warp->index * THREAD_LANES + lane;
    at->launch = block->launch->serial;
    at->linear = (uint32_t)block->linear;
    at->time = block->time;
    at->shared = !race->shared_by_threads;
    at->blocks = block->launch->cluster;
    at->prerequisite = at->shared || warp->grid_waited ? 0 : block->launch->prerequisite;
}

static bool race_report(vm_warp *warp, const vm_insn *in, unsigned lane, const char *what,
                        bool writes, const vm_touch *other)
{
    if ((other->who & VM_TOUCH_MANY) != 0) {
        return vm_fail(warp, in, (int)lane, VM_LAUNCH_FAILED,
                       "race: this %s is not ordered after %s by several threads",
                       writes ? "write" : "read", what);
    }
    return vm_fail(warp, in, (int)lane, VM_LAUNCH_FAILED,
                   "race: this %s is not ordered after %s by thread %u of block %u",
                   writes ? "write" : "read", what, other->who & VM_TOUCH_THREAD, other->block);
}

/* Whether bytes of global memory that a bulk copy reads were stored by a thread of this launch
 * whose fence.proxy.async the copy's issuer has not heard of. */
static bool is_unproxied(const now *at, const vm_cell *cell, uint8_t bytes)
{
    const vm_touch *write = &cell->write;
    const uint32_t warp = (write->who & VM_TOUCH_THREAD) / THREAD_LANES;
    if (is_stale(at, write) || (cell->write_bytes & bytes) == 0 ||
        (write->who & (VM_TOUCH_PROXY | VM_TOUCH_FLIGHT)) != 0) {
        return false;
    }
    if (write->block == at->linear) {
        return write->time > at->warp->clock.proxied.until[VM_OF_GLOBAL][warp];
    }
    const vm_acquired *all = &at->block->acquired;
    for (uint32_t i = 0; i < all->count; i++) {
        if (all->items[i].block == write->block) {
            return write->time > all->items[i].proxied.until[VM_OF_GLOBAL][warp];
        }
    }
    return true;
}

/* The same of a word of a page, or of some bytes of it. */
static bool any_unproxied(const now *at, const vm_page *page, const vm_cell *cell, uint8_t bytes)
{
    const vm_cell *group = cell->split != 0 ? &page->bytes[(size_t)4 * (cell->split - 1)] : NULL;
    bool found = group == NULL && is_unproxied(at, cell, bytes);
    for (unsigned i = 0; i < 4 && group != NULL; i++) {
        found = found || ((bytes >> i & 1) != 0 && is_unproxied(at, &group[i], 1));
    }
    return found;
}

bool vm_race_touch(vm_warp *warp, const vm_insn *in, unsigned lane, vm_race *race, uint64_t offset,
                   unsigned bytes, unsigned how)
{
    if (!vm_race_watched) {
        return true;
    }
    now at;
    fill_now(&at, warp, lane, race);
    uint64_t index = offset / 4;
    vm_page *page = vm_race_page(race, index / VM_PAGE_CELLS);
    vm_touch other = {0, 0, 0, 0};
    const char *what = NULL;
    const bool fetches = (how & (VA_ASYNC | VA_WRITE)) == VA_ASYNC;
    bool unproxied = false;
    vm_page_lock(race, page);
    /* Accesses are aligned to their size, at most 32 bytes: they never cross a page. */
    vm_cell *cell = &page->cells[index % VM_PAGE_CELLS];
    if (bytes < 4) {
        uint8_t mask = (uint8_t)((bytes == 1 ? 1u : 3u) << (offset & 3));
        unproxied = fetches && any_unproxied(&at, page, cell, mask);
        what = touch_bytes(&at, page, cell, mask, how, &other);
    }
    bool weak_read = (how & (VA_WRITE | VA_STRONG)) == 0;
    for (unsigned i = 0; i < bytes / 4 && what == NULL; i++) {
        unproxied = unproxied || (fetches && any_unproxied(&at, page, cell + i, 15));
        what = weak_read ? read_word(&at, page, cell + i, &other)
                         : touch_bytes(&at, page, cell + i, 15, how, &other);
    }
    vm_page_unlock(race, page);
    if (unproxied && what == NULL) {
        return vm_fail(warp, in, (int)lane, VM_LAUNCH_FAILED,
                       "a bulk copy reads global bytes that a thread of this launch stored and no "
                       "fence.proxy.async of that thread made known");
    }
    return what == NULL || race_report(warp, in, lane, what, (how & VA_WRITE) != 0, &other);
}

/* The records of the bytes [offset, offset + bytes) that lie in a cell: one for all, or one each.
 */
static vm_cell *cells_of(vm_page *page, vm_cell *cell, uint64_t offset, unsigned bytes,
                         unsigned *count)
{
    unsigned from = (unsigned)(offset & 3);
    if (cell->split == 0) {
        *count = 1;
        return cell;
    }
    *count = bytes < 4 - from ? bytes : 4 - from;
    return &page->bytes[(size_t)4 * (cell->split - 1) + from];
}

bool vm_race_flight(vm_warp *warp, const vm_insn *in, unsigned lane, vm_race *race, uint64_t offset,
                    unsigned bytes, vm_flight what)
{
    if (!vm_race_watched) {
        return true;
    }
    if (what != FL_ENDS && !vm_race_touch(warp, in, lane, race, offset, bytes, VA_WRITE)) {
        return false;
    }
    uint64_t index = offset / 4;
    vm_page *page = vm_race_page(race, index / VM_PAGE_CELLS);
    vm_page_lock(race, page);
    for (unsigned i = 0; i < (bytes + 3) / 4; i++) {
        unsigned count = 0;
        vm_cell *first =
            cells_of(page, &page->cells[index % VM_PAGE_CELLS + i], offset, bytes, &count);
        for (unsigned j = 0; j < count; j++) {
            if (what == FL_ENDS) {
                first[j].write.who &= ~(uint32_t)VM_TOUCH_FLIGHT;
                first[j].write.time = warp->block->time;
            } else {
                first[j].write.who |= VM_TOUCH_FLIGHT |
                                      (what == FL_BULK ? (uint32_t)VM_TOUCH_ASYNC : 0) |
                                      (what == FL_OUT ? (uint32_t)VM_TOUCH_PROXY : 0);
            }
        }
    }
    vm_page_unlock(race, page);
    return true;
}

void vm_race_flight_away(vm_block *home, uint64_t offset, unsigned bytes, bool begins)
{
    if (!vm_race_watched) {
        return;
    }
    uint64_t index = offset / 4;
    vm_page *page = vm_race_page(&home->shared_race, index / VM_PAGE_CELLS);
    for (unsigned i = 0; i < (bytes + 3) / 4; i++) {
        unsigned count = 0;
        vm_cell *cell = &page->cells[index % VM_PAGE_CELLS + i];
        vm_cell *first = cells_of(page, cell, offset, bytes, &count);
        cell->write_bytes = 15;
        for (unsigned j = 0; j < count; j++) {
            first[j].write.launch = home->launch->serial;
            first[j].write.block = (uint32_t)home->linear;
            first[j].write.time = home->time;
            first[j].write.who = VM_AWAY_WARP * THREAD_LANES | VM_TOUCH_SET | VM_TOUCH_ASYNC |
                                 (begins ? (uint32_t)VM_TOUCH_FLIGHT : 0);
            first[j].read.who = 0;
        }
    }
}

/* ---- reads through the asynchronous proxy ---- */

static const char *async_read_cell(const now *at, const vm_cell *cell)
{
    const vm_touch *write = &cell->write;
    if (is_stale(at, write)) {
        return NULL; /* another launch's: then the bytes are undefined */
    }
    if ((write->who & VM_TOUCH_FLIGHT) != 0) {
        return "shared bytes that a copy in flight writes";
    }
    if (!is_ordered(at, write, 0)) {
        return "shared bytes whose write nothing orders before it";
    }
    const uint32_t warp = (write->who & VM_TOUCH_THREAD) / THREAD_LANES;
    const bool known = (write->who & VM_TOUCH_ASYNC) != 0 ||
                       write->time <= at->warp->clock.proxied.until[VM_OF_SHARED][warp];
    return known ? NULL
                 : "shared bytes that a thread stored and no fence.proxy.async of that thread "
                   "made known";
}

bool vm_race_async_read(vm_warp *warp, const vm_insn *in, unsigned lane, vm_block *block,
                        uint64_t offset, unsigned bytes)
{
    if (!vm_race_watched) {
        return true;
    }
    now at;
    fill_now(&at, warp, lane, &block->shared_race);
    const char *what = NULL;
    vm_page *page = NULL;
    for (uint64_t word = offset / 4; word < (offset + bytes) / 4 && what == NULL; word++) {
        if (page == NULL || word % VM_PAGE_CELLS == 0) {
            page = vm_race_page(&block->shared_race, word / VM_PAGE_CELLS);
        }
        unsigned count = 0;
        vm_cell *first = cells_of(page, &page->cells[word % VM_PAGE_CELLS], word * 4, 4, &count);
        for (unsigned i = 0; i < count && what == NULL; i++) {
            what = async_read_cell(&at, &first[i]);
        }
    }
    return what == NULL ||
           vm_fail(warp, in, (int)lane, VM_LAUNCH_FAILED,
                   "an asynchronous operation reads %s (at 0x%x and on)", what, (unsigned)offset);
}

/* ---- releases ---- */

typedef struct vm_location {
    const vm_race *race;
    uint64_t offset;
    vm_acquired releases;
    struct vm_location *next;
} vm_location;

static vm_location *find_location(vm_launch *launch, const vm_race *race, uint64_t offset)
{
    vm_location *at = launch->locations;
    while (at != NULL && (at->race != race || at->offset != offset)) {
        at = at->next;
    }
    return at;
}

void vm_race_merge(vm_acquired *into, const vm_release *from)
{
    for (uint32_t i = 0; i < into->count; i++) {
        if (into->items[i].block == from->block) {
            vm_race_join(into->items[i].seen, from->seen);
            vm_race_join_proxied(&into->items[i].proxied, &from->proxied);
            return;
        }
    }
    if (into->count == into->capacity) {
        into->capacity = into->capacity == 0 ? 4 : into->capacity * 2;
        into->items = vm_resize(into->items, into->capacity * sizeof *into->items);
    }
    into->items[into->count++] = *from;
}

void vm_race_release(vm_warp *warp, const vm_race *race, uint64_t offset)
{
    vm_launch *launch = warp->block->launch;
    vm_release release;
    release.block = (uint32_t)warp->block->linear;
    memcpy(release.seen, warp->clock.seen, sizeof release.seen);
    release.proxied = warp->clock.proxied;
    release.seen[warp->index] = warp->clock.fence_time;
    pthread_mutex_lock(&launch->lock);
    vm_location *location = find_location(launch, race, offset);
    if (location == NULL) {
        location = vm_allocate(sizeof *location);
        location->race = race;
        location->offset = offset;
        location->next = launch->locations;
        launch->locations = location;
    }
    vm_race_merge(&location->releases, &release);
    pthread_mutex_unlock(&launch->lock);
}

/* What a lane's own warp released: fences are kept for the warp, so all its lanes up to then. */
static void take_own(vm_warp *warp, unsigned lane, uint32_t time)
{
    vm_clock *clock = &warp->clock;
    if (time <= clock->warp_time) {
        return;
    }
    if (clock->lanes == NULL) {
        clock->lanes = vm_allocate(sizeof(uint32_t[VM_LANES][VM_LANES]));
    }
    for (unsigned m = 0; m < VM_LANES; m++) {
        clock->lanes[lane][m] = clock->lanes[lane][m] > time ? clock->lanes[lane][m] : time;
    }
}

void vm_race_acquire(vm_warp *warp, unsigned lane, const vm_race *race, uint64_t offset)
{
    vm_launch *launch = warp->block->launch;
    if (__atomic_load_n(&launch->locations, __ATOMIC_ACQUIRE) == NULL) {
        return;
    }
    pthread_mutex_lock(&launch->lock);
    vm_location *location = find_location(launch, race, offset);
    uint32_t count = location != NULL ? location->releases.count : 0;
    for (uint32_t i = 0; i < count; i++) {
        const vm_release *release = &location->releases.items[i];
        if (release->block != (uint32_t)warp->block->linear) {
            vm_race_merge(&warp->block->acquired, release);
            continue;
        }
        vm_clock_set set;
        memcpy(set.seen, release->seen, sizeof set.seen);
        set.proxied = release->proxied;
        set.seen[warp->index] = 0;
        vm_race_take(warp, &set);
        take_own(warp, lane, release->seen[warp->index]);
    }
    pthread_mutex_unlock(&launch->lock);
}

void vm_race_launch_end(vm_launch *launch)
{
    while (launch->locations != NULL) {
        vm_location *next = launch->locations->next;
        free(launch->locations->releases.items);
        free(launch->locations);
        launch->locations = next;
    }
}
