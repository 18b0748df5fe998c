/* SPDX-License-Identifier: MIT */
/* Progress on stderr. */
#include "tools/bedplate/runs/progress.h"
#include "tools/bedplate/app/clock.h"
#include "tools/bedplate/app/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define BAR_WIDTH     24
#define REDRAW_SECOND 0.1

void progress_begin(progress *p, uint64_t first, uint64_t total, bool quiet)
{
    *p = (progress){.quiet = quiet,
                    .terminal = isatty(STDERR_FILENO) == 1,
                    .first = first,
                    .total = total,
                    .began = clock_seconds()};
}

static void wipe(const progress *p)
{
    if (p->terminal) {
        output_print(stderr, "\r\033[K");
    }
}

static const char *progress_name(const progress *p)
{
    return p->name != NULL ? p->name : "";
}

/* Between the name and what follows it. */
static const char *progress_colon(const progress *p)
{
    return p->name != NULL ? ": " : "";
}

/* "1:02:03" or "2:03" */
static void time_text(double seconds, char *text, size_t room)
{
    long whole = seconds > 0 && seconds < 1e9 ? (long)(seconds + 0.5) : 0;
    if (whole >= 3600) {
        snprintf(text, room, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        snprintf(text, room, "%ld:%02ld", whole / 60, whole % 60);
    }
}

static void left_text(const progress *p, uint64_t step, char *text, size_t room)
{
    double done = (double)(step - p->first);
    double left = (double)(p->total > step ? p->total - step : 0);
    time_text(done > 0 ? (clock_seconds() - p->began) / done * left : 0, text, room);
}

double progress_speed(const progress_numbers *now)
{
    return now->rows ? now->samples_per_second : now->tokens_per_second;
}

const char *progress_unit(const progress_numbers *now)
{
    return now->rows ? "samples" : "tokens";
}

static void draw(const progress *p, const progress_numbers *now)
{
    char bar[BAR_WIDTH + 1];
    char left[32];
    double share = p->total > 0 ? (double)now->step / (double)p->total : 1.0;
    int filled = (int)(share * BAR_WIDTH);
    for (int i = 0; i < BAR_WIDTH; i++) {
        bar[i] = i < filled ? '#' : '.';
    }
    bar[BAR_WIDTH] = '\0';
    left_text(p, now->step, left, sizeof left);
    output_print(stderr, "\r\033[K%s%s[%s] %" PRIu64 "/%" PRIu64 "  loss %.4f  %.0f %s/s  %s left",
                 progress_name(p), progress_colon(p), bar, now->step, p->total, now->loss,
                 progress_speed(now), progress_unit(now), left);
}

void progress_step(progress *p, const progress_numbers *now)
{
    double time = clock_seconds();
    bool due = time - p->drawn >= REDRAW_SECOND || now->step == p->total;
    if (p->quiet || !p->terminal || !due) {
        return;
    }
    p->drawn = time;
    draw(p, now);
}

void progress_line(progress *p, const progress_numbers *now)
{
    char left[32];
    if (p->quiet) {
        return;
    }
    wipe(p);
    left_text(p, now->step, left, sizeof left);
    output_print(stderr,
                 "%s%sstep %" PRIu64 "/%" PRIu64
                 "  loss %.4f  grad_norm %.3f  lr %.3g  %.0f %s/s  %s left\n",
                 progress_name(p), progress_colon(p), now->step, p->total, now->loss, now->norm,
                 now->rate, progress_speed(now), progress_unit(now), left);
}

/* BEGIN and the metrics, without the comma in front of them where nothing precedes. */
static void progress_metrics_line(progress *p, const char *begin, const metric_list *found)
{
    char line[4096];
    bp_text text;
    if (p->quiet) {
        return;
    }
    bp_text_init(&text, NULL, NULL, line, sizeof line);
    metric_list_text(found, &text);
    bp_text_char(&text, '\0');
    if (bp_text_flush(&text) == BP_OK) {
        wipe(p);
        output_print(stderr, "%s%s%s%s\n", progress_name(p), progress_colon(p), begin,
                     line + (begin[0] == ' ' ? 2 : 0));
    }
}

void progress_evaluation(progress *p, const metric_list *found)
{
    char loss[48];
    snprintf(loss, sizeof loss, "eval loss %.4f", found->of[0].value);
    progress_metrics_line(p, loss, found);
}

void progress_metrics(progress *p, const metric_list *found)
{
    if (found->count > 0) {
        progress_metrics_line(p, "  ", found);
    }
}

void progress_end(progress *p)
{
    if (!p->quiet) {
        wipe(p);
    }
}
