/* SPDX-License-Identifier: MIT */
/* Curves, tables and pictures of runs. */
#include "tools/bedplate/record/run_page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/store.h"
#include "tools/bedplate/app/path_guard.h"

enum { WIDTH = 720, HEIGHT = 220, LEFT = 64, RIGHT = 12, TOP = 10, BOTTOM = 24, VALUE = 512 };

/* Colours that most people can tell apart (Okabe and Ito, 2008). */
static const char *const page_colours[RUN_PAGE_MOST] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                        "#e69f00", "#56b4e9", "#000000", "#999999"};

static const char page_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'; img-src data:\">\n"
    "<link rel=\"icon\" href=\"data:,\">\n"
    "<title>Bedplate runs</title>\n<style>\n"
    "body{font:14px/1.4 system-ui,sans-serif;margin:1.5em auto;max-width:60em;padding:0 "
    "1em;color:#222}\n"
    "table{border-collapse:collapse;margin:.5em 0}td,th{padding:.15em .7em;text-align:left;"
    "border-bottom:1px solid #ddd;vertical-align:top}td.n{text-align:right}\n"
    "tr.d td{background:#fff3d6}svg{background:#fafafa;border:1px solid #ddd}\n"
    "svg text{font:11px system-ui,sans-serif;fill:#444}code{font-size:90%;word-break:break-all}\n"
    "</style></head><body>\n<h1>Bedplate runs</h1>\n";

static void page_real(bp_text *t, double value, unsigned digits)
{
    if (isfinite(value)) {
        bp_text_general(t, value, digits);
    } else {
        bp_text_string(t, "-");
    }
}

static void page_cell(bp_text *t, const char *text)
{
    bp_text_string(t, "<td>");
    bp_text_html(t, text);
    bp_text_string(t, "</td>");
}

static void page_number_cell(bp_text *t, double value, unsigned digits)
{
    bp_text_string(t, "<td class=\"n\">");
    page_real(t, value, digits);
    bp_text_string(t, "</td>");
}

/* A share of the steps. */
static void page_share_cell(bp_text *t, uint64_t part, uint64_t steps)
{
    bp_text_string(t, "<td class=\"n\">");
    bp_text_fixed(t, steps > 0 ? 100.0 * (double)part / (double)steps : 0, 1);
    bp_text_string(t, "&nbsp;%</td>");
}

static void page_square(bp_text *t, const char *colour)
{
    bp_text_string(t, "<span style=\"color:");
    bp_text_string(t, colour);
    bp_text_string(t, "\">&#9632;</span> ");
}

static void page_count_cell(bp_text *t, uint64_t value)
{
    bp_text_string(t, "<td class=\"n\">");
    bp_text_grouped(t, value);
    bp_text_string(t, "</td>");
}

static void page_rows_begin(bp_text *t, const char *title, const char *heads)
{
    bp_text_string(t, "<h2>");
    bp_text_string(t, title);
    bp_text_string(t, "</h2>\n<table><tr>");
    bp_text_string(t, heads);
    bp_text_string(t, "</tr>\n");
}

static const char *page_state(const run_view *v)
{
    return v->ended       ? "complete"
           : v->code == 0 ? "stopped"
           : v->code > 0  ? "ended"
                          : "running or killed";
}

static double page_least(const view_curve *c)
{
    double least = (double)NAN;
    for (uint32_t i = 0; i < c->count; i++) {
        least = !(least <= c->value[i]) ? c->value[i] : least;
    }
    return least;
}

static void page_summary(bp_text *t, const run_view *views, uint32_t count)
{
    page_rows_begin(t, "Runs",
                    "<th></th><th>directory</th><th>state</th><th>step</th><th>of</th><th>loss</th>"
                    "<th>best eval</th><th>saves</th><th>resumes</th>");
    for (uint32_t i = 0; i < count; i++) {
        const run_view *v = &views[i];
        bp_text_string(t, "<tr><td>");
        page_square(t, page_colours[i]);
        bp_text_string(t, "</td>");
        page_cell(t, v->directory);
        page_cell(t, page_state(v));
        page_count_cell(t, v->steps);
        page_count_cell(t, v->total);
        page_number_cell(t, view_last(&v->curves[VIEW_LOSS]), 6);
        page_number_cell(t, page_least(&v->curves[VIEW_EVAL]), 6);
        page_count_cell(t, v->saves);
        page_count_cell(t, v->resumes);
        bp_text_string(t, "</tr>\n");
    }
    bp_text_string(t, "</table>\n");
}

