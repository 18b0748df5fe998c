/* SPDX-License-Identifier: MIT */
/* bedplate watch: how a run is, in a terminal of 80 columns. Reads its files, and nothing else. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/bedplate/app/output.h"
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

static void watch_lines(const run_view *v)
{
    char left[32], ago[32], eval[32] = "-", line[WATCH_LINE + 64];
    const double now = (double)time(NULL);
    const double share = v->total > 0 ? 100.0 * (double)v->steps / (double)v->total : 0;
    output_print(stdout, "%.60s   %s", v->directory, watch_state(v, now - v->updated));
    output_print(stdout, v->code > 0 ? " with exit code %d\n" : "\n", v->code);
    if (v->curves[VIEW_EVAL].count > 0) {
        snprintf(eval, sizeof eval, "%.4f", view_last(&v->curves[VIEW_EVAL]));
    }
    output_print(stdout, "step %" PRIu64 " of %" PRIu64 " (%.1f %%)   loss %.4f   eval %s\n",
                 v->steps, v->total, share, view_last(&v->curves[VIEW_LOSS]), eval);
    watch_time(v->left, left, sizeof left);
    output_print(stdout, "norm %.3g   rate %.3g   %.0f tokens/s   %s left\n",
                 view_last(&v->curves[VIEW_NORM]), view_last(&v->curves[VIEW_RATE]),
                 view_last(&v->curves[VIEW_SPEED]), v->left >= 0 ? left : "?");
    watch_plot(v);
    output_print(stdout, "memory    arena %.1f MB, beside it %.1f MB planned; resident %.1f MB\n",
                 1e-6 * v->arena, 1e-6 * v->host, 1e-6 * v->resident);
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
        snprintf(line, sizeof line, "  step %-8" PRIu64 " %-12.24s %.79s", e->step, e->kind,
                 e->text);
        output_print(stdout, "%.79s\n", line);
    }
}

int cmd_watch(const settings *set)
{
    static run_view view; /* large */
    const bool lives = isatty(STDOUT_FILENO) == 1 && !set->once;
    bp_status status;
    for (;;) {
        bp_error error = {.code = BP_OK};
        status = run_view_read(&view, set->words.item[0], &error);
        if (status != BP_OK) {
            return report_status(status, &error);
        }
        fputs(lives ? "\033[H\033[J" : "", stdout);
        watch_lines(&view);
        fflush(stdout);
        if (!lives || view.code >= 0) {
            return 0;
        }
        const struct timespec pause = {.tv_sec = 2};
        (void)nanosleep(&pause, NULL);
    }
}
