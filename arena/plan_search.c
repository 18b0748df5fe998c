/* SPDX-License-Identifier: MIT */
/* The exact search: a depth-first walk over placements on an explicit stack.
 *
 * Every layout can be pushed down until each buffer rests on another one or on zero, and built in
 * the order of (offset, rank). So only such orders are walked: a candidate goes exactly to its
 * level, and never before one that was placed earlier in its part. Two kinds of candidates are left
 * out because some other branch is at least as good (end_level below). The ideas are those of
 * minimalloc (Moffitt, "MiniMalloc", ASPLOS 2023); the bounds on passed-over items and the free
 * items are our own additions. */
#include "arena/plan_search.h"

#include <string.h>

void search_tables_place(search_tables *tables, bp_arena *memory, uint32_t items)
{
    uint64_t words = ((uint64_t)items + 63) / 64;
    tables->words = (uint32_t)words;
    tables->conflict = bp_arena_take(memory, items * words, sizeof *tables->conflict);
    tables->member = bp_arena_take(memory, items * words, sizeof *tables->member);
    tables->twin = bp_arena_take(memory, items, sizeof *tables->twin);
    tables->reach = bp_arena_take(memory, items, sizeof *tables->reach);
    tables->touched = bp_arena_take(memory, items, sizeof *tables->touched);
    tables->marked = bp_arena_take(memory, items, sizeof *tables->marked);
}

void search_place(plan_search *search, bp_arena *memory, uint32_t items)
{
    /* Small sets get room for a log that cannot overflow. */
    search->log_size = items * (SEARCH_LOG < 4 * items ? SEARCH_LOG : 4 * items) + 4 * items + 1;
    search->level = bp_arena_take(memory, items, sizeof *search->level);
    search->lowest = bp_arena_take(memory, items, sizeof *search->lowest);
    search->total = bp_arena_take(memory, items, sizeof *search->total);
    search->live = bp_arena_take(memory, ((uint64_t)items + 63) / 64, sizeof *search->live);
    search->log_old = bp_arena_take(memory, search->log_size, sizeof *search->log_old);
    search->log_what = bp_arena_take(memory, search->log_size, sizeof *search->log_what);
    search->cut = bp_arena_take(memory, items, sizeof *search->cut);
    search->pool = bp_arena_take(memory, items, sizeof *search->pool);
    search->rank = bp_arena_take(memory, items, sizeof *search->rank);
    search->frame = bp_arena_take(memory, (uint64_t)items + 2, sizeof *search->frame);
}

static bool items_are_twins(const plan_item *a, const plan_item *b)
{
    return a->size == b->size && a->first == b->first && a->last == b->last;
}

/* Links items of one size and one life into rings. */
static void tables_fill_twins(search_tables *tables, const plan_work *work)
{
    for (uint32_t i = 0; i < work->items; i++) {
        uint32_t next = i;
        do {
            next = next + 1 < work->items ? next + 1 : 0;
        } while (!items_are_twins(&work->item[i], &work->item[next]));
        tables->twin[i] = next;
    }
}

void search_tables_fill(search_tables *tables, const plan_work *work)
{
    size_t row = tables->words;
    memset(tables->conflict, 0, row * work->items * sizeof *tables->conflict);
    memset(tables->member, 0, row * work->sections * sizeof *tables->member);
    memset(tables->marked, 0, work->sections * sizeof *tables->marked);
    tables_fill_twins(tables, work);
    for (uint32_t i = 0; i < work->items; i++) {
        const plan_item *item = &work->item[i];
        for (uint32_t s = item->first; s < item->last; s++) {
            tables->member[s * row + i / 64] |= (uint64_t)1 << i % 64;
        }
        for (uint32_t j = 0; j < work->items; j++) {
            const plan_item *other = &work->item[j];
            bool conflict = i != j && item->first < other->last && other->first < item->last;
            tables->conflict[i * row + j / 64] |= (uint64_t)conflict << j % 64;
        }
    }
}

