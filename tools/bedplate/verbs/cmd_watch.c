/* SPDX-License-Identifier: MIT */
/* bedplate watch: how a run is, or a table of several, in a terminal of 80 columns. Reads their
 * files, and nothing else. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/bedplate/app/output.h"
#include "tools/bedplate/record/run_events.h"
#include "tools/bedplate/record/run_view.h"
#include "tools/bedplate/app/commands.h"

enum { PLOT_ROWS = 10, PLOT_COLUMNS = 66, WATCH_LINE = 80 };

static void watch_time(double seconds, char *text, size_t room)
{
    const long whole = isfinite(seconds) && seconds > 0 && seconds < 1e10 ? (long)seconds : 0;
    if (whole >= 86400) {
        snprintf(text, room, "%ldd%02ldh", whole / 86400, whole / 3600 % 24);
    } else if (whole >= 3600) {
        snprintf(text, room, "%ldh%02ldm", whole / 3600, whole / 60 % 60);
    } else {
        snprintf(text, room, "%ldm%02lds", whole / 60, whole % 60);
    }
}

/* The cell of a share from 0 to 1; numbers of a file may lie anywhere. */
static int watch_cell(double share, int cells)
{
    return (int)(fmin(fmax(share, 0), 1) * (cells - 1) + 0.5);
}

/* The mean loss of each column, and the evaluations over it. */
static void watch_plot(const run_view *v)
{
    char grid[PLOT_ROWS][PLOT_COLUMNS + 1];
    const view_curve *loss = &v->curves[VIEW_LOSS];
    const view_curve *eval = &v->curves[VIEW_EVAL];
    double low = (double)INFINITY, high = -(double)INFINITY;
    for (uint32_t i = 0; i < loss->count + eval->count; i++) {
        const double y = i < loss->count ? loss->value[i] : eval->value[i - loss->count];
        low = y < low ? y : low;
        high = y > high ? y : high;
    }
    if (!(high >= low)) {
        output_print(stdout, "  no loss yet\n");
        return;
    }
    const double height = high > low ? high - low : 1;
    const double last = v->steps > 1 ? (double)v->steps : 1;
    memset(grid, ' ', sizeof grid);
    for (uint32_t i = 0; i < loss->count + eval->count; i++) {
        const bool judged = i >= loss->count;
        const view_curve *c = judged ? eval : loss;
        const uint32_t at = judged ? i - loss->count : i;
        const int x = watch_cell(c->step[at] / last, PLOT_COLUMNS);
        const int y = watch_cell((high - c->value[at]) / height, PLOT_ROWS);
        grid[y][x] = judged ? 'o' : grid[y][x] == 'o' ? 'o' : '.';
    }
    for (int y = 0; y < PLOT_ROWS; y++) {
        grid[y][PLOT_COLUMNS] = '\0';
        if (y == 0 || y == PLOT_ROWS - 1) {
            output_print(stdout, "%10.4g |%s\n", y == 0 ? high : low, grid[y]);
        } else {
            output_print(stdout, "%10s |%s\n", "", grid[y]);
        }
    }
    output_print(stdout, "%10s +%-20d%*" PRIu64 "\n", "", 0, PLOT_COLUMNS - 21, v->steps);
    output_print(stdout, "%10s  . loss%s\n", "", eval->count > 0 ? "   o evaluation" : "");
}

static const char *watch_state(const run_view *v, double age)
{
    return v->code == 0 && v->ended ? "complete"
           : v->code == 0           ? "stopped"
           : v->code > 0            ? "ended"
           : age > 600              ? "silent: no event for a while"
                                    : "runs";
}

/* The last evaluation's metrics, as many a line as there is room for. */
static void watch_metrics(const run_view *v)
{
    char cell[80];
    int used = 0;
    for (uint32_t i = 0; i < v->metric_count; i++) {
        const int length = snprintf(cell, sizeof cell, "%s%s %.4f", used > 0 ? "   " : "",
                                    v->metrics[i].name, view_last(&v->metrics[i].curve));
        const bool next = used > 0 && used + length > WATCH_LINE - 1;
        output_print(stdout, next ? "\n%s" : "%s", cell + (next ? 3 : 0));
        used = next ? length - 3 : used + length;
    }
    output_print(stdout, used > 0 ? "\n" : "");
}

