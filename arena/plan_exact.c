/* SPDX-License-Identifier: MIT */
/* The planner's exact stage: searches in several orders and at two capacities, run in turn. */
#include "arena/plan_exact.h"

#include <string.h>

/* Placements that a search may try before the next one has its turn. Every search keeps its state,
 * so nothing is done twice; which order is lucky differs from set to set, and so does whether the
 * bound or a roomier capacity is easier to meet. */
#define EXACT_TURN 256u
/* Placements, over all orders, after which a capacity between the bound and the best layout is
 * given up for a roomier one. */
#define EXACT_PATIENCE 16384u

/* For sets in which all may lie anywhere, and for those with floors or heads. */
static const plan_rule exact_rules[2][EXACT_ORDERS] = {{PLAN_TWA, PLAN_TAW, PLAN_WAT},
                                                       {PLAN_SIZE, PLAN_HEAD, PLAN_TWA}};

void plan_exact_place(plan_exact *exact, bp_arena *memory, uint32_t count)
{
    uint32_t items = count < SEARCH_ITEMS ? count : SEARCH_ITEMS;
    search_tables_place(&exact->tables, memory, items);
    for (uint32_t i = 0; i < 2 * EXACT_ORDERS; i++) {
        search_place(&exact->search[i], memory, items);
    }
}

/* Starts the second half of the searches at a capacity strictly between the bound and the best
 * layout; there may be none. */
static void exact_aim(plan_exact *exact, uint64_t capacity)
{
    exact->spent = 0;
    exact->aim = capacity;
    for (uint32_t i = 0; i < EXACT_ORDERS; i++) {
        plan_search *search = &exact->search[EXACT_ORDERS + i];
        search->state = SEARCH_REFUTED;
        if (capacity > exact->work->bound && capacity < exact->work->best_height) {
            search_start(search, exact_rules[exact->work->floors][i], capacity);
        }
    }
}

/* Half way between what is refuted and what is reached; or the capacity that was asked for. */
static void exact_aim_anew(plan_exact *exact)
{
    const plan_work *work = exact->work;
    uint64_t middle = exact->least + (work->best_height - exact->least) / 2;
    exact_aim(exact, work->least ? middle : work->capacity);
}

/* Half of the remaining way up, for an aim that nobody could meet or refute in time; starts again
 * below, and more patiently, when that ends at what is reached already. */
static void exact_aim_higher(plan_exact *exact)
{
    uint64_t best = exact->work->best_height;
    uint64_t higher = exact->aim + (best - exact->aim + 1) / 2;
    if (!exact->work->least) {
        exact->spent = 0;
    } else if (higher < best) {
        exact_aim(exact, higher);
    } else {
        exact->patience *= 4;
        exact_aim_anew(exact);
    }
}

static void exact_take(plan_exact *exact, const plan_search *search)
{
    plan_work *work = exact->work;
    uint64_t height = 0;
    for (uint32_t i = 0; i < work->items; i++) {
        uint64_t top = search->level[i] + work->item[i].size + work->head[i];
        height = top > height ? top : height;
        work->offset[i] = search->level[i];
    }
    plan_keep(work, height, "exact search");
    exact_aim_anew(exact);
}

/* No layout fits the search's capacity: none of the searches at or below it need go on. */
static void exact_refute(plan_exact *exact, uint64_t capacity)
{
    exact->least = capacity + 1 > exact->least ? capacity + 1 : exact->least;
    for (uint32_t i = 0; i < 2 * EXACT_ORDERS; i++) {
        if (exact->search[i].capacity <= capacity) {
            exact->search[i].state = SEARCH_REFUTED;
        }
    }
    if (capacity > exact->work->bound && exact->least < exact->work->best_height) {
        exact_aim_anew(exact);
    }
}

/* Whether anything is left to be found or refuted. */
static bool exact_open(const plan_exact *exact)
{
    const plan_work *work = exact->work;
    bool hope = work->least || exact->least <= work->capacity;
    return hope && !plan_done(work) && exact->least < work->best_height;
}

/* Gives every search one turn; false if none could use it. */
static bool exact_round(plan_exact *exact, uint64_t limit)
{
    bool used = false;
    for (uint32_t i = 0; i < 2 * EXACT_ORDERS && exact_open(exact); i++) {
        plan_search *search = &exact->search[i];
        uint64_t left = limit - exact->nodes;
        if (search->state != SEARCH_RUNNING || left == 0) {
            continue;
        }
        used = true;
        uint64_t nodes = search_run(search, left < EXACT_TURN ? left : EXACT_TURN);
        exact->nodes += nodes;
        exact->spent += i < EXACT_ORDERS ? 0 : nodes;
        if (search->state == SEARCH_SOLVED) {
            exact_take(exact, search);
        } else if (search->state == SEARCH_REFUTED) {
            exact_refute(exact, search->capacity);
        }
    }
    return used;
}

bool plan_exact_run(plan_exact *exact, plan_work *work, uint64_t limit)
{
    exact->work = work;
    exact->nodes = 0;
    exact->least = work->bound;
    exact->patience = EXACT_PATIENCE;
    search_tables_fill(&exact->tables, work);
    for (uint32_t i = 0; i < 2 * EXACT_ORDERS; i++) {
        exact->search[i].work = work;
        exact->search[i].tables = &exact->tables;
        exact->search[i].capacity = 0;
    }
    for (uint32_t i = 0; i < EXACT_ORDERS; i++) {
        search_start(&exact->search[i], exact_rules[work->floors][i], work->bound);
    }
    exact_aim_anew(exact);
    while (exact->nodes < limit && exact_round(exact, limit)) {
        if (exact->spent >= exact->patience) {
            exact_aim_higher(exact);
        }
    }
    return exact->least >= work->best_height;
}
