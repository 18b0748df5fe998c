/* SPDX-License-Identifier: MIT */
/* The arena plan of a graph, and sums of live bytes per class. */
#include "core/ir/report.h"

#include <string.h>

#include "arena/sort.h"

static const char where[] = "plan";

static uint64_t report_alignment(const bp_graph *graph, bp_space space)
{
    return space == BP_SPACE_OFFLOAD ? BP_OFFLOAD_ALIGNMENT : bp_graph_alignment(graph);
}

uint64_t bp_report_rounded(const bp_graph *graph, const bp_buffer *buffer)
{
    return bp_size_align(buffer->bytes, report_alignment(graph, buffer->space));
}

static size_t solve_bytes(uint32_t buffers, uint64_t nodes)
{
    return nodes > 0 ? bp_layout_scratch(buffers) : bp_layout_scratch_greedy(buffers);
}

/* What buffers are placed in. Levels, which are looked at before, take less: six numbers of each
 * buffer. */
typedef struct report_places {
    bp_interval *intervals;
    uint32_t *owner; /* of each interval, its buffer */
    void *rest;      /* the solver's */
} report_places;

static void places_take(report_places *places, uint32_t buffers, uint64_t nodes, bp_arena *memory)
{
    places->intervals = bp_arena_take(memory, buffers, sizeof *places->intervals);
    places->owner = bp_arena_take(memory, buffers, sizeof *places->owner);
    places->rest = bp_arena_take(memory, solve_bytes(buffers, nodes), 1);
}

uint64_t bp_report_scratch(uint32_t buffers, uint64_t nodes)
{
    report_places places;
    bp_arena count;
    bp_arena_count(&count);
    places_take(&places, buffers, nodes, &count);
    return bp_arena_counted(&count);
}

static bool report_counts(const bp_buffer *buffer, bp_space space)
{
    return buffer->space == space && buffer->lower < buffer->upper;
}

static bool report_lives_always(const bp_graph *graph, const bp_buffer *buffer)
{
    return buffer->lower == 0 && buffer->upper == bp_graph_ticks(graph);
}

typedef enum report_part {
    REPORT_ALL,
    REPORT_BASE, /* frozen weights, */
    REPORT_OWN   /* and the rest */
} report_part;

static bool report_is_of(const bp_buffer *buffer, report_part part)
{
    const bool base = buffer->scope == BP_SCOPE_CONSTANT && buffer->class_of == BP_CLASS_WEIGHTS;
    return part == REPORT_ALL || base == (part == REPORT_BASE);
}

/* Buffers alive at every tick lie at the bottom, from `top` on; no layout can do better with them.
 */
static uint64_t place_residents(bp_graph *graph, bp_space space, report_part part, uint64_t top)
{
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        bp_buffer *buffer = &graph->buffers[i];
        if (buffer->space == space && report_lives_always(graph, buffer) &&
            report_is_of(buffer, part)) {
            buffer->offset = top;
            top = bp_size_add(top, bp_report_rounded(graph, buffer));
        }
    }
    return top;
}

/* The same beside other runs that have the same base; *base becomes its bytes. */
static uint64_t place_beside(bp_graph *graph, const bp_report_wish *wish, uint64_t *base)
{
    *base = place_residents(graph, BP_SPACE_DEVICE, REPORT_BASE, 0);
    const uint64_t own = bp_size_add(*base, wish->below);
    const uint64_t top = place_residents(graph, BP_SPACE_DEVICE, REPORT_OWN, own);
    return bp_size_add(top, wish->above);
}

static bp_status place_rest(bp_graph *graph, bp_space space, uint64_t base, uint64_t nodes,
                            uint64_t enough, bp_arena memory, uint64_t *top)
{
    uint32_t count = 0;
    report_places places;
    places_take(&places, graph->used.buffers, nodes, &memory);
    bp_interval *intervals = places.intervals;
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        const bp_buffer *buffer = &graph->buffers[i];
        if (i != BP_NO_BUFFER && buffer->space == space && !report_lives_always(graph, buffer)) {
            places.owner[count] = i;
            intervals[count++] = (bp_interval){buffer->bytes, buffer->lower, buffer->upper, 0};
        }
    }
    const bp_layout_options options = {.alignment = report_alignment(graph, space),
                                       .capacity = enough > base ? enough - base : 0,
                                       .node_limit = nodes};
    bp_layout_report report;
    bp_status status = bp_layout_solve(intervals, count, &options, places.rest,
                                       solve_bytes(count, nodes), &report);
    if (status != BP_OK) {
        return bp_error_set(graph->error, status, where, "the arena cannot be planned",
                            bp_space_name(space));
    }
    for (uint32_t i = 0; i < count; i++) {
        graph->buffers[places.owner[i]].offset = bp_size_add(base, intervals[i].offset);
    }
    *top = bp_size_add(base, report.bytes);
    return BP_OK;
}

