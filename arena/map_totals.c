/* SPDX-License-Identifier: MIT */
/* The memory map's scratch, sortings and class totals over program time. */
#include "arena/map_work.h"

#include <string.h>

/* Places the arrays behind one another, or only counts their bytes when memory is NULL. */
static uint64_t map_place(map_work *work, unsigned char *memory, uint64_t buffers, uint64_t classes)
{
    uint64_t numbers = bp_size_mul(classes, (uint64_t)MAP_COLUMNS + 3);
    uint64_t bytes = bp_size_add(bp_size_mul(numbers, 8), bp_size_mul(buffers, 12));
    if (memory != NULL) {
        work->running = (uint64_t *)(void *)memory;
        work->most = work->running + classes;
        work->at_peak = work->most + classes;
        work->column = work->at_peak + classes;
        work->order = (uint32_t *)(void *)(work->running + numbers);
        work->deaths = work->order + buffers;
        work->spare = work->deaths + buffers;
    }
    return bytes;
}

size_t bp_map_scratch(uint32_t buffer_count, uint32_t class_count)
{
    /* Seven more, so that any address can be rounded up to the first multiple of eight. */
    uint64_t bytes = bp_size_add(map_place(NULL, NULL, buffer_count, class_count), 7);
    return bytes > SIZE_MAX ? SIZE_MAX : (size_t)bytes;
}

uint64_t map_size(const bp_map *map, const bp_map_buffer *buffer)
{
    return bp_size_align(buffer->interval.size, map->alignment == 0 ? 1 : map->alignment);
}

bool map_lives(const bp_map_buffer *buffer, uint32_t time)
{
    const bp_interval *interval = &buffer->interval;
    return interval->size != 0 && interval->lower <= time && time < interval->upper;
}

const char *map_op_name(const bp_map *map, uint32_t time)
{
    return map->op_names != NULL && time < map->op_count ? map->op_names[time] : "";
}

static bool before_by_offset(const void *context, uint32_t a, uint32_t b)
{
    const bp_map_buffer *buffers = context;
    const bp_interval *x = &buffers[a].interval;
    const bp_interval *y = &buffers[b].interval;
    if (x->offset != y->offset) {
        return x->offset < y->offset;
    }
    return x->lower != y->lower ? x->lower < y->lower : a < b;
}

static bool before_by_size(const void *context, uint32_t a, uint32_t b)
{
    const bp_map_buffer *buffers = context;
    const bp_interval *x = &buffers[a].interval;
    const bp_interval *y = &buffers[b].interval;
    return x->size != y->size ? x->size > y->size : before_by_offset(context, a, b);
}

static bool before_by_birth(const void *context, uint32_t a, uint32_t b)
{
    const bp_map_buffer *buffers = context;
    return buffers[a].interval.lower < buffers[b].interval.lower;
}

static bool before_by_death(const void *context, uint32_t a, uint32_t b)
{
    const bp_map_buffer *buffers = context;
    return buffers[a].interval.upper < buffers[b].interval.upper;
}

static void map_sort_as(map_work *work, uint32_t *order, bp_before before)
{
    uint32_t count = work->map->buffer_count;
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    bp_sort(order, work->spare, count, before, work->map->buffers);
}

void map_sort(map_work *work, map_sorting sorting)
{
    map_sort_as(work, work->order, sorting == MAP_BY_SIZE ? before_by_size : before_by_offset);
}

/* Takes the state of the sweep, valid for program times [from, to), into the columns it covers and
 * into the class maxima. A column keeps the state with the largest sum. */
static void totals_take(map_work *work, uint32_t from, uint32_t to)
{
    const bp_map *map = work->map;
    size_t classes = map->class_count;
    uint64_t sum = 0;
    for (uint32_t c = 0; c < map->class_count; c++) {
        sum += work->running[c];
        work->most[c] = work->running[c] > work->most[c] ? work->running[c] : work->most[c];
    }
    uint32_t peak = map->report.peak_time;
    if (from <= peak && peak < to) {
        memcpy(work->at_peak, work->running, classes * sizeof *work->at_peak);
    }
    uint32_t end = to < map->op_count ? to : map->op_count;
    if (from >= end) {
        return;
    }
    uint64_t first = (uint64_t)from * work->columns / map->op_count;
    uint64_t last = ((uint64_t)end - 1) * work->columns / map->op_count;
    for (uint64_t column = first; column <= last; column++) {
        uint64_t *at = work->column + column * classes;
        uint64_t there = 0;
        for (uint32_t c = 0; c < map->class_count; c++) {
            there += at[c];
        }
        if (sum > there) {
            memcpy(at, work->running, classes * sizeof *at);
        }
    }
}

/* Walks through the births and deaths in time order, deaths first. */
static void totals_sweep(map_work *work)
{
    const bp_map *map = work->map;
    const bp_map_buffer *buffers = map->buffers;
    map_sort_as(work, work->order, before_by_birth);
    map_sort_as(work, work->deaths, before_by_death);
    uint32_t born = 0;
    uint32_t dead = 0;
    uint32_t time = 0;
    while (dead < map->buffer_count) {
        uint32_t next = buffers[work->deaths[dead]].interval.upper;
        if (born < map->buffer_count && buffers[work->order[born]].interval.lower < next) {
            next = buffers[work->order[born]].interval.lower;
        }
        if (next > time) {
            totals_take(work, time, next);
            time = next;
        }
        for (; dead < map->buffer_count; dead++) {
            const bp_map_buffer *buffer = &buffers[work->deaths[dead]];
            if (buffer->interval.upper != time) {
                break;
            }
            bool lived = buffer->interval.lower < buffer->interval.upper;
            work->running[buffer->class_index] -= lived ? map_size(map, buffer) : 0;
        }
        for (; born < map->buffer_count; born++) {
            const bp_map_buffer *buffer = &buffers[work->order[born]];
            if (buffer->interval.lower != time) {
                break;
            }
            bool lives = buffer->interval.lower < buffer->interval.upper;
            work->running[buffer->class_index] += lives ? map_size(map, buffer) : 0;
        }
    }
}

bp_status map_begin(map_work *work, const bp_map *map, void *scratch, size_t scratch_bytes)
{
    if (scratch_bytes < bp_map_scratch(map->buffer_count, map->class_count)) {
        return BP_ERR_FIT;
    }
    for (uint32_t i = 0; i < map->buffer_count; i++) {
        const bp_interval *interval = &map->buffers[i].interval;
        if (map->buffers[i].class_index >= map->class_count || interval->lower > interval->upper) {
            return BP_ERR_USAGE;
        }
    }
    unsigned char *memory = scratch;
    *work = (map_work){.map = map};
    (void)map_place(work, memory + (0 - (uintptr_t)memory) % 8, map->buffer_count,
                    map->class_count);
    work->columns = map->op_count < MAP_COLUMNS ? map->op_count : MAP_COLUMNS;
    size_t numbers = (size_t)map->class_count * (MAP_COLUMNS + 3);
    memset(work->running, 0, numbers * sizeof *work->running);
    totals_sweep(work);
    return BP_OK;
}

bp_status bp_map_totals(const bp_map *map, void *scratch, size_t scratch_bytes, uint64_t *most,
                        uint64_t *at_peak)
{
    map_work work;
    BP_TRY(map_begin(&work, map, scratch, scratch_bytes));
    memcpy(most, work.most, map->class_count * sizeof *most);
    memcpy(at_peak, work.at_peak, map->class_count * sizeof *at_peak);
    return BP_OK;
}
