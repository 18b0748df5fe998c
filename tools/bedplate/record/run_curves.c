/* SPDX-License-Identifier: MIT */
/* Curves of the page of runs. */
#include "tools/bedplate/record/run_curves.h"

#include <math.h>
#include <string.h>

#include "tools/bedplate/pages/class_colour.h"
#include "tools/bedplate/pages/plot.h"
#include "tools/bedplate/record/run_events.h"

/* From how many points on a curve is smoothed, up to how many each is a dot, and from which ratio
 * of its ends an axis is logarithmic. */
enum { SMOOTHED = 50, DOTTED = 200, LOGARITHMIC = 30 };

#define SMOOTHING 0.8 /* the script begins with it too */

/* A curve of each run, or with `dots` one of evaluations. */
typedef struct curve_set {
    const run_view *views;
    uint32_t count;
    view_kind kind;
    const char *metric; /* NULL: the curve of `kind` */
    const char *name;
    bool dots;
} curve_set;

typedef struct curve_chart {
    const char *title, *axis;
    curve_set sets[2];
    uint32_t set_count;
    bool smoothed, eventful;
    bool linear; /* whatever its range */
} curve_chart;

static const view_curve *curve_of(const curve_set *set, uint32_t run)
{
    const run_view *v = &set->views[run];
    if (set->metric == NULL) {
        return &v->curves[set->kind];
    }
    for (uint32_t i = 0; i < v->metric_count; i++) {
        if (strcmp(v->metrics[i].name, set->metric) == 0) {
            return &v->metrics[i].curve;
        }
    }
    return NULL;
}

static void curve_span(plot *p, const view_curve *c)
{
    for (uint32_t i = 0; c != NULL && i < c->count; i++) {
        p->y.low = c->value[i] < p->y.low ? c->value[i] : p->y.low;
        p->y.high = c->value[i] > p->y.high ? c->value[i] : p->y.high;
        p->x.high = c->step[i] > p->x.high ? c->step[i] : p->x.high;
    }
}

/* Whether one evaluation of one run is all there is: its card has that number. */
static bool curve_alone(const curve_chart *chart)
{
    const view_curve *c = curve_of(&chart->sets[0], 0);
    return chart->set_count == 1 && chart->sets[0].dots && chart->sets[0].count == 1 && c != NULL &&
           c->count == 1;
}

/* Its axes; false where there is nothing, or a line that is level. */
static bool curve_axes(const curve_chart *chart, plot *p)
{
    *p = (plot){.x = {0, 0, "step", PLOT_NUMBER, false},
                .y = {(double)INFINITY, -(double)INFINITY, chart->axis, PLOT_NUMBER, false}};
    for (uint32_t s = 0; s < chart->set_count; s++) {
        for (uint32_t i = 0; i < chart->sets[s].count; i++) {
            curve_span(p, curve_of(&chart->sets[s], i));
        }
    }
    if (!(p->y.high >= p->y.low) || (!chart->eventful && plot_level(p->y.low, p->y.high)) ||
        curve_alone(chart)) {
        return false;
    }
    p->y.log = !chart->linear && p->y.low > 0 && p->y.high > LOGARITHMIC * p->y.low;
    plot_axis_fit(&p->y, true);
    p->x.high = p->x.high > 0 ? p->x.high : 1;
    return true;
}

static void curve_numbers(bp_text *t, const char *name, const double *value, uint32_t count)
{
    bp_text_char(t, ' ');
    bp_text_string(t, name);
    bp_text_string(t, "=\"");
    for (uint32_t i = 0; i < count; i++) {
        bp_text_string(t, i > 0 ? " " : "");
        bp_text_general(t, value[i], 6);
    }
    bp_text_char(t, '"');
}

/* The mean of the values around number i, weight^d at a distance of d on both sides: a mean of the
 * earlier ones alone would lag behind a curve that falls, above its evaluations. */
