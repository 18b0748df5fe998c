/* SPDX-License-Identifier: MIT */
/* What the driver of ptxvm refuses: handles of nothing, numbers that mean nothing, memory that is
 * not there, and what a capture forbids; and that nothing is left of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ptxvm/run.h"

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_HANDLE = 400,
    NOT_READY = 600,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    PIECE = 2 << 20 /* of mapped memory */
};

static uint64_t zeros[64]; /* no handle of any kind */
static void *const nothing = zeros;
static void *made;
static size_t bytes = sizeof zeros;

static int alive(void)
{
    char text[512];
    return ptxvmLedger(text, sizeof text);
}

/* verifies device-33.ff3f */
static void handles_of_nothing(void **state)
{
    (void)state;
    const int before = alive();
    int capturing;
    float milliseconds;
    uint64_t address;
    const abi_copy copy = {.source_type = ABI_UNIFIED, .target_type = ABI_UNIFIED};
    const int results[] = {
        cuStreamDestroy_v2(nothing),
        cuStreamDestroy_v2(NULL), /* the legacy stream is nobody's to destroy */
        cuStreamSynchronize(nothing),
        cuStreamQuery(nothing),
        cuStreamWaitEvent(NULL, nothing, 0),
        cuStreamBeginCapture_v2(nothing, 0),
        cuStreamEndCapture(nothing, &made),
        cuStreamIsCapturing(nothing, &capturing),
        cuLaunchHostFunc(nothing, NULL, NULL),
        cuEventDestroy_v2(nothing),
        cuEventRecord(nothing, NULL),
        cuEventSynchronize(nothing),
        cuEventQuery(nothing),
        cuEventElapsedTime(&milliseconds, nothing, nothing),
        cuEventElapsedTime_v2(&milliseconds, nothing, nothing),
        cuGraphInstantiateWithFlags(&made, nothing, 0),
        cuGraphUpload(nothing, NULL),
        cuGraphLaunch(nothing, NULL),
        cuGraphDestroy(nothing),
        cuGraphExecDestroy(nothing),
        cuGraphGetNodes(nothing, NULL, &bytes),
        cuMemcpyHtoDAsync_v2(0, zeros, 0, nothing),
        cuMemcpyDtoHAsync_v2(zeros, 0, 0, nothing),
        cuMemcpyDtoDAsync_v2(0, 0, 0, nothing),
        cuMemcpy2DAsync_v2(&copy, nothing),
        cuMemsetD8Async(0, 0, 0, nothing),
        cuModuleUnload(nothing),
        cuModuleGetFunction(&made, nothing, "none"),
        cuModuleGetGlobal_v2(&address, &bytes, nothing, "none"),
        ptxvmUndefineAsync(0, 0, nothing),
    };
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        if (results[i] != INVALID_HANDLE) {
            fail_msg("call %zu ends in %d", i, results[i]);
        }
    }
    assert_int_equal(alive(), before);
}

/* verifies device-33.ff3f */
static void numbers_that_mean_nothing(void **state)
{
    (void)state;
    const int before = alive();
    uint64_t address;
    void *stream, *event, *memory;
    assert_int_equal(cuStreamCreate(&stream, 2), INVALID_VALUE);
    assert_int_equal(cuStreamCreateWithPriority(&stream, 1, 0), 0);
    assert_int_equal(cuEventCreate(&event, 0), 0);
    assert_int_equal(cuStreamWaitEvent(stream, event, 2), INVALID_VALUE);
    assert_int_equal(cuStreamBeginCapture_v2(stream, 3), INVALID_VALUE);
    assert_int_equal(cuStreamBeginCapture_v2(NULL, 0), CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(stream, &made), INVALID_VALUE);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuMemAlloc_v2(&address, 0), INVALID_VALUE);
    assert_int_equal(cuMemAlloc_v2(&address, (size_t)1 << 60), OUT_OF_MEMORY);
    assert_int_equal(cuMemAllocHost_v2(&memory, 0), INVALID_VALUE);
    assert_int_equal(cuMemFreeHost(nothing), INVALID_VALUE);
    assert_int_equal(cuMemHostGetDevicePointer_v2(&address, nothing, 0), INVALID_VALUE);
    assert_int_equal(cuMemAllocManaged(&address, 8, 3), INVALID_VALUE);
    assert_int_equal(cuMemAllocManaged(&address, 8, 1), NOT_SUPPORTED);
    assert_int_equal(cuMemcpyHtoD_v2(4096, zeros, 8), INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoH_v2(zeros, 4096, 8), INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoD_v2(4096, 8192, 8), INVALID_VALUE);
    assert_int_equal(cuMemsetD8_v2(4096, 0, 8), INVALID_VALUE);
    assert_int_equal(cuMemsetD32_v2(4096, 0, 8), INVALID_VALUE);
    assert_int_equal(cuModuleLoadData(&made, NULL), INVALID_VALUE);
    assert_int_equal(ptxvmNextOperands(NULL, 100000), INVALID_VALUE);
    assert_int_equal(ptxvmUndefineAsync(4096, 8, NULL), INVALID_VALUE);
    assert_int_equal(alive(), before);
}

