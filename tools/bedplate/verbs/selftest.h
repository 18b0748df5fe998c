/* SPDX-License-Identifier: MIT */
/* Known answers: a few training steps of small models whose final states are known, to the bit, in
 * every form of the kernels that this processor has and on 1, 2 and 5 threads. */
#ifndef BP_BEDPLATE_SELFTEST_H
#define BP_BEDPLATE_SELFTEST_H

#include "arena/base.h"

/* One run of a case. */
typedef struct selftest_result {
    const char *name; /* of the case */
    const char *form;
    uint32_t threads;
    uint64_t found; /* state digest */
    uint64_t right;
} selftest_result;

/* Told of every run. */
typedef void (*selftest_seen)(void *user, const selftest_result *result);

/* Runs all of it, within two seconds. *wrong becomes the number of runs with another state than the
 * known one. Statuses are those of planning and opening. Uses memory of its own and gives it
 * back: not for the steps of a run. */
bp_status selftest_run(selftest_seen seen, void *user, uint32_t *runs,
                       uint32_t *wrong) BP_MUST_CHECK;

/* The same of the first case on a GPU, "cuda" or "cuda:N": once, by graphs. What is right was
 * formed by tools/ptxvm. Statuses besides: those of finding the device. */
bp_status selftest_gpu(const char *device, selftest_seen seen, void *user, uint32_t *runs,
                       uint32_t *wrong) BP_MUST_CHECK;

#endif
