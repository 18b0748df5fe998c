/* SPDX-License-Identifier: MIT */
/* Watching the steps of a run: spikes of loss and norm, and steps that are computed again.
 *
 * A value is a spike where it is above median + T x 1.4826 x max(MAD, 0.001 |median|) of the last
 * 128 values that were accepted; T is --spike-threshold, 1.4826 makes of a median absolute
 * deviation the standard deviation of a normal distribution, and the first 32 values are never one.
 * What is not finite is one at any time. The thresholds come from the steps before, so a resumed
 * and a replayed run decide alike: the window is in every checkpoint. */
#ifndef BP_BEDPLATE_ANOMALY_H
#define BP_BEDPLATE_ANOMALY_H

#include "core/run/guard.h"
#include "core/run/runtime.h"
#include "tools/bedplate/record/events.h"
#include "tools/bedplate/app/settings.h"

#define ANOMALY_WINDOW 128u
#define ANOMALY_SILENT 32u
#define ANOMALY_SPAN   100u                 /* steps in which --spike-budget holds */
#define ANOMALY_SLICE  ((uint64_t)2 << 20)  /* bytes that are read beside a step at most, */
#define ANOMALY_LEAST  ((uint64_t)16 << 10) /* and at least; between them all in so many steps: */
#define ANOMALY_PASS   1024u
#define ANOMALY_ACTED  16u /* steps that are remembered for it; the budget is below */
#define ANOMALY_WORDS  (2u * ANOMALY_WINDOW + 3u + ANOMALY_ACTED)
#define ANOMALY_TEXT   (ANOMALY_WORDS * 17u)

typedef enum anomaly_policy {
    ANOMALY_NONE,
    ANOMALY_WARN,
    ANOMALY_CLIP,
    ANOMALY_SKIP,
    ANOMALY_ROLLBACK
} anomaly_policy;

/* Values that were accepted, oldest overwritten first. */
typedef struct anomaly_window {
    double value[ANOMALY_WINDOW];
    uint64_t count; /* accepted in all */
} anomaly_window;

/* Of several ranks, which judge alike, so that the first one says it. */
typedef struct anomaly_ranks {
    const settings *set;
    uint32_t rank, size; /* 0: there is one */
    /* ranks_first */
    bp_status (*first)(const settings *set, bool mine, uint32_t *first, bp_error *error);
} anomaly_ranks;

/* Must not move once begun. */
typedef struct anomaly {
    anomaly_policy policy;
    double threshold;
    uint64_t budget;
    uint64_t every; /* --replay-every; 0: never */
    anomaly_window loss;
    anomaly_window norm;
    uint64_t acted[ANOMALY_ACTED]; /* the latest steps that were skipped or clipped, */
    uint64_t acted_count;          /* of so many */
    bool exhausted;                /* there were more than the budget in the last 100 steps */
    bool doubt;                    /* three runs of a step gave three results */
    uint64_t flagged;
    uint64_t replays;                     /* steps computed again */
    uint64_t mismatches;                  /* that came out otherwise */
    uint64_t verified;                    /* the last step that came out the same */
    bp_guard guard;                       /* constants and programs, read beside the steps */
    events *log;                          /* NULL: nothing is told */
    void (*busy)(void *user, bool again); /* a step is computed again, or no longer; NULL */
    void *busy_user;
    anomaly_ranks ranks;
    uint32_t differing; /* the rank on which a step came out otherwise */
    bp_step_check step_check;
    char text[ANOMALY_TEXT]; /* the value of its key in a checkpoint */
} anomaly;

/* Takes policy and numbers from the settings and forgets all values. */
void anomaly_begin(anomaly *a, const settings *set, events *log);

/* Lets it judge every step, if there is anything to do, and reads once what must not change.
 * BP_ERR_USAGE as bp_runtime_step_check. */
bp_status anomaly_attach(anomaly *a, bp_runtime *runtime) BP_MUST_CHECK;

/* After a step: reads a slice of what must not change. What has changed puts
 * the machine in doubt: BP_ERR_DEVICE, which the runtime's error says. */
bp_status anomaly_guard(anomaly *a, bp_runtime *runtime) BP_MUST_CHECK;

/* What is above the threshold of a window; infinity while it is silent. */
double anomaly_limit(const anomaly_window *window, double threshold);

/* The judge's answer for a step, which becomes part of the window. */
bp_step_verdict anomaly_decide(anomaly *a, const bp_outcome *seen, double *factor);

/* The state as the text of a key of fixed length, and from one; false for what is none. */
void anomaly_put(anomaly *a);
bool anomaly_parse(anomaly *a, const char *text);

#endif