static double curve_average(const view_curve *c, uint32_t i, double weight)
{
    double sum = c->value[i], all = 1, part = weight;
    for (uint32_t d = 1; part > 1e-4 && d < c->count; d++, part *= weight) {
        sum += i >= d ? part * c->value[i - d] : 0;
        all += i >= d ? part : 0;
        sum += d < c->count - i ? part * c->value[i + d] : 0;
        all += d < c->count - i ? part : 0;
    }
    return sum / all;
}

/* points=".." of a curve, smoothed with a weight. */
static void curve_points(bp_text *t, const plot *p, const view_curve *c, double weight)
{
    bp_text_string(t, " points=\"");
    for (uint32_t i = 0; i < c->count; i++) {
        bp_text_string(t, i > 0 ? " " : "");
        plot_pair(t, p, c->step[i], curve_average(c, i, weight));
    }
    bp_text_char(t, '"');
}

static void curve_id(bp_text *t, const char *name, const curve_set *set, uint32_t run)
{
    bp_text_string(t, name);
    bp_text_string(t, "=\"c");
    bp_text_u64(t, set->kind);
    bp_text_char(t, '-');
    bp_text_html(t, set->metric != NULL ? set->metric : "");
    bp_text_char(t, '-');
    bp_text_u64(t, run);
    bp_text_char(t, '"');
}

static void curve_line(bp_text *t, const plot *p, const curve_chart *chart, const curve_set *set,
                       uint32_t run)
{
    const view_curve *c = curve_of(set, run);
    if (c == NULL || c->count == 0) {
        return;
    }
    const bool smoothed = chart->smoothed && !set->dots && c->count >= SMOOTHED;
    bp_text_string(t, "<polyline class=\"r");
    bp_text_u64(t, run);
    bp_text_string(t, smoothed ? " raw\"" : set->dots ? " dash\"" : "\"");
    curve_id(t, " id", set, run);
    bp_text_string(t, " data-run=\"");
    bp_text_u64(t, run);
    bp_text_string(t, "\" data-name=\"");
    bp_text_html(t, set->name);
    bp_text_char(t, '"');
    curve_numbers(t, "data-x", c->step, c->count);
    curve_numbers(t, "data-y", c->value, c->count);
    curve_points(t, p, c, 0);
    bp_text_string(t, "/>");
    if (smoothed) {
        bp_text_string(t, "<polyline class=\"smooth r");
        bp_text_u64(t, run);
        bp_text_char(t, '"');
        curve_points(t, p, c, SMOOTHING);
        bp_text_string(t, "/>");
    }
    bp_text_char(t, '\n');
}

static void curve_dots(bp_text *t, const plot *p, const curve_set *set, uint32_t run)
{
    const view_curve *c = curve_of(set, run);
    for (uint32_t i = 0; set->dots && c != NULL && c->count <= DOTTED && i < c->count; i++) {
        bp_text_string(t, "<circle class=\"r");
        bp_text_u64(t, run);
        bp_text_char(t, '"');
        curve_id(t, " data-of", set, run);
        bp_text_string(t, " r=\"3.5\" cx=\"");
        bp_text_fixed(t, plot_left(p, c->step[i]), 2);
        bp_text_string(t, "%\" cy=\"");
        bp_text_fixed(t, plot_down(p, c->value[i]), 2);
        bp_text_string(t, "\"><title>");
        bp_text_html(t, set->name);
        bp_text_char(t, ' ');
        bp_text_general(t, c->value[i], 6);
        bp_text_string(t, " after step ");
        bp_text_grouped(t, view_count(c->step[i]));
        bp_text_string(t, "</title></circle>\n");
    }
}

/* Whether a run has points in a chart: only then its events are marked there. */
static bool curve_has(const curve_chart *chart, uint32_t run)
{
    bool has = false;
    for (uint32_t s = 0; !has && s < chart->set_count; s++) {
        const view_curve *c = curve_of(&chart->sets[s], run);
        has = c != NULL && c->count > 0;
    }
    return has;
}

