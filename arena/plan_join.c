/* SPDX-License-Identifier: MIT */
/* The planner's joined buffers.
 *
 * A loop brings thousands of pieces of one size, some of which live at a time, each for a moment.
 * One that takes another's place as soon as that is free is laid out best as a row of places, which
 * a greedy order misses wherever the loop changes its pace. So those of a size are joined: each to
 * the one that ended last before it begins, if the time between them is short, and if the bytes
 * that the two then take in between raise no section above the bound. The joined have the same
 * bound and are few, and any layout of them is one of all. */
#include "arena/plan_join.h"

#include <string.h>

/* Sets of fewer items are not joined: these can be searched as a whole. */
#define JOIN_LEAST 512u

/* Sections between two that are joined, at most. Around full sections: those of a loop's step, then
 * none. Greedily: first what joins best on training programs. */
static const uint32_t join_hot[] = {8, 0};
static const uint32_t join_greedy[] = {1, 2, 0, 8};

void plan_join_place(plan_join *join, bp_arena *memory, uint64_t count)
{
    join->item = bp_arena_take(memory, count, sizeof *join->item);
    join->total = bp_arena_take(memory, count + 1, sizeof *join->total);
    join->best = bp_arena_take(memory, count, sizeof *join->best);
    join->of = bp_arena_take(memory, count, sizeof *join->of);
}

/* Of the joined ones in list[], in the order of their ends, how many end by `section`. */
static uint32_t join_ended(const plan_join *join, const uint32_t *list, uint32_t count,
                           uint32_t section)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (join->item[list[middle]].last <= section) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Whether an item may follow a joined one, with at most `most` sections between them. */
static bool join_follows(const plan_join *join, const plan_work *work, const plan_item *before,
                         const plan_item *item, uint32_t most)
{
    if (item->first - before->last > most) {
        return false;
    }
    for (uint32_t s = before->last; s < item->first; s++) {
        if (join->total[s] + item->size > work->bound) {
            return false;
        }
    }
    return true;
}

/* Joins the items [from, to), which are of one size, and appends them to the `count` that are
 * there. Returns how many there are now. */
static uint32_t join_size(plan_join *join, plan_work *work, uint32_t from, uint32_t to,
                          uint32_t count, uint32_t most)
{
    uint32_t *list = work->spare; /* the joined ones in the order of their ends */
    uint32_t listed = 0;
    for (uint32_t i = from; i < to; i++) {
        const plan_item *item = &work->item[i];
        uint32_t at = join_ended(join, list, listed, item->first);
        uint32_t index = at > 0 ? list[at - 1] : 0;
        if (at > 0 && join_follows(join, work, &join->item[index], item, most)) {
            for (uint32_t s = join->item[index].last; s < item->first; s++) {
                join->total[s] += item->size;
            }
            listed--;
            memmove(list + at - 1, list + at, (listed - (at - 1)) * sizeof *list);
        } else {
            index = count++;
            join->item[index] = *item;
        }
        join->item[index].last = item->last;
        join->of[i] = index;
        at = join_ended(join, list, listed, item->last);
        memmove(list + at + 1, list + at, (listed - at) * sizeof *list);
        list[at] = index;
        listed++;
    }
    return count;
}

/* Joins all items with at most `most` sections between them. Returns how many are left. */
static uint32_t join_all(plan_join *join, plan_work *work, const bp_interval *buffers,
                         uint32_t most)
{
    uint32_t count = 0;
    memcpy(join->total, work->total, work->sections * sizeof *join->total);
    for (uint32_t from = 0, to = 0; from < work->items; from = to) {
        while (to < work->items && work->item[to].size == work->item[from].size) {
            to++;
        }
        count = join_size(join, work, from, to, count, most);
    }
    for (uint32_t i = 0; i < work->items; i++) { /* the last of each stays */
        plan_item *joined = &join->item[join->of[i]];
        joined->width = buffers[work->item[i].row].upper - buffers[joined->row].lower;
    }
    return count;
}

/* The best layout of the joined ones is one of all. */
static void join_keep(const plan_join *join, plan_work *work, const plan_work *joined)
{
    if (joined->best_height >= work->best_height) {
        return;
    }
    for (uint32_t i = 0; i < work->items; i++) {
        work->best[i] = join->best[join->of[i]];
    }
    work->best_height = joined->best_height;
    work->method = joined->method;
}

/* The layouts of the joined ones with at most `most` sections between them: greedy ones, or those
 * around full sections. Returns whether enough was joined, so that others may join more. */
static bool join_attempt(plan_join *join, plan_hot *hot, const bp_interval *buffers, uint32_t most,
                         bool greedy, bool full)
{
    plan_work *work = hot->work;
    plan_work joined = *work;
    joined.item = join->item;
    joined.total = join->total;
    joined.best = join->best;
    joined.items = join_all(join, work, buffers, most);
    if (joined.items > work->items - work->items / 4) {
        return false;
    }
    hot->work = &joined;
    plan_block(&joined);
    if (greedy) {
        plan_attempts(&joined);
    }
    if (full && !plan_done(&joined)) {
        plan_hot_run(hot);
        join->nodes += hot->nodes;
    }
    hot->work = work;
    join_keep(join, work, &joined);
    return true;
}

void plan_join_greedy(plan_join *join, plan_hot *hot, const bp_interval *buffers, bool first)
{
    const size_t count = first ? 1 : sizeof join_greedy / sizeof join_greedy[0];
    for (size_t k = first ? 0 : 1; k < count && !plan_done(hot->work); k++) {
        (void)join_attempt(join, hot, buffers, join_greedy[k], true, false);
    }
}

bool plan_join_run(plan_join *join, plan_hot *hot, const bp_interval *buffers, bool greedy)
{
    const size_t count = sizeof join_hot / sizeof join_hot[0];
    bool joins = hot->work->items >= JOIN_LEAST;
    for (size_t k = 0; k < count && joins && !plan_done(hot->work); k++) {
        joins = join_attempt(join, hot, buffers, join_hot[k], greedy, true);
    }
    return joins;
}
