/* SPDX-License-Identifier: MIT */
/* Plots of pages. */
#include "tools/bedplate/pages/plot.h"

#include <math.h>

enum {
    ACROSS = 1000, /* curves know no percent: they are drawn this wide and stretched */
    TICKS_X = 8,
    TICKS_Y = 6,
    TICKS_PHONE = 5,
    TICKS_PHONE_BYTES = 3 /* their words are longer */
};

bool plot_level(double low, double high)
{
    return !(high - low > 1e-5 * fmax(fabs(low), fabs(high)));
}

void plot_axis_fit(plot_axis *axis, bool margin)
{
    if (plot_level(axis->low, axis->high)) {
        const double width = fabs(axis->low) > 0 ? 0.5 * fabs(axis->low) : 1;
        axis->high = axis->low + width;
        axis->low = axis->log ? axis->low / 2 : fabs(axis->low) > 0 ? axis->low - width : 0;
    } else if (margin) {
        const double span = 0.04 * (axis->high - axis->low);
        const double factor = axis->log ? pow(axis->high / axis->low, 0.04) : 1;
        axis->low = axis->log ? axis->low / factor : axis->low - span;
        axis->high = axis->log ? axis->high * factor : axis->high + span;
    }
}

/* The least round step that is at least `least`. */
static double plot_step(plot_unit unit, double least)
{
    static const double clock[] = {1,   2,    5,    10,   30,    60,    120,   300,
                                   600, 1800, 3600, 7200, 14400, 21600, 43200, 86400};
    if (unit == PLOT_BYTES) {
        return exp2(ceil(log2(least > 1 ? least : 1)));
    }
    for (size_t i = 0; unit == PLOT_SECONDS && i < sizeof clock / sizeof clock[0]; i++) {
        if (clock[i] >= least && least > 0.5) {
            return clock[i];
        }
    }
    const double unit_of = unit == PLOT_SECONDS && least > 86400 ? 86400 : 1;
    const double decade = pow(10, floor(log10(least / unit_of)));
    const double factor = least / unit_of / decade;
    return unit_of * decade * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
}

/* Powers of ten; with 2 and 5 times of them where there is room, else with 3 times. Even steps
 * would crowd at the upper end of a logarithmic axis. */
static uint32_t plot_log_ticks(const plot_axis *axis, uint32_t most, double tick[PLOT_TICKS])
{
    static const double factors[3][3] = {{1, 2, 5}, {1, 3}, {1}};
    const double first = floor(log10(axis->low)), last = log10(axis->high);
    uint32_t count = most + 1;
    for (size_t s = 0; s < 3 && count > most; s++) {
        const double stride = s < 2 ? 1 : fmax(1, ceil((last - first) / most));
        count = 0;
        for (double d = first; d <= last; d += stride) {
            for (size_t i = 0; i < 3 - s; i++) {
                const double value = factors[s][i] * pow(10, d);
                const bool inside = value >= axis->low && value <= axis->high;
                if (inside && count < most) {
                    tick[count] = value;
                }
                count += inside ? 1 : 0;
            }
        }
    }
    return count < most ? count : most;
}

uint32_t plot_ticks(const plot_axis *axis, uint32_t most, double tick[PLOT_TICKS])
{
    uint32_t count = axis->log ? plot_log_ticks(axis, most, tick) : 0;
    if (count >= 3) {
        return count;
    }
    const double step = plot_step(axis->unit, (axis->high - axis->low) / (most > 2 ? most - 1 : 1));
    const double first = ceil(axis->low / step);
    count = 0;
    for (double i = 0; i < most && (first + i) * step <= axis->high + 1e-9 * step; i++) {
        tick[count++] = fmin((first + i) * step, axis->high); /* not past it by its last bit */
    }
    return count;
}

static void plot_clock(bp_text *text, double seconds)
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{86400, " d"}, {3600, " h"},  {60, " min"},
                 {1, " s"},     {1e-3, " ms"}, {1e-6, " us"}};
    size_t i = 0;
    while (i < 5 && fabs(seconds) < units[i].unit) {
        i++;
    }
    i = seconds > 0 || seconds < 0 ? i : 3;
    bp_text_general(text, seconds / units[i].unit, 3);
    bp_text_string(text, units[i].name);
}

void plot_value(bp_text *text, const plot_axis *axis, double value)
{
    if (!isfinite(value)) {
        bp_text_char(text, '-');
    } else if (axis->unit == PLOT_BYTES && value >= 0 && value < 0x1p63) {
        bp_text_bytes_short(text, (uint64_t)(value + 0.5));
    } else if (axis->unit == PLOT_SECONDS) {
        plot_clock(text, value);
    } else if (value >= 1e4 && value < 1e15) {
        bp_text_grouped(text, (uint64_t)(value + 0.5));
    } else {
        bp_text_general(text, fabs(value) < 1e-12 * (axis->high - axis->low) ? 0 : value, 4);
    }
}