/* Saves are too many to be marked; what else happened is a line with its sentence. */
static void curve_marks(bp_text *t, const plot *p, const run_view *v, uint32_t run)
{
    const uint32_t first = v->event_count > VIEW_EVENTS ? v->event_count - VIEW_EVENTS : 0;
    for (uint32_t i = first; i < v->event_count; i++) {
        const view_event *e = &v->events[i % VIEW_EVENTS];
        if (!run_events_marked(e) || (double)e->step > p->x.high) {
            continue;
        }
        bp_text_string(t, "<line class=\"e\" y1=\"0\" y2=\"");
        bp_text_u64(t, PLOT_HEIGHT);
        bp_text_string(t, "\" data-run=\"");
        bp_text_u64(t, run);
        bp_text_string(t, "\" data-x=\"");
        bp_text_u64(t, e->step);
        for (int side = 0; side < 2; side++) {
            bp_text_string(t, side == 0 ? "\" x1=\"" : "%\" x2=\"");
            bp_text_fixed(t, plot_left(p, (double)e->step), 2);
        }
        bp_text_string(t, "%\"><title>step ");
        bp_text_grouped(t, e->step);
        bp_text_string(t, ": ");
        run_events_sentence(t, e);
        bp_text_string(t, "</title></line>\n");
    }
}

static void curve_chart_put(bp_text *t, const curve_chart *chart)
{
    plot p;
    if (!curve_axes(chart, &p)) {
        return;
    }
    const curve_set *sets = chart->sets;
    bp_text_string(t, "<section class=\"chart\" data-log=\"");
    bp_text_string(t, p.y.log ? "1\"><h2>" : "0\"><h2>");
    bp_text_html(t, chart->title);
    bp_text_string(t, "</h2>\n");
    plot_begin(t, &p, chart->title);
    for (uint32_t i = 0; chart->eventful && i < sets[0].count; i++) {
        if (curve_has(chart, i)) {
            curve_marks(t, &p, &sets[0].views[i], i);
        }
    }
    plot_paths(t);
    for (uint32_t s = 0; s < chart->set_count; s++) {
        for (uint32_t i = 0; i < sets[s].count; i++) {
            curve_line(t, &p, chart, &sets[s], i);
        }
    }
    plot_paths_end(t);
    for (uint32_t s = 0; s < chart->set_count; s++) {
        for (uint32_t i = 0; i < sets[s].count; i++) {
            curve_dots(t, &p, &sets[s], i);
        }
    }
    plot_end(t);
    bp_text_string(t, "</section>\n");
}

/* Metrics in the order in which runs have them first. */
static void curve_metrics(bp_text *t, const run_view *views, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t m = 0; m < views[i].metric_count; m++) {
            const char *name = views[i].metrics[m].name;
            const bool of_steps = views[i].metrics[m].of_steps;
            const curve_set set = {views, count, VIEW_CURVES, name, name, !of_steps};
            bool shown = false;
            for (uint32_t j = 0; j < i; j++) {
                shown = shown || curve_of(&set, j) != NULL;
            }
            if (shown) {
                continue;
            }
            char title[96];
            bp_text words;
            bp_text_init(&words, NULL, NULL, title, sizeof title);
            bp_text_string(&words, of_steps ? "" : "Evaluation: ");
            bp_text_string(&words, name);
            if (bp_text_flush(&words) == BP_OK) {
                /* a level line says something here: the metric does not change */
                curve_chart_put(t, &(curve_chart){.title = title,
                                                  .axis = name,
                                                  .sets = {set},
                                                  .set_count = 1,
                                                  .smoothed = of_steps,
                                                  .linear = of_steps,
                                                  .eventful = true});
            }
        }
    }
}

