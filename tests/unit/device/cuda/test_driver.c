/* SPDX-License-Identifier: MIT */
/* The driver's table: its declarations against cuda.h, its errors, and what can be asked of GPUs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cuda/context.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch.h"
#include "device/cuda/query.h"
#include "device/cuda/target.h"
#include "tests/fixtures/fake_driver.h"

static instrument on;

/* The directory of a cuda.h, or NULL. */
static const char *toolkit(void)
{
    static char path[512];
    const char *home = getenv("CUDA_HOME");
    const char *places[] = {home != NULL ? home : "/usr/local/cuda", "/usr/local/cuda", "/opt/cuda",
                            "/usr"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof path, "%s/include/cuda.h", places[i]);
        if (access(path, R_OK) == 0) {
            snprintf(path, sizeof path, "%s/include", places[i]);
            return path;
        }
    }
    return NULL;
}

static int compiles(const char *directory, const char *option)
{
    char command[1024];
    snprintf(command, sizeof command,
             "cc -std=gnu11 -Wall -Wextra -Werror -fsyntax-only %s -I. -isystem %s "
             "tests/gpu/entries.c >/dev/null 2>&1",
             option, directory);
    return system(command) == 0;
}

/* verifies device-30.2981 */
static void declarations_are_those_of_cuda_h(void **state)
{
    (void)state;
    const char *directory = toolkit();
    if (directory == NULL || access("tests/gpu/entries.c", R_OK) != 0) {
        printf("skipped: no cuda.h here to compare the driver's declarations with\n");
        return;
    }
    assert_true(compiles(directory, ""));
    assert_false(compiles(directory, "-DMISTAKE"));
}

static void the_table_is_filled(void **state)
{
    (void)state;
    bp_cu_driver driver;
    bp_error error = {0};
    int version = 0;
    assert_int_equal(bp_cu_driver_load(&driver, &error), BP_OK);
    assert_non_null(driver.cuInit);
    assert_non_null(driver.cuGraphExecDestroy);
    assert_true((driver.ptxvmNextOperands != NULL) == (on.set != NULL));
    assert_int_equal(bp_cu_driver_begin(&driver, &version, &error), BP_OK);
    assert_true(version >= 12000);
    assert_string_equal(getenv("CUDA_MODULE_LOADING"), "EAGER");
}

/* verifies device-30.2981 */
static void results_are_said_in_words(void **state)
{
    (void)state;
    bp_cu_driver driver;
    bp_error error = {0};
    assert_int_equal(bp_cu_driver_load(&driver, &error), BP_OK);
    assert_int_equal(bp_cu_result_status(&driver, 700, "cuStreamSynchronize", &error),
                     BP_ERR_DEVICE);
    assert_non_null(
        strstr(error.name, "CUDA_ERROR_ILLEGAL_ADDRESS (700) from cuStreamSynchronize"));
    assert_non_null(strstr(error.text, "a kernel went wrong"));
    error = (bp_error){0};
    assert_int_equal(bp_cu_result_status(&driver, 31999, "cuInit", &error), BP_ERR_DEVICE);
    assert_string_equal(error.text, "the NVIDIA driver refused a call");
    assert_non_null(strstr(error.name, "an unknown CUresult (31999) from cuInit"));
    assert_true(bp_cu_result_fatal(719));
    assert_true(bp_cu_result_fatal(226) && bp_cu_result_fatal(721) && bp_cu_result_fatal(911));
    assert_false(bp_cu_result_fatal(223));
    assert_true(bp_cu_result_fatal(999));
    assert_false(bp_cu_result_fatal(2));
    assert_false(bp_cu_result_fatal(701));
    assert_false(bp_cu_result_fatal(12345));
}

