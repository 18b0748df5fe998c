/* SPDX-License-Identifier: MIT */
/* The planner's hot window: the tight part of the time solved first, the rest fitted around it.
 *
 * A program reaches its bound in few sections. There the layout must be perfect; elsewhere it has
 * room. So those who live in a window around these sections are laid out alone, with their lives
 * cut to the window: whoever lives through all of it is stacked, in an order that suits the rest,
 * and what remains is small enough for an exact search. The others follow by first fit, and those
 * who end too high either go first in the next round or, after that, widen the window.
 *
 * A training step is two stacks: what forward leaves dies in the reverse order of its birth, and
 * gradients, born meanwhile, all live to the update. So there are two ways to stack: everything
 * upwards, or those who outlive the window (they hang) downwards from the capacity and the others
 * upwards, so that what is free lies between them in one piece. */
#include "arena/plan_window.h"

#include <string.h>

/* First fits that one call may make: some for any set, more for one so small that all of them take
 * fewer steps than this, counted as items squared. */
#define WINDOW_STEPS  4000000000u
#define WINDOW_LEAST  12u
#define WINDOW_ROUNDS 120u
/* First fits around the same window before it is widened; and of one order without a window. */
#define WINDOW_TURNS 3u
#define STACKS_TURNS 12u
/* Placements that the search inside a window may try: in one, in all of them, and in one of a small
 * set; and the largest set that is worth it, since more items make each placement dearer. */
#define WINDOW_NODES 16384u
#define WINDOW_TOTAL 131072u
#define WINDOW_SMALL 4096u
#define WINDOW_ITEMS 512u

/* Orders of those who live through the whole window, from the end of the arena inwards. */
typedef enum window_stack {
    STACK_BY_SIZE,
    STACK_BY_BIRTH, /* oldest first, so that before the window free memory is in one piece */
    STACK_BY_WIDTH,
    STACK_COUNT
} window_stack;

/* Orders of all items when two stacks are fitted without a window. */
typedef enum stacks_order {
    STACKS_BY_DEATH,
    STACKS_BY_WIDTH,
    STACKS_HANGING, /* those who hang, then the others, both by width */
    STACKS_ORDERS
} stacks_order;

/* One way of going about it. The sections within the `share`-th part of the bound are hot (0: only
 * those that reach it), and the first window holds them all. */
typedef struct window_way {
    uint32_t share;
    bool hanging;
} window_way;

/* From what helps most often. */
static const window_way ways[] = {{0, true},  {200, true}, {0, false},  {100, true},
                                  {33, true}, {10, true},  {200, false}};
#define WAYS_SMALL 3 /* for sets whose exact search as a whole comes next */

typedef struct window_context {
    const plan_item *item;
    window_stack stack;
    stacks_order order;
    bool hanging;
} window_context;

static bool stack_before(const void *opaque, uint32_t a, uint32_t b)
{
    const window_context *context = opaque;
    const plan_item *x = &context->item[a];
    const plan_item *y = &context->item[b];
    if (context->hanging && x->hangs != y->hangs) {
        return y->hangs;
    }
    if (context->stack == STACK_BY_BIRTH && x->first != y->first) {
        return x->first < y->first;
    }
    if (context->stack == STACK_BY_BIRTH && x->last != y->last) {
        return x->last > y->last;
    }
    if (context->stack == STACK_BY_WIDTH && x->width != y->width) {
        return x->width > y->width;
    }
    return a < b;
}

static bool stacks_before(const void *opaque, uint32_t a, uint32_t b)
{
    const window_context *context = opaque;
    const plan_item *x = &context->item[a];
    const plan_item *y = &context->item[b];
    if (context->order == STACKS_BY_DEATH && x->last != y->last) {
        return x->last > y->last;
    }
    if (context->order == STACKS_HANGING && x->hangs != y->hangs) {
        return x->hangs;
    }
    return x->width != y->width ? x->width > y->width : a < b;
}

/* Finds out who hangs: of those who live where the bound is first reached, most bytes die in one
 * section; whoever lives until then or longer. */
static void window_hang(plan_work *work)
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
    for (uint32_t i = 0; i < work->items; i++) {
        work->item[i].hangs = work->item[i].last > most;
    }
}

