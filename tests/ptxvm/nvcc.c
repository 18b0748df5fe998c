/* SPDX-License-Identifier: MIT */
/* Running programs that nvcc compiled. */
#include "tests/ptxvm/nvcc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

uint64_t nvcc_bits(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

void *nvcc_load(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "tests/ptxvm/nvcc/%s.ptx", name);
    char *text = run_read(path);
    void *module = NULL;
    assert_non_null(text);
    run_expect(cuModuleLoadData(&module, text), 0, name);
    free(text);
    return module;
}

void nvcc_start(const launch *l)
{
    void *module = nvcc_load(l->name);
    void *function = NULL;
    void *parameters[ARGUMENTS_MAX];
    uint64_t values[ARGUMENTS_MAX];
    memcpy(values, l->values, sizeof values);
    for (unsigned i = 0; i < l->count; i++) {
        parameters[i] = &values[i];
    }
    run_expect(cuModuleGetFunction(&function, module, "k"), 0, l->name);
    run_expect(cuLaunchKernel(function, l->grid[0], l->grid[1], 1, l->block, 1, 1, 0, NULL,
                              parameters, NULL),
               0, l->name);
    run_expect(cuCtxSynchronize(), 0, l->name);
    run_expect(cuModuleUnload(module), 0, l->name);
}

float nvcc_noise(size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    return (float)(x >> 8) / 16777216.0f - 0.5f;
}

void nvcc_fill(float *x, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = nvcc_noise(i) * scale;
    }
}

void nvcc_near(const char *name, double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance * (1.0 + fabs(wanted)))) {
        fail_msg("%s: %.9g, wanted %.9g", name, found, wanted);
    }
}

/* Runs a test under every seed; frees what it allocated by checking the ledger. */
static void seeds(nvcc_body *test)
{
    static const char *const all[] = {"0", "1", "2", "3"};
    for (size_t i = 0; i < 4; i++) {
        char text[400];
        int before = ptxvmLedger(text, sizeof text);
        ptxvmSet("PTXVM_SEED", all[i]);
        test();
        assert_int_equal(ptxvmLedger(text, sizeof text), before);
    }
    ptxvmSet("PTXVM_SEED", "0");
}

static void run_seeds(void **state)
{
    union {
        void *pointer;
        nvcc_body *function;
    } both = {.pointer = *state};
    seeds(both.function);
}

int nvcc_run(const char *group, const nvcc_test *all, size_t count)
{
    static struct CMUnitTest tests[40];
    for (size_t i = 0; i < count; i++) {
        union {
            void *pointer;
            nvcc_body *function;
        } both = {.function = all[i].function};
        tests[i].name = all[i].name;
        tests[i].test_func = run_seeds;
        tests[i].initial_state = both.pointer;
    }
    ptxvmSet("PTXVM_DEVICE", "sm_120");
    run_open();
    return _cmocka_run_group_tests(group, tests, count, NULL, NULL);
}
