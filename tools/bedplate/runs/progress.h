/* SPDX-License-Identifier: MIT */
/* Progress on stderr: a redrawn bar on a terminal, a line per logging interval elsewhere. */
#ifndef BP_BEDPLATE_PROGRESS_H
#define BP_BEDPLATE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/bedplate/runs/metric.h"

typedef struct progress {
    bool quiet;
    bool terminal;
    uint64_t first; /* steps done before this run */
    uint64_t total;
    double began;     /* seconds on clock_seconds() */
    double drawn;     /* when the bar was last drawn */
    const char *name; /* before each line, among several runs; NULL: there is none */
} progress;

typedef struct progress_numbers {
    uint64_t step;
    double loss;
    double norm;
    double rate;
    double tokens_per_second;
    double samples_per_second;
    bool rows;         /* samples are images or rows of numbers, which have no tokens */
    double scale;      /* the loss scale; 1 without scaling */
    uint64_t overflow; /* steps that loss scaling has skipped so far in this run */
} progress_numbers;

/* A second: tokens, or samples where there are no tokens; and the word for them. */
double progress_speed(const progress_numbers *now);
const char *progress_unit(const progress_numbers *now);

void progress_begin(progress *p, uint64_t first, uint64_t total, bool quiet);
/* After every step: redraws the bar, at most ten times a second. */
void progress_step(progress *p, const progress_numbers *now);
/* After every logging interval. */
void progress_line(progress *p, const progress_numbers *now);
/* An evaluation between the lines: "eval loss 1.2340, accuracy 0.9000". */
void progress_evaluation(progress *p, const metric_list *found);
/* Below a line the metrics of pairs, where there are some: "rewards/margins 0.1234, ..". */
void progress_metrics(progress *p, const metric_list *found);
/* Removes the bar. */
void progress_end(progress *p);

#endif