/* The least range of sections that holds every hot one. */
static void window_begin(plan_window *window, uint32_t share)
{
    const plan_work *work = window->work;
    uint64_t hot = work->bound - (share != 0 ? work->bound / share : 0);
    window->first = 0;
    while (work->total[window->first] < hot) {
        window->first++;
    }
    window->last = work->sections;
    while (work->total[window->last - 1] < hot) {
        window->last--;
    }
}

/* Stacks the first `count` of work->order, who live through the window; returns the sum of their
 * sizes. What lies below the rest is in inner->base then. */
static uint64_t window_pile(plan_window *window, uint32_t count, window_stack stack)
{
    plan_work *work = window->work;
    window_context context = {.item = work->item, .stack = stack, .hanging = work->hanging};
    bp_sort(work->order, work->spare, count, stack_before, &context);
    uint64_t low = 0;
    uint64_t high = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = work->order[i];
        const plan_item *item = &work->item[index];
        if (work->hanging && item->hangs) {
            high += item->size;
            work->offset[index] = work->capacity - high;
        } else {
            work->offset[index] = low;
            low += item->size;
        }
    }
    window->inner.base = low;
    return low + high;
}

/* Makes the problem of those who live for a part of the window and stacks those who live through
 * it. work->order begins with the latter then; returns their number. */
static uint32_t window_cut(plan_window *window, window_stack stack)
{
    plan_work *work = window->work;
    plan_work *inner = &window->inner;
    uint32_t through = 0;
    inner->items = 0;
    inner->sections = window->last - window->first;
    for (uint32_t i = 0; i < work->items; i++) {
        plan_item item = work->item[i];
        if (item.first >= window->last || item.last <= window->first) {
            continue;
        }
        if (item.first <= window->first && item.last >= window->last) {
            work->order[through++] = i;
            continue;
        }
        item.first = item.first > window->first ? item.first - window->first : 0;
        item.last = (item.last < window->last ? item.last : window->last) - window->first;
        item.width = item.last - item.first;
        item.row = i;
        inner->item[inner->items++] = item;
    }
    uint64_t sum = window_pile(window, through, stack);
    for (uint32_t s = 0; s < inner->sections; s++) {
        inner->total[s] = work->total[window->first + s] - sum;
    }
    inner->bound = work->bound - sum;
    inner->capacity = work->capacity - sum;
    inner->least = false;
    inner->best_height = UINT64_MAX;
    return through;
}

/* Lays out the window, whose cut has put `placed` items at the start of work->order; returns how
 * many there have an offset then. */
static uint32_t window_solve(plan_window *window, uint32_t placed)
{
    plan_work *work = window->work;
    plan_work *inner = &window->inner;
    plan_attempts(inner);
    bool affordable = inner->items <= WINDOW_ITEMS && window->nodes < WINDOW_TOTAL;
    if (window->exact != NULL && affordable && !plan_done(inner)) {
        bool small = work->items <= WINDOW_ITEMS;
        (void)plan_exact_run(window->exact, inner, small ? WINDOW_SMALL : WINDOW_NODES);
        window->nodes += window->exact->nodes;
    }
    for (uint32_t i = 0; i < inner->items; i++) {
        work->order[placed++] = inner->item[i].row;
        work->offset[inner->item[i].row] = inner->base + inner->best[i];
    }
    return placed;
}

/* Lists those who do not live in the window after the `placed` ones: largest first, or last to die
 * first where some hang. */
static void window_append(const plan_window *window, uint32_t placed)
{
    plan_work *work = window->work;
    const uint32_t from = placed;
    for (uint32_t i = 0; i < work->items; i++) {
        const plan_item *item = &work->item[i];
        if (item->first >= window->last || item->last <= window->first) {
            work->order[placed++] = i;
        }
    }
    if (work->hanging) {
        window_context context = {.item = work->item, .order = STACKS_BY_DEATH};
        bp_sort(work->order + from, work->spare, placed - from, stacks_before, &context);
    }
}

/* Moves the items of order[from, ..) that ended above the wanted height before the others; both
 * groups keep their order. False if that changes nothing. */
