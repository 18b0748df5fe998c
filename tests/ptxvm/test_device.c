/* SPDX-License-Identifier: MIT */
/* What ptxvm says of its device, its version and its errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ptxvm/run.h"

static void test_device(void **state)
{
    (void)state;
    int value = 0;
    char name[40];
    size_t bytes = 0;
    void *context = NULL;
    const char *text = NULL;
    assert_int_equal(cuDeviceGetCount(&value), 0);
    assert_int_equal(value, 1);
    assert_int_equal(cuDeviceGet(&value, 0), 0);
    assert_int_equal(cuDeviceGet(&value, 1), 101);
    assert_int_equal(cuDeviceGetName(name, sizeof name, 0), 0);
    assert_string_equal(name, "ptxvm sm_80");
    assert_int_equal(cuDeviceTotalMem_v2(&bytes, 0), 0);
    assert_true(bytes > 0);
    assert_int_equal(cuDeviceGetAttribute(&value, 10, 0), 0);
    assert_int_equal(value, 32);
    assert_int_equal(cuDeviceGetAttribute(&value, 9999, 0), 1);
    assert_int_equal(cuDriverGetVersion(&value), 0);
    assert_int_equal(value, 13000);
    assert_int_equal(cuCtxGetCurrent(&context), 0);
    assert_non_null(context);
    assert_int_equal(cuCtxGetDevice(&value), 0);
    assert_int_equal(cuCtxSetCurrent(name), 201);
    assert_int_equal(cuGetErrorName(700, &text), 0);
    assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(cuGetErrorString(2, &text), 0);
    assert_int_equal(cuGetErrorName(12345, &text), 1);
    assert_null(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_device)};
    run_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
