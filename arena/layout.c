/* SPDX-License-Identifier: MIT */
/* The planner: preparation of the buffers, the order of the attempts, and the report. */
#include "arena/layout.h"

#include "arena/plan_join.h"

#include <string.h>

/* Sets of fewer items may be searched up to the whole of the caller's limit. */
#define NODE_ITEMS 320u

/* Sets of more items are joined before anything else: a greedy layout of all takes a hundred times
 * as long. Where the joined ones found no full section to begin with, nor do all within so few
 * looks. */
#define LARGE_ITEMS 20000u

static void work_place(plan_work *work, bp_arena *memory, uint64_t count)
{
    work->item = bp_arena_take(memory, count, sizeof *work->item);
    work->total = bp_arena_take(memory, count + 1, sizeof *work->total);
    work->best = bp_arena_take(memory, count, sizeof *work->best);
    work->offset = bp_arena_take(memory, count, sizeof *work->offset);
    work->floor = bp_arena_take(memory, count, sizeof *work->floor);
    work->head = bp_arena_take(memory, count, sizeof *work->head);
    work->over = bp_arena_take(memory, count, sizeof *work->over);
    work->key = bp_arena_take(memory, count, sizeof *work->key);
    work->level = bp_arena_take(memory, count, sizeof *work->level);
    work->spot = bp_arena_take(memory, count, sizeof *work->spot);
    work->bottom = bp_arena_take(memory, count + 1, sizeof *work->bottom);
    work->order = bp_arena_take(memory, count, sizeof *work->order);
    work->spare = bp_arena_take(memory, count, sizeof *work->spare);
    work->first = bp_arena_take(memory, count, sizeof *work->first);
    work->last = bp_arena_take(memory, count, sizeof *work->last);
    work->start = bp_arena_take(memory, count + 2, sizeof *work->start);
    work->used = bp_arena_take(memory, count + 1, sizeof *work->used);
    work->cursor = bp_arena_take(memory, count + 1, sizeof *work->cursor);
    work->skip = bp_arena_take(memory, count + 1, sizeof *work->skip);
    work->slot = bp_arena_take(memory, count, (PLAN_SLOTS + 1) * sizeof *work->slot);
}

static void hot_place(plan_hot *hot, bp_arena *memory, uint64_t count)
{
    work_place(&hot->inner, memory, count);
    hot->map = bp_arena_take(memory, count + 1, sizeof *hot->map);
    hot->depth = bp_arena_take(memory, count, sizeof *hot->depth);
    hot->hot = bp_arena_take(memory, count, sizeof *hot->hot);
}

/* Seven bytes more, so that any address can be rounded up to the first multiple of eight. */
static size_t work_bytes(const bp_arena *memory)
{
    uint64_t bytes = bp_size_add(memory->used, 7);
    return bytes > SIZE_MAX ? SIZE_MAX : (size_t)bytes;
}

size_t bp_layout_scratch_greedy(uint32_t count)
{
    plan_work work;
    plan_hot hot;
    plan_join join;
    bp_arena memory;
    bp_arena_count(&memory);
    work_place(&work, &memory, count);
    hot_place(&hot, &memory, count);
    plan_join_place(&join, &memory, count);
    return work_bytes(&memory);
}

size_t bp_layout_scratch(uint32_t count)
{
    plan_work work;
    plan_hot hot;
    plan_join join;
    plan_exact exact;
    bp_arena memory;
    bp_arena_count(&memory);
    work_place(&work, &memory, count);
    hot_place(&hot, &memory, count);
    plan_join_place(&join, &memory, count);
    plan_exact_place(&exact, &memory, count);
    return work_bytes(&memory);
}

static bool canonical_before(const void *context, uint32_t a, uint32_t b)
{
    const bp_interval *buffers = context;
    if (buffers[a].size != buffers[b].size) {
        return buffers[a].size > buffers[b].size;
    }
    if (buffers[a].lower != buffers[b].lower) {
        return buffers[a].lower < buffers[b].lower;
    }
    if (buffers[a].upper != buffers[b].upper) {
        return buffers[a].upper < buffers[b].upper;
    }
    return a < b;
}

static bool upper_before(const void *context, uint32_t a, uint32_t b)
{
    const bp_interval *buffers = context;
    return buffers[a].upper != buffers[b].upper ? buffers[a].upper < buffers[b].upper : a < b;
}