/* Memory of a GPU that shares the host's. */
/* verifies device-33.ff3f */
static void managed_memory(void **state)
{
    (void)state;
    uint64_t address = 0;
    unsigned char back[8] = {0};
    ptxvmSet("PTXVM_DEVICE", "sm_87");
    assert_int_equal(cuInit(0), 0);
    assert_int_equal(cuMemAllocManaged(&address, 0, 1), INVALID_VALUE);
    assert_int_equal(cuMemAllocManaged(&address, (size_t)1 << 60, 1), OUT_OF_MEMORY);
    assert_int_equal(cuMemAllocManaged(&address, 5000, 1), 0);
    unsigned char *host = (unsigned char *)(uintptr_t)address;
    host[4999] = 7;
    assert_int_equal(cuMemFreeHost(host), INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoH_v2(back, address + 4992, 8), 0);
    assert_int_equal(back[7], 7);
    assert_int_equal(cuMemsetD8_v2(address, 9, 5000), 0);
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_true(host[0] == 9 && host[4999] == 9);
    assert_int_equal(cuMemFree_v2(address), 0);
    assert_int_equal(cuMemFree_v2(address), INVALID_VALUE);
    ptxvmSet("PTXVM_DEVICE", "");
    assert_int_equal(cuInit(0), 0);
}

/* verifies device-33.ff3f */
static void mapped_memory(void **state)
{
    (void)state;
    const int before = alive();
    const abi_memory wanted = {.type = 1, .location = 1};
    const abi_memory elsewhere = {.type = 1, .location = 1, .device = 99};
    const abi_access access = {1, 0, 3}, none = {1, 0, 1};
    uint64_t address, memory, other;
    assert_int_equal(cuMemGetAllocationGranularity(&bytes, &wanted, 7), INVALID_VALUE);
    assert_int_equal(cuMemAddressReserve(&address, 5, 0, 0, 0), INVALID_VALUE);
    assert_int_equal(cuMemAddressFree(4096, PIECE), INVALID_VALUE);
    assert_int_equal(cuMemCreate(&memory, PIECE, &elsewhere, 0), INVALID_VALUE);
    assert_int_equal(cuMemCreate(&memory, (size_t)1 << 60, &wanted, 0), OUT_OF_MEMORY);
    assert_int_equal(cuMemRelease(4096), INVALID_VALUE);
    assert_int_equal(cuMemUnmap(4096, PIECE), INVALID_VALUE);
    assert_int_equal(cuMemSetAccess(4096, PIECE, &access, 1), INVALID_VALUE);
    assert_int_equal(cuMemRetainAllocationHandle(&other, nothing), INVALID_VALUE);
    assert_int_equal(cuMemAddressReserve(&address, PIECE, 0, 0, 0), 0);
    assert_int_equal(cuMemCreate(&memory, PIECE, &wanted, 0), 0);
    assert_int_equal(cuMemMap(address + PIECE, PIECE, 0, memory, 0), INVALID_VALUE);
    assert_int_equal(cuMemMap(address, PIECE, 0, memory, 0), 0);
    assert_int_equal(cuMemMap(address, PIECE, 0, memory, 0), INVALID_VALUE);
    assert_int_equal(cuMemSetAccess(address, PIECE, &none, 1), INVALID_VALUE);
    assert_int_equal(cuMemSetAccess(address, PIECE, &access, 1), 0);
    assert_int_equal(cuMemUnmap(address, PIECE), 0);
    assert_int_equal(cuMemRelease(memory), 0);
    assert_int_equal(cuMemAddressFree(address, PIECE), 0);
    assert_int_equal(alive(), before);
}

