/* SPDX-License-Identifier: MIT */
/* The memory map's drawings: offset against program time, and class totals over time. */
#include "arena/map_work.h"

#include <string.h>

/* Both drawings share one horizontal scale, so an op is at the same place in both. In pixels of
 * the drawing's own coordinates; the page scales it to its width. */
enum {
    PLOT_LEFT = 84,
    PLOT_WIDTH = 1000,
    PLOT_RIGHT = PLOT_LEFT + PLOT_WIDTH,
    PLOT_TOP = 24,
    DRAWING_WIDTH = PLOT_RIGHT + 16,
    MEMORY_HEIGHT = 560,
    TOTALS_HEIGHT = 200,
    AXIS_HEIGHT = 44, /* below a plot: tick labels and the axis title */
    LETTER = 6        /* about a character's width in labels inside rectangles */
};

static void svg_number(bp_text *out, const char *name, double value)
{
    bp_text_char(out, ' ');
    bp_text_string(out, name);
    bp_text_string(out, "=\"");
    bp_text_fixed(out, value, 2);
    bp_text_char(out, '"');
}

static void svg_begin(bp_text *out, int height, const char *label)
{
    bp_text_string(out, "<svg viewBox=\"0 0 ");
    bp_text_u64(out, DRAWING_WIDTH);
    bp_text_char(out, ' ');
    bp_text_u64(out, (uint64_t)(PLOT_TOP + height + AXIS_HEIGHT));
    bp_text_string(out, "\" role=\"img\" aria-label=\"");
    bp_text_html(out, label);
    bp_text_string(out, "\">\n");
}

/* A straight line of a style class from (x1, y1) to (x2, y2). */
static void svg_line(bp_text *out, const char *style, const double ends[4])
{
    static const char *const names[] = {"x1", "y1", "x2", "y2"};
    bp_text_string(out, "<line class=\"");
    bp_text_string(out, style);
    bp_text_char(out, '"');
    for (int i = 0; i < 4; i++) {
        svg_number(out, names[i], ends[i]);
    }
    bp_text_string(out, "/>\n");
}

static void svg_text_begin(bp_text *out, const char *style, double x, double y)
{
    bp_text_string(out, "<text class=\"");
    bp_text_string(out, style);
    bp_text_char(out, '"');
    svg_number(out, "x", x);
    svg_number(out, "y", y);
    bp_text_char(out, '>');
}

/* Program time to x. */
static double plot_x(const bp_map *map, uint32_t time)
{
    uint32_t cut = time < map->op_count ? time : map->op_count;
    double times = map->op_count == 0 ? 1.0 : (double)map->op_count;
    return (double)PLOT_LEFT + (double)cut / times * (double)PLOT_WIDTH;
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
    for (uint64_t time = 0; time <= map->op_count; time += step) {
        double x = plot_x(map, (uint32_t)time);
        svg_line(out, "g", (const double[]){x, PLOT_TOP, x, bottom + 4});
        svg_text_begin(out, "tm", x, bottom + 17);
        bp_text_grouped(out, time);
        bp_text_string(out, "</text>\n");
    }
    svg_text_begin(out, "tm", (double)PLOT_LEFT + (double)PLOT_WIDTH / 2.0, bottom + 36);
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
        svg_line(out, "g", (const double[]){PLOT_LEFT - 4, y, PLOT_RIGHT, y});
        svg_text_begin(out, "te", PLOT_LEFT - 8, y + 4);
        bp_text_bytes_human(out, bytes);
        bp_text_string(out, "</text>\n");
    }
    svg_text_begin(out, "ts", 4, PLOT_TOP - 10);
    bp_text_string(out, title);
    bp_text_string(out, "</text>\n");
}

/* A dashed line through the op at which most bytes live. */
static void svg_peak(const bp_map *map, bp_text *out, int height)
{
    double x =
        plot_x(map, map->report.peak_time) + 0.5 * (double)PLOT_WIDTH / (map->op_count + 1.0);
    svg_line(out, "p", (const double[]){x, PLOT_TOP - 4, x, PLOT_TOP + height});
    bool left = x > (double)PLOT_LEFT + 0.8 * (double)PLOT_WIDTH;
    svg_text_begin(out, left ? "pe" : "ps", x + (left ? -5 : 5), PLOT_TOP - 8);
    bp_text_string(out, "peak: op ");
    bp_text_grouped(out, map->report.peak_time);
    bp_text_string(out, "</text>\n");
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
    svg_number(out, "x", x);
    svg_number(out, "y", y);
    svg_number(out, "width", width);
    svg_number(out, "height", height);
    bp_text_char(out, '>');
    svg_title(map, out, buffer);
    bp_text_string(out, "</rect>");
    if (height >= 12 && width >= (double)LETTER * ((double)strlen(buffer->name) + 1)) {
        svg_text_begin(out, "n", x + width / 2, y + height / 2 + 3);
        bp_text_html(out, buffer->name);
        bp_text_string(out, "</text>");
    }
    bp_text_string(out, "</g>\n");
}

void map_svg_memory(map_work *work, bp_text *out)
{
    const bp_map *map = work->map;
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
        svg_line(out, "l", (const double[]){PLOT_LEFT, y, PLOT_RIGHT, y});
        svg_text_begin(out, "ps", PLOT_LEFT + 6, y - 4);
        bp_text_string(out, "lower bound</text>\n");
    }
    bp_text_string(out, "</svg>\n");
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
    double width = (double)PLOT_WIDTH / work->columns;
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
        double left = (double)PLOT_LEFT + column * width;
        bp_text_string(out, i == 0 ? "M" : "L");
        bp_text_fixed(out, forward ? left : left + width, 2);
        bp_text_char(out, ',');
        bp_text_fixed(out, plot_y(map, bytes, TOTALS_HEIGHT), 2);
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
    for (uint32_t c = 0; c < map->class_count; c++) {
        if (work->columns > 0 && work->most[c] > 0) {
            svg_band(work, out, c);
        }
    }
    svg_peak(map, out, TOTALS_HEIGHT);
    bp_text_string(out, "</svg>\n");
}
