/* SPDX-License-Identifier: MIT */
/* The planner's greedy layouts: the dive and the gap-aware first fit. */
#include "arena/plan_work.h"

#include <string.h>

/* Copies the lives of the items, in the order they are to be tried, into flat arrays, so that the
 * quadratic loops below read memory in sequence. */
static void greedy_flatten(plan_work *work)
{
    for (uint32_t i = 0; i < work->items; i++) {
        const plan_item *item = &work->item[work->order[i]];
        work->first[i] = item->first;
        work->last[i] = item->last;
        work->level[i] = 0;
        work->spare[i] = work->order[i];
    }
}

/* Drops place `at` from the flat arrays; the rest keeps its order, which breaks the ties. */
static void greedy_drop(plan_work *work, uint32_t at, uint32_t count)
{
    uint32_t after = count - at - 1;
    memmove(work->first + at, work->first + at + 1, after * sizeof *work->first);
    memmove(work->last + at, work->last + at + 1, after * sizeof *work->last);
    memmove(work->level + at, work->level + at + 1, after * sizeof *work->level);
    memmove(work->spare + at, work->spare + at + 1, after * sizeof *work->spare);
}

uint64_t plan_dive(plan_work *work, uint64_t limit)
{
    uint64_t height = 0;
    uint32_t lowest = 0;
    greedy_flatten(work);
    for (uint32_t count = work->items; count > 0; count--) {
        uint32_t item = work->spare[lowest];
        uint64_t top = work->level[lowest] + work->item[item].size;
        work->offset[item] = work->level[lowest];
        height = top > height ? top : height;
        if (height >= limit) {
            return UINT64_MAX;
        }
        uint32_t first = work->first[lowest];
        uint32_t last = work->last[lowest];
        greedy_drop(work, lowest, count);
        lowest = 0;
        for (uint32_t i = 0; i + 1 < count; i++) {
            bool conflict = work->first[i] < last && first < work->last[i];
            if (conflict && work->level[i] < top) {
                work->level[i] = top;
            }
            lowest = work->level[i] < work->level[lowest] ? i : lowest;
        }
    }
    return height;
}

/* The lowest offset at which `item` conflicts with none of the `count` placed ones, which lie in
 * the flat arrays in the order of their offsets. */
static uint64_t greedy_gap(const plan_work *work, uint32_t count, const plan_item *item)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool conflict = work->first[i] < item->last && item->first < work->last[i];
        if (!conflict || work->top[i] <= offset) {
            continue;
        }
        if (work->level[i] >= offset + item->size) {
            break;
        }
        offset = work->top[i];
    }
    return offset;
}

/* The highest such offset below the capacity; UINT64_MAX if there is none. */
static uint64_t greedy_hang(const plan_work *work, uint32_t count, const plan_item *item)
{
    uint64_t cover = 0;
    uint64_t offset = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        bool conflict = work->first[i] < item->last && item->first < work->last[i];
        if (!conflict) {
            continue;
        }
        if (work->level[i] >= cover + item->size && work->level[i] <= work->capacity) {
            offset = work->level[i] - item->size;
        }
        cover = work->top[i] > cover ? work->top[i] : cover;
    }
    return cover + item->size <= work->capacity ? work->capacity - item->size : offset;
}

/* Where the next item goes: up against what hangs, or down on what lies. */
static uint64_t greedy_place(const plan_work *work, uint32_t count, const plan_item *item)
{
    uint64_t offset = UINT64_MAX;
    if (work->hanging && item->hangs) {
        offset = greedy_hang(work, count, item);
    }
    return offset != UINT64_MAX ? offset : greedy_gap(work, count, item);
}

/* Puts an item among the `count` placed ones, after those of the same offset. */
static void greedy_insert(plan_work *work, uint32_t count, const plan_item *item, uint64_t offset)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (work->level[middle] <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    uint32_t after = count - low;
    memmove(work->first + low + 1, work->first + low, after * sizeof *work->first);
    memmove(work->last + low + 1, work->last + low, after * sizeof *work->last);
    memmove(work->level + low + 1, work->level + low, after * sizeof *work->level);
    memmove(work->top + low + 1, work->top + low, after * sizeof *work->top);
    work->first[low] = item->first;
    work->last[low] = item->last;
    work->level[low] = offset;
    work->top[low] = offset + item->size;
}

uint64_t plan_first_fit(plan_work *work, uint64_t limit, uint32_t placed)
{
    uint64_t height = 0;
    for (uint32_t i = 0; i < work->items; i++) {
        uint32_t index = work->order[i];
        const plan_item *item = &work->item[index];
        uint64_t offset = i < placed ? work->offset[index] : greedy_place(work, i, item);
        work->offset[index] = offset;
        height = offset + item->size > height ? offset + item->size : height;
        if (height >= limit) {
            return UINT64_MAX;
        }
        greedy_insert(work, i, item, offset);
    }
    return height;
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
    plan_order(work, rule, work->total, work->items);
    uint64_t limit = work->best_height;
    plan_keep(work, dive ? plan_dive(work, limit) : plan_first_fit(work, limit, 0), name);
}

void plan_attempts(plan_work *work)
{
    /* In the order of what reaches the bound most often on training programs, per time. */
    greedy_attempt(work, PLAN_TWA, true, "dive TWA");
    greedy_attempt(work, PLAN_SIZE, false, "first fit by size");
    greedy_attempt(work, PLAN_TWA, false, "first fit TWA");
    greedy_attempt(work, PLAN_WAT, true, "dive WAT");
    greedy_attempt(work, PLAN_TAW, true, "dive TAW");
    greedy_attempt(work, PLAN_AREA, false, "first fit by area");
}
