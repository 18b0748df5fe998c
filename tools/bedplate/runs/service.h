/* SPDX-License-Identifier: MIT */
/* What a run does beside training: it saves, listens to signals and limits, and says how it is. */
#ifndef BP_BEDPLATE_SERVICE_H
#define BP_BEDPLATE_SERVICE_H

#include "tools/bedplate/record/event_file.h"
#include "tools/bedplate/runs/metrics.h"
#include "tools/bedplate/record/run_status.h"
#include "tools/bedplate/runs/saving.h"
#include "tools/bedplate/runs/train_report.h"
#include "tools/bedplate/sources/data_watch.h"

/* Why a run ends before its last step. */
typedef enum service_stop {
    SERVICE_GO_ON,
    SERVICE_SIGNAL,
    SERVICE_TIME, /* --time-limit */
    SERVICE_FILE  /* --stop-when */
} service_stop;

typedef struct service {
    const settings *set;
    saving saves;
    data_watch *data; /* NULL: nothing is looked at */
    run_status now;
    metrics metrics;
    event_file board;     /* --report-to tensorboard */
    double looked;        /* when --stop-when was looked for */
    double told;          /* when the manager was told the status */
    double replayed;      /* when others were told that a step is computed again, */
    bool replays;         /* which it is still */
    double noted;         /* when the events had a line of progress */
    bool judges_next;     /* an evaluation is due after the next step; the caller sets it */
    double judging;       /* when the last one began */
    double judge_seconds; /* how long it took; 0: there was none */
} service;

/* On zeros, first of all: from here on signals that ask for something no longer end the program. */
void service_begin(service *v, const settings *set);

/* The output directory is there: opens the files that others look at. BP_ERR_STORE for metrics that
 * cannot be written. */
bp_status service_open(service *v, session *s) BP_MUST_CHECK;

/* The run is loaded and will begin: tells the manager, and how long a save takes. */
void service_ready(service *v, uint64_t total);

/* Before a step. */
service_stop service_before_step(service *v);

/* After a step and what was due after it, of `seconds`: tells what is to be told, and returns what
 * signals and limits ask; *save: a checkpoint between those that are due. Of several ranks the
 * first one does all this, others hear their own signals. */
service_stop service_step(service *v, const progress_numbers *now, double seconds, bool *save);

/* Tokens of a step; and of a line of the log the sums since the one before, and where in the data
 * it is. */
void service_count(service *v, uint64_t tokens, uint64_t samples);
void service_logged(service *v, const progress_numbers *now, const train_totals *sum, double epoch);

/* What the run does from here on; metrics say it at once, and an evaluation gets time from the
 * manager. */
void service_state(service *v, run_state state);

/* A step is computed again, or no longer, for anomaly.busy: told once a second at most. */
void service_replays(void *service, bool again);

/* data_watch_check, then saving_save, which metrics say meanwhile and after it. */
bp_status service_save(service *v, checkpoint_cause cause, bool last) BP_MUST_CHECK;

/* What an evaluation found, which stays where it is. */
void service_evaluated(service *v, uint64_t step, const metric_list *found);

/* The words of a stop: "signal", "time-limit"; NULL for none. */
const char *service_stop_name(service_stop stop);

/* The program ends. */
void service_end(service *v, int code);

#endif
