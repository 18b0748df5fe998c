/* SPDX-License-Identifier: MIT */
/* A small training run in memory that its caller chose: what the tests of the house itself watch.
 * Unlike rig.h it needs no test library, so that it also runs where there is none. */
#ifndef BP_TESTS_SUPPORT_TRIAL_H
#define BP_TESTS_SUPPORT_TRIAL_H

#include "core/run/runtime.h"

#define TRIAL_STEPS 20

typedef struct trial {
    bp_runtime runtime;
    bp_feed feed;
    bp_source source;
    bp_error error; /* the feed's */
} trial;

/* A GPT-2 of 2 layers, 3 heads of 16, 131 tokens; sequences of 33, batch 3, 2 micro-batches to a
 * step, dropout, clipping, a cosine schedule: sizes that no tile divides. Evaluates and generates.
 * The host device with its portable form on one thread. */
bp_spec trial_spec(void);

/* Plans in `host`, aligned to 64 bytes; runtime.report then says the arena's bytes. */
bp_status trial_plan(trial *t, const bp_spec *spec, void *host, uint64_t bytes) BP_MUST_CHECK;

/* Opens over `arena`, initialises, and makes the feed: 10 steps to an epoch, the last one short. */
bp_status trial_open(trial *t, void *arena, uint64_t bytes) BP_MUST_CHECK;

/* All steps. *loss becomes the last one's. */
bp_status trial_train(trial *t, double *loss) BP_MUST_CHECK;

/* One digest of all persistent buffers in the order of their names. */
bp_status trial_digest(trial *t, uint64_t *digest) BP_MUST_CHECK;

#endif