/* Checks the buffers and lists those that need bytes in work->order, canonically sorted. */
static bp_status plan_collect(plan_work *work, bp_interval *buffers, uint32_t count,
                              uint64_t alignment)
{
    uint64_t sum = 0;
    work->items = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (buffers[i].lower > buffers[i].upper) {
            return BP_ERR_USAGE;
        }
        buffers[i].offset = 0;
        if (buffers[i].size != 0 && buffers[i].lower != buffers[i].upper) {
            work->order[work->items++] = i;
            sum = bp_size_add(sum, bp_size_align(buffers[i].size, alignment));
        }
    }
    if (sum >= (uint64_t)1 << 62) {
        return BP_ERR_OVERFLOW;
    }
    bp_sort(work->order, work->spare, work->items, canonical_before, buffers);
    return BP_OK;
}

/* The first of `count` ascending ends that lies after `time`. */
static uint32_t section_after(const uint64_t *ends, uint32_t count, uint32_t time)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ends[middle] <= time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The greatest common divisor of all sizes that are counted in alignments, in bytes. */
static uint64_t plan_unit(const plan_work *work, const bp_interval *buffers, uint64_t alignment)
{
    uint64_t common = 0;
    for (uint32_t i = 0; i < work->items; i++) {
        uint64_t rest = bp_size_ceil_div(buffers[work->order[i]].size, alignment);
        while (rest != 0) {
            uint64_t next = common % rest;
            common = rest;
            rest = next;
        }
    }
    return alignment * (common == 0 ? 1 : common);
}

/* Cuts time into sections and makes the items; work->order holds their rows on entry. */
static void plan_sections(plan_work *work, const bp_interval *buffers)
{
    uint64_t *ends = work->level;
    memcpy(work->last, work->order, work->items * sizeof *work->last);
    bp_sort(work->last, work->spare, work->items, upper_before, buffers);
    work->sections = 0;
    for (uint32_t i = 0; i < work->items; i++) {
        uint64_t end = buffers[work->last[i]].upper;
        if (work->sections == 0 || ends[work->sections - 1] != end) {
            ends[work->sections++] = end;
        }
    }
    memset(work->total, 0, (work->sections + (size_t)1) * sizeof *work->total);
    for (uint32_t i = 0; i < work->items; i++) {
        const bp_interval *buffer = &buffers[work->order[i]];
        plan_item *item = &work->item[i];
        item->row = work->order[i];
        item->width = buffer->upper - buffer->lower;
        item->size = bp_size_ceil_div(buffer->size, work->unit);
        item->first = section_after(ends, work->sections, buffer->lower);
        item->last = section_after(ends, work->sections, buffer->upper - 1) + 1;
        /* Differences first; unsigned wrap-around cancels in the running sum. */
        work->total[item->first] += item->size;
        work->total[item->last] -= item->size;
    }
    uint64_t sum = 0;
    work->bound = 0;
    for (uint32_t s = 0; s < work->sections; s++) {
        sum += work->total[s];
        work->total[s] = sum;
        work->bound = sum > work->bound ? sum : work->bound;
    }
}

/* The latest start among those who live in the first section that reaches the bound: from there on
 * they all do. */
static uint32_t plan_peak_time(const plan_work *work, const bp_interval *buffers)
{
    uint32_t peak = 0;
    while (peak < work->sections && work->total[peak] != work->bound) {
        peak++;
    }
    uint32_t time = 0;
    for (uint32_t i = 0; i < work->items; i++) {
        bool lives = work->item[i].first <= peak && peak < work->item[i].last;
        uint32_t lower = buffers[work->item[i].row].lower;
        time = lives && lower > time ? lower : time;
    }
    return time;
}

/* Buffers that live in every section conflict with everybody, so they may as well lie at the
 * bottom: what is left is a smaller problem with the same waste. */
static void plan_strip(plan_work *work, bp_interval *buffers)
{
    uint32_t kept = 0;
    work->base = 0;
    for (uint32_t i = 0; i < work->items; i++) {
        plan_item item = work->item[i];
        if (item.first == 0 && item.last == work->sections) {
            buffers[item.row].offset = work->base * work->unit;
            work->base += item.size;
        } else {
            work->item[kept++] = item;
        }
    }
    work->items = kept;
    work->bound -= work->base;
    for (uint32_t s = 0; s < work->sections; s++) {
        work->total[s] -= work->base;
    }
}

void plan_keep(plan_work *work, uint64_t height, const char *method)
{
    if (height < work->best_height) {
        memcpy(work->best, work->offset, work->items * sizeof *work->best);
        work->best_height = height;
        work->method = method;
    }
}

bool plan_done(const plan_work *work)
{
    return work->best_height <= work->capacity;
}

