/* SPDX-License-Identifier: MIT */
/* The memory map as text and as JSON. */
#include "arena/map.h"

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

static void json_number(bp_text *out, const char *key, uint64_t value)
{
    bp_text_json(out, key);
    bp_text_char(out, ':');
    bp_text_u64(out, value);
}

static void json_classes(const bp_map *map, bp_text *out, const char *key, const uint64_t *bytes)
{
    bp_text_char(out, ',');
    bp_text_json(out, key);
    bp_text_string(out, ":{");
    for (uint32_t c = 0; c < map->class_count; c++) {
        bp_text_string(out, c == 0 ? "" : ",");
        json_number(out, map->classes[c].name, bytes[c]);
    }
    bp_text_char(out, '}');
}

static void json_over_time(const map_work *work, bp_text *out)
{
    const bp_map *map = work->map;
    bp_text_string(out, ",\"columns\":[");
    for (uint32_t column = 0; column < work->columns; column++) {
        bp_text_string(out, column == 0 ? "{" : ",{");
        json_number(out, "op", map_column_begins(work, column));
        json_classes(map, out, "classes", work->column + (size_t)column * map->class_count);
        bp_text_char(out, '}');
    }
    bp_text_char(out, ']');
}

static void json_buffer(const bp_map *map, bp_text *out, const bp_map_buffer *buffer)
{
    bp_text_string(out, "{\"name\":");
    bp_text_json(out, buffer->name);
    bp_text_string(out, ",\"class\":");
    bp_text_json(out, map->classes[buffer->class_index].name);
    bp_text_char(out, ',');
    json_number(out, "offset", buffer->interval.offset);
    bp_text_char(out, ',');
    json_number(out, "size", buffer->interval.size);
    bp_text_char(out, ',');
    json_number(out, "lower", buffer->interval.lower);
    bp_text_char(out, ',');
    json_number(out, "upper", buffer->interval.upper);
    bp_text_char(out, '}');
}

bp_status bp_map_json(const bp_map *map, void *scratch, size_t scratch_bytes, bp_text *out)
{
    map_work work;
    BP_TRY(map_begin(&work, map, scratch, scratch_bytes));
    map_sort(&work, MAP_BY_OFFSET);
    const bp_layout_report *report = &map->report;
    bp_text_string(out, "{\"title\":");
    bp_text_json(out, map->title);
    bp_text_char(out, ',');
    json_number(out, "arena_bytes", report->bytes);
    bp_text_char(out, ',');
    json_number(out, "lower_bound_bytes", report->lower_bound);
    bp_text_char(out, ',');
    json_number(out, "waste_bytes", report->waste);
    bp_text_string(out, report->optimal ? ",\"optimal\":true," : ",\"optimal\":false,");
    json_number(out, "peak_op", report->peak_time);
    bp_text_string(out, ",\"peak_op_name\":");
    bp_text_json(out, map_op_name(map, report->peak_time));
    bp_text_char(out, ',');
    json_number(out, "alignment", map->alignment == 0 ? 1 : map->alignment);
    bp_text_string(out, ",\"method\":");
    bp_text_json(out, report->method);
    json_classes(map, out, "classes", work.most);
    json_classes(map, out, "classes_at_peak", work.at_peak);
    json_over_time(&work, out);
    bp_text_string(out, ",\"buffers\":[");
    for (uint32_t i = 0; i < map->buffer_count; i++) {
        bp_text_string(out, i == 0 ? "" : ",");
        json_buffer(map, out, &map->buffers[work.order[i]]);
    }
    bp_text_string(out, "]}\n");
    return bp_text_flush(out);
}