static bool window_turn(plan_work *work, uint32_t from)
{
    uint32_t front = from;
    uint32_t back = 0;
    bool changed = false;
    for (uint32_t i = from; i < work->items; i++) {
        uint32_t item = work->order[i];
        if (work->offset[item] + work->item[item].size > work->capacity) {
            changed = changed || back != 0;
            work->order[front++] = item;
        } else {
            work->spare[back++] = item;
        }
    }
    memcpy(work->order + front, work->spare, back * sizeof *work->order);
    return changed;
}

/* Widens the window to the nearest section of everybody outside it who ended too high. */
static bool window_widen(plan_window *window)
{
    const plan_work *work = window->work;
    uint32_t first = window->first;
    uint32_t last = window->last;
    for (uint32_t i = 0; i < work->items; i++) {
        const plan_item *item = &work->item[i];
        if (work->offset[i] + item->size <= work->capacity) {
            continue;
        }
        if (item->last <= window->first && item->last - 1 < first) {
            first = item->last - 1;
        }
        if (item->first >= window->last && item->first + 1 > last) {
            last = item->first + 1;
        }
    }
    bool wider = first != window->first || last != window->last;
    window->first = first;
    window->last = last;
    return wider;
}

/* Fits the others around the `placed` ones, and again with those first who ended too high. */
static void window_fit(plan_window *window, uint32_t placed, uint32_t turns)
{
    plan_work *work = window->work;
    bool turning = true;
    for (uint32_t turn = 0; turn < turns && turning && window->rounds > 0; turn++) {
        window->rounds--;
        plan_keep(work, plan_first_fit(work, UINT64_MAX, placed), window->name);
        turning = !plan_done(work) && window_turn(work, placed);
    }
}

/* One window after another for one way of stacking; false if not even a search found a good layout
 * for a window alone, which another way of stacking would not change. A window's layout that is too
 * high would reach into what hangs above it. */
static bool window_run(plan_window *window, uint32_t share, window_stack stack)
{
    plan_work *work = window->work;
    window_begin(window, share);
    while (window->rounds > 0) {
        uint32_t placed = window_cut(window, stack);
        if (placed + window->inner.items == work->items) {
            return true; /* the window has become the whole problem */
        }
        placed = window_solve(window, placed);
        bool solved = plan_done(&window->inner);
        if (solved || !work->hanging) {
            window_append(window, placed);
            window_fit(window, placed, WINDOW_TURNS);
        }
        if (!solved && (window->exact != NULL || work->hanging)) {
            return false;
        }
        if (plan_done(work) || !window_widen(window)) {
            return true;
        }
    }
    return true;
}

/* Two stacks without a window. */
static void window_stacks(plan_window *window)
{
    plan_work *work = window->work;
    uint32_t turns = window->rounds / (3 * STACKS_ORDERS);
    turns = turns < STACKS_TURNS ? turns : STACKS_TURNS;
    work->hanging = true;
    window->name = "two stacks";
    for (int order = 0; order < STACKS_ORDERS && !plan_done(work); order++) {
        window_context context = {.item = work->item, .order = (stacks_order)order};
        for (uint32_t i = 0; i < work->items; i++) {
            work->order[i] = i;
        }
        bp_sort(work->order, work->spare, work->items, stacks_before, &context);
        window_fit(window, 0, turns);
    }
}

void plan_window_run(plan_window *window)
{
    plan_work *work = window->work;
    uint64_t rounds = WINDOW_STEPS / ((uint64_t)work->items * work->items);
    rounds = rounds > WINDOW_LEAST ? rounds : WINDOW_LEAST;
    window->rounds = rounds < WINDOW_ROUNDS ? (uint32_t)rounds : WINDOW_ROUNDS;
    window->nodes = 0;
    size_t count = work->items <= WINDOW_ITEMS ? WAYS_SMALL : sizeof ways / sizeof ways[0];
    window_hang(work);
    window_stacks(window);
    for (size_t w = 0; w < count; w++) {
        bool promising = true;
        window->name = "hot window";
        work->hanging = ways[w].hanging;
        for (int stack = 0; stack < STACK_COUNT && promising && !plan_done(work); stack++) {
            promising = window_run(window, ways[w].share, (window_stack)stack);
        }
    }
    work->hanging = false;
}
