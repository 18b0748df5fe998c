/* SPDX-License-Identifier: MIT */
/* The planner's greedy layouts: the dive and the gap-aware first fit.
 *
 * Both ask again and again who conflicts with one item. So time is cut into blocks of sections, and
 * each block lists the items that live in it: most items live in one block, and see only its list.
 */
#include "arena/plan_work.h"

#include <string.h>

#define DIVE_GROUP   64u
#define DIVE_UNKNOWN UINT32_MAX

void plan_block(plan_work *work)
{
    uint64_t sum = UINT64_MAX;
    uint32_t shift = 0;
    for (; sum > (uint64_t)PLAN_SLOTS * work->items; shift++) {
        sum = 0;
        for (uint32_t i = 0; i < work->items; i++) {
            const plan_item *item = &work->item[i];
            sum += ((item->last - 1) >> shift) - (item->first >> shift) + 1;
        }
        work->shift = shift;
    }
    work->blocks = work->items == 0 ? 0 : ((work->sections - 1) >> work->shift) + 1;
    memset(work->start, 0, (work->blocks + (size_t)2) * sizeof *work->start);
    for (uint32_t i = 0; i < work->items; i++) {
        const plan_item *item = &work->item[i];
        for (uint32_t b = item->first >> work->shift; b <= (item->last - 1) >> work->shift; b++) {
            work->start[b + 1]++;
        }
    }
    for (uint32_t b = 0; b < work->blocks; b++) {
        work->start[b + 1] += work->start[b];
    }
}

/* The lists that name everybody who may conflict with an item: those of its blocks, or the one of
 * all items, which comes behind them, where that is shorter. */
typedef struct block_range {
    uint32_t from;
    uint32_t to;
} block_range;

static block_range greedy_range(const plan_work *work, uint32_t first, uint32_t last)
{
    block_range range = {first >> work->shift, (last - 1) >> work->shift};
    uint64_t sum = 0;
    for (uint32_t b = range.from; b <= range.to; b++) {
        sum += work->used[b];
    }
    return sum <= work->used[work->blocks] ? range : (block_range){work->blocks, work->blocks};
}

/* The lowest of a place's group, and of the group of groups, has to be found again. */
static void dive_forget(plan_work *work, uint32_t place)
{
    work->spare[place / DIVE_GROUP] = DIVE_UNKNOWN;
    work->cursor[place / DIVE_GROUP / DIVE_GROUP] = DIVE_UNKNOWN;
}

/* Copies the lives of the items into flat arrays, by their places in the order to be tried, and
 * lists those of each block. */
static void dive_begin(plan_work *work)
{
    memset(work->used, 0, (work->blocks + (size_t)1) * sizeof *work->used);
    for (uint32_t i = 0; i < work->items; i++) {
        const plan_item *item = &work->item[work->order[i]];
        work->first[i] = item->first;
        work->last[i] = item->last;
        work->level[i] = work->floor[work->order[i]];
        dive_forget(work, i);
        for (uint32_t b = item->first >> work->shift; b <= (item->last - 1) >> work->shift; b++) {
            work->slot[work->start[b] + work->used[b]++] = i;
        }
        work->slot[work->start[work->blocks] + work->used[work->blocks]++] = i;
    }
}

/* Lifts whoever conflicts with the item at `place` above it. The placed ones leave the lists; a
 * group whose lowest was lifted is marked. */
static void dive_lift(plan_work *work, uint32_t place, uint64_t top)
{
    uint32_t first = work->first[place];
    uint32_t last = work->last[place];
    const block_range range = greedy_range(work, first, last);
    for (uint32_t b = range.from; b <= range.to; b++) {
        uint32_t *list = work->slot + work->start[b];
        uint32_t left = 0;
        work->looked += work->used[b];
        for (uint32_t i = 0; i < work->used[b]; i++) {
            uint32_t other = list[i];
            const uint64_t level = work->level[other]; /* most lie higher: looked at before lives */
            list[left] = other;
            left += level != UINT64_MAX;
            if (level < top && work->first[other] < last && first < work->last[other]) {
                work->level[other] = top;
                if (work->spare[other / DIVE_GROUP] == other) {
                    dive_forget(work, other);
                }
            }
        }
        work->used[b] = left;
    }
}

/* The place of the lowest item of a group, the first one on a tie. */
static uint32_t dive_lowest_of(plan_work *work, uint32_t from)
{
    uint32_t *lowest = &work->spare[from / DIVE_GROUP];
    if (*lowest == DIVE_UNKNOWN) {
        uint32_t end = from + DIVE_GROUP < work->items ? from + DIVE_GROUP : work->items;
        *lowest = from;
        for (uint32_t i = from + 1; i < end; i++) {
            *lowest = work->level[i] < work->level[*lowest] ? i : *lowest;
        }
    }
    return *lowest;
}