static void watch_lines(const run_view *v)
{
    char left[32], ago[32], eval[32] = "-";
    const double now = (double)time(NULL);
    const double share = v->total > 0 ? 100.0 * (double)v->steps / (double)v->total : 0;
    output_print(stdout, "%.60s   %s", v->directory, watch_state(v, now - v->updated));
    output_print(stdout, v->code > 0 ? " with exit code %d\n" : "\n", v->code);
    if (v->curves[VIEW_EVAL].count > 0) {
        snprintf(eval, sizeof eval, "%.4f", view_last(&v->curves[VIEW_EVAL]));
    }
    output_print(stdout, "step %" PRIu64 " of %" PRIu64 " (%.1f %%)   loss %.4f   eval %s\n",
                 v->steps, v->total, share, view_last(&v->curves[VIEW_LOSS]), eval);
    watch_metrics(v);
    watch_time(v->left, left, sizeof left);
    output_print(stdout, "grad_norm %.3g   lr %.3g   %.0f %s/s   %s left\n",
                 view_last(&v->curves[VIEW_NORM]), view_last(&v->curves[VIEW_RATE]),
                 view_last(&v->curves[VIEW_SPEED]), v->by_samples ? "samples" : "tokens",
                 v->left >= 0 ? left : "?");
    watch_plot(v);
    output_print(stdout, "memory    arena %.1f MB, beside it %.1f MB planned%s; resident %.1f MB\n",
                 1e-6 * v->arena, 1e-6 * v->host, v->process_ranks > 1 ? " for each rank" : "",
                 1e-6 * v->resident);
    watch_time(now - v->saved_unix, ago, sizeof ago);
    if (v->saves > 0) {
        output_print(stdout,
                     "saves     %" PRIu64 ", the last of step %" PRIu64
                     ", %s ago, in %.2g s; %" PRIu64 " failed\n",
                     v->saves, v->saved, ago, v->save_seconds, v->save_failures);
    } else {
        output_print(stdout, "saves     none; %" PRIu64 " failed\n", v->save_failures);
    }
    output_print(stdout,
                 "verified  %" PRIu64 "   computed twice %" PRIu64 ", of which %" PRIu64
                 " differed   by replay %" PRIu64 "\n",
                 v->verified, v->replays, v->mismatches, v->proven);
    output_print(stdout,
                 "anomalies %" PRIu64 "   updates left out %" PRIu64 "   resumes %" PRIu64 "\n",
                 v->anomalies, v->left_out, v->resumes);
    for (uint32_t i = v->event_count > 3 ? v->event_count - 3 : 0; i < v->event_count; i++) {
        const view_event *e = &v->events[i % VIEW_EVENTS];
        char sentence[VIEW_TEXT];
        bp_text text;
        bp_text_init(&text, NULL, NULL, sentence, sizeof sentence);
        run_events_line(&text, e);
        const bp_status cut = bp_text_flush(&text);
        (void)cut; /* to the width of a terminal */
        output_print(stdout, "  step %-8" PRIu64 " %.64s\n", e->step, sentence);
    }
}

/* A run's row in the table. */
typedef struct watch_row {
    char name[20], step[32], loss[16], eval[16], rate[16], speed[16], left[16], state[16];
    char metric[48]; /* what `eval` is */
    bool runs;       /* it has not ended */
    bool found;      /* the directory is a run's */
    bool by_samples; /* its speed counts no tokens */
} watch_row;

/* A number in seven columns. */
static void watch_number(double value, char text[16])
{
    const double size = fabs(value);
    if (!isfinite(value)) {
        snprintf(text, 16, "-");
    } else if (size > 0 && (size < 0.01 || size >= 1e5)) {
        snprintf(text, 16, "%.1e", value);
    } else {
        snprintf(text, 16, "%.4g", value);
    }
}

/* A count in five columns. */
static void watch_short(double count, char text[16])
{
    static const char units[] = "kMGTP";
    size_t unit = 0;
    if (!(count >= 0)) {
        snprintf(text, 16, "-");
    } else if (count < 99999.5) {
        snprintf(text, 16, "%.0f", count);
    } else {
        for (count /= 1000; count >= 9999.5 && unit < 4; unit++) {
            count /= 1000;
        }
        snprintf(text, 16, "%.0f%c", fmin(count, 9999), units[unit]);
    }
}