void run_curves_put(bp_text *t, const run_view *views, uint32_t count)
{
    static const struct {
        view_kind kind;
        const char *title, *name;
        bool smoothed, linear;
    } others[] = {{VIEW_NORM, "Gradient norm", "gradient norm", true, false},
                  {VIEW_RATE, "Learning rate", "learning rate", false, true},
                  {VIEW_SPEED, "Speed", "tokens per second", true, false}};
    bool judged = false, samples = count > 0;
    for (uint32_t i = 0; i < count; i++) {
        samples = samples && views[i].by_samples;
        judged = judged || views[i].curves[VIEW_EVAL].count > 0;
    }
    bp_text_string(t, "<div id=\"bar\" hidden></div>\n<div class=\"charts\">\n");
    curve_chart_put(
        t, &(curve_chart){.title = judged ? "Loss (line) and evaluation loss (dots)" : "Loss",
                          .axis = "loss",
                          .sets = {{views, count, VIEW_LOSS, NULL, "loss", false},
                                   {views, count, VIEW_EVAL, NULL, "evaluation loss", true}},
                          .set_count = 2,
                          .smoothed = true,
                          .eventful = true});
    curve_metrics(t, views, count);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const char *name =
            others[i].kind == VIEW_SPEED && samples ? "samples per second" : others[i].name;
        curve_chart_put(t,
                        &(curve_chart){.title = others[i].title,
                                       .axis = name,
                                       .sets = {{views, count, others[i].kind, NULL, name, false}},
                                       .set_count = 1,
                                       .smoothed = others[i].smoothed,
                                       .linear = others[i].linear});
    }
    bp_text_string(t, "</div>\n");
}

void run_curves_clocks(bp_text *t, const run_view *views, uint32_t count)
{
    bp_text_string(t, "<div id=\"runs\" hidden>");
    for (uint32_t i = 0; i < count; i++) {
        bp_text_string(t, "<i data-name=\"");
        bp_text_html(t, views[i].directory);
        bp_text_char(t, '"');
        curve_numbers(t, "data-s", views[i].clock_step, views[i].clock_count);
        curve_numbers(t, "data-t", views[i].clock_seconds, views[i].clock_count);
        bp_text_string(t, "></i>");
    }
    bp_text_string(t, "</div>\n");
}

/* Where a column ends: where the next begins, and the last as wide as the one before. */
static double curve_column_end(const run_view *v, uint32_t column)
{
    const double *op = v->column_op;
    if (column + 1 < v->columns) {
        return op[column + 1];
    }
    return column > 0 ? 2 * op[column] - op[column - 1] : op[column] + 1;
}

/* A class's band of columns between the sums below it and with it. */
static void curve_band(bp_text *t, const plot *p, const run_view *v, uint32_t class_of)
{
    bp_text_string(t, "<path d=\"");
    for (uint32_t i = 0; i < 2 * v->columns; i++) {
        const bool forward = i < v->columns;
        const uint32_t column = forward ? i : 2 * v->columns - 1 - i;
        double bytes = 0;
        for (uint32_t c = 0; c < class_of + (forward ? 1 : 0); c++) {
            bytes += v->column_bytes[c][column];
        }
        bp_text_char(t, i == 0 ? 'M' : 'L');
        const double from = v->column_op[column], to = curve_column_end(v, column);
        plot_pair(t, p, forward ? from : to, bytes);
        bp_text_char(t, 'H');
        bp_text_fixed(t, plot_across(p, forward ? to : from), 2);
    }
    bp_text_string(t, "Z\" fill=\"");
    bp_text_string(t, class_colour(v->classes[class_of]));
    bp_text_string(t, "\"><title>");
    bp_text_html(t, v->classes[class_of]);
    bp_text_string(t, "</title></path>\n");
}

void run_curves_step(bp_text *t, const run_view *v)
{
    const double end = v->columns > 0 ? curve_column_end(v, v->columns - 1) : 0;
    plot p = {.x = {0, end, "op of the step", PLOT_NUMBER, false},
              .y = {0, 0, "bytes alive in the arena", PLOT_BYTES, false}};
    for (uint32_t i = 0; i < v->columns; i++) {
        double bytes = 0;
        for (uint32_t c = 0; c < v->class_count; c++) {
            bytes += v->column_bytes[c][i];
        }
        p.y.high = bytes > p.y.high ? bytes : p.y.high;
    }
    if (!(end > 0) || !(p.y.high > 0)) {
        return;
    }
    bp_text_string(t, "<h2>Memory over one step</h2>\n");
    plot_begin(t, &p, "bytes of each class alive over one step");
    plot_paths(t);
    for (uint32_t c = 0; c < v->class_count; c++) {
        curve_band(t, &p, v, c);
    }
    plot_paths_end(t);
    plot_end(t);
}
