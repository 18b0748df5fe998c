/* SPDX-License-Identifier: MIT */
/* A knapsack that has to be filled, of few sizes. */
#include "core/plan/search/offload_select.h"

#include <math.h>

#define SELECT_NONE UINT64_MAX

typedef struct select_search {
    const bp_offload_class *classes;
    uint32_t count;
    uint32_t order[BP_OFFLOAD_CLASSES]; /* cheapest by the byte first */
    uint64_t left[BP_OFFLOAD_CLASSES];  /* bytes to free from this class on */
    uint64_t spent[BP_OFFLOAD_CLASSES]; /* cost of what is taken before it */
    uint32_t take[BP_OFFLOAD_CLASSES];
    uint32_t best[BP_OFFLOAD_CLASSES];
    uint64_t cost; /* of `best`; SELECT_NONE: nothing is found */
} select_search;

static const bp_offload_class *select_class(const select_search *s, uint32_t depth)
{
    return &s->classes[s->order[depth]];
}

static bool select_cheaper(const bp_offload_class *a, const bp_offload_class *b)
{
    return (double)a->cost * (double)b->bytes < (double)b->cost * (double)a->bytes;
}

static void select_sort(select_search *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t at = i;
        for (; at > 0 && select_cheaper(&s->classes[i], select_class(s, at - 1)); at--) {
            s->order[at] = s->order[at - 1];
        }
        s->order[at] = i;
    }
}

/* How many of a class free the bytes that are left, or all of it. */
static uint32_t select_most(const bp_offload_class *c, uint64_t left)
{
    const uint64_t enough = bp_size_ceil_div(left, c->bytes);
    return enough < c->count ? (uint32_t)enough : c->count;
}

/* The least cost at which classes from `depth` on free `left` bytes, were they divisible, less one
 * for what is rounded; SELECT_NONE: they cannot. */
static uint64_t select_bound(const select_search *s, uint32_t depth, uint64_t left)
{
    uint64_t cost = 0;
    for (; depth < s->count && left > 0; depth++) {
        const bp_offload_class *c = select_class(s, depth);
        if (c->bytes * c->count > left) {
            const double part = floor((double)left * ((double)c->cost / (double)c->bytes));
            return cost + (part > 1.0 ? (uint64_t)part - 1 : 0);
        }
        cost += c->cost * c->count;
        left -= c->bytes * c->count;
    }
    return left == 0 ? cost : SELECT_NONE;
}

static void leave_record(select_search *s, uint32_t depth, uint64_t cost)
{
    for (uint32_t i = 0; cost < s->cost && i < s->count; i++) {
        s->best[s->order[i]] = i <= depth ? s->take[i] : 0;
    }
    s->cost = cost < s->cost ? cost : s->cost;
}

/* Depth first: as many of a class as could be of use, then one less each time. */
static bool select_run(select_search *s, uint64_t need, uint64_t limit, uint64_t *nodes)
{
    uint32_t d = 0;
    s->left[0] = need;
    s->spent[0] = 0;
    s->take[0] = select_most(select_class(s, 0), need);
    for (*nodes = 1; *nodes <= limit; ++*nodes) {
        const bp_offload_class *c = select_class(s, d);
        const uint64_t freed = s->take[d] * c->bytes;
        const uint64_t rest = freed < s->left[d] ? s->left[d] - freed : 0;
        const uint64_t cost = s->spent[d] + s->take[d] * c->cost;
        const uint64_t more = select_bound(s, d + 1, rest);
        if (rest == 0) {
            leave_record(s, d, cost);
        } else if (more != SELECT_NONE && cost + more < s->cost) {
            d++;
            s->left[d] = rest;
            s->spent[d] = cost;
            s->take[d] = select_most(select_class(s, d), rest);
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

bool bp_offload_choose(bp_offload_class *classes, uint32_t count, uint64_t need, uint64_t nodes,
                       bp_offload_selected *out)
{
    select_search s = {.classes = classes, .count = count, .cost = SELECT_NONE};
    select_sort(&s);
    const uint64_t bound = need == 0 ? 0 : select_bound(&s, 0, need);
    const bool enough = bound != SELECT_NONE;
    *out = (bp_offload_selected){.bound = enough ? bound : 0, .exact = true};
    if (need > 0 && enough) {
        out->exact = select_run(&s, need, nodes, &out->nodes);
    }
    const bool found = s.cost != SELECT_NONE;
    for (uint32_t i = 0; i < count; i++) {
        classes[i].taken = need == 0 ? 0 : found ? s.best[i] : classes[i].count;
        out->cost += classes[i].taken * classes[i].cost;
    }
    out->bound = out->exact && enough ? out->cost : out->bound;
    return enough;
}
