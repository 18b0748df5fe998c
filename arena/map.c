/* SPDX-License-Identifier: MIT */
/* The memory map as text and as JSON. */
#include "arena/map.h"

#include "arena/json_write.h"
#include "arena/map_work.h"

#include <string.h>

#define TEXT_ROWS   32 /* of the table over program time */
#define TEXT_COLUMN 16

static void text_classes(const map_work *work, bp_text *out)
{
    const bp_map *map = work->map;
    bp_text_string(out, "class         bytes at the peak      most at one time\n");
    for (uint32_t c = 0; c < map->class_count; c++) {
        bp_text_padded(out, map->classes[c].name, 12, BP_TEXT_LEFT);
        bp_text_u64_padded(out, work->at_peak[c], 19);
        bp_text_u64_padded(out, work->most[c], 22);
        bp_text_char(out, '\n');
    }
}

/* The column of columns first .. last - 1 in which most bytes live. */
static uint32_t fullest_column(const map_work *work, uint32_t first, uint32_t last)
{
    uint32_t fullest = first;
    uint64_t most = 0;
    for (uint32_t column = first; column < last; column++) {
        uint64_t sum = 0;
        for (uint32_t c = 0; c < work->map->class_count; c++) {
            sum += work->column[(size_t)column * work->map->class_count + c];
        }
        fullest = sum > most ? column : fullest;
        most = sum > most ? sum : most;
    }
    return fullest;
}

/* Bytes of each class over program time; a row is where most live of the times up to the next. */
static void text_over_time(const map_work *work, bp_text *out)
{
    const bp_map *map = work->map;
    const uint32_t rows = work->columns < TEXT_ROWS ? work->columns : TEXT_ROWS;
    bp_text_string(out, "from op");
    for (uint32_t c = 0; c < map->class_count; c++) {
        bp_text_padded(out, map->classes[c].name, TEXT_COLUMN, BP_TEXT_RIGHT);
    }
    bp_text_char(out, '\n');
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t first = row * work->columns / rows;
        uint32_t from = fullest_column(work, first, (row + 1) * work->columns / rows);
        bp_text_u64_padded(out, map_column_begins(work, first), 7);
        for (uint32_t c = 0; c < map->class_count; c++) {
            bp_text_u64_padded(out, work->column[(size_t)from * map->class_count + c], TEXT_COLUMN);
        }
        bp_text_char(out, '\n');
    }
}

/* "gpt2: 1,234 bytes; lower bound 1,234; waste 0 (optimal); peak at op 7 (mlp), 9 buffers live." */
static void text_certificate(const map_work *work, bp_text *out)
{
    const bp_map *map = work->map;
    const bp_layout_report *report = &map->report;
    uint64_t live = 0;
    for (uint32_t i = 0; i < map->buffer_count; i++) {
        live += map_lives(&map->buffers[i], report->peak_time);
    }
    bp_text_string(out, "arena ");
    bp_text_grouped(out, report->bytes);
    bp_text_string(out, " bytes (");
    bp_text_bytes_human(out, report->bytes);
    bp_text_string(out, "), lower bound ");
    bp_text_grouped(out, report->lower_bound);
    bp_text_string(out, ", waste ");
    bp_text_grouped(out, report->waste);
    bp_text_string(out, report->optimal ? " (optimal)" : "");
    bp_text_string(out, "\npeak at op ");
    bp_text_u64(out, report->peak_time);
    const char *name = map_op_name(map, report->peak_time);
    if (*name != '\0') {
        bp_text_char(out, ' ');
        bp_text_string(out, name);
    }
    bp_text_string(out, " with ");
    bp_text_u64(out, live);
    bp_text_string(out, live == 1 ? " buffer alive\n" : " buffers alive\n");
}

/* The widest class name, so that the columns line up. */
static size_t text_class_width(const bp_map *map)
{
    size_t width = strlen("class");
    for (uint32_t c = 0; c < map->class_count; c++) {
        size_t length = strlen(map->classes[c].name);
        width = length > width ? length : width;
    }
    return width;
}

