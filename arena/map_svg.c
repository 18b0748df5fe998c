/* SPDX-License-Identifier: MIT */
/* The memory map's drawings: offset against program time, and class totals over time. */
#include "arena/map_work.h"

#include <string.h>

/* Both drawings share one horizontal scale, so an op is at the same place in both. Across they are
 * in percent of the page's width and down in pixels, so that letters keep their size on a phone;
 * labels of the bytes stand in the padding to the left. */
enum {
    PLOT_TOP = 40, /* above it: the title and the peak's label */
    MEMORY_HEIGHT = 560,
    TOTALS_HEIGHT = 200,
    AXIS_HEIGHT = 44,    /* below a plot: tick labels and the axis title */
    BAND_WIDTH = 1000,   /* bands are paths, which know no percent: they are stretched */
    LETTER = 6,          /* about a character's width in labels inside rectangles */
    WIDE_PIXELS = 1000,  /* about a plot's width on a screen */
    NARROW_PIXELS = 290, /* and on a phone */
    FEW_TICKS = 5        /* as many as a phone has room for */
};

static void svg_number(bp_text *out, const char *name, double value)
{
    bp_text_char(out, ' ');
    bp_text_string(out, name);
    bp_text_string(out, "=\"");
    bp_text_fixed(out, value, 2);
    bp_text_char(out, '"');
}

static void svg_percent(bp_text *out, const char *name, double value)
{
    bp_text_char(out, ' ');
    bp_text_string(out, name);
    bp_text_string(out, "=\"");
    bp_text_fixed(out, value, 3);
    bp_text_string(out, "%\"");
}

static void svg_begin(bp_text *out, int height, const char *label)
{
    bp_text_string(out, "<div class=\"plot\"><svg width=\"100%\" height=\"");
    bp_text_u64(out, (uint64_t)(PLOT_TOP + height + AXIS_HEIGHT));
    bp_text_string(out, "\" role=\"img\" aria-label=\"");
    bp_text_html(out, label);
    bp_text_string(out, "\">\n");
}

/* A straight line of a style class from (x1, y1) to (x2, y2). */
static void svg_line(bp_text *out, const char *style, const double ends[4])
{
    bp_text_string(out, "<line class=\"");
    bp_text_string(out, style);
    bp_text_char(out, '"');
    svg_percent(out, "x1", ends[0]);
    svg_number(out, "y1", ends[1]);
    svg_percent(out, "x2", ends[2]);
    svg_number(out, "y2", ends[3]);
    bp_text_string(out, "/>\n");
}

/* `aside` pixels to the right of x. */
static void svg_text_begin(bp_text *out, const char *style, double x, double y, double aside)
{
    bp_text_string(out, "<text class=\"");
    bp_text_string(out, style);
    bp_text_char(out, '"');
    svg_percent(out, "x", x);
    svg_number(out, "y", y);
    if (aside < 0 || aside > 0) {
        svg_number(out, "dx", aside);
    }
    bp_text_char(out, '>');
}

/* Program time to x. */
static double plot_x(const bp_map *map, uint32_t time)
{
    uint32_t cut = time < map->op_count ? time : map->op_count;
    double times = map->op_count == 0 ? 1.0 : (double)map->op_count;
    return 100.0 * (double)cut / times;
}

/* Bytes to y: zero lies at the bottom of a plot of that height. */
static double plot_y(const bp_map *map, uint64_t bytes, int height)
{
    double most = map->report.bytes == 0 ? 1.0 : (double)map->report.bytes;
    return PLOT_TOP + height - (double)bytes / most * height;
}

/* Ticks of the program time at steps of 1, 2 or 5 times a power of ten. */
static void svg_time_axis(const bp_map *map, bp_text *out, int height)
{
    static const uint32_t factors[] = {2, 5, 10};
    uint64_t decade = 1;
    uint64_t step = 1;
    for (uint32_t i = 0; map->op_count / step > 10; i++) {
        step = decade * factors[i % 3];
        decade = i % 3 == 2 ? decade * 10 : decade;
    }
    double bottom = PLOT_TOP + height;
    const bool many = map->op_count / step > FEW_TICKS;
    for (uint64_t time = 0; time <= map->op_count; time += step) {
        double x = plot_x(map, (uint32_t)time);
        svg_line(out, "g", (const double[]){x, PLOT_TOP, x, bottom + 4});
        svg_text_begin(out, many && time / step % 2 == 1 ? "tm w" : "tm", x, bottom + 17, 0);
        bp_text_grouped(out, time);
        bp_text_string(out, "</text>\n");
    }
    svg_text_begin(out, "tm", 50, bottom + 36, 0);
    bp_text_string(out, "program time (op)</text>\n");
}