static void targets_have_names(void **state)
{
    (void)state;
    assert_string_equal(bp_cuda_target_find(NULL)->name, "sm_80");
    assert_int_equal(bp_cuda_target_find("sm_90a")->capability, 90);
    assert_null(bp_cuda_target_find("sm_75"));
    assert_string_equal(bp_cuda_query_texts(NULL), "sm_80");
    assert_string_equal(bp_cuda_query_texts("sm_80"), "sm_80");
    assert_string_equal(bp_cuda_query_texts("sm_90a"), "sm_90a"); /* products */
    assert_null(bp_cuda_query_texts("sm_75"));
    assert_null(bp_cuda_target_for(75, 64 * 1024, 13000));
    assert_null(bp_cuda_target_for(80, 163 * 1024, 11080));
    assert_string_equal(bp_cuda_target_for(86, 99 * 1024, 12000)->name, "sm_80");
    assert_string_equal(bp_cuda_target_for(90, 227 * 1024, 12080)->name, "sm_90a");
    assert_string_equal(bp_cuda_target_for(90, 227 * 1024, 12060)->name, "sm_80");
    assert_string_equal(bp_cuda_target_for(90, 164 * 1024, 13000)->name, "sm_80");
    assert_string_equal(bp_cuda_target_for(120, 99 * 1024, 13000)->name, "sm_80");
    const bp_cuda_target target = bp_cuda_target_of(bp_cuda_target_find("sm_90a"), true);
    assert_true(target.hopper && target.tf32);
    assert_int_equal(target.shared_limit, 227 * 1024);
    const bp_cuda_target plain = bp_cuda_target_of(bp_cuda_target_find("sm_80"), false);
    assert_false(plain.hopper || plain.tf32);
    assert_int_equal(plain.shared_limit, BP_CUDA_SHARED_LEAST);
}

/* The context has room for every module and function, and every text ends as the driver wants. */
static void modules_fit_the_context(void **state)
{
    (void)state;
    uint32_t functions = 0;
    assert_in_range(bp_cuda_module_count, 1, CUDA_MODULES_MAX);
    for (uint32_t i = 0; i < bp_cuda_module_count; i++) {
        functions += bp_cuda_modules[i].function_count;
        assert_int_equal(*bp_cuda_modules[i].end, 0);
        assert_non_null(bp_cuda_target_find(bp_cuda_modules[i].target));
    }
    assert_true(functions <= CUDA_FUNCTIONS_MAX && bp_cuda_module_count <= 64);
}

static void gpus_are_listed(void **state)
{
    (void)state;
    bp_error error = {0};
    uint32_t count = 0;
    int version = 0;
    assert_int_equal(bp_cuda_query_count(&count, &version, &error), BP_OK);
    assert_true(count >= 1 && version >= 12000);
    bp_cuda_gpu gpu;
    assert_int_equal(bp_cuda_query(0, &gpu, &error), BP_OK);
    assert_true(gpu.memory_bytes > 0 && gpu.capability >= 80 && gpu.multiprocessors > 0);
    assert_true(gpu.name[0] != '\0');
    assert_null(gpu.reason);
    assert_non_null(bp_cuda_target_find(gpu.target));
    bp_cuda_probe probe;
    assert_int_equal(bp_cuda_query_probe(0, gpu.target, &probe, &error), BP_OK);
    assert_true(probe.modules >= 1 && probe.free_bytes > 0 && probe.jit_seconds > 0.0);
    assert_true(probe.free_bytes <= gpu.memory_bytes);
}

/* verifies device-13.a20e */
static void what_is_not_there_is_said(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_cuda_gpu gpu;
    bp_cuda_probe probe;
    assert_int_equal(bp_cuda_query(1000, &gpu, &error), BP_ERR_DEVICE);
    assert_string_equal(error.text, "there is no GPU of that number, counted from 0");
    assert_int_equal(error.found, 1000);
    error = (bp_error){0};
    assert_int_equal(bp_cuda_query_probe(0, "sm_70", &probe, &error), BP_ERR_USAGE);
    assert_string_equal(error.name, "sm_70");
}