static void watch_row_read(watch_row *row, const run_view *v)
{
    char done[16], total[16];
    const double age = (double)time(NULL) - v->updated;
    const bool other = v->chosen || (v->metric_count > 0 && v->metrics[0].of_steps);
    const view_curve *eval = other ? &v->metrics[0].curve : &v->curves[VIEW_EVAL];
    watch_short((double)v->steps, done);
    watch_short((double)v->total, total);
    snprintf(row->step, sizeof row->step, "%s/%s", done, total);
    watch_number(view_last(&v->curves[VIEW_LOSS]), row->loss);
    watch_number(view_last(eval), row->eval);
    watch_number(view_last(&v->curves[VIEW_RATE]), row->rate);
    watch_short(view_last(&v->curves[VIEW_SPEED]), row->speed);
    row->by_samples = v->by_samples;
    row->runs = v->code < 0;
    if (row->runs && v->left >= 0) {
        watch_time(v->left, row->left, sizeof row->left);
    } else {
        snprintf(row->left, sizeof row->left, "-");
    }
    if (v->code > 0) {
        snprintf(row->state, sizeof row->state, "exit %d", v->code);
    } else {
        snprintf(row->state, sizeof row->state, "%.8s", watch_state(v, age));
        row->state[strcspn(row->state, ":")] = '\0'; /* "silent" */
    }
    snprintf(row->metric, sizeof row->metric, "%s", other ? v->metrics[0].name : "eval loss");
}

/* The end of a path tells runs apart. */
static void watch_name(const char *directory, char name[20])
{
    enum { NAME = 16, DOTS = 2 };
    char printable[4 * 1024];
    bp_text text;
    bp_text_init(&text, NULL, NULL, printable, sizeof printable);
    bp_text_printable(&text, directory, strlen(directory));
    const bp_status whole = bp_text_flush(&text);
    const char *at = printable;
    (void)whole; /* a longer one is cut */
    const size_t length = strlen(printable);
    if (length > NAME) {
        at += length - (NAME - DOTS);
        while (((unsigned char)*at & 0xc0) == 0x80) {
            at++; /* not in the middle of a character */
        }
    }
    snprintf(name, 20, "%s%.16s", length > NAME ? ".." : "", at);
}

/* Reads every directory; how many are runs, and whether one of them goes on. */
static uint32_t watch_rows(const settings *set, run_view *view, watch_row *rows, bool *runs)
{
    uint32_t found = 0;
    *runs = false;
    for (uint32_t i = 0; i < set->words.count; i++) {
        bp_error error = {.code = BP_OK};
        watch_row *row = &rows[i];
        *row = (watch_row){.step = "-",
                           .loss = "-",
                           .eval = "-",
                           .rate = "-",
                           .speed = "-",
                           .left = "-",
                           .state = "no run"};
        watch_name(set->words.item[i], row->name);
        if (run_view_read(view, set->words.item[i], &error) == BP_OK) {
            row->found = true;
            watch_row_read(row, view);
            *runs = *runs || row->runs;
            found++;
        }
    }
    return found;
}

/* A line of the table. */
static void watch_cells(const char *const cell[8])
{
    char line[WATCH_LINE + 64];
    snprintf(line, sizeof line, "%-16s %11s %7s %9.9s %7s %7s %6s %s", cell[0], cell[1], cell[2],
             cell[3], cell[4], cell[5], cell[6], cell[7]);
    output_print(stdout, "%s\n", line);
}

static void watch_table(const watch_row *rows, uint32_t count)
{
    const char *metric = NULL;
    bool samples = false, tokens = false;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].found) {
            samples = samples || rows[i].by_samples;
            tokens = tokens || !rows[i].by_samples;
            metric =
                metric == NULL || strcmp(metric, rows[i].metric) == 0 ? rows[i].metric : "eval";
        }
    }
    const char *speed = !samples ? "tok/s" : !tokens ? "rows/s" : "per s";
    watch_cells(
        (const char *const[]){"run", "step/of", "loss", metric, "lr", speed, "left", "state"});
    for (uint32_t i = 0; i < count; i++) {
        const watch_row *r = &rows[i];
        watch_cells((const char *const[]){r->name, r->step, r->loss, r->eval, r->rate, r->speed,
                                          r->left, r->state});
    }
}

