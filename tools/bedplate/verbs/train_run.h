/* SPDX-License-Identifier: MIT */
/* A training run in turns: what `train` does with one, and --adapters with several. */
#ifndef BP_BEDPLATE_TRAIN_RUN_H
#define BP_BEDPLATE_TRAIN_RUN_H

#include "tools/bedplate/runs/training.h"

/* Why a run ended. */
typedef enum train_ending {
    TRAIN_GOES_ON,
    TRAIN_COMPLETE,
    TRAIN_EARLY, /* evaluations no longer get better */
    TRAIN_STOP_STEP,
    TRAIN_ASKED, /* by a signal, a limit, a file: training.stop */
    TRAIN_NONFINITE,
    TRAIN_ANOMALY /* --spike-budget is used up */
} train_ending;

/* On zeros, behind service_begin: the model, and the checkpoint that a resumed run goes on from. */
bp_status train_read(training *t, const settings *set) BP_MUST_CHECK;

/* Once the data are there (training_feed): plan, arenas, weights, record. Nothing is written to the
 * output directory before the plan fits. */
bp_status train_open(training *t) BP_MUST_CHECK;

/* Says that it begins. */
void train_begin(training *t);

/* One step with its evaluation, checkpoint and log, where there is one left; *end says whether
 * another follows. */
bp_status train_turn(training *t, train_ending *end) BP_MUST_CHECK;

/* Behind the last turn: saves, exports a finished model, and says how it went. */
bp_status train_finish(training *t, train_ending end, int *code) BP_MUST_CHECK;

/* Behind a turn that failed, with its status, which it returns. Data that cannot be read, or hold
 * what they must not, are found before a step changes anything: the hours until then are saved. A
 * step that the offload tier fails has changed some of the state: the last checkpoint is whole. */
bp_status train_give_up(training *t, bp_status status) BP_MUST_CHECK;

/* Prints what failed and gives everything back; the exit code, `code` where nothing failed. */
int train_close(training *t, bp_status status, int code);

#endif