/* A picture's frame: what its edges stand for. */
typedef struct page_frame {
    double steps, low, high;
} page_frame;

static double page_x(const page_frame *f, double step)
{
    return (double)LEFT + (WIDTH - LEFT - RIGHT) * (f->steps > 0 ? step / f->steps : 0);
}

static double page_y(const page_frame *f, double value)
{
    return (double)TOP + (HEIGHT - TOP - BOTTOM) * (f->high - value) / (f->high - f->low);
}

static void page_span(page_frame *f, const view_curve *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        f->low = c->value[i] < f->low ? c->value[i] : f->low;
        f->high = c->value[i] > f->high ? c->value[i] : f->high;
        f->steps = c->step[i] > f->steps ? c->step[i] : f->steps;
    }
}

static void page_line(bp_text *t, const page_frame *f, const view_curve *c, const char *colour,
                      bool dots)
{
    for (uint32_t i = 0; dots && i < c->count; i++) {
        bp_text_string(t, "<circle r=\"3\" fill=\"none\" stroke-width=\"1.5\" stroke=\"");
        bp_text_string(t, colour);
        bp_text_string(t, "\" cx=\"");
        bp_text_fixed(t, page_x(f, c->step[i]), 1);
        bp_text_string(t, "\" cy=\"");
        bp_text_fixed(t, page_y(f, c->value[i]), 1);
        bp_text_string(t, "\"/>");
    }
    if (dots || c->count == 0) {
        return;
    }
    bp_text_string(t, "<polyline fill=\"none\" stroke-width=\"1.2\" stroke=\"");
    bp_text_string(t, colour);
    bp_text_string(t, "\" points=\"");
    for (uint32_t i = 0; i < c->count; i++) {
        bp_text_fixed(t, page_x(f, c->step[i]), 1);
        bp_text_char(t, ',');
        bp_text_fixed(t, page_y(f, c->value[i]), 1);
        bp_text_char(t, ' ');
    }
    bp_text_string(t, "\"/>\n");
}

static void page_label(bp_text *t, double x, double y, const char *anchor, double value)
{
    bp_text_string(t, "<text text-anchor=\"");
    bp_text_string(t, anchor);
    bp_text_string(t, "\" x=\"");
    bp_text_fixed(t, x, 0);
    bp_text_string(t, "\" y=\"");
    bp_text_fixed(t, y, 0);
    bp_text_string(t, "\">");
    if (fabs(value) >= 1e3 && fabs(value) < 1e8) {
        bp_text_fixed(t, value, 0); /* an exponent would not fit beside the frame */
    } else {
        page_real(t, value, 4);
    }
    bp_text_string(t, "</text>");
}

/* Saves are too many to be marked; what else happened is a line with its name under the mouse. */
static void page_marks(bp_text *t, const page_frame *f, const run_view *v)
{
    const uint32_t first = v->event_count > VIEW_EVENTS ? v->event_count - VIEW_EVENTS : 0;
    for (uint32_t i = first; i < v->event_count; i++) {
        const view_event *e = &v->events[i % VIEW_EVENTS];
        const bool plain = strcmp(e->kind, "save") == 0 || strcmp(e->kind, "plan") == 0 ||
                           strcmp(e->kind, "start") == 0;
        if (plain || (double)e->step > f->steps) {
            continue;
        }
        bp_text_string(t,
                       "<line stroke=\"#bbb\" stroke-dasharray=\"2 2\" y1=\"10\" y2=\"196\" x1=\"");
        bp_text_fixed(t, page_x(f, (double)e->step), 1);
        bp_text_string(t, "\" x2=\"");
        bp_text_fixed(t, page_x(f, (double)e->step), 1);
        bp_text_string(t, "\"><title>");
        bp_text_html(t, e->kind);
        bp_text_string(t, " at step ");
        bp_text_u64(t, e->step);
        bp_text_string(t, "</title></line>");
    }
}

