/* SPDX-License-Identifier: MIT */
/* OUTPUT/events.jsonl: what happened around a run, with the time of day: starts and resumes,
 * processor, signals, saves, anomalies, replays. Nothing of it decides a result, and its failures
 * never end a run: they are counted. Allocates nothing.
 *
 *     json_line *line = events_begin(&events, "save", step);
 *     line_real(line, "seconds", seconds);
 *     events_end(&events);
 *
 * gives {"event":"save","seq":7,"time":"2026-11-22T16:22:11Z","unix":1795364531.25,"step":500,
 * "seconds":0.25}. Lines are in the order of `seq`, which goes on over resumes; clocks may jump. */
#ifndef BP_BEDPLATE_EVENTS_H
#define BP_BEDPLATE_EVENTS_H

#include "core/base/store.h"
#include "tools/bedplate/record/json_line.h"

#define EVENTS_NAME "events.jsonl"
#define EVENTS_LINE 65536

typedef struct events {
    int fd; /* below 0: not open, and every line counts as an error */
    uint64_t sequence;
    uint64_t errors;
    char path[BP_STORE_PATH_MAX];
    json_line line;
    char text[EVENTS_LINE];
} events;

/* Opens DIRECTORY/events.jsonl for appending; a line that was cut off is ended first. */
void events_open(events *e, const char *directory);
/* The file is opened by its name again: somebody renamed it (SIGHUP). */
void events_reopen(events *e);
void events_close(events *e);

/* A line of this kind; its members follow, then events_end writes it by one call. */
json_line *events_begin(events *e, const char *kind, uint64_t step);
void events_end(events *e);

#endif