static double plot_share(const plot_axis *axis, double value)
{
    return axis->log ? log(value / axis->low) / log(axis->high / axis->low)
                     : (value - axis->low) / (axis->high - axis->low);
}

double plot_left(const plot *p, double x)
{
    return 100 * plot_share(&p->x, x);
}

double plot_across(const plot *p, double x)
{
    return ACROSS * plot_share(&p->x, x);
}

double plot_down(const plot *p, double y)
{
    return PLOT_HEIGHT * (1 - plot_share(&p->y, y));
}

static void plot_attribute(bp_text *text, const char *name, double value, const char *unit)
{
    bp_text_string(text, name);
    bp_text_fixed(text, value, 2);
    bp_text_string(text, unit);
}

static void plot_ticks_y(bp_text *text, const plot *p)
{
    double tick[PLOT_TICKS];
    const uint32_t count = plot_ticks(&p->y, TICKS_Y, tick);
    for (uint32_t i = 0; i < count; i++) {
        const double y = plot_down(p, tick[i]);
        plot_attribute(text, "<line class=\"g\" x1=\"0\" x2=\"100%\" y1=\"", y, "\"");
        plot_attribute(text, " y2=\"", y, "\"/>");
        plot_attribute(text, "<text class=\"te\" x=\"-8\" y=\"", y + 4, "\">");
        plot_value(text, &p->y, tick[i]);
        bp_text_string(text, "</text>\n");
    }
}

static void plot_ticks_x(bp_text *text, const plot *p)
{
    double tick[PLOT_TICKS];
    const uint32_t count = plot_ticks(&p->x, TICKS_X, tick);
    for (uint32_t i = 0; i < count; i++) {
        const double x = plot_left(p, tick[i]);
        const bool odd =
            count > (p->x.unit == PLOT_BYTES ? TICKS_PHONE_BYTES : TICKS_PHONE) && i % 2 == 1;
        plot_attribute(text, "<line class=\"g\" x1=\"", x, "%\"");
        plot_attribute(text, " x2=\"", x, "%\" y1=\"0\" y2=\"");
        bp_text_u64(text, PLOT_HEIGHT + 4);
        plot_attribute(text, odd ? "\"/><text class=\"tm w\" x=\"" : "\"/><text class=\"tm\" x=\"",
                       x, "%\" y=\"");
        bp_text_u64(text, PLOT_HEIGHT + 18);
        bp_text_string(text, "\">");
        plot_value(text, &p->x, tick[i]);
        bp_text_string(text, "</text>\n");
    }
}

void plot_begin(bp_text *text, const plot *p, const char *label)
{
    bp_text_string(text, "<div class=\"plot\"><svg width=\"100%\" height=\"");
    bp_text_u64(text, PLOT_ABOVE + PLOT_HEIGHT + PLOT_BELOW);
    bp_text_string(text, "\" role=\"img\" aria-label=\"");
    bp_text_html(text, label);
    bp_text_string(text, "\"><svg width=\"100%\" overflow=\"visible\" y=\"");
    bp_text_u64(text, PLOT_ABOVE);
    bp_text_string(text, "\">\n<g class=\"axes\">");
    plot_ticks_y(text, p);
    plot_ticks_x(text, p);
    bp_text_string(text, "</g>\n<text class=\"ts\" x=\"0\" y=\"-12\">");
    bp_text_html(text, p->y.title);
    bp_text_string(text, "</text>\n<text class=\"tm xt\" x=\"50%\" y=\"");
    bp_text_u64(text, PLOT_HEIGHT + 38);
    bp_text_string(text, "\">");
    bp_text_html(text, p->x.title);
    bp_text_string(text, "</text>\n");
}

void plot_end(bp_text *text)
{
    bp_text_string(text, "</svg></svg></div>\n");
}

void plot_paths(bp_text *text)
{
    bp_text_string(text, "<svg class=\"k\" width=\"100%\" preserveAspectRatio=\"none\" height=\"");
    bp_text_u64(text, PLOT_HEIGHT);
    bp_text_string(text, "\" viewBox=\"0 0 ");
    bp_text_u64(text, ACROSS);
    bp_text_char(text, ' ');
    bp_text_u64(text, PLOT_HEIGHT);
    bp_text_string(text, "\">\n");
}

void plot_paths_end(bp_text *text)
{
    bp_text_string(text, "</svg>\n");
}

void plot_pair(bp_text *text, const plot *p, double x, double y)
{
    bp_text_fixed(text, plot_across(p, x), 2);
    bp_text_char(text, ',');
    bp_text_fixed(text, plot_down(p, y), 2);
}