/* --json: a run as an object on a line of its own; what is not known is null, NULL no run. */
static void watch_object(const run_view *v, const char *directory)
{
    output out;
    output_begin(&out, stdout);
    json_begin(&out);
    json_text(&out, "directory", directory);
    json_text(&out, "state",
              v == NULL ? "no run" : watch_state(v, (double)time(NULL) - v->updated));
    if (v != NULL) {
        json_real(&out, "exit_code", v->code >= 0 ? v->code : (double)NAN, 9);
        json_count(&out, "step", v->steps);
        json_count(&out, "total_steps", v->total);
        json_real(&out, "loss", view_last(&v->curves[VIEW_LOSS]), 9);
        json_real(&out, "eval_loss", view_last(&v->curves[VIEW_EVAL]), 9);
        json_open(&out, "metrics");
        for (uint32_t i = 0; i < v->metric_count; i++) {
            json_real(&out, v->metrics[i].name, view_last(&v->metrics[i].curve), 9);
        }
        json_close(&out);
        json_real(&out, "grad_norm", view_last(&v->curves[VIEW_NORM]), 9);
        json_real(&out, "lr", view_last(&v->curves[VIEW_RATE]), 9);
        json_real(&out, v->by_samples ? "samples_per_second" : "tokens_per_second",
                  view_last(&v->curves[VIEW_SPEED]), 9);
        json_real(&out, "seconds_left", v->left >= 0 ? v->left : (double)NAN, 9);
        json_count(&out, "saves", v->saves);
        json_count(&out, "saved_step", v->saved);
        json_count(&out, "failed_saves", v->save_failures);
        json_count(&out, "anomalies", v->anomalies);
        json_count(&out, "resumes", v->resumes);
    }
    json_end(&out);
    output_end(&out);
}

/* An object for each directory. The exit code is that of the first that is no run where none is. */
static int watch_objects(const settings *set, run_view *view, bool *runs)
{
    bp_error first = {.code = BP_OK};
    uint32_t found = 0;
    *runs = false;
    for (uint32_t i = 0; i < set->words.count; i++) {
        bp_error error = {.code = BP_OK};
        const bool is = run_view_read(view, set->words.item[i], i == 0 ? &first : &error) == BP_OK;
        if (is || set->words.count > 1) {
            watch_object(is ? view : NULL, set->words.item[i]);
        }
        *runs = *runs || (is && view->code < 0);
        found += is ? 1 : 0;
    }
    return found > 0 ? 0 : report_status(first.code, &first);
}

/* One look: a run by itself, or a table; whether there is something to wait for. The exit code. */
static int watch_look(const settings *set, watch_row *rows, bool clear, bool *runs)
{
    static run_view view; /* large */
    bp_error error = {.code = BP_OK};
    if (set->json) {
        return watch_objects(set, &view, runs);
    }
    if (set->words.count > 1 && watch_rows(set, &view, rows, runs) > 0) {
        fputs(clear ? "\033[H\033[J" : "", stdout);
        watch_table(rows, set->words.count);
        return 0;
    }
    const bp_status status = run_view_read(&view, set->words.item[0], &error);
    if (status != BP_OK) {
        return report_status(status, &error);
    }
    fputs(clear ? "\033[H\033[J" : "", stdout);
    watch_lines(&view);
    *runs = view.code < 0;
    return 0;
}

int cmd_watch(const settings *set)
{
    const bool lives = isatty(STDOUT_FILENO) == 1 && !set->once;
    bool runs = true;
    watch_row *rows = calloc(set->words.count, sizeof *rows);
    const bp_error none = {.code = BP_OK};
    int code = rows != NULL ? 0 : report_status(BP_ERR_FIT, &none);
    while (code == 0 && runs) {
        code = watch_look(set, rows, lives, &runs);
        fflush(stdout);
        runs = runs && lives;
        const struct timespec pause = {.tv_sec = runs && code == 0 ? 2 : 0};
        (void)nanosleep(&pause, NULL);
    }
    free(rows);
    return code;
}