/* Whether one of two numbers in an array is the less, or as small and before the other. */
static bool tick_before(const void *ticks, uint32_t a, uint32_t b)
{
    const uint32_t *tick = ticks;
    return tick[a] != tick[b] ? tick[a] < tick[b] : a < b;
}

static void note_levels(bp_report_space *report, const uint64_t live[BP_CLASS_COUNT], uint32_t tick)
{
    uint64_t total = 0;
    for (int c = 0; c < BP_CLASS_COUNT; c++) {
        total += live[c];
        if (live[c] > report->class_most[c]) {
            report->class_most[c] = live[c];
        }
    }
    uint64_t activations =
        live[BP_CLASS_CHECKPOINT] + live[BP_CLASS_TAPE] + live[BP_CLASS_WORKSPACE];
    if (activations > report->activations_most) {
        report->activations_most = activations;
    }
    if (total > report->lower_bound_bytes) {
        report->lower_bound_bytes = total;
        report->peak_op = tick;
        memcpy(report->class_peak, live, sizeof report->class_peak);
    }
}

/* The buffers of a space that live for a part of the time: two ticks of each, side by side for the
 * sorts, which look at little else. */
typedef struct report_lives {
    uint32_t count;
    uint32_t *buffer; /* [count], as the others */
    uint32_t *lower;
    uint32_t *upper;
    uint32_t *births; /* in the order of their beginning */
    uint32_t *deaths; /* and of their end */
} report_lives;

/* Lists them; the others of the space are counted in live[]. */
static void lives_take(report_lives *lives, const bp_graph *graph, bp_space space, bp_arena *memory,
                       uint64_t live[BP_CLASS_COUNT])
{
    const uint32_t most = graph->used.buffers;
    *lives = (report_lives){.buffer = bp_arena_take(memory, most, sizeof *lives->buffer),
                            .lower = bp_arena_take(memory, most, sizeof *lives->lower),
                            .upper = bp_arena_take(memory, most, sizeof *lives->upper),
                            .births = bp_arena_take(memory, most, sizeof *lives->births),
                            .deaths = bp_arena_take(memory, most, sizeof *lives->deaths)};
    uint32_t *spare = bp_arena_take(memory, most, sizeof *spare);
    for (uint32_t i = 0; i < most; i++) {
        const bp_buffer *buffer = &graph->buffers[i];
        if (!report_counts(buffer, space)) {
            continue;
        }
        if (report_lives_always(graph, buffer)) {
            live[buffer->class_of] += bp_report_rounded(graph, buffer);
            continue;
        }
        const uint32_t at = lives->count++;
        lives->buffer[at] = i;
        lives->lower[at] = buffer->lower;
        lives->upper[at] = buffer->upper;
        lives->births[at] = lives->deaths[at] = at;
    }
    bp_sort(lives->births, spare, lives->count, tick_before, lives->lower);
    bp_sort(lives->deaths, spare, lives->count, tick_before, lives->upper);
}

/* Walks births in order, letting go of what died before each tick, and looks at the levels at the
 * last birth of every tick, and at the first tick. */
static void sweep(const bp_graph *graph, bp_space space, bp_arena memory, bp_report_space *report)
{
    report_lives lives;
    uint64_t live[BP_CLASS_COUNT] = {0};
    lives_take(&lives, graph, space, &memory, live);
    note_levels(report, live, 0);
    uint32_t dead = 0;
    for (uint32_t b = 0; b < lives.count; b++) {
        const uint32_t tick = lives.lower[lives.births[b]];
        const bp_buffer *buffer = &graph->buffers[lives.buffer[lives.births[b]]];
        while (lives.upper[lives.deaths[dead]] <= tick) { /* that of the buffer does not */
            const bp_buffer *gone = &graph->buffers[lives.buffer[lives.deaths[dead++]]];
            live[gone->class_of] -= bp_report_rounded(graph, gone);
        }
        live[buffer->class_of] += bp_report_rounded(graph, buffer);
        if (b + 1 == lives.count || lives.lower[lives.births[b + 1]] != tick) {
            note_levels(report, live, tick);
        }
    }
}

