/* SPDX-License-Identifier: MIT */
/* Shared by the tests of nvcc's programs: one run of a kernel, inputs, comparison, the seeds. */
#ifndef TESTS_PTXVM_NVCC_H
#define TESTS_PTXVM_NVCC_H

#include "tests/ptxvm/run.h"

enum { N = 150, ARGUMENTS_MAX = 8 };

/* One run of kernel k of a file: a few device buffers and scalars. */
typedef struct launch {
    const char *name;
    unsigned grid[2];
    unsigned block;
    unsigned count;
    uint64_t values[ARGUMENTS_MAX];
} launch;

uint64_t nvcc_bits(float value);
void *nvcc_load(const char *name);
void nvcc_start(const launch *l);

/* Inputs that are the same everywhere: a small linear congruence. */
float nvcc_noise(size_t i);
void nvcc_fill(float *x, size_t n, float scale);
void nvcc_near(const char *name, double found, double wanted, double tolerance);

typedef void nvcc_body(void);
typedef struct nvcc_test {
    const char *name;
    nvcc_body *function;
} nvcc_test;

/* Runs each test under every seed, and checks that it freed what it took. */
int nvcc_run(const char *group, const nvcc_test *tests, size_t count);

#endif