/* verifies device-13.a20e */
static void useless_gpus_say_why(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_cuda_gpu gpu;
    uint32_t count = 0;
    int version = 0;
    if (on.real) {
        return;
    }
    on.set("PTXVM_DRIVER", "11040");
    assert_int_equal(bp_cuda_query(0, &gpu, &error), BP_OK);
    assert_null(gpu.target);
    assert_string_equal(gpu.reason, "the NVIDIA driver is too old: it has to support CUDA 12.0");
    on.set("PTXVM_DRIVER", "13000");
    on.set("PTXVM_DEVICE", "sm_75");
    assert_int_equal(bp_cuda_query(0, &gpu, &error), BP_OK);
    assert_string_equal(gpu.reason,
                        "the GPU is too old: its compute capability has to be 8.0 or more");
    on.set("PTXVM_DEVICE", "none");
    assert_int_equal(bp_cuda_query_count(&count, &version, &error), BP_ERR_DEVICE);
    assert_string_equal(error.text, "the NVIDIA driver finds no GPU");
    on.set("PTXVM_DEVICE", "sm_90");
    assert_int_equal(bp_cuda_query(0, &gpu, &error), BP_OK);
    assert_string_equal(gpu.target, "sm_90a");
    on.set("PTXVM_DEVICE", "sm_80");
}

/* Every call that a query makes may fail: the status and the words come back, nothing stays. */
/* verifies device-12.8cb0 */
static void queries_survive_every_failure(void **state)
{
    (void)state;
    bool failed = !on.real;
    for (int n = 1; failed; n++) {
        char fault[64];
        bp_error error = {0};
        bp_cuda_gpu gpu;
        bp_cuda_probe probe;
        snprintf(fault, sizeof fault, "*:%d:2", n);
        on.set("PTXVM_FAULT", fault);
        bp_status status = bp_cuda_query(0, &gpu, &error);
        status = status == BP_OK ? bp_cuda_query_probe(0, NULL, &probe, &error) : status;
        failed = status != BP_OK;
        if (failed) {
            assert_int_equal(status, BP_ERR_DEVICE);
            assert_non_null(strstr(error.name, "CUDA_ERROR_OUT_OF_MEMORY (2) from cu"));
            assert_string_equal(error.text, "the GPU has not enough free memory");
        } else {
            assert_true(n > 10);
        }
        on.set("PTXVM_FAULT", "");
    }
}

/* Runs a check where no driver library has been loaded yet. */
static int in_child(int (*check)(void))
{
    int ended = 0;
    pid_t child = fork();
    if (child == 0) {
        exit(check());
    }
    return child > 0 && waitpid(child, &ended, 0) == child && WIFEXITED(ended) ? WEXITSTATUS(ended)
                                                                               : -1;
}

static bool refuses(const char *words, const char *name)
{
    bp_cu_driver driver;
    bp_error error = {0};
    bool refused = bp_cu_driver_load(&driver, &error) == BP_ERR_DEVICE;
    return refused && strstr(error.text, words) != NULL && strstr(error.name, name) != NULL;
}

static int without_a_driver(void)
{
    return refuses("there is no NVIDIA driver on this machine", "libcuda.so.1") ? 0 : 1;
}

static int with_an_old_driver(void)
{
    bool loaded = fake_driver_load_other("old/libcuda.so.1");
    return loaded && refuses("the NVIDIA driver is too old", "cuDriverGetVersion") ? 0 : 1;
}

static int missing;
static int old;

/* verifies device-13.a20e */
static void missing_and_old_drivers_are_reported(void **state)
{
    (void)state;
    assert_int_equal(old, 0);
    assert_int_equal(missing, 0);
}

/* These have to come before this process loads a driver. A machine with a driver has none missing.
 */
static void look_for_drivers(void)
{
    old = in_child(with_an_old_driver);
    missing = getenv("BP_TEST_GPU") == NULL ? in_child(without_a_driver) : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_and_old_drivers_are_reported),
        cmocka_unit_test(declarations_are_those_of_cuda_h),
        cmocka_unit_test(targets_have_names),
        cmocka_unit_test(modules_fit_the_context),
        cmocka_unit_test(the_table_is_filled),
        cmocka_unit_test(results_are_said_in_words),
        cmocka_unit_test(gpus_are_listed),
        cmocka_unit_test(what_is_not_there_is_said),
        cmocka_unit_test(useless_gpus_say_why),
        cmocka_unit_test(queries_survive_every_failure),
    };
    look_for_drivers();
    if (!fake_driver_load(&on)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