static void plan_report(const plan_work *work, const bp_layout_options *options,
                        bp_layout_report *report)
{
    report->bytes = (work->base + work->best_height) * work->unit;
    report->lower_bound = (work->base + work->bound) * work->unit;
    report->waste = report->bytes - report->lower_bound;
    report->optimal = report->optimal || report->waste == 0;
    report->fits = options->capacity == 0 || report->bytes <= options->capacity;
    report->method = work->method;
}

/* The placements that a search of so many items may try. Each one costs more or less the square of
 * their number, so that larger sets get fewer of them and the time is about the same. */
static uint64_t plan_nodes(uint64_t limit, uint32_t items)
{
    return limit / ((uint64_t)items * items / ((uint64_t)NODE_ITEMS * NODE_ITEMS) + 1);
}

/* The attempts at a large set before greedy ones of all: joined at the pace that is best on
 * training programs, then around full sections, which takes a moment and mostly reaches the bound
 * that the former misses by little, then at other paces. Returns what plan_join_run does. */
static bool plan_search_large(plan_join *join, plan_hot *hot, const bp_interval *buffers)
{
    bool stand = false;
    plan_join_greedy(join, hot, buffers, true);
    if (!plan_done(hot->work)) {
        stand = plan_join_run(join, hot, buffers, false);
    }
    if (!plan_done(hot->work)) {
        plan_join_greedy(join, hot, buffers, false);
    }
    return stand;
}

/* The attempts, from the cheapest to the dearest. */
static void plan_search_all(plan_work *work, const bp_interval *buffers, bp_arena *memory,
                            uint32_t count, const bp_layout_options *options,
                            bp_layout_report *report)
{
    const uint64_t limit = options->node_limit;
    plan_exact exact;
    plan_join join = {.nodes = 0};
    plan_hot hot = {.work = work,
                    .exact = limit != 0 ? &exact : NULL,
                    .look_limit =
                        options->look_limit != 0 ? options->look_limit : BP_LAYOUT_LOOKS_DEFAULT};
    hot_place(&hot, memory, count);
    plan_join_place(&join, memory, count);
    memset(work->floor, 0, work->items * sizeof *work->floor);
    memset(work->head, 0, work->items * sizeof *work->head);
    memset(work->over, 0, work->items * sizeof *work->over);
    if (limit != 0) {
        plan_exact_place(&exact, memory, count);
    }
    const bool large = work->items > LARGE_ITEMS;
    bool stand = false;
    if (large) {
        stand = plan_search_large(&join, &hot, buffers);
    }
    if (!plan_done(work)) {
        plan_block(work);
        plan_attempts(work);
    }
    if (!large && !plan_done(work)) {
        stand = plan_join_run(&join, &hot, buffers, true);
    }
    report->nodes += join.nodes;
    if (!plan_done(work) && !(large && stand && options->look_limit == 0)) {
        plan_block(work);
        plan_hot_run(&hot);
        report->nodes += hot.nodes;
    }
    if (limit != 0 && work->items <= SEARCH_ITEMS && !plan_done(work)) {
        report->optimal = plan_exact_run(&exact, work, plan_nodes(limit, work->items));
        report->nodes += exact.nodes;
    }
}

bp_status bp_layout_solve(bp_interval *buffers, uint32_t count, const bp_layout_options *options,
                          void *scratch, size_t scratch_bytes, bp_layout_report *report)
{
    static const bp_layout_options defaults;
    options = options == NULL ? &defaults : options;
    uint64_t alignment = options->alignment == 0 ? 1 : options->alignment;
    bool exact = options->node_limit != 0;
    *report = (bp_layout_report){.method = "none"};
    if (scratch_bytes < (exact ? bp_layout_scratch(count) : bp_layout_scratch_greedy(count))) {
        return BP_ERR_FIT;
    }
    plan_work work = {.method = "none", .best_height = UINT64_MAX};
    bp_arena memory;
    bp_arena_init(&memory, scratch, scratch_bytes);
    work_place(&work, &memory, count);
    BP_TRY(plan_collect(&work, buffers, count, alignment));
    work.unit = plan_unit(&work, buffers, alignment);
    plan_sections(&work, buffers);
    report->peak_time = plan_peak_time(&work, buffers);
    plan_strip(&work, buffers);
    uint64_t capacity = bp_size_sub(options->capacity / work.unit, work.base);
    capacity = capacity == BP_SIZE_INVALID ? 0 : capacity;
    work.least = capacity < work.bound;
    work.capacity = work.least ? work.bound : capacity;
    plan_search_all(&work, buffers, &memory, count, options, report);
    for (uint32_t i = 0; i < work.items; i++) {
        buffers[work.item[i].row].offset = (work.base + work.best[i]) * work.unit;
    }
    plan_report(&work, options, report);
    return BP_OK;
}