void search_start(plan_search *search, plan_rule rule, uint64_t capacity)
{
    const plan_work *work = search->work;
    search->rule = rule;
    search->capacity = capacity;
    search->state = SEARCH_RUNNING;
    search->log_used = 0;
    memcpy(search->level, work->floor, work->items * sizeof *search->level);
    memset(search->lowest, 0, work->sections * sizeof *search->lowest);
    memset(search->live, 0, search->tables->words * sizeof *search->live);
    memset(search->cut, 0, work->sections * sizeof *search->cut);
    memcpy(search->total, work->total, work->sections * sizeof *search->total);
    for (uint32_t i = 0; i < work->items; i++) {
        search->pool[i] = i;
        search->rank[i] = 0;
        search->live[i / 64] |= (uint64_t)1 << i % 64;
        for (uint32_t s = work->item[i].first + 1; s < work->item[i].last; s++) {
            search->cut[s]++;
        }
    }
    search_rank(search, 0, work->items);
    search->log_used = 0;
    /* The root places nothing; the set's own parts are its parts. */
    search->depth = 0;
    search->frame[0] =
        (search_frame){.last = work->sections, .to = work->items, .item = SEARCH_NONE};
}

/* Whether (level, rank) a lies before b. */
static bool pair_before(uint64_t level_a, uint32_t rank_a, uint64_t level_b, uint32_t rank_b)
{
    return level_a < level_b || (level_a == level_b && rank_a < rank_b);
}

/* Whether nobody unplaced could ever get under the item's top where it is now. */
static bool item_is_free(const plan_search *search, uint32_t index)
{
    const search_tables *tables = search->tables;
    const uint64_t *row = tables->conflict + (size_t)index * tables->words;
    uint64_t top = search->level[index] + search->work->item[index].size;
    for (uint32_t w = 0; w < tables->words; w++) {
        for (uint64_t bits = row[w] & search->live[w]; bits != 0; bits &= bits - 1) {
            if (search->level[w * 64 + search_bit(bits)] < top) {
                return false;
            }
        }
    }
    return true;
}

/* Finds where the candidates of a frame end. A candidate at or above somebody's top leaves a hole
 * that this somebody would fill at no cost, since all later ones lie higher still. And an item
 * whose place nobody else can use may as well be placed there: nothing after it need be tried. */
static void frame_open(const plan_search *search, search_frame *frame)
{
    const plan_item *items = search->work->item;
    uint64_t hole = UINT64_MAX;
    for (uint32_t i = frame->from; i < frame->to; i++) {
        uint32_t item = search->pool[i];
        uint64_t top = search->level[item] + items[item].size;
        hole = top < hole ? top : hole;
    }
    frame->opened = true;
    frame->end_level = hole;
    frame->end_rank = 0; /* ranks start at 1: nothing at `hole` itself is tried */
    for (uint32_t i = frame->from; i < frame->to; i++) {
        uint32_t item = search->pool[i];
        uint64_t level = search->level[item];
        uint32_t rank = search->rank[item];
        bool candidate = pair_before(frame->tried_level, frame->tried_rank, level, rank) &&
                         pair_before(level, rank, frame->end_level, frame->end_rank);
        if (candidate && item_is_free(search, item)) {
            frame->end_level = level;
            frame->end_rank = rank;
        }
    }
}

/* The place in the pool of the frame's next candidate in the order of (level, rank). */
static uint32_t frame_next(const plan_search *search, search_frame *frame)
{
    uint32_t found = SEARCH_NONE;
    uint64_t level = frame->end_level;
    uint32_t rank = frame->end_rank;
    for (uint32_t i = frame->from; i < frame->to; i++) {
        uint32_t item = search->pool[i];
        uint64_t item_level = search->level[item];
        if (item_level > level) {
            continue; /* nearly all of them, so this test comes before the others */
        }
        uint32_t item_rank = search->rank[item];
        bool after = pair_before(frame->tried_level, frame->tried_rank, item_level, item_rank);
        bool better = item_level < level || item_rank <= rank;
        if (after && better) {
            found = i;
            level = item_level;
            rank = item_rank;
        }
    }
    frame->tried_level = level;
    frame->tried_rank = rank;
    return found;
}

/* Whether a twin at the same level comes before the item. Then whatever lies on this one could lie
 * on that one, the two having changed places, and all that has been tried. The twin must get along
 * with the item's other place, so it may not have more above it. */
