/* SPDX-License-Identifier: MIT */
/* --metrics: a file for node_exporter's textfile collector (Prometheus text), replaced by rename,
 * so that a reader sees a whole one. Counters go on where the file of the run's last process ended.
 */
#ifndef BP_BEDPLATE_METRICS_H
#define BP_BEDPLATE_METRICS_H

#include "core/base/error.h"
#include "tools/bedplate/record/run_status.h"

enum { METRICS_BUCKETS = 16, METRICS_ROWS = 40, METRICS_TEXT = 24576 };

typedef struct metrics {
    const char *path;   /* NULL: not asked for */
    const char *run;    /* the label of every sample */
    const char *device; /* words of build_info */
    const char *kernels;
    uint64_t errors;                  /* writes that failed */
    double written;                   /* clock_seconds() of the last one */
    double base[METRICS_ROWS];        /* what counters had before this process */
    double past[METRICS_BUCKETS + 2]; /* the same of the histogram: buckets, sum, count */
    uint64_t buckets[METRICS_BUCKETS];
    uint64_t steps;
    double step_seconds;
    char text[METRICS_TEXT];
} metrics;

/* Reads what is there of this run, and finds whether the file can be written: BP_ERR_STORE when its
 * folder does not take it. A full disk is no error: the next writes may succeed. */
bp_status metrics_begin(metrics *m, const char *path, const char *run,
                        bp_error *error) BP_MUST_CHECK;

/* A step of so many seconds, for the histogram. */
void metrics_step(metrics *m, double seconds);

/* Writes the file. Nothing without a path. */
void metrics_write(metrics *m, const run_status *now);

#endif
