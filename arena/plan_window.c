/* SPDX-License-Identifier: MIT */
/* The planner's hot window: the tight part of the time solved first, the rest fitted around it.
 *
 * A program reaches its bound in few sections. There the layout must be perfect; elsewhere it has
 * room. So those who live in a window around these sections are laid out alone, with their lives
 * cut to the window: whoever lives through all of it goes to the bottom, in an order that suits the
 * rest, and what remains is small enough for an exact search. The others follow by first fit, and
 * those who end too high either go first in the next round or, after that, widen the window. */
#include "arena/plan_window.h"

#include <string.h>

/* First fits that one call may make: some for any set, more for one so small that all of them take
 * fewer steps than this, counted as items squared. */
#define WINDOW_STEPS  4000000000u
#define WINDOW_LEAST  12u
#define WINDOW_ROUNDS 120u
/* First fits around the same window before it is widened. */
#define WINDOW_TURNS 3u
/* Placements that the search inside a window may try: in one, in all of them, and in one of a small
 * set; and the largest set that is worth it, since more items make each placement dearer. */
#define WINDOW_NODES 16384u
#define WINDOW_TOTAL 131072u
#define WINDOW_SMALL 4096u
#define WINDOW_ITEMS 512u

/* Orders of those who live through the whole window, lowest first. */
typedef enum window_stack {
    STACK_BY_SIZE,
    STACK_BY_BIRTH, /* oldest first, so that before the window free memory is in one piece */
    STACK_BY_WIDTH,
    STACK_BY_DEATH, /* first to die first, so that it is in one piece after the window */
    STACK_COUNT
} window_stack;

/* One way of going about it: who is in the first window, whether it may grow, and what order the
 * others are fitted in. */
typedef struct window_way {
    uint32_t
        share; /* sections within this part of the bound are hot; 0: only those that reach it */
    bool widens;
    bool by_width; /* the others of one size: longest life first, not first born first */
} window_way;

/* From the cheapest. */
static const window_way ways[] = {{0, false, false},  {0, false, true},   {0, true, false},
                                  {200, true, false}, {100, true, false}, {33, true, false},
                                  {10, true, false}};
#define WAYS_SMALL 3 /* for sets whose exact search as a whole comes next */

typedef struct window_context {
    const plan_item *item;
    window_stack stack;
} window_context;

static bool stack_before(const void *opaque, uint32_t a, uint32_t b)
{
    const window_context *context = opaque;
    const plan_item *x = &context->item[a];
    const plan_item *y = &context->item[b];
    if (context->stack == STACK_BY_BIRTH && x->first != y->first) {
        return x->first < y->first;
    }
    if (context->stack == STACK_BY_BIRTH && x->last != y->last) {
        return x->last > y->last;
    }
    if (context->stack == STACK_BY_DEATH && x->last != y->last) {
        return x->last < y->last;
    }
    bool by_width = context->stack == STACK_BY_WIDTH || context->stack == STACK_BY_DEATH;
    if (by_width && x->width != y->width) {
        return x->width > y->width;
    }
    return a < b;
}

/* Largest first, of these the longest life. */
static bool width_before(const void *opaque, uint32_t a, uint32_t b)
{
    const window_context *context = opaque;
    const plan_item *x = &context->item[a];
    const plan_item *y = &context->item[b];
    if (x->size != y->size) {
        return x->size > y->size;
    }
    return x->width != y->width ? x->width > y->width : a < b;
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

/* Makes the problem of those who live for a part of the window and stacks those who live through
 * it. work->order then begins with both groups; returns their number. */
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
    window_context context = {.item = work->item, .stack = stack};
    bp_sort(work->order, work->spare, through, stack_before, &context);
    uint64_t base = 0;
    for (uint32_t i = 0; i < through; i++) {
        work->offset[work->order[i]] = base;
        base += work->item[work->order[i]].size;
    }
    inner->base = base;
    for (uint32_t s = 0; s < inner->sections; s++) {
        inner->total[s] = work->total[window->first + s] - base;
    }
    inner->bound = work->bound - base;
    inner->capacity = work->capacity - base;
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

/* Lists those who do not live in the window after the `placed` ones, largest first. */
static void window_append(const plan_window *window, uint32_t placed, bool by_width)
{
    plan_work *work = window->work;
    const uint32_t from = placed;
    for (uint32_t i = 0; i < work->items; i++) {
        const plan_item *item = &work->item[i];
        if (item->first >= window->last || item->last <= window->first) {
            work->order[placed++] = i;
        }
    }
    if (by_width) {
        window_context context = {.item = work->item};
        bp_sort(work->order + from, work->spare, placed - from, width_before, &context);
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

/* Fits the others around the window, and again with those first who ended too high. */
static void window_fit(plan_window *window, uint32_t placed)
{
    plan_work *work = window->work;
    bool turning = true;
    for (uint32_t turn = 0; turn < WINDOW_TURNS && turning && window->rounds > 0; turn++) {
        window->rounds--;
        plan_keep(work, plan_first_fit(work, UINT64_MAX, placed), "hot window");
        turning = !plan_done(work) && window_turn(work, placed);
    }
}

/* One window after another for one way of stacking; false if not even a search found a good layout
 * for a window alone, which another way of stacking would not change. */
static bool window_run(plan_window *window, const window_way *way, window_stack stack)
{
    plan_work *work = window->work;
    window_begin(window, way->share);
    while (window->rounds > 0) {
        uint32_t placed = window_cut(window, stack);
        if (placed + window->inner.items == work->items) {
            return true; /* the window has become the whole problem */
        }
        placed = window_solve(window, placed);
        window_append(window, placed, way->by_width);
        window_fit(window, placed);
        if (window->exact != NULL && !plan_done(&window->inner)) {
            return false;
        }
        if (plan_done(work) || !way->widens || !window_widen(window)) {
            return true;
        }
    }
    return true;
}

void plan_window_run(plan_window *window)
{
    const plan_work *work = window->work;
    uint64_t rounds = WINDOW_STEPS / ((uint64_t)work->items * work->items);
    rounds = rounds > WINDOW_LEAST ? rounds : WINDOW_LEAST;
    window->rounds = rounds < WINDOW_ROUNDS ? (uint32_t)rounds : WINDOW_ROUNDS;
    window->nodes = 0;
    size_t count = work->items <= WINDOW_ITEMS ? WAYS_SMALL : sizeof ways / sizeof ways[0];
    for (size_t w = 0; w < count; w++) {
        bool promising = true;
        for (int stack = 0; stack < STACK_COUNT && promising && !plan_done(work); stack++) {
            promising = window_run(window, &ways[w], (window_stack)stack);
        }
    }
}