/* The place of the lowest item. Who is lowest is kept for each group of places, and of groups, so
 * that only those in which he was lifted or placed are searched again. */
static uint32_t dive_lowest(plan_work *work)
{
    const uint32_t span = DIVE_GROUP * DIVE_GROUP;
    uint32_t found = 0;
    for (uint32_t from = 0; from < work->items; from += span) {
        uint32_t *lowest = &work->cursor[from / span];
        if (*lowest == DIVE_UNKNOWN) {
            uint32_t end = from + span < work->items ? from + span : work->items;
            *lowest = from;
            for (uint32_t group = from; group < end; group += DIVE_GROUP) {
                const uint32_t other = dive_lowest_of(work, group);
                *lowest = work->level[other] < work->level[*lowest] ? other : *lowest;
            }
        }
        found = work->level[*lowest] < work->level[found] ? *lowest : found;
    }
    return found;
}

/* A section of which the total is the largest. */
static uint32_t dive_peak(const plan_work *work)
{
    uint32_t peak = 0;
    for (uint32_t s = 1; s < work->sections; s++) {
        peak = work->total[s] > work->total[peak] ? s : peak;
    }
    return peak;
}

/* Stacks upwards: always the item that can lie lowest goes next, first in work->order on a tie.
 * Returns the layout's height; offsets in work->offset. Gives up with UINT64_MAX as soon as the
 * height would reach `limit`, or those to come at the peak would, on top of what lies there. */
static uint64_t plan_dive(plan_work *work, uint64_t limit)
{
    const uint32_t peak = dive_peak(work);
    uint64_t height = 0, rest = work->total[peak];
    dive_begin(work);
    for (uint32_t count = work->items; count > 0; count--) {
        uint32_t place = dive_lowest(work);
        uint32_t item = work->order[place];
        uint64_t top = work->level[place] + work->item[item].size;
        uint64_t reached = top + work->head[item];
        work->offset[item] = work->level[place];
        height = reached > height ? reached : height;
        const bool at_peak = work->first[place] <= peak && peak < work->last[place];
        rest -= at_peak ? work->item[item].size : 0;
        if (height >= limit || (at_peak && top + rest >= limit)) {
            return UINT64_MAX;
        }
        work->level[place] = UINT64_MAX;
        dive_forget(work, place);
        dive_lift(work, place, top);
    }
    return height;
}

/* The lowest offset from `offset` on at which `item` conflicts with nobody in the block's list,
 * which is in the order of offsets. *cursor is where the search ended: nobody before it matters
 * any more. */
static uint64_t block_gap(plan_work *work, uint32_t block, const plan_item *item, uint64_t offset,
                          uint32_t *cursor)
{
    const uint32_t *list = work->slot + work->start[block];
    uint32_t i = *cursor;
    for (; i < work->used[block]; i++) {
        const plan_spot *other = &work->spot[list[i]];
        bool conflict = other->first < item->last && item->first < other->last;
        if (!conflict || other->top <= offset) {
            continue;
        }
        if (other->level >= offset + item->size) {
            break;
        }
        offset = other->top;
    }
    work->looked += i - *cursor;
    *cursor = i;
    return offset;
}

/* The same for all blocks that the item lives in: each raises what the others found until all of
 * them agree. */
static uint64_t greedy_gap(plan_work *work, const plan_item *item, uint64_t offset)
{
    uint32_t *cursor = work->cursor;
    const block_range range = {item->first >> work->shift, (item->last - 1) >> work->shift};
    const uint32_t lists = range.to - range.from + 1;
    for (uint32_t b = range.from; b <= range.to; b++) {
        cursor[b] = work->skip[b];
        offset = work->bottom[b] > offset ? work->bottom[b] : offset;
    }
    uint32_t agreed = 0;
    for (uint32_t b = range.from; agreed < lists; b = b == range.to ? range.from : b + 1) {
        uint64_t found = block_gap(work, b, item, offset, &cursor[b]);
        agreed = found == offset ? agreed + 1 : 1;
        offset = found;
    }
    return offset;
}

/* Goes on from the entries that are skipped at the beginning of a block's list: nothing that is
 * fitted later lies lower than those that live in the whole block without a gap between them. */
static void list_skip(plan_work *work, uint32_t block)
{
    const uint32_t *list = work->slot + work->start[block];
    const uint32_t first = block << work->shift, end = first + (1u << work->shift);
    const uint32_t last = end < work->sections ? end : work->sections;
    uint64_t bottom = work->bottom[block];
    uint32_t i = work->skip[block];
    for (; i < work->used[block]; i++) {
        const plan_spot *spot = &work->spot[list[i]];
        if (spot->first > first || spot->last < last || spot->level > bottom) {
            break;
        }
        bottom = spot->top > bottom ? spot->top : bottom;
    }
    work->skip[block] = i;
    work->bottom[block] = bottom;
}

