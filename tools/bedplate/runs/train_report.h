/* SPDX-License-Identifier: MIT */
/* What a training run says: JSON lines, the plan at its beginning, the summary at its end. */
#ifndef BP_BEDPLATE_TRAIN_REPORT_H
#define BP_BEDPLATE_TRAIN_REPORT_H

#include "core/run/runtime.h"
#include "tools/bedplate/planning/choice.h"
#include "tools/bedplate/app/device_memory.h"
#include "tools/bedplate/predict/predictions.h"
#include "tools/bedplate/runs/progress.h"
#include "core/plan/search/share.h"
#include "tools/bedplate/session/session.h"

/* Sums over the run and since the last line of the log. */
typedef struct train_totals {
    double began;          /* when the program did */
    double load_seconds;   /* until the first step: reading, planning, opening */
    double step_seconds;   /* spent in steps alone */
    double output_seconds; /* and between them on log, record, events, metrics and checks */
    uint64_t tokens;       /* padding left out */
    uint64_t places;       /* that programs went over: tokens and padding */
    uint64_t samples;
    uint64_t steps;
    uint64_t brought; /* bytes that these steps read from the offload file */
    double line_seconds;
    uint64_t line_tokens;
    uint64_t line_samples;
    bool rows;        /* of numbers: there are no tokens */
    double line_loss; /* sum of losses times the weight of their targets */
    double line_weight;
    uint64_t overflow;       /* steps that loss scaling skipped */
    preference_metrics told; /* of pairs of rows, since the last line */
    metric_list found;   /* what the line that is written has besides: of pairs, or of rewards */
    const char *adapter; /* whose run it is among several; NULL: it is alone */
} train_totals;

/* Before the first step. `began`: when the program did. */
void train_totals_begin(train_totals *sum, double began, const bp_spec *spec);
void train_totals_add(train_totals *sum, const bp_outcome *outcome, double seconds);
/* Numbers of a step; tokens per second are those since the last line. */
progress_numbers train_totals_now(const train_totals *sum, const bp_outcome *outcome);
/* Mean loss per target since the last line. */
double train_totals_mean(const train_totals *sum);
/* A line was written: the next one begins. */
void train_totals_cut(train_totals *sum);

typedef struct train_summary {
    uint64_t steps;
    uint64_t skipped;
    uint64_t digest;
    uint64_t arena_bytes;
    uint64_t host_bytes;
    uint64_t peak_resident; /* bytes, of the whole process; 0: the system does not say */
    uint64_t device_bytes;
    device_memory memory;
    bool evaluated;
    const metric_list *found; /* by the last evaluation, */
    const predictions *made;  /* from these; no rows where the task has none */
    bp_task task;
    uint64_t best_step;    /* of the best evaluation; 0: nobody asked for it */
    double best_value;     /* its metric, */
    const char *metric;    /* which has this name */
    const char *continued; /* --continue-from; NULL: not, or the run was resumed */
    uint64_t continued_step;
    const session *session;
    const bp_runtime *runtime; /* what each length has run */
    bool early;                /* ended by --early-stopping-patience */
    const char *ended;         /* why: "complete", "signal", "time-limit", .. */
    uint64_t save_failures;    /* saves that failed or were postponed */
    const char *output_dir;
} train_summary;

/* What an evaluation found. */
typedef struct train_evaluation {
    const char *adapter; /* as train_totals.adapter */
    uint64_t step;
    double epoch;
    uint64_t tokens;
    const metric_list *found;
    const predictions *made;
    bp_task task;
} train_evaluation;

/* The plan, before the first step (text form). `adapter`: as train_totals.adapter. */
void train_report_begin(const char *adapter, const bp_runtime *runtime, uint64_t host_bytes,
                        uint64_t total, uint64_t steps_per_epoch);
/* What the fit chose: a line of text, or a JSON line. */
void train_report_choice(const char *adapter, const bp_choice *chosen, bool json);
/* What --shard auto chose, likewise. */
void train_report_sharing(const bp_share_choice *chosen, bool json);
/* One JSON line for a logged step, and for an evaluation. */
void train_report_step(const progress_numbers *now, const train_totals *sum, double epoch,
                       uint64_t arena_bytes);
void train_report_eval(const train_evaluation *all);
/* The summary, as JSON or as text with the same content. */
void train_report_end(const train_totals *sum, const train_summary *summary, bool json);

#endif
