/* SPDX-License-Identifier: MIT */
/* PTX that the driver cannot compile: its own words reach the error, and the whole of them the log.
 * This program brings its own table of modules, every one of which is the same bad text. */
/* A program of its own (tests/suite.sh). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/cuda.h"
#include "device/cuda/launch.h"
#include "device/cuda/ptx_table.h"
#include "device/cuda/query.h"
#include "tests/fixtures/fake_driver.h"

static const unsigned char text[] = ".version 7.4\n.target sm_80\n.address_size 64\n"
                                    ".visible .entry bad()\n{\n    fly.me.to.the.moon %r1;\n}\n";
static const bp_cuda_function functions[64] = {{"bad", 0}};

#define BAD                                                                                        \
    {                                                                                              \
        "bad", "sm_80", BP_CUDA_FAMILY_elementwise, BP_CUDA_TYPES_ANY, text,                       \
            text + sizeof text - 1, functions, 64                                                  \
    }
const bp_cuda_module bp_cuda_modules[] = {BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD,
                                          BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD,
                                          BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD};
const uint32_t bp_cuda_module_count = sizeof bp_cuda_modules / sizeof bp_cuda_modules[0];

static instrument on;

/* verifies device-19.95b6 */
static void the_drivers_log_is_shown(void **state)
{
    (void)state;
    const bp_device *cuda = &bp_device_cuda;
    const bp_device_options options = {0};
    const bp_copy_scalars scalars = {.count = 16};
    const uint64_t offsets[2] = {256, 0};
    const uint8_t dtypes[2] = {BP_F32, BP_F32};
    const bp_linked_op op = {.kernel = BP_KERNEL_copy,
                             .tuples = 1,
                             .offsets = offsets,
                             .scalars = &scalars,
                             .dtypes = dtypes,
                             .table = BP_OFFSET_ABSENT};
    const bp_linked_program program = {&op, 1};
    bp_error error = {0};
    void *context = malloc(cuda->context_bytes);
    size_t bytes = (size_t)cuda->link_bytes(1, 2, 1);
    void *memory = malloc(bytes);
    const bp_regions places = bp_regions_device(NULL, 4096);
    assert_int_equal(cuda->open(context, &options, &places, &error), BP_OK);
    assert_int_equal(cuda->link(context, 0, &program, memory, bytes), BP_ERR_DEVICE);
    assert_string_equal(error.text, "the driver could not compile a kernel's PTX");
    assert_true(strncmp(error.name, "bad: ", 5) == 0 && strlen(error.name) > 10);
    assert_non_null(strstr(bp_cuda_log(context), on.real ? "line 6" : "6"));
    assert_int_equal(cuda->seal(context), BP_ERR_DEVICE);
    cuda->close(context);
    assert_true(on.real || on.ledger(NULL, 0) == 0);
    free(context);
    free(memory);
}

/* verifies device-19.95b6 */
static void a_probe_tells_it_too(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_cuda_probe probe;
    assert_int_equal(bp_cuda_query_probe(0, NULL, &probe, &error), BP_ERR_DEVICE);
    assert_string_equal(error.text, "the driver refuses a kernel's PTX; see its log");
    assert_int_equal(probe.modules, 0);
    assert_non_null(strstr(probe.log, on.real ? "line 6" : "6"));
    assert_true(on.real || on.ledger(NULL, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_drivers_log_is_shown),
        cmocka_unit_test(a_probe_tells_it_too),
    };
    if (!fake_driver_load(&on)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