/* Puts an item into a list, after those of the same offset; returns its place there. */
static uint32_t list_insert(plan_work *work, uint32_t block, uint32_t index)
{
    uint32_t *list = work->slot + work->start[block];
    uint32_t low = 0;
    uint32_t high = work->used[block];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (work->spot[list[middle]].level <= work->spot[index].level) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    memmove(list + low + 1, list + low, (work->used[block] - low) * sizeof *list);
    list[low] = index;
    work->used[block]++;
    return low;
}

/* `fitted`: it lies in a gap that was looked for, so that no entry that is skipped lies higher. */
static void greedy_insert(plan_work *work, uint32_t index, uint64_t offset, bool fitted)
{
    const plan_item *item = &work->item[index];
    work->spot[index] = (plan_spot){
        .level = offset, .top = offset + item->size, .first = item->first, .last = item->last};
    for (uint32_t b = item->first >> work->shift; b <= (item->last - 1) >> work->shift; b++) {
        if (list_insert(work, b, index) == work->skip[b] && fitted) {
            list_skip(work, b);
        }
    }
}

static void greedy_empty(plan_work *work)
{
    memset(work->used, 0, (work->blocks + (size_t)1) * sizeof *work->used);
    memset(work->skip, 0, work->blocks * sizeof *work->skip);
    memset(work->bottom, 0, work->blocks * sizeof *work->bottom);
}

/* Fits the items from work->order[from] on, above what reaches `height`. */
static uint64_t greedy_fit(plan_work *work, uint64_t limit, uint32_t from, uint64_t height)
{
    for (uint32_t i = from; i < work->items; i++) {
        uint32_t index = work->order[i];
        const plan_item *item = &work->item[index];
        uint64_t offset = greedy_gap(work, item, work->floor[index]);
        work->offset[index] = offset;
        uint64_t reached = offset + item->size + work->head[index];
        height = reached > height ? reached : height;
        if (height >= limit) {
            return UINT64_MAX;
        }
        greedy_insert(work, index, offset, true);
    }
    return height;
}

void plan_place(plan_work *work, plan_work *copy, uint32_t placed)
{
    greedy_empty(work);
    copy->best_height = 0;
    for (uint32_t i = 0; i < placed; i++) {
        const uint32_t index = work->order[i];
        const uint64_t offset = work->offset[index];
        const uint64_t reached = offset + work->item[index].size + work->head[index];
        copy->best_height = reached > copy->best_height ? reached : copy->best_height;
        greedy_insert(work, index, offset, false);
    }
    for (uint32_t b = 0; b < work->blocks; b++) {
        list_skip(work, b);
    }
    memcpy(copy->skip, work->skip, work->blocks * sizeof *work->skip);
    memcpy(copy->bottom, work->bottom, work->blocks * sizeof *work->bottom);
    memcpy(copy->used, work->used, (work->blocks + (size_t)1) * sizeof *work->used);
    memcpy(copy->slot, work->slot, work->start[work->blocks] * sizeof *work->slot);
}

uint64_t plan_fit_rest(plan_work *work, const plan_work *copy, uint32_t placed)
{
    memcpy(work->skip, copy->skip, work->blocks * sizeof *work->skip);
    memcpy(work->bottom, copy->bottom, work->blocks * sizeof *work->bottom);
    memcpy(work->used, copy->used, (work->blocks + (size_t)1) * sizeof *work->used);
    memcpy(work->slot, copy->slot, work->start[work->blocks] * sizeof *work->slot);
    return greedy_fit(work, UINT64_MAX, placed, copy->best_height);
}

static uint64_t plan_first_fit(plan_work *work, uint64_t limit)
{
    greedy_empty(work);
    return greedy_fit(work, limit, 0, 0);
}

/* One attempt: a layout of the items in the order of a rule. */
static void greedy_attempt(plan_work *work, plan_rule rule, bool dive, const char *name)
{
    if (plan_done(work)) {
        return;
    }
    for (uint32_t i = 0; i < work->items; i++) {
        work->order[i] = i;
    }
    plan_order(work, rule, work->items);
    uint64_t limit = work->best_height;
    plan_keep(work, dive ? plan_dive(work, limit) : plan_first_fit(work, limit), name);
}

void plan_attempts(plan_work *work)
{
    plan_peaks(work, work->total, NULL, work->items);
    /* In the order of what reaches the bound most often on training programs, per time. */
    if (work->floors) {
        greedy_attempt(work, PLAN_HEAD, true, "dive by head");
    }
    greedy_attempt(work, PLAN_TWA, true, "dive TWA");
    greedy_attempt(work, PLAN_SIZE, false, "first fit by size");
    greedy_attempt(work, PLAN_TWA, false, "first fit TWA");
    greedy_attempt(work, PLAN_WAT, true, "dive WAT");
    greedy_attempt(work, PLAN_TAW, true, "dive TAW");
    greedy_attempt(work, PLAN_AREA, false, "first fit by area");
}