static void count_state(const bp_graph *graph, bp_report *report)
{
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        const bp_buffer *buffer = &graph->buffers[i];
        if (buffer->scope == BP_SCOPE_PERSISTENT) {
            const uint64_t whole = buffer->part.whole;
            report->state_bytes += whole > 0 ? whole : buffer->bytes;
        }
        if (buffer->class_of == BP_CLASS_WEIGHTS) {
            report->parameters += buffer->bytes / bp_dtype_bytes(buffer->dtype);
        }
    }
}

static bp_status plan_space(bp_graph *graph, bp_space space, uint64_t nodes, bp_report_wish wish,
                            bp_arena memory, bp_report_space *report)
{
    const uint64_t others = bp_size_add(wish.below, wish.above);
    *report = (bp_report_space){0};
    report->resident_bytes = wish.shares ? place_beside(graph, &wish, &report->base_bytes)
                                         : place_residents(graph, space, REPORT_ALL, 0);
    sweep(graph, space, memory, report);
    report->lower_bound_bytes = bp_size_add(report->lower_bound_bytes, others);
    if (wish.limit != 0 && report->lower_bound_bytes > wish.limit) {
        report->arena_bytes = report->lower_bound_bytes;
        return BP_OK;
    }
    BP_TRY(place_rest(graph, space, report->resident_bytes, nodes, wish.enough, memory,
                      &report->arena_bytes));
    if (report->arena_bytes > bp_address_offset(BP_OFFSET_ABSENT)) {
        return bp_error_set(graph->error, BP_ERR_OVERFLOW, where, "the arena's size overflows",
                            bp_space_name(space));
    }
    report->optimal = report->arena_bytes == report->lower_bound_bytes;
    return BP_OK;
}

static void take_device(bp_report *report, const bp_report_space *device)
{
    report->arena_bytes = device->arena_bytes;
    report->lower_bound_bytes = device->lower_bound_bytes;
    report->resident_bytes = device->resident_bytes;
    report->base_bytes = device->base_bytes;
    report->activations_most = device->activations_most;
    report->peak_op = device->peak_op;
    report->optimal = device->optimal;
    memcpy(report->class_most, device->class_most, sizeof report->class_most);
    memcpy(report->class_peak, device->class_peak, sizeof report->class_peak);
}

static bool lives_in(const bp_graph *graph, bp_space space)
{
    for (uint32_t i = 0; i < graph->used.buffers; i++) {
        if (graph->buffers[i].space == space) {
            return true;
        }
    }
    return false;
}

bp_status bp_report_measure(bp_graph *graph, uint64_t nodes, bp_report_wish wish, void *scratch,
                            uint64_t bytes, bp_report *report)
{
    const bp_report_wish least = {.limit = 0};
    bp_report_space device;
    bp_arena memory;
    if (bytes < bp_report_scratch(graph->used.buffers, nodes)) {
        return bp_error_set(graph->error, BP_ERR_FIT, where, "the scratch memory is too small",
                            NULL);
    }
    bp_arena_init(&memory, scratch, (size_t)bytes); /* a copy for each use: they take turns */
    *report = (bp_report){0};
    BP_TRY(plan_space(graph, BP_SPACE_DEVICE, nodes, wish, memory, &device));
    take_device(report, &device);
    if (lives_in(graph, BP_SPACE_HOST)) {
        BP_TRY(plan_space(graph, BP_SPACE_HOST, nodes, least, memory, &report->host));
    }
    if (lives_in(graph, BP_SPACE_OFFLOAD)) {
        BP_TRY(plan_space(graph, BP_SPACE_OFFLOAD, nodes, least, memory, &report->offload));
    }
    count_state(graph, report);
    return BP_OK;
}

bp_status bp_report_plan(bp_graph *graph, uint64_t nodes, void *scratch, uint64_t bytes,
                         bp_report *report)
{
    return bp_report_measure(graph, nodes, (bp_report_wish){.limit = 0}, scratch, bytes, report);
}