static void page_curve(bp_text *t, const run_view *views, uint32_t count, view_kind kind,
                       const char *title)
{
    page_frame f = {0, (double)INFINITY, -(double)INFINITY};
    for (uint32_t i = 0; i < count; i++) {
        page_span(&f, &views[i].curves[kind]);
        if (kind == VIEW_LOSS) {
            page_span(&f, &views[i].curves[VIEW_EVAL]);
        }
    }
    if (!(f.high >= f.low)) {
        return;
    }
    f.high = f.high > f.low ? f.high : f.low + (f.low != 0 ? fabs(f.low) : 1);
    bp_text_string(t, "<h2>");
    bp_text_string(t, title);
    bp_text_string(
        t, "</h2>\n<svg role=\"img\" width=\"720\" height=\"220\" viewBox=\"0 0 720 220\">");
    for (uint32_t i = 0; i < count; i++) {
        if (kind == VIEW_LOSS) {
            page_marks(t, &f, &views[i]);
        }
        page_line(t, &f, &views[i].curves[kind], page_colours[i], false);
        if (kind == VIEW_LOSS) {
            page_line(t, &f, &views[i].curves[VIEW_EVAL], page_colours[i], true);
        }
    }
    page_label(t, LEFT - 6, TOP + 8, "end", f.high);
    page_label(t, LEFT - 6, HEIGHT - BOTTOM, "end", f.low);
    page_label(t, LEFT, HEIGHT - 8, "start", 0);
    page_label(t, WIDTH - RIGHT, HEIGHT - 8, "end", f.steps);
    bp_text_string(t, "</svg>\n");
}

/* The value of an option in a run's first line. */
static bool page_option(const run_view *v, const char *name, char value[VALUE])
{
    char key[VIEW_TEXT];
    const char *at = NULL;
    while (view_pair(v->run, "options", &at, key, value, VIEW_TEXT)) {
        if (strcmp(key, name) == 0) {
            return true;
        }
    }
    value[0] = '\0';
    return false;
}

static void page_option_row(bp_text *t, const run_view *views, uint32_t count, const char *name,
                            bool differing)
{
    char first[VALUE], value[VALUE];
    bool differs = false;
    (void)page_option(&views[0], name, first);
    for (uint32_t i = 1; i < count; i++) {
        (void)page_option(&views[i], name, value);
        differs = differs || strcmp(first, value) != 0;
    }
    if (differs != differing) {
        return;
    }
    bp_text_string(t, differs ? "<tr class=\"d\">" : "<tr>");
    page_cell(t, name);
    for (uint32_t i = 0; i < count; i++) {
        (void)page_option(&views[i], name, value);
        page_cell(t, value);
    }
    bp_text_string(t, "</tr>\n");
}

static void page_option_head(bp_text *t, const run_view *views, uint32_t count)
{
    bp_text_string(t, "<table><tr><th>option</th>");
    for (uint32_t i = 0; i < count; i++) {
        bp_text_string(t, "<th>");
        page_square(t, page_colours[i]);
        bp_text_html(t, views[i].directory);
        bp_text_string(t, "</th>");
    }
    bp_text_string(t, "</tr>\n");
}

/* Options of the first run, and those that only others have; what differs is shown, what does not
 * can be unfolded. */
static void page_options(bp_text *t, const run_view *views, uint32_t count)
{
    char name[VIEW_TEXT], value[VIEW_TEXT], other[VALUE];
    bp_text_string(t, count > 1 ? "<h2>Options that differ</h2>\n" : "<h2>Options</h2>\n");
    for (int same = count > 1 ? 0 : 1; same < 2; same++) {
        bp_text_string(t, same == 0   ? ""
                          : count > 1 ? "<details><summary>the others, which are alike</summary>\n"
                                      : "<details><summary>all of them</summary>\n");
        page_option_head(t, views, count);
        for (uint32_t i = 0; i < count; i++) {
            const char *at = NULL;
            while (view_pair(views[i].run, "options", &at, name, value, sizeof name)) {
                bool shown = false;
                for (uint32_t j = 0; j < i; j++) {
                    shown = shown || page_option(&views[j], name, other);
                }
                if (!shown) {
                    page_option_row(t, views, count, name, same == 0);
                }
            }
        }
        bp_text_string(t, same == 0 ? "</table>\n" : "</table></details>\n");
    }
}