/* Ticks of the bytes at steps that are powers of two. */
static void svg_byte_axis(const bp_map *map, bp_text *out, int height, const char *title)
{
    uint64_t ticks = height > 300 ? 10 : 5;
    uint64_t step = 1;
    while (map->report.bytes / step > ticks) {
        step *= 2;
    }
    for (uint64_t bytes = 0; bytes <= map->report.bytes; bytes += step) {
        double y = plot_y(map, bytes, height);
        svg_line(out, "g", (const double[]){0, y, 100, y});
        svg_text_begin(out, "te", 0, y + 4, -8);
        bp_text_bytes_short(out, bytes);
        bp_text_string(out, "</text>\n");
    }
    svg_text_begin(out, "ts", 0, 12, 0);
    bp_text_string(out, title);
    bp_text_string(out, "</text>\n");
}

/* A dashed line through the op at which most bytes live. */
static void svg_peak(const bp_map *map, bp_text *out, int height)
{
    double x = plot_x(map, map->report.peak_time) + 50.0 / (map->op_count + 1.0);
    svg_line(out, "p", (const double[]){x, PLOT_TOP - 4, x, PLOT_TOP + height});
    bool left = x > 50;
    svg_text_begin(out, left ? "pe" : "ps", x, PLOT_TOP - 8, left ? -5 : 5);
    bp_text_string(out, "peak: op ");
    bp_text_grouped(out, map->report.peak_time);
    bp_text_string(out, "</text>\n");
}

/* A name in a rectangle from x on, where there is room for it. */
static void svg_name(bp_text *out, const char *name, double x, double width, double y)
{
    const double letters = (double)LETTER * ((double)strlen(name) + 1);
    if (width * WIDE_PIXELS >= 100 * letters) {
        const bool narrow = width * NARROW_PIXELS >= 100 * letters;
        svg_text_begin(out, narrow ? "n" : "n w", x + width / 2, y, 0);
        bp_text_html(out, name);
        bp_text_string(out, "</text>");
    }
}

/* Parts of the program time as a strip on the scale of the drawing. */
static void svg_parts(const bp_map *map, bp_text *out)
{
    if (map->part_count == 0) {
        return;
    }
    bp_text_string(out, "<div class=\"plot\"><svg width=\"100%\" height=\"18\" role=\"img\" "
                        "aria-label=\"programs over program time\">\n");
    for (uint32_t i = 0; i < map->part_count; i++) {
        const bp_map_part *part = &map->parts[i];
        const double x = plot_x(map, part->first);
        const double width = plot_x(map, part->first + part->count) - x;
        bp_text_string(out, "<g><rect class=\"part\"");
        svg_percent(out, "x", x);
        svg_number(out, "y", 1);
        svg_percent(out, "width", width);
        svg_number(out, "height", 16);
        bp_text_string(out, "><title>program ");
        bp_text_html(out, part->name);
        bp_text_string(out, "\nops ");
        bp_text_grouped(out, part->first);
        bp_text_string(out, " to ");
        bp_text_grouped(out, part->first + part->count - 1);
        bp_text_string(out, "</title></rect>");
        svg_name(out, part->name, x, width, 13);
        bp_text_string(out, "</g>\n");
    }
    bp_text_string(out, "</svg></div>\n");
}

/* What hovering shows: name, class, place, size, life. */
static void svg_title(const bp_map *map, bp_text *out, const bp_map_buffer *buffer)
{
    const bp_interval *interval = &buffer->interval;
    bp_text_string(out, "<title>");
    bp_text_html(out, buffer->name);
    bp_text_string(out, "\n");
    bp_text_html(out, map->classes[buffer->class_index].name);
    bp_text_string(out, ", ");
    bp_text_bytes_human(out, interval->size);
    bp_text_string(out, " (");
    bp_text_grouped(out, interval->size);
    bp_text_string(out, " bytes)\noffset ");
    bp_text_grouped(out, interval->offset);
    bp_text_string(out, "\nops ");
    bp_text_u64(out, interval->lower);
    bp_text_string(out, " to ");
    bp_text_u64(out, interval->upper - 1);
    const char *born = map_op_name(map, interval->lower);
    const char *dies = map_op_name(map, interval->upper - 1);
    if (*born != '\0' || *dies != '\0') {
        bp_text_string(out, " (");
        bp_text_html(out, born);
        bp_text_string(out, " to ");
        bp_text_html(out, dies);
        bp_text_char(out, ')');
    }
    bp_text_string(out, "</title>");
}

