/* SPDX-License-Identifier: MIT */
/* How a run is: what metrics, the service manager and logs are told. */
#ifndef BP_BEDPLATE_RUN_STATUS_H
#define BP_BEDPLATE_RUN_STATUS_H

#include "tools/bedplate/runs/progress.h"

typedef enum run_state {
    RUN_TRAINING,
    RUN_EVALUATING,
    RUN_SAVING,
    RUN_REPLAYING,
    RUN_ENDED
} run_state;

/* Counts are those of this process. */
typedef struct run_status {
    progress_numbers step; /* of the last step */
    run_state state;
    uint64_t first; /* steps done before this process */
    uint64_t total;
    double began;             /* of the first step, on clock_seconds() */
    double seconds;           /* of the last step */
    double slowest;           /* step of this process */
    double wall;              /* time() after the last step */
    double mean_loss;         /* since the last line of the log; NAN: none yet */
    const metric_list *found; /* by the last evaluation; NULL: none yet */
    double epoch;
    uint64_t tokens, samples;
    uint64_t arena_bytes;
    uint64_t host_bytes;
    uint64_t checkpoint_bytes;
    double save_seconds; /* of the last save */
    double saved;        /* step of the newest checkpoint; NAN: none */
    double saved_wall;   /* time() of it; 0: none by this process */
    uint64_t saves;
    uint64_t save_failures;
    bool postponed;      /* a save is missing */
    uint64_t free_bytes; /* of the output directory */
    double verified;     /* the last step that was replayed and found equal; NAN: none */
    uint64_t replays;
    uint64_t transient; /* replays that differed, and a third run voted */
    uint64_t persistent;
    uint64_t
        product_repairs; /* --verify-products: elements that were computed again and differed */
    uint64_t anomalies;
    uint64_t anomaly_skips;
    uint64_t rollbacks;
    uint64_t output_errors; /* of files that are no checkpoints */
} run_status;

/* Seconds until the last step at the pace of this process; below 0: not known yet. */
double run_status_left(const run_status *now);

#endif