static void page_bar(bp_text *t, double from, double bytes, double most, int row,
                     const char *colour, const char *name)
{
    bp_text_string(t, "<rect height=\"22\" y=\"");
    bp_text_u64(t, (uint64_t)(12 + 34 * row));
    bp_text_string(t, "\" x=\"");
    bp_text_fixed(t, 10 + 700 * from / most, 1);
    bp_text_string(t, "\" width=\"");
    bp_text_fixed(t, 700 * bytes / most, 1);
    bp_text_string(t, "\" fill=\"");
    bp_text_string(t, colour);
    bp_text_string(t, "\"><title>");
    bp_text_html(t, name);
    bp_text_char(t, ' ');
    bp_text_grouped(t, view_count(bytes));
    bp_text_string(t, " bytes</title></rect>");
}

/* Planned above, used below, in one scale. */
static void page_memory_picture(bp_text *t, const run_view *v)
{
    const double planned = v->arena + v->host;
    const double most = planned > v->resident ? planned : v->resident;
    double at = 0;
    if (!(most > 0)) {
        return;
    }
    bp_text_string(t, "<svg role=\"img\" width=\"720\" height=\"84\" viewBox=\"0 0 720 84\">");
    for (uint32_t i = 0; i < v->class_count; i++) {
        page_bar(t, at, v->class_bytes[i], most, 0, page_colours[i % RUN_PAGE_MOST], v->classes[i]);
        at += v->class_bytes[i];
    }
    if (v->arena > at) {
        page_bar(t, at, v->arena - at, most, 0, "#dddddd", "arena, not live at the peak");
    }
    page_bar(t, v->arena, v->host, most, 0, "#bbbbbb", "beside the arena");
    page_bar(t, 0, v->resident, most, 1, "#0072b2", "resident");
    bp_text_string(
        t, "<text x=\"14\" y=\"27\" style=\"fill:#fff\">planned</text><text x=\"14\" y=\"61\" "
           "style=\"fill:#fff\">used</text></svg>\n");
}

static void page_memory(bp_text *t, const run_view *v)
{
    char words[160];
    snprintf(words, sizeof words, "<th>memory of %s</th><th>bytes</th>", "the plan");
    page_rows_begin(t, "Memory: planned and used", words);
    for (uint32_t i = 0; i < v->class_count; i++) {
        bp_text_string(t, "<tr><td>");
        page_square(t, page_colours[i % RUN_PAGE_MOST]);
        bp_text_html(t, v->classes[i]);
        bp_text_string(t, "</td>");
        page_count_cell(t, view_count(v->class_bytes[i]));
        bp_text_string(t, "</tr>\n");
    }
    const struct {
        const char *name;
        double bytes;
    } sums[] = {{"arena", v->arena},
                {"beside the arena", v->host},
                {"planned in all", v->arena + v->host},
                {"used: the most that was resident", v->resident}};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        bp_text_string(t, "<tr>");
        page_cell(t, sums[i].name);
        page_count_cell(t, view_count(sums[i].bytes));
        bp_text_string(t, "</tr>\n");
    }
    bp_text_string(t, "</table>\n");
    page_memory_picture(t, v);
}

static void page_checks(bp_text *t, const run_view *views, uint32_t count)
{
    page_rows_begin(t, "Checks and decisions",
                    "<th>directory</th><th>steps computed twice</th><th>share</th>"
                    "<th>that differed</th><th>the last of them equal</th>"
                    "<th>proven by replay</th><th>anomalies</th><th>updates left out</th>"
                    "<th>saves that failed</th>");
    for (uint32_t i = 0; i < count; i++) {
        const run_view *v = &views[i];
        bp_text_string(t, "<tr>");
        page_cell(t, v->directory);
        page_count_cell(t, v->replays);
        page_share_cell(t, v->replays, v->steps);
        page_count_cell(t, v->mismatches);
        page_count_cell(t, v->verified);
        page_share_cell(t, v->proven, v->steps);
        page_count_cell(t, v->anomalies);
        page_count_cell(t, v->left_out);
        page_count_cell(t, v->save_failures);
        bp_text_string(t, "</tr>\n");
    }
    bp_text_string(t, "</table>\n");
}

