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

/* Contexts that a program creates, pushes and pops; a module from a file; a device by number. */
static void test_contexts(void **state)
{
    void *context = NULL;
    void *other = NULL;
    void *module = NULL;
    void *function = NULL;
    (void)state;
    assert_int_equal(cuCtxCreate_v2(&context, 0, 1), 101);
    assert_int_equal(cuCtxCreate_v2(&context, 0, 0), 0);
    assert_int_equal(cuCtxPushCurrent_v2(NULL), 201);
    assert_int_equal(cuCtxPushCurrent_v2(context), 0);
    assert_int_equal(cuCtxPopCurrent_v2(&other), 0);
    assert_ptr_equal(other, context);
    assert_int_equal(cuCtxGetCurrent(&other), 0);
    assert_ptr_equal(other, context);
    assert_int_equal(cuModuleLoad(&module, "tests/ptxvm/programs/none.ptx"), 301);
    assert_int_equal(cuModuleLoad(&module, "tests/ptxvm/nvcc/saxpy.ptx"), 0);
    assert_int_equal(cuModuleGetFunction(&function, module, "k"), 0);
    assert_int_equal(cuModuleUnload(module), 0);
    assert_int_equal(cuCtxPopCurrent_v2(&other), 0);
    assert_int_equal(cuCtxPopCurrent_v2(&other), 201);
    assert_int_equal(cuCtxDestroy_v2(NULL), 201);
    assert_int_equal(cuCtxDestroy_v2(context), 0);
    assert_int_equal(cuCtxSetCurrent(context), 0);
}

/* A module's variables count as device memory; what is no device is said at once. */
static void test_settings(void **state)
{
    static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".global .b8 a[600000];\n.global .b8 b[600000];\n";
    static const struct {
        const char *name;
        int blocks;
    } all[] = {{"80", 32}, {"86", 16}, {"sm_89", 24}, {"sm_90", 32}, {"120", 24}};
    void *module = NULL;
    int value = 0;
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ptxvmSet("PTXVM_DEVICE", all[i].name);
        assert_int_equal(cuInit(0), 0);
        assert_int_equal(cuDeviceGetAttribute(&value, 106, 0), 0);
        assert_int_equal(value, all[i].blocks);
    }
    ptxvmSet("PTXVM_DEVICE", "hopper");
    assert_int_equal(cuInit(0), 101);
    ptxvmSet("PTXVM_DEVICE", "");
    ptxvmSet("PTXVM_MEMORY", "1000000");
    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuModuleLoadData(&module, text), 2);
    ptxvmSet("PTXVM_MEMORY", "2000000");
    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuModuleLoadData(&module, text), 0);
    assert_int_equal(cuModuleUnload(module), 0);
    ptxvmSet("PTXVM_MEMORY", "");
    assert_int_equal(cuInit(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_device),
                                       cmocka_unit_test(test_contexts),
                                       cmocka_unit_test(test_settings)};
    run_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