/* A stream that is captured waits for nothing outside, and nothing is allocated meanwhile. */
/* verifies device-33.ff3f */
static void captures_forbid(void **state)
{
    (void)state;
    void *stream, *other, *inside, *outside, *memory;
    uint64_t address, held;
    const int before = alive();
    assert_int_equal(cuMemAlloc_v2(&held, 64), 0);
    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    assert_int_equal(cuStreamCreate(&other, 1), 0);
    assert_int_equal(cuEventCreate(&inside, 2), 0);
    assert_int_equal(cuEventCreate(&outside, 2), 0);
    for (int what = 0; what < 7; what++) {
        assert_int_equal(cuStreamBeginCapture_v2(stream, 1), 0);
        const int result = what == 0   ? cuMemAlloc_v2(&address, 64)
                           : what == 1 ? cuMemFree_v2(held)
                           : what == 2 ? cuMemAllocHost_v2(&memory, 64)
                           : what == 3 ? cuModuleLoadData(&memory, "")
                           : what == 4 ? cuStreamWaitEvent(stream, outside, 0)
                           : what == 5 ? cuStreamBeginCapture_v2(stream, 1)
                                       : cuStreamSynchronize(stream);
        assert_true(result == CAPTURE_UNSUPPORTED || result == CAPTURE_INVALIDATED);
        assert_int_equal(cuEventRecord(inside, stream), CAPTURE_INVALIDATED);
        assert_int_equal(cuMemsetD8Async(held, 0, 64, stream), CAPTURE_INVALIDATED);
        assert_int_equal(cuStreamEndCapture(stream, &made), CAPTURE_INVALIDATED);
    }
    /* Two captures do not wait for each other. */
    assert_int_equal(cuStreamBeginCapture_v2(stream, 1), 0);
    assert_int_equal(cuStreamBeginCapture_v2(other, 1), 0);
    assert_int_equal(cuEventRecord(inside, stream), 0);
    assert_int_equal(cuStreamWaitEvent(other, inside, 0), CAPTURE_INVALIDATED);
    assert_int_equal(cuStreamEndCapture(other, &made), CAPTURE_INVALIDATED);
    assert_int_equal(cuMemsetD8Async(held, 0, 64, stream), 0);
    assert_int_equal(cuStreamEndCapture(stream, &made), 0);
    void *nodes[2] = {NULL, NULL};
    bytes = 2;
    assert_int_equal(cuGraphGetNodes(made, nodes, &bytes), 0);
    assert_true(bytes == 1 && nodes[0] != NULL);
    assert_int_equal(cuGraphDestroy(made), 0);
    assert_int_equal(cuEventDestroy_v2(inside), 0);
    assert_int_equal(cuEventDestroy_v2(outside), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuStreamDestroy_v2(other), 0);
    assert_int_equal(cuMemFree_v2(held), 0);
    assert_int_equal(alive(), before);
}

/* What is asked makes progress, and says so until all is done. */
/* verifies device-33.ff3f */
static void queries_make_progress(void **state)
{
    (void)state;
    void *stream, *event;
    const uint64_t held = run_upload(zeros, sizeof zeros);
    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    assert_int_equal(cuEventCreate(&event, 2), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cuMemsetD8Async(held, 1, 64, stream), 0);
    }
    assert_int_equal(cuEventRecord(event, stream), 0);
    assert_int_equal(cuEventQuery(event), NOT_READY);
    assert_int_equal(cuStreamQuery(stream), NOT_READY);
    assert_int_equal(cuStreamSynchronize(stream), 0);
    assert_int_equal(cuEventQuery(event), 0);
    assert_int_equal(cuStreamQuery(stream), 0);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuMemFree_v2(held), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handles_of_nothing), cmocka_unit_test(numbers_that_mean_nothing),
        cmocka_unit_test(managed_memory),     cmocka_unit_test(mapped_memory),
        cmocka_unit_test(captures_forbid),    cmocka_unit_test(queries_make_progress)};
    run_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
