/* SPDX-License-Identifier: MIT */
/* The planner's hot sections: who lives in a full section is laid out first, the rest around them.
 *
 * A program reaches its bound in few sections. There the layout must be perfect; elsewhere it has
 * room. So those who live in such a section (they are hot) are laid out alone, all time in which
 * none of them begins or ends left out: what remains is small enough for an exact search. The
 * others follow by first fit, and those who end too high go first in the next round; after some
 * rounds the fullest section of each becomes a hot one.
 *
 * A training step is two stacks: what forward leaves dies in the reverse order of its birth, and
 * gradients, born meanwhile, all live to the update. So those who outlive the peak hang from the
 * capacity in the order of their birth, which leaves what is free in one piece, and only the others
 * are searched for: nobody may be higher than what hangs when he dies. That problem is solved as it
 * is, where each has a head over him, and upside down, where each has a floor; searches that fill
 * memory from one end may find in an instant what they miss from the other. Where gradients do not
 * outlive the peak, because they are released, nobody hangs. */
#include "arena/plan_hot.h"

#include <string.h>

/* First fits that one call may make: so many for sets of up to 20,000 items, fewer for larger ones
 * by the square of their number. */
#define HOT_STEPS  48000000000u
#define HOT_LEAST  12u
#define HOT_ROUNDS 240u
/* First fits around the same hot items without any fewer of the others ending too high. */
#define HOT_PATIENCE 4u
/* Placements that one search may try, in the first pass over all ways and in the second; in all of
 * them; and the largest set that is worth it, since more items make each placement dearer. */
#define HOT_NODES 512u
#define HOT_AGAIN 4096u
#define HOT_TOTAL 65536u
#define HOT_ITEMS 512u
/* Sets that an exact search can take as a whole at once. */
#define HOT_SMALL 64u

/* One way of going about it. At first the sections within the `share`-th part of the bound are hot
 * (0: only those that reach it). */
typedef struct hot_way {
    uint32_t share;
    bool hang; /* some hang from the capacity */
    bool down; /* the others are laid out upside down */
} hot_way;

/* From what helps most often. */
static const hot_way ways[] = {
    {200, true, false},   {200, true, true},  {200, false, false}, {0, true, false},
    {0, true, true},      {0, false, false},  {0, false, true},    {50, true, false},
    {50, true, true},     {50, false, false}, {1000, true, false}, {1000, true, true},
    {1000, false, false}, {20, true, false},  {20, true, true},    {20, false, false},
};

/* Oldest first; of one age, the last to die first. */
static bool birth_before(const void *opaque, uint32_t a, uint32_t b)
{
    const plan_item *x = (const plan_item *)opaque + a;
    const plan_item *y = (const plan_item *)opaque + b;
    if (x->first != y->first) {
        return x->first < y->first;
    }
    if (x->width != y->width) {
        return x->width > y->width;
    }
    return x->last != y->last ? x->last > y->last : a < b;
}

/* Last to die first. */
static bool death_before(const void *opaque, uint32_t a, uint32_t b)
{
    const plan_item *x = (const plan_item *)opaque + a;
    const plan_item *y = (const plan_item *)opaque + b;
    if (x->last != y->last) {
        return x->last > y->last;
    }
    return x->width != y->width ? x->width > y->width : a < b;
}

/* The section in which most bytes die of those that live where the bound is first reached. */
static uint32_t hot_most(const plan_work *work)
{
    uint32_t peak = 0;
    while (work->total[peak] != work->bound) {
        peak++;
    }
    uint64_t *dying = work->level;
    memset(dying, 0, work->sections * sizeof *dying);
    for (uint32_t i = 0; i < work->items; i++) {
        const plan_item *item = &work->item[i];
        dying[item->last - 1] += item->first <= peak && peak < item->last ? item->size : 0;
    }
    uint32_t most = 0;
    for (uint32_t s = 0; s < work->sections; s++) {
        most = dying[s] > dying[most] ? s : most;
    }
    return most;
}

static uint64_t plan_hot_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Hangs whoever lives in section h->most: the oldest highest. */
static void hot_hang(plan_hot *h, bool hang)
{
    plan_work *work = h->work;
    const uint32_t most = h->most;
    uint64_t *depth = h->depth;
    h->hanging = 0;
    for (uint32_t i = 0; i < work->items; i++) {
        plan_item *item = &work->item[i];
        item->hangs = hang && item->first <= most && most < item->last;
        if (item->hangs) {
            work->order[h->hanging++] = i;
        }
    }
    bp_sort(work->order, work->spare, h->hanging, birth_before, work->item);
    uint64_t down = 0;
    memset(depth, 0, work->sections * sizeof *depth);
    for (uint32_t i = 0; i < h->hanging; i++) {
        const plan_item *item = &work->item[work->order[i]];
        down += item->size;
        work->offset[work->order[i]] = work->capacity - down;
        depth[item->first] = down;
        if (item->last - 1 > most) {
            depth[item->last - 1] = down;
        }
    }
    for (uint32_t s = 1; s <= most; s++) {
        depth[s] = plan_hot_larger(depth[s], depth[s - 1]);
    }
    for (uint32_t s = work->sections - 1; s > most + 1; s--) {
        depth[s - 1] = plan_hot_larger(depth[s], depth[s - 1]);
    }
}