static bool item_is_second(const plan_search *search, uint32_t item)
{
    const search_tables *tables = search->tables;
    const uint64_t *head = search->work->head;
    for (uint32_t i = tables->twin[item]; i != item; i = tables->twin[i]) {
        bool unplaced = (search->live[i / 64] >> i % 64 & 1) != 0;
        if (unplaced && search->level[i] == search->level[item] &&
            search->rank[i] < search->rank[item] && head[i] >= head[item]) {
            return true;
        }
    }
    return false;
}

static void pool_swap(uint32_t *pool, uint32_t a, uint32_t b)
{
    uint32_t item = pool[a];
    pool[a] = pool[b];
    pool[b] = item;
}

/* Whether the placement of this frame has separated sections that were connected before. */
static bool frame_split(const plan_search *search, const search_frame *frame)
{
    if (frame->item == SEARCH_NONE) {
        return false;
    }
    const plan_item *item = &search->work->item[frame->item];
    for (uint32_t s = item->first + 1; s < item->last; s++) {
        if (search->cut[s] == 0) {
            return true;
        }
    }
    return false;
}

/* Pushes a frame for the next unsolved part of the current frame; false if all are solved. */
static bool search_descend(plan_search *search)
{
    search_frame *frame = &search->frame[search->depth];
    uint32_t end = frame->to - (frame->item != SEARCH_NONE ? 1 : 0);
    if (frame->next_pool == end) {
        return false;
    }
    uint32_t first = frame->next_section;
    while (search->total[first] == 0) {
        first++;
    }
    uint32_t last = first + 1;
    while (last < frame->last && search->cut[last] != 0) {
        last++;
    }
    uint32_t to = frame->next_pool;
    for (uint32_t i = to; i < end; i++) {
        if (search->work->item[search->pool[i]].first < last) {
            pool_swap(search->pool, i, to++);
        }
    }
    search_frame *part = &search->frame[search->depth + 1];
    *part = (search_frame){
        .first = first, .last = last, .from = frame->next_pool, .to = to, .item = SEARCH_NONE};
    frame->next_pool = to;
    frame->next_section = last;
    if (frame->item != SEARCH_NONE) {
        part->tried_level = search->level[frame->item];
        part->tried_rank = search->rank[frame->item];
    }
    if (frame_split(search, frame)) {
        /* A smaller problem has other tight places: the static order is made anew on its own
         * totals. Old and new ranks cannot be compared, so only the offset bounds what comes. */
        search_rank(search, part->from, part->to);
        part->tried_rank = 0;
    }
    search->depth++;
    return true;
}

/* Tries the current frame's candidates until one is placed; false if there is none left. */
static bool search_place_next(plan_search *search, uint64_t *nodes, uint64_t limit)
{
    search_frame *frame = &search->frame[search->depth];
    if (!frame->opened) {
        frame_open(search, frame);
    }
    while (*nodes < limit && search->state == SEARCH_RUNNING) {
        uint32_t found = frame_next(search, frame);
        if (found == SEARCH_NONE) {
            return false;
        }
        uint32_t item = search->pool[found];
        if (item_is_second(search, item)) {
            continue;
        }
        (*nodes)++;
        frame->mark = search->log_used;
        if (search_put(search, frame, item)) {
            pool_swap(search->pool, found, frame->to - 1);
            frame->item = item;
            frame->next_pool = frame->from;
            frame->next_section = frame->first;
            return true;
        }
        search_undo(search, frame->mark);
    }
    return false;
}

uint64_t search_run(plan_search *search, uint64_t nodes)
{
    uint64_t used = 0;
    while (search->state == SEARCH_RUNNING && used < nodes) {
        search_frame *frame = &search->frame[search->depth];
        if (search->depth == 0 || frame->item != SEARCH_NONE) {
            if (search_descend(search)) {
                continue;
            }
            /* All parts of this frame are solved, and so is the part that it belongs to. */
            if (search->depth == 0) {
                search->state = SEARCH_SOLVED;
            } else {
                search->depth--;
            }
        } else if (!search_place_next(search, &used, nodes) && used < nodes &&
                   search->state == SEARCH_RUNNING) {
            /* This part has no solution, so the placement that left it is wrong. */
            search->depth--;
            frame = &search->frame[search->depth];
            if (search->depth == 0) {
                search->state = SEARCH_REFUTED;
            } else {
                search_undo(search, frame->mark);
                frame->item = SEARCH_NONE;
            }
        }
    }
    return used;
}