bp_status bp_map_text(const bp_map *map, void *scratch, size_t scratch_bytes, bp_text *out)
{
    map_work work;
    BP_TRY(map_begin(&work, map, scratch, scratch_bytes));
    map_sort(&work, MAP_BY_OFFSET);
    size_t width = text_class_width(map);
    bp_text_string(out, "memory map of ");
    bp_text_string(out, map->title);
    bp_text_string(out, "\n\n            offset             size  ");
    bp_text_padded(out, "class", width, BP_TEXT_LEFT);
    bp_text_string(out, "   born    dies  name\n");
    for (uint32_t i = 0; i < map->buffer_count; i++) {
        const bp_map_buffer *buffer = &map->buffers[work.order[i]];
        bp_text_string(out, "  0x");
        bp_text_hex(out, buffer->interval.offset, 14);
        bp_text_u64_padded(out, buffer->interval.size, 17);
        bp_text_string(out, "  ");
        bp_text_padded(out, map->classes[buffer->class_index].name, width, BP_TEXT_LEFT);
        bp_text_u64_padded(out, buffer->interval.lower, 7);
        bp_text_u64_padded(out, buffer->interval.upper, 8);
        bp_text_string(out, "  ");
        bp_text_string(out, buffer->name);
        bp_text_char(out, '\n');
    }
    bp_text_char(out, '\n');
    text_over_time(&work, out);
    bp_text_char(out, '\n');
    text_classes(&work, out);
    bp_text_char(out, '\n');
    text_certificate(&work, out);
    return bp_text_flush(out);
}

static void map_json_classes(const bp_map *map, bp_json_writer *json, const char *key,
                             const uint64_t *bytes)
{
    bp_json_put_open(json, key, '{');
    for (uint32_t c = 0; c < map->class_count; c++) {
        bp_json_put_u64(json, map->classes[c].name, bytes[c]);
    }
    bp_json_put_close(json);
}

static void map_json_over_time(const map_work *work, bp_json_writer *json)
{
    const bp_map *map = work->map;
    bp_json_put_open(json, "columns", '[');
    for (uint32_t column = 0; column < work->columns; column++) {
        bp_json_put_open(json, NULL, '{');
        bp_json_put_u64(json, "op", map_column_begins(work, column));
        map_json_classes(map, json, "classes", work->column + (size_t)column * map->class_count);
        bp_json_put_close(json);
    }
    bp_json_put_close(json);
}

static void map_json_buffer(const bp_map *map, bp_json_writer *json, const bp_map_buffer *buffer)
{
    bp_json_put_open(json, NULL, '{');
    bp_json_put_text(json, "name", buffer->name);
    bp_json_put_text(json, "class", map->classes[buffer->class_index].name);
    bp_json_put_u64(json, "offset", buffer->interval.offset);
    bp_json_put_u64(json, "size", buffer->interval.size);
    bp_json_put_u64(json, "lower", buffer->interval.lower);
    bp_json_put_u64(json, "upper", buffer->interval.upper);
    bp_json_put_close(json);
}

bp_status bp_map_json(const bp_map *map, void *scratch, size_t scratch_bytes, bp_text *out)
{
    map_work work;
    bp_json_writer json;
    BP_TRY(map_begin(&work, map, scratch, scratch_bytes));
    map_sort(&work, MAP_BY_OFFSET);
    const bp_layout_report *report = &map->report;
    bp_json_put_begin(&json, out, BP_JSON_COMPACT);
    bp_json_put_open(&json, NULL, '{');
    bp_json_put_text(&json, "title", map->title);
    bp_json_put_u64(&json, "arena_bytes", report->bytes);
    bp_json_put_u64(&json, "lower_bound_bytes", report->lower_bound);
    bp_json_put_u64(&json, "waste_bytes", report->waste);
    bp_json_put_flag(&json, "optimal", report->optimal);
    bp_json_put_u64(&json, "peak_op", report->peak_time);
    bp_json_put_text(&json, "peak_op_name", map_op_name(map, report->peak_time));
    bp_json_put_u64(&json, "alignment", map->alignment == 0 ? 1 : map->alignment);
    bp_json_put_text(&json, "method", report->method);
    map_json_classes(map, &json, "classes", work.most);
    map_json_classes(map, &json, "classes_at_peak", work.at_peak);
    map_json_over_time(&work, &json);
    bp_json_put_open(&json, "buffers", '[');
    for (uint32_t i = 0; i < map->buffer_count; i++) {
        map_json_buffer(map, &json, &map->buffers[work.order[i]]);
    }
    bp_json_put_close(&json);
    bp_json_put_close(&json);
    bp_text_char(out, '\n');
    return bp_text_flush(out);
}
