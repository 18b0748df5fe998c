/* SPDX-License-Identifier: MIT */
/* The memory map: who lies where and when, as text like a linker's, as JSON and as a picture. */
#ifndef BP_ARENA_MAP_H
#define BP_ARENA_MAP_H

#include "arena/layout.h"
#include "arena/text.h"

/* What buffers are counted and coloured by. */
typedef struct bp_map_class {
    const char *name;
    const char *colour; /* of CSS, "#4c78a8"; only the page uses it */
} bp_map_class;

typedef struct bp_map_buffer {
    const char *name;
    uint32_t class_index; /* below class_count */
    bp_interval interval; /* with its offset */
} bp_map_buffer;

/* A part of the program time, [first, first + count). */
typedef struct bp_map_part {
    const char *name;
    uint32_t first, count; /* count > 0 */
} bp_map_part;

/* Everything that is shown. All pointers are borrowed. */
typedef struct bp_map {
    const char *title;   /* what was planned, "gpt2" */
    const char *details; /* and how, "batch 4 x 1024 tokens, fp32": on the page; NULL: nothing */
    const bp_map_class *classes;
    const bp_map_buffer *buffers;
    const char *const *op_names; /* per program time below op_count; NULL if they have none */
    uint32_t class_count;
    uint32_t buffer_count;
    uint32_t op_count;  /* program times run from 0 to op_count; later lifetimes are cut there */
    uint64_t alignment; /* sizes are rounded up to it, as the plan counted them; 0 means 1 */
    bp_layout_report report;
    const char *unit;         /* "parameter": the page says bytes per unit too; NULL: it does not */
    uint64_t units;           /* how many there are, at least 1 */
    const bp_map_part *parts; /* on the page: a strip above the drawing; NULL: none */
    uint32_t part_count;
    /* Writes a further section of the page, between its drawings and its table; NULL: none. */
    void (*section)(bp_text *out, const void *user);
    const void *section_user;
} bp_map;

/* Bytes of scratch memory that each function below needs; SIZE_MAX on overflow. */
size_t bp_map_scratch(uint32_t buffer_count, uint32_t class_count);

/* Per class: most[] is the most bytes of it that live at one time, at_peak[] its bytes at
 * report.peak_time; both have class_count entries and count rounded sizes. */
bp_status bp_map_totals(const bp_map *map, void *scratch, size_t scratch_bytes, uint64_t *most,
                        uint64_t *at_peak) BP_MUST_CHECK;

/* The map as text: one line a buffer, sorted by offset and then by birth, the bytes of each class
 * over program time in at most 32 rows, and the certificate. */
bp_status bp_map_text(const bp_map *map, void *scratch, size_t scratch_bytes,
                      bp_text *out) BP_MUST_CHECK;

/* The map as one JSON object on one line: arena_bytes, lower_bound_bytes, waste_bytes, optimal,
 * peak_op, peak_op_name, alignment, method, classes, classes_at_peak, columns, buffers. columns has
 * one object for each part of the program time, at most 1000: op, the first of it, and the bytes of
 * each class where most of it live. */
bp_status bp_map_json(const bp_map *map, void *scratch, size_t scratch_bytes,
                      bp_text *out) BP_MUST_CHECK;

/* One self-contained HTML page: the certificate, offset against program time as a drawing, class
 * totals over time below it and as a table, and who lives at the peak. It loads nothing and runs no
 * script. */
bp_status bp_map_html(const bp_map *map, void *scratch, size_t scratch_bytes,
                      bp_text *out) BP_MUST_CHECK;

/* All four return BP_ERR_FIT when scratch_bytes is below bp_map_scratch, BP_ERR_USAGE when a buffer
 * names a class that is not there, and otherwise the status of `out`, which they flush. */

#endif
