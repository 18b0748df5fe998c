/* SPDX-License-Identifier: MIT */
/* The CUDA driver that tests run against: the instrument of tools/ptxvm, or with BP_TEST_GPU=1 in
 * the environment the machine's own. */
#ifndef BP_TESTS_SUPPORT_INSTRUMENT_H
#define BP_TESTS_SUPPORT_INSTRUMENT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct instrument {
    void *library;
    bool real; /* NVIDIA's driver: none of the rest is there */
    int (*set)(const char *name, const char *value);
    int (*report)(char *text, size_t size);
    int (*revive)(void);
    int (*ledger)(char *text, size_t size);
    int (*calls)(const char *name);
    const char *(*entry)(int index);
} instrument;

/* Loads the driver library under the name that device/cuda asks for, so that it finds this one: the
 * instrument lies in ptxvm/ of the build that the running program belongs to. False, with the
 * reason on standard output as "skipped: ...", when there is none. */
bool instrument_load(instrument *on);

/* Loads another library of that folder for good. */
bool instrument_load_other(const char *name);

#endif