/* Finds the items that live in a hot section. */
static void hot_mark(plan_hot *h)
{
    const plan_work *work = h->work;
    uint32_t *before = h->map;
    uint32_t count = 0;
    for (uint32_t s = 0; s < work->sections; s++) {
        before[s] = count;
        count += h->hot[s];
    }
    before[work->sections] = count;
    for (uint32_t i = 0; i < work->items; i++) {
        plan_item *item = &work->item[i];
        item->hot = !item->hangs && before[item->first] < before[item->last];
    }
}

/* Numbers the kept sections: of all those in which some hot item's life ends, those in which one's
 * begins. The hot ones that live in any other section all live in a kept neighbour, too. */
static void hot_number(plan_hot *h)
{
    const plan_work *work = h->work;
    uint32_t *map = h->map;
    uint32_t *flag = work->spare;
    uint32_t kept = work->sections;
    hot_mark(h);
    for (uint32_t s = 0; s <= work->sections; s++) {
        map[s] = s;
    }
    for (int pass = 0; pass < 2; pass++) {
        memset(flag, 0, kept * sizeof *flag);
        for (uint32_t i = 0; i < work->items; i++) {
            if (work->item[i].hot) {
                flag[pass == 0 ? work->item[i].last - 1 : map[work->item[i].first]] = 1;
            }
        }
        uint32_t before = 0;
        for (uint32_t k = 0; k < kept; k++) {
            uint32_t keep = flag[k];
            flag[k] = before;
            before += keep;
        }
        for (uint32_t s = 0; s <= work->sections; s++) {
            map[s] = map[s] < kept ? flag[map[s]] : before;
        }
        kept = before;
    }
    h->inner.sections = kept;
}

/* How far down from the capacity hangs what hangs while the item lives: most when it dies, since
 * until h->most that only grows; or, where it is born later, when it is born. */
static uint64_t hot_floor(const plan_hot *h, const plan_item *item)
{
    return h->depth[item->last <= h->most ? item->last - 1 : item->first];
}

/* Whether the work is up. */
static bool hot_spent(const plan_hot *h)
{
    return h->rounds == 0 || h->looked >= h->look_limit;
}

/* Makes the problem of the hot items. */
static void hot_cut(plan_hot *h)
{
    plan_work *work = h->work;
    plan_work *inner = &h->inner;
    const uint32_t *map = h->map;
    uint32_t count = 0;
    hot_number(h);
    for (uint32_t i = 0; i < work->items; i++) {
        if (work->item[i].hot) {
            inner->order[count++] = i;
        }
    }
    inner->items = count;
    inner->base = 0;
    inner->bound = work->bound;
    inner->capacity = work->capacity;
    inner->least = false;
    inner->floors = h->hanging > 0;
    inner->best_height = UINT64_MAX;
    memset(inner->total, 0, (inner->sections + (size_t)1) * sizeof *inner->total);
    for (uint32_t i = 0; i < count; i++) {
        const plan_item *item = &work->item[inner->order[i]];
        uint32_t first = map[item->first];
        uint32_t last = map[item->last];
        inner->item[i] = (plan_item){.size = item->size,
                                     .first = first,
                                     .last = last,
                                     .width = item->width,
                                     .row = inner->order[i]};
        inner->floor[i] = h->down ? hot_floor(h, item) : 0;
        inner->head[i] = h->down ? 0 : hot_floor(h, item);
        inner->total[first] += item->size;
        inner->total[last] -= item->size;
        work->order[h->hanging + i] = inner->order[i];
    }
    h->placed = h->hanging + count;
    uint64_t sum = 0;
    for (uint32_t s = 0; s < inner->sections; s++) {
        sum += inner->total[s];
        inner->total[s] = sum;
    }
    for (uint32_t s = 0; s < work->sections; s++) {
        if (map[s] < map[s + 1]) {
            inner->over[map[s]] = h->down ? 0 : h->depth[s];
        }
    }
}

