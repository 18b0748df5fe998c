/* SPDX-License-Identifier: MIT */
/* A knapsack that has to be filled, of few sizes. */
#include "core/plan/search/leave.h"

#include <math.h>

#define LEAVE_NONE UINT64_MAX

typedef struct leave_search {
    const bp_leave_class *classes;
    uint32_t count;
    uint32_t order[BP_LEAVE_CLASSES]; /* cheapest by the byte first */
    uint64_t left[BP_LEAVE_CLASSES];  /* bytes to free from this class on */
    uint64_t spent[BP_LEAVE_CLASSES]; /* cost of what is taken before it */
    uint32_t take[BP_LEAVE_CLASSES];
    uint32_t best[BP_LEAVE_CLASSES];
    uint64_t cost; /* of `best`; LEAVE_NONE: nothing is found */
} leave_search;

static const bp_leave_class *leave_class(const leave_search *s, uint32_t depth)
{
    return &s->classes[s->order[depth]];
}

static bool leave_cheaper(const bp_leave_class *a, const bp_leave_class *b)
{
    return (double)a->cost * (double)b->bytes < (double)b->cost * (double)a->bytes;
}

static void leave_sort(leave_search *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t at = i;
        for (; at > 0 && leave_cheaper(&s->classes[i], leave_class(s, at - 1)); at--) {
            s->order[at] = s->order[at - 1];
        }
        s->order[at] = i;
    }
}

/* How many of a class free the bytes that are left, or all of it. */
static uint32_t leave_most(const bp_leave_class *c, uint64_t left)
{
    const uint64_t enough = bp_size_ceil_div(left, c->bytes);
    return enough < c->count ? (uint32_t)enough : c->count;
}

/* The least cost at which classes from `depth` on free `left` bytes, were they divisible, less one
 * for what is rounded; LEAVE_NONE: they cannot. */
static uint64_t leave_bound(const leave_search *s, uint32_t depth, uint64_t left)
{
    uint64_t cost = 0;
    for (; depth < s->count && left > 0; depth++) {
        const bp_leave_class *c = leave_class(s, depth);
        if (c->bytes * c->count > left) {
            const double part = floor((double)left * ((double)c->cost / (double)c->bytes));
            return cost + (part > 1.0 ? (uint64_t)part - 1 : 0);
        }
        cost += c->cost * c->count;
        left -= c->bytes * c->count;
    }
    return left == 0 ? cost : LEAVE_NONE;
}

static void leave_record(leave_search *s, uint32_t depth, uint64_t cost)
{
    for (uint32_t i = 0; cost < s->cost && i < s->count; i++) {
        s->best[s->order[i]] = i <= depth ? s->take[i] : 0;
    }
    s->cost = cost < s->cost ? cost : s->cost;
}

/* Depth first: as many of a class as could be of use, then one less each time. */
static bool leave_run(leave_search *s, uint64_t need, uint64_t limit, uint64_t *nodes)
{
    uint32_t d = 0;
    s->left[0] = need;
    s->spent[0] = 0;
    s->take[0] = leave_most(leave_class(s, 0), need);
    for (*nodes = 1; *nodes <= limit; ++*nodes) {
        const bp_leave_class *c = leave_class(s, d);
        const uint64_t freed = s->take[d] * c->bytes;
        const uint64_t rest = freed < s->left[d] ? s->left[d] - freed : 0;
        const uint64_t cost = s->spent[d] + s->take[d] * c->cost;
        const uint64_t more = leave_bound(s, d + 1, rest);
        if (rest == 0) {
            leave_record(s, d, cost);
        } else if (more != LEAVE_NONE && cost + more < s->cost) {
            d++;
            s->left[d] = rest;
            s->spent[d] = cost;
            s->take[d] = leave_most(leave_class(s, d), rest);
            continue;
        }
        while (d > 0 && s->take[d] == 0) {
            d--;
        }
        if (s->take[d] == 0) {
            return true;
        }
        s->take[d]--;
    }
    return false;
}

bool bp_leave_choose(bp_leave_class *classes, uint32_t count, uint64_t need, uint64_t nodes,
                     bp_leave *out)
{
    leave_search s = {.classes = classes, .count = count, .cost = LEAVE_NONE};
    leave_sort(&s);
    const uint64_t bound = need == 0 ? 0 : leave_bound(&s, 0, need);
    const bool enough = bound != LEAVE_NONE;
    *out = (bp_leave){.bound = enough ? bound : 0, .exact = true};
    if (need > 0 && enough) {
        out->exact = leave_run(&s, need, nodes, &out->nodes);
    }
    const bool found = s.cost != LEAVE_NONE;
    for (uint32_t i = 0; i < count; i++) {
        classes[i].taken = need == 0 ? 0 : found ? s.best[i] : classes[i].count;
        out->cost += classes[i].taken * classes[i].cost;
    }
    out->bound = out->exact && enough ? out->cost : out->bound;
    return enough;
}