static void page_events(bp_text *t, const run_view *v)
{
    char date[40];
    page_rows_begin(t, "Events", "<th>time (UTC)</th><th>step</th><th>event</th><th></th>");
    const uint32_t first = v->event_count > VIEW_EVENTS ? v->event_count - VIEW_EVENTS : 0;
    for (uint32_t i = first; i < v->event_count; i++) {
        const view_event *e = &v->events[i % VIEW_EVENTS];
        const time_t when = (time_t)view_count(e->unix_time);
        struct tm parts;
        const bool known = gmtime_r(&when, &parts) != NULL;
        date[known ? strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &parts) : 0] = '\0';
        bp_text_string(t, "<tr>");
        page_cell(t, date);
        page_count_cell(t, e->step);
        page_cell(t, e->kind);
        bp_text_string(t, "<td><code>");
        bp_text_html(t, e->text);
        bp_text_string(t, "</code></td></tr>\n");
    }
    bp_text_string(t, "</table>\n");
}

static void page_machine(bp_text *t, const run_view *v)
{
    static const char *const keys[] = {"host",   "system",  "release", "machine", "processor",
                                       "device", "kernels", "threads", "version", "source"};
    char value[VIEW_TEXT];
    page_rows_begin(t, "Machine and program", "<th></th><th></th>");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (view_text(v->start, keys[i], value, sizeof value)) {
            bp_text_string(t, "<tr>");
            page_cell(t, keys[i]);
            page_cell(t, value);
            bp_text_string(t, "</tr>\n");
        }
    }
    bp_text_string(t, "<tr><td>chain of the record</td><td><code>");
    bp_text_html(t, v->chain);
    bp_text_string(t, "</code></td></tr>\n</table>\n");
}

/* runs on a page */
static void run_page_put(bp_text *t, const run_view *views, uint32_t count)
{
    bp_text_string(t, page_head);
    page_summary(t, views, count);
    page_curve(t, views, count, VIEW_LOSS, "Loss (line), evaluations (circles), events (dashes)");
    page_curve(t, views, count, VIEW_NORM, "Gradient norm");
    page_curve(t, views, count, VIEW_RATE, "Learning rate");
    page_curve(t, views, count, VIEW_SPEED, "Tokens per second");
    page_checks(t, views, count);
    page_options(t, views, count);
    for (uint32_t i = 0; i < count; i++) {
        bp_text_string(t, "<h1>");
        bp_text_html(t, views[i].directory);
        bp_text_string(t, "</h1>\n");
        page_memory(t, &views[i]);
        page_machine(t, &views[i]);
        page_events(t, &views[i]);
    }
    bp_text_string(t, "</body></html>\n");
}

static bp_status page_sink(void *user, const char *text, size_t length)
{
    return fwrite(text, 1, length, user) == length ? BP_OK : BP_ERR_STORE;
}

bp_status run_page_write(const run_view *views, uint32_t count, const char *path, bp_error *error)
{
    char temporary[BP_STORE_PATH_MAX + 8];
    char buffer[4096];
    bp_text text;
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    const int made = path_guard_create(temporary, 0666);
    FILE *file = made >= 0 ? fdopen(made, "w") : NULL;
    bp_status status = file != NULL ? BP_OK : BP_ERR_STORE;
    if (file != NULL) {
        bp_text_init(&text, page_sink, file, buffer, sizeof buffer);
        run_page_put(&text, views, count);
        status = bp_text_flush(&text);
        const bool closed = fclose(file) == 0;
        const bool moved = closed && status == BP_OK && rename(temporary, path) == 0;
        status = moved ? BP_OK : BP_ERR_STORE;
        if (!moved) {
            (void)remove(temporary);
        }
    }
    return status == BP_OK
               ? BP_OK
               : bp_error_set(error, status, "report", "the page could not be written", path);
}
