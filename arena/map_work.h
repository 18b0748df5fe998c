/* SPDX-License-Identifier: MIT */
/* Inside the memory map: sorted views and class totals, shared by its three forms. */
#ifndef BP_ARENA_MAP_WORK_H
#define BP_ARENA_MAP_WORK_H

#include "arena/map.h"
#include "arena/sort.h"

/* Columns of the class totals in the drawing; a program with more times shows, per column, the
 * time of it at which most bytes live. */
#define MAP_COLUMNS 1000u

/* All scratch of one call. */
typedef struct map_work {
    const bp_map *map;
    uint32_t *order;   /* buffers, sorted as the last map_sort call said */
    uint32_t *deaths;  /* buffers by the end of their life, while totals are counted */
    uint32_t *spare;   /* the sort's second array */
    uint64_t *running; /* per class: bytes alive at the sweep's time */
    uint64_t *most;    /* per class: most bytes alive at one time */
    uint64_t *at_peak; /* per class: bytes alive at the peak */
    uint64_t *column;  /* per column and class: bytes alive; see MAP_COLUMNS */
    uint32_t columns;  /* columns in use: at most MAP_COLUMNS, at least 1 */
} map_work;

/* Places the scratch, checks the map and counts the totals. */
bp_status map_begin(map_work *work, const bp_map *map, void *scratch, size_t scratch_bytes);

/* Sorts work->order. By offset: then by birth and row. By size: largest first, then by offset. */
typedef enum map_sorting { MAP_BY_OFFSET, MAP_BY_SIZE } map_sorting;
void map_sort(map_work *work, map_sorting sorting);

/* The buffer's size, rounded up as the plan counted it. */
uint64_t map_size(const bp_map *map, const bp_map_buffer *buffer);

/* Whether the buffer has bytes at that program time. */
bool map_lives(const bp_map_buffer *buffer, uint32_t time);

/* The first program time of a column. */
static inline uint32_t map_column_begins(const map_work *work, uint32_t column)
{
    return (uint32_t)bp_size_ceil_div((uint64_t)column * work->map->op_count, work->columns);
}

/* The name of an op, or "" if it has none. */
const char *map_op_name(const bp_map *map, uint32_t time);

/* The two drawings as SVG elements, and the legend. */
void map_svg_memory(map_work *work, bp_text *out);
void map_svg_totals(const map_work *work, bp_text *out);

#endif
