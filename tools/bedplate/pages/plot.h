/* SPDX-License-Identifier: MIT */
/* Plots of pages: axes with ticks and titles, curves and points. Across they are in percent of the
 * page's width, down in pixels, so that letters keep their size on a phone. */
#ifndef BP_BEDPLATE_PLOT_H
#define BP_BEDPLATE_PLOT_H

#include "arena/text.h"

enum { PLOT_HEIGHT = 240, PLOT_ABOVE = 26, PLOT_BELOW = 44, PLOT_TICKS = 24 };

/* How the numbers of an axis are written, and which of them are round. */
typedef enum plot_unit { PLOT_NUMBER, PLOT_BYTES, PLOT_SECONDS } plot_unit;

typedef struct plot_axis {
    double low, high; /* finite, low < high after plot_axis_fit */
    const char *title;
    plot_unit unit;
    bool log; /* low > 0 */
} plot_axis;

typedef struct plot {
    plot_axis x, y;
} plot;

/* Whether a range is none for a reader: six digits of its ends are the same. */
bool plot_level(double low, double high);

/* Widens an axis that is level by half of its value, or to 0 .. 1, and one with a margin by 4 % at
 * each end. */
void plot_axis_fit(plot_axis *axis, bool margin);

/* Round values from low to high, at most `most` of them (2 to PLOT_TICKS); their count. */
uint32_t plot_ticks(const plot_axis *axis, uint32_t most, double tick[PLOT_TICKS]);

/* A value as its axis writes it. */
void plot_value(bp_text *text, const plot_axis *axis, double value);

/* Begins the drawing with its axes; `label` says what it shows. */
void plot_begin(bp_text *text, const plot *p, const char *label);
void plot_end(bp_text *text);

/* A place: percent from the left, pixels from above. */
double plot_left(const plot *p, double x);
double plot_down(const plot *p, double y);

/* Curves and areas stand between these, in units of plot_across and plot_down. */
void plot_paths(bp_text *text);
void plot_paths_end(bp_text *text);
double plot_across(const plot *p, double x);

/* x and y of a path between commas. */
void plot_pair(bp_text *text, const plot *p, double x, double y);

#endif