static void svg_buffer(const bp_map *map, bp_text *out, const bp_map_buffer *buffer)
{
    const bp_interval *interval = &buffer->interval;
    uint64_t end = bp_size_add(interval->offset, map_size(map, buffer));
    double x = plot_x(map, interval->lower);
    double width = plot_x(map, interval->upper) - x;
    double y = plot_y(map, end, MEMORY_HEIGHT);
    double height = plot_y(map, interval->offset, MEMORY_HEIGHT) - y;
    /* An outline would hide a rectangle that is hardly thicker than it. */
    bp_text_string(out, height < 3 ? "<g><rect class=\"c" : "<g><rect class=\"b c");
    bp_text_u64(out, buffer->class_index);
    bp_text_char(out, '"');
    svg_percent(out, "x", x);
    svg_number(out, "y", y);
    svg_percent(out, "width", width);
    svg_number(out, "height", height);
    bp_text_char(out, '>');
    svg_title(map, out, buffer);
    bp_text_string(out, "</rect>");
    if (height >= 12) {
        svg_name(out, buffer->name, x, width, y + height / 2 + 3);
    }
    bp_text_string(out, "</g>\n");
}

void map_svg_memory(map_work *work, bp_text *out)
{
    const bp_map *map = work->map;
    svg_parts(map, out);
    svg_begin(out, MEMORY_HEIGHT, "offset of every buffer against program time");
    svg_byte_axis(map, out, MEMORY_HEIGHT, "offset");
    svg_time_axis(map, out, MEMORY_HEIGHT);
    map_sort(work, MAP_BY_OFFSET);
    for (uint32_t i = 0; i < map->buffer_count; i++) {
        const bp_map_buffer *buffer = &map->buffers[work->order[i]];
        if (buffer->interval.size != 0 && buffer->interval.lower < buffer->interval.upper) {
            svg_buffer(map, out, buffer);
        }
    }
    svg_peak(map, out, MEMORY_HEIGHT);
    if (!map->report.optimal) {
        double y = plot_y(map, map->report.lower_bound, MEMORY_HEIGHT);
        svg_line(out, "l", (const double[]){0, y, 100, y});
        svg_text_begin(out, "ps", 0, y - 4, 6);
        bp_text_string(out, "lower bound</text>\n");
    }
    bp_text_string(out, "</svg></div>\n");
}

/* Bytes of all classes up to and including `last` in a column. */
static uint64_t totals_upto(const map_work *work, uint32_t column, uint32_t last)
{
    const uint64_t *at = work->column + (size_t)column * work->map->class_count;
    uint64_t sum = 0;
    for (uint32_t c = 0; c <= last; c++) {
        sum += at[c];
    }
    return sum;
}

/* One class's band as steps: forward along its top, back along its bottom. */
static void svg_band(const map_work *work, bp_text *out, uint32_t band)
{
    const bp_map *map = work->map;
    double width = (double)BAND_WIDTH / work->columns;
    bp_text_string(out, "<path class=\"c");
    bp_text_u64(out, band);
    bp_text_string(out, "\" d=\"");
    for (uint32_t i = 0; i < 2 * work->columns; i++) {
        bool forward = i < work->columns;
        uint32_t column = forward ? i : 2 * work->columns - 1 - i;
        uint64_t bytes = totals_upto(work, column, band);
        if (!forward) {
            bytes -= work->column[(size_t)column * map->class_count + band];
        }
        double left = column * width;
        bp_text_string(out, i == 0 ? "M" : "L");
        bp_text_fixed(out, forward ? left : left + width, 2);
        bp_text_char(out, ',');
        bp_text_fixed(out, plot_y(map, bytes, TOTALS_HEIGHT) - PLOT_TOP, 2);
        bp_text_char(out, 'H');
        bp_text_fixed(out, forward ? left + width : left, 2);
    }
    bp_text_string(out, "Z\"><title>");
    bp_text_html(out, map->classes[band].name);
    bp_text_string(out, ": ");
    bp_text_bytes_human(out, work->most[band]);
    bp_text_string(out, " at most, ");
    bp_text_bytes_human(out, work->at_peak[band]);
    bp_text_string(out, " at the peak</title></path>\n");
}

void map_svg_totals(const map_work *work, bp_text *out)
{
    const bp_map *map = work->map;
    svg_begin(out, TOTALS_HEIGHT, "bytes alive of every class over program time");
    svg_byte_axis(map, out, TOTALS_HEIGHT, "bytes alive");
    svg_time_axis(map, out, TOTALS_HEIGHT);
    bp_text_string(out, "<svg width=\"100%\" preserveAspectRatio=\"none\" viewBox=\"0 0 ");
    bp_text_u64(out, BAND_WIDTH);
    bp_text_char(out, ' ');
    bp_text_u64(out, TOTALS_HEIGHT);
    bp_text_char(out, '"');
    svg_number(out, "y", PLOT_TOP);
    svg_number(out, "height", TOTALS_HEIGHT);
    bp_text_string(out, ">\n");
    for (uint32_t c = 0; c < map->class_count; c++) {
        if (work->columns > 0 && work->most[c] > 0) {
            svg_band(work, out, c);
        }
    }
    bp_text_string(out, "</svg>\n");
    svg_peak(map, out, TOTALS_HEIGHT);
    bp_text_string(out, "</svg></div>\n");
}
