/* SPDX-License-Identifier: MIT */
/* Programs and maps for reading. */
#include "tools/bedplate/planning/listing.h"

#include <stdlib.h>
#include <string.h>

#include "arena/map.h"
#include "core/plan/plan_file.h"
#include "tools/bedplate/pages/class_colour.h"

typedef struct map_tables {
    bp_map_class classes[BP_CLASS_COUNT];
    bp_map_part programs[BP_PROGRAM_COUNT];
    bp_map_buffer *buffers;
    const char **op_names;
    void *scratch;
    size_t scratch_bytes;
} map_tables;

static bp_layout_report map_report(const bp_report *report, bp_space space)
{
    const bool host = space == BP_SPACE_HOST;
    const uint64_t bytes = host ? report->host.arena_bytes : report->arena_bytes;
    const uint64_t least = host ? report->host.lower_bound_bytes : report->lower_bound_bytes;
    return (bp_layout_report){.bytes = bytes,
                              .lower_bound = least,
                              .waste = bytes - least,
                              .peak_time = host ? report->host.peak_op : report->peak_op,
                              .optimal = host ? report->host.optimal : report->optimal,
                              .fits = true,
                              .method = "greedy"};
}

static void fill_map(bp_map *map, map_tables *tables, const bp_plan *plan, bp_space space)
{
    const bp_graph *graph = &plan->graph;
    for (uint32_t c = 0; c < BP_CLASS_COUNT; c++) {
        const char *name = bp_class_name((bp_class)c);
        tables->classes[c] = (bp_map_class){name, class_colour(name)};
    }
    map->buffer_count = 0;
    for (uint32_t i = BP_NO_BUFFER + 1; i < graph->used.buffers; i++) {
        const bp_buffer *buffer = &graph->buffers[i];
        if (buffer->space != space || buffer->lower == buffer->upper) {
            continue; /* what is read where it was kept lives never */
        }
        tables->buffers[map->buffer_count++] =
            (bp_map_buffer){bp_graph_name(graph, i),
                            (uint32_t)buffer->class_of,
                            {buffer->bytes, buffer->lower, buffer->upper, buffer->offset}};
    }
    for (uint32_t i = 0; i < graph->used.ops; i++) {
        tables->op_names[i] = bp_kernel_describe(graph->ops[i].kernel)->name;
    }
    map->part_count = 0;
    for (uint32_t p = 0; p < BP_PROGRAM_COUNT; p++) {
        const bp_map_part part = {bp_program_name((bp_program_kind)p), graph->program_first[p],
                                  graph->program_count[p]};
        if (part.count > 0) {
            tables->programs[map->part_count++] = part;
        }
    }
    map->parts = tables->programs;
    map->classes = tables->classes;
    map->buffers = tables->buffers;
    map->op_names = tables->op_names;
    map->class_count = BP_CLASS_COUNT;
    map->op_count = graph->used.ops;
    map->unit = "parameter";
    map->units = plan->report.parameters;
    map->alignment = bp_graph_alignment(graph);
    map->report = map_report(&plan->report, space);
}

typedef bp_status (*map_form)(const bp_map *map, void *scratch, size_t bytes, bp_text *out);

static bp_status put_map(bp_text *out, const bp_plan *plan, bp_space space, const bp_map *start,
                         map_form form)
{
    const bp_graph *graph = &plan->graph;
    bp_map map = *start;
    map_tables tables = {.scratch_bytes = bp_map_scratch(graph->used.buffers, BP_CLASS_COUNT)};
    tables.buffers = malloc((graph->used.buffers + 1u) * sizeof *tables.buffers);
    tables.op_names = malloc((graph->used.ops + 1u) * sizeof *tables.op_names);
    tables.scratch = malloc(tables.scratch_bytes);
    bp_status status = BP_ERR_FIT;
    if (tables.buffers != NULL && tables.op_names != NULL && tables.scratch != NULL) {
        fill_map(&map, &tables, plan, space);
        status = form(&map, tables.scratch, tables.scratch_bytes, out);
    }
    free(tables.scratch);
    free(tables.op_names);
    free(tables.buffers);
    return status;
}

bp_status listing_map(bp_text *out, const bp_plan *plan, const char *title, bool json)
{
    const bp_map map = {.title = title};
    const map_form form = json ? bp_map_json : bp_map_text;
    BP_TRY(put_map(out, plan, BP_SPACE_DEVICE, &map, form));
    if (plan->report.host.arena_bytes == 0) {
        return BP_OK;
    }
    const bp_map host = {.title = "host arena"};
    bp_text_string(out, json ? "" : "\n");
    return put_map(out, plan, BP_SPACE_HOST, &host, form);
}

/* What the page shows beside the device arena. */
typedef struct page_more {
    const bp_plan *plan;
    void (*section)(bp_text *out, const void *user);
    const void *user;
    bp_status status; /* of the host arena's map */
} page_more;

static void put_more(bp_text *out, const void *user)
{
    page_more *more = (page_more *)(uintptr_t)user;
    more->section(out, more->user);
    if (more->plan->report.host.arena_bytes > 0) {
        const bp_map host = {.title = "host arena"};
        bp_text_string(out, "<h2>host arena</h2>\n<pre>\n");
        more->status = put_map(out, more->plan, BP_SPACE_HOST, &host, bp_map_text);
        bp_text_string(out, "</pre>\n");
    }
}

bp_status listing_page(bp_text *out, const bp_plan *plan, const char *title, const char *details,
                       void (*section)(bp_text *out, const void *user), const void *user)
{
    page_more more = {.plan = plan, .section = section, .user = user};
    const bp_map map = {
        .title = title, .details = details, .section = put_more, .section_user = &more};
    bp_status status = put_map(out, plan, BP_SPACE_DEVICE, &map, bp_map_html);
    return status == BP_OK ? more.status : status;
}