/* Lays out the kept sections; false if no layout was found that is low enough. */
static bool hot_solve(plan_hot *h)
{
    plan_work *work = h->work;
    plan_work *inner = &h->inner;
    if (inner->items == 0) {
        inner->best_height = 0;
        return true;
    }
    const uint64_t before = inner->looked;
    plan_block(inner);
    plan_attempts(inner);
    h->looked += inner->looked - before;
    bool affordable = inner->items <= HOT_ITEMS && h->nodes < HOT_TOTAL;
    if (h->exact != NULL && affordable && !plan_done(inner)) {
        (void)plan_exact_run(h->exact, inner, h->effort);
        h->nodes += h->exact->nodes;
    }
    for (uint32_t i = 0; i < inner->items; i++) {
        uint64_t level = inner->best[i];
        work->offset[inner->item[i].row] =
            h->down ? work->capacity - level - inner->item[i].size : level;
    }
    return plan_done(inner);
}

/* Lists those who live in no kept section, last to die first. */
static void hot_append(plan_hot *h)
{
    plan_work *work = h->work;
    uint32_t count = h->placed;
    for (uint32_t i = 0; i < work->items; i++) {
        const plan_item *item = &work->item[i];
        if (!item->hangs && !item->hot) {
            work->order[count++] = i;
        }
    }
    bp_sort(work->order + h->placed, work->spare, count - h->placed, death_before, work->item);
}

/* Moves the items of order[from, ..) that ended above the wanted height before the others; both
 * groups keep their order. Returns how many those are. */
static uint32_t hot_turn(plan_work *work, uint32_t from)
{
    uint32_t front = from;
    uint32_t back = 0;
    for (uint32_t i = from; i < work->items; i++) {
        uint32_t item = work->order[i];
        if (work->offset[item] + work->item[item].size > work->capacity) {
            work->order[front++] = item;
        } else {
            work->spare[back++] = item;
        }
    }
    memcpy(work->order + front, work->spare, back * sizeof *work->order);
    return front - from;
}

/* Fits the others around those who have an offset, and again with those first who ended too high,
 * for as long as there are fewer of them now and then. */
static void hot_fit(plan_hot *h)
{
    plan_work *work = h->work;
    uint32_t fewest = UINT32_MAX;
    uint32_t patience = HOT_PATIENCE;
    plan_place(work, &h->inner, h->placed); /* whose problem is solved, and its lists are free */
    while (patience > 0 && !hot_spent(h)) {
        const uint64_t before = work->looked;
        h->rounds--;
        plan_keep(work, plan_fit_rest(work, &h->inner, h->placed), "hot sections");
        h->looked += work->looked - before;
        if (plan_done(work)) {
            return;
        }
        uint32_t high = hot_turn(work, h->placed);
        patience = high < fewest ? HOT_PATIENCE : patience - 1;
        fewest = high < fewest ? high : fewest;
    }
}

/* Everybody who ended too high has the fullest section of his life made hot. Those who hang or are
 * hot by now did not, so that some section is made hot that was not. */
static void hot_widen(plan_hot *h)
{
    const plan_work *work = h->work;
    for (uint32_t i = 0; i < work->items; i++) {
        const plan_item *item = &work->item[i];
        if (work->offset[i] + item->size <= work->capacity) {
            continue;
        }
        uint32_t fullest = item->first;
        for (uint32_t s = item->first; s < item->last; s++) {
            fullest = work->total[s] > work->total[fullest] ? s : fullest;
        }
        h->hot[fullest] = true;
    }
}

static void hot_go(plan_hot *h, const hot_way *way)
{
    const plan_work *work = h->work;
    uint64_t full = work->bound - (way->share != 0 ? work->bound / way->share : 0);
    for (uint32_t s = 0; s < work->sections; s++) {
        h->hot[s] = work->total[s] >= full;
    }
    h->down = way->down;
    hot_hang(h, way->hang);
    for (;;) {
        hot_cut(h);
        if (h->inner.items == work->items || !hot_solve(h)) {
            return; /* nothing is left out, so that the search of the whole set would do the same */
        }
        hot_append(h);
        hot_fit(h);
        if (plan_done(work) || hot_spent(h)) {
            return;
        }
        hot_widen(h);
    }
}

void plan_hot_run(plan_hot *h)
{
    static const uint32_t efforts[] = {HOT_NODES, HOT_AGAIN};
    plan_work *work = h->work;
    uint64_t rounds = HOT_STEPS / ((uint64_t)work->items * work->items);
    rounds = plan_hot_larger(rounds, HOT_LEAST);
    h->rounds = rounds < HOT_ROUNDS ? (uint32_t)rounds : HOT_ROUNDS;
    h->nodes = 0;
    if (h->exact != NULL && work->items <= HOT_SMALL) {
        return;
    }
    h->most = hot_most(work);
    /* small sets are searched as a whole, and without searches the second pass is like the first */
    const int passes = work->items <= HOT_ITEMS || h->exact == NULL ? 1 : 2;
    for (int pass = 0; pass < passes; pass++) {
        h->effort = efforts[pass];
        for (size_t w = 0; w < sizeof ways / sizeof ways[0] && !hot_spent(h); w++) {
            if (!plan_done(work)) {
                hot_go(h, &ways[w]);
            }
        }
    }
}
