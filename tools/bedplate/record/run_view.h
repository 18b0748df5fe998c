/* SPDX-License-Identifier: MIT */
/* What the files of a run say of it: record.jsonl and events.jsonl, read line by line into tables
 * of fixed sizes. Numbers of many steps become means of neighbours. Torn and strange lines are
 * passed over: who looks on must not disturb. */
#ifndef BP_BEDPLATE_RUN_VIEW_H
#define BP_BEDPLATE_RUN_VIEW_H

#include "core/base/error.h"

enum {
    VIEW_POINTS = 1024,
    VIEW_EVENTS = 256,
    VIEW_TEXT = 240,
    VIEW_LINE = 65536,
    VIEW_CLASSES = 12,
    VIEW_METRICS = 64, /* of evaluations, beside their loss, and of steps with completions */
    VIEW_SAMPLES = 8,
    VIEW_CLOCK = 512,
    VIEW_COLUMNS = 64 /* of the plan over one step */
};

typedef enum view_kind {
    VIEW_LOSS,
    VIEW_EVAL,
    VIEW_NORM,
    VIEW_RATE,
    VIEW_SPEED,
    VIEW_CURVES
} view_kind;

/* Means over `stride` values each; the last one may be of fewer. */
typedef struct view_curve {
    uint32_t count;
    uint32_t stride;
    uint32_t held; /* values in `sum` */
    double sum;
    double step[VIEW_POINTS];
    double value[VIEW_POINTS];
} view_curve;

/* A metric of the evaluations, or of steps, by the name that the files have for it. */
typedef struct view_metric {
    char name[48];
    bool of_steps;
    view_curve curve;
} view_metric;

/* The best and the worst completion of a prompt of --task grpo; escapes as they are. */
typedef struct view_sample {
    double step, best_reward, worst_reward;
    char prompt[VIEW_TEXT], best[VIEW_TEXT], worst[VIEW_TEXT];
} view_sample;

typedef struct view_event {
    double unix_time;
    uint64_t step;
    char kind[24];
    char text[VIEW_TEXT]; /* the line's other members */
} view_event;

typedef struct run_view {
    const char *directory;
    bool recorded; /* there is a record.jsonl */
    bool logged;   /* and an events.jsonl */
    view_curve curves[VIEW_CURVES];
    view_metric metrics[VIEW_METRICS];
    uint32_t metric_count;
    view_sample samples[VIEW_SAMPLES]; /* the newest of all; sample i at i % VIEW_SAMPLES */
    uint32_t sample_count;
    bool chosen; /* the run finds its best evaluation by the first of them, not by the loss */
    /* Seconds that processes of the run had run at a step, as events name them: rising steps. */
    uint32_t clock_count, clock_stride, clock_skipped;
    double clock_step[VIEW_CLOCK], clock_seconds[VIEW_CLOCK];
    double ran;     /* seconds so far, without those between processes */
    double ran_at;  /* unix time up to which they count; below 0: no process runs */
    uint64_t steps; /* done */
    uint64_t total;
    uint64_t applied, left_out; /* updates */
    bool ended;                 /* the record has its last line */
    int code;                   /* of the last exit; -1: it runs, or was killed */
    uint64_t resumes, saves, save_failures, replays, mismatches, anomalies, signals;
    uint64_t saved;    /* step of the last save */
    double saved_unix; /* and its time */
    double save_seconds;
    bool by_samples;         /* the speed counts samples: there are no tokens */
    uint64_t replays_before; /* of the processes before this one */
    uint64_t proven;         /* steps, by the most that one `bedplate replay` found equal */
    uint64_t verified;
    double updated;                        /* unix time of the newest event */
    double left;                           /* seconds; below 0: unknown */
    double resident, arena, host, planned; /* bytes */
    double process_ranks;                  /* that share resident; 0: not known */
    char classes[VIEW_CLASSES][24];        /* of the plan, with their bytes at the peak */
    double class_bytes[VIEW_CLASSES];
    uint32_t class_count;
    uint32_t columns; /* of the step: the op of each, and the bytes of each class there */
    double column_op[VIEW_COLUMNS];
    double column_bytes[VIEW_CLASSES][VIEW_COLUMNS];
    uint32_t event_count; /* all; the newest VIEW_EVENTS are kept, event i at i % VIEW_EVENTS */
    view_event events[VIEW_EVENTS];
    char run[VIEW_LINE];       /* the record's first line */
    char start[VIEW_TEXT * 8]; /* the last event "start" or "resume" */
    char chain[72];
} run_view;

/* Reads the files of a directory. BP_ERR_DATA where it has neither. Uses the heap while it reads.
 */
bp_status run_view_read(run_view *v, const char *directory, bp_error *error) BP_MUST_CHECK;

/* The member of a JSON line: a number; a text, cut to `room`, escapes as they are, or a nested
 * value as it stands. False where there is none. */
bool view_number(const char *line, const char *key, double *number);
bool view_text(const char *line, const char *key, char *text, size_t room);

/* A number of a file as a count: what is below 0 or no number becomes 0, what is above 2^53, where
 * a double is no count any more, 2^53. */
uint64_t view_count(double number);

/* Walks "name":"value" pairs of the object `key`, or with NULL of the line itself: *at starts NULL;
 * false at the end. */
bool view_pair(const char *line, const char *key, const char **at, char *name, char *value,
               size_t room);

/* The value of a curve at its last point; NAN: none. */
double view_last(const view_curve *curve);

#endif
