/* SPDX-License-Identifier: MIT */
/* The driver side of ptxvm: queues, events, capture, graphs, memory, modules, injected faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/ptxvm/run.h"

enum { N = 64 };

/* y[i] = y[i] * a + b, with the text's own source lines. */
static const char affine[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".global .align 4 .u32 runs = 3;\n"
    ".visible .entry affine(.param .u64 affine_0, .param .u32 affine_1, .param .u32 affine_2)\n"
    "{\n .reg .b32 %r<6>; .reg .b64 %d<4>; .reg .pred %p;\n"
    " .loc 1 7 0\n"
    " ld.param.u64 %d1, [affine_0]; ld.param.u32 %r1, [affine_1]; ld.param.u32 %r2, [affine_2];\n"
    " .loc 1 8 0\n"
    " mov.u32 %r3, %tid.x; mad.wide.u32 %d2, %r3, 4, %d1;\n"
    " ld.global.u32 %r4, [%d2];\n"
    " .loc 1 20 0, function_name $L__info, inlined_at 1 9 0\n"
    " mad.lo.u32 %r4, %r4, %r1, %r2; st.global.u32 [%d2], %r4;\n"
    " .loc 1 10 0\n"
    " setp.lt.u32 %p, %r3, 1000; @%p bra done;\n"
    " .loc 1 11 0\n"
    " mov.u32 %r5, 1;\n"
    "done: ret;\n}\n"
    ".file 1 \"demo/affine.cu\"\n";

typedef struct fixture {
    void *module;
    void *function;
    void *stream;
    void *other;
    uint64_t memory;
    uint32_t values[N];
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(cuModuleLoadData(&f->module, affine), 0);
    assert_int_equal(cuModuleGetFunction(&f->function, f->module, "affine"), 0);
    assert_int_equal(cuStreamCreate(&f->stream, 1), 0);
    assert_int_equal(cuStreamCreate(&f->other, 1), 0);
    for (uint32_t i = 0; i < N; i++) {
        f->values[i] = i;
    }
    f->memory = run_upload(f->values, sizeof f->values);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    ptxvmSet("PTXVM_FAULT", "");
    ptxvmRevive();
    assert_int_equal(cuStreamDestroy_v2(f->stream), 0);
    assert_int_equal(cuStreamDestroy_v2(f->other), 0);
    assert_int_equal(cuMemFree_v2(f->memory), 0);
    assert_int_equal(cuModuleUnload(f->module), 0);
    free(f);
    return 0;
}

static int launch(const fixture *f, uint32_t a, uint32_t b, void *stream)
{
    uint64_t memory = f->memory;
    void *parameters[3] = {&memory, &a, &b};
    return cuLaunchKernel(f->function, 1, 1, 1, N, 1, 1, 0, stream, parameters, NULL);
}

static uint32_t first(const fixture *f)
{
    uint32_t values[N];
    run_download(values, f->memory, sizeof values);
    return values[1];
}

/* Nothing runs until something waits; parameters were copied at the call, pinned memory was not. */
static void test_queues(void **state)
{
    fixture *f = *state;
    uint32_t *pinned = NULL;
    assert_int_equal(cuMemHostAlloc((void **)&pinned, sizeof f->values, 0), 0);
    memset(pinned, 0, sizeof f->values);
    pinned[1] = 5;
    uint32_t pageable[N] = {0, 7};
    assert_int_equal(cuMemcpyHtoDAsync_v2(f->memory, pinned, sizeof pageable, f->stream), 0);
    assert_int_equal(launch(f, 2, 1, f->stream), 0);
    assert_int_equal(cuMemcpyDtoHAsync_v2(pinned, f->memory, sizeof pageable, f->stream), 0);
    pinned[1] = 50;
    assert_int_equal(cuStreamQuery(f->stream), 600);
    assert_int_equal(cuStreamSynchronize(f->stream), 0);
    assert_int_equal(cuStreamQuery(f->stream), 0);
    assert_int_equal(pinned[1], 101);
    assert_int_equal(cuMemcpyHtoDAsync_v2(f->memory, pageable, sizeof pageable, f->stream), 0);
    pageable[1] = 8;
    assert_int_equal(cuStreamSynchronize(f->stream), 0);
    assert_int_equal(first(f), 7);
    assert_int_equal(cuMemFreeHost(pinned), 0);
}

static void count_up(void *data)
{
    ++*(int *)data;
}

static void test_events(void **state)
{
    fixture *f = *state;
    static const char *const seeds[] = {"0", "1", "2", "3"};
    for (size_t i = 0; i < 4; i++) {
        ptxvmSet("PTXVM_SEED", seeds[i]);
        void *event = NULL;
        void *end = NULL;
        int calls = 0;
        assert_int_equal(cuMemcpyHtoD_v2(f->memory, f->values, sizeof f->values), 0);
        assert_int_equal(cuEventCreate(&event, 0), 0);
        assert_int_equal(cuEventCreate(&end, 0), 0);
        assert_int_equal(launch(f, 1, 10, f->stream), 0);
        assert_int_equal(cuEventRecord(event, f->stream), 0);
        assert_int_equal(cuEventQuery(event), 600);
        assert_int_equal(cuStreamWaitEvent(f->other, event, 0), 0);
        assert_int_equal(launch(f, 3, 0, f->other), 0);
        assert_int_equal(cuLaunchHostFunc(f->other, count_up, &calls), 0);
        assert_int_equal(cuEventRecord(end, f->other), 0);
        assert_int_equal(cuEventSynchronize(end), 0);
        assert_int_equal(first(f), 33);
        assert_int_equal(calls, 1);
        float time = -1;
        assert_int_equal(cuEventElapsedTime(&time, event, end), 0);
        assert_true(time >= 0);
        assert_int_equal(cuEventDestroy_v2(event), 0);
        assert_int_equal(cuEventDestroy_v2(end), 0);
    }
    ptxvmSet("PTXVM_SEED", "0");
}

/* Blocking streams keep order with the legacy stream whatever the seed. */
/* verifies device-20.1ca2 */
static void test_legacy_order(void **state)
{
    fixture *f = *state;
    static const char *const seeds[] = {"0", "1", "2", "3"};
    void *blocking = NULL;
    assert_int_equal(cuStreamCreate(&blocking, 0), 0);
    for (size_t i = 0; i < 4; i++) {
        ptxvmSet("PTXVM_SEED", seeds[i]);
        assert_int_equal(cuMemcpyHtoD_v2(f->memory, f->values, sizeof f->values), 0);
        assert_int_equal(launch(f, 1, 2, blocking), 0);
        assert_int_equal(launch(f, 5, 0, NULL), 0);
        assert_int_equal(launch(f, 1, 1, blocking), 0);
        assert_int_equal(cuCtxSynchronize(), 0);
        assert_int_equal(first(f), 16);
    }
    ptxvmSet("PTXVM_SEED", "0");
    assert_int_equal(cuStreamDestroy_v2(blocking), 0);
}

static void test_graph(void **state)
{
    fixture *f = *state;
    void *event = NULL;
    void *back = NULL;
    void *graph = NULL;
    void *exec = NULL;
    size_t nodes = 0;
    int status = 0;
    assert_int_equal(cuEventCreate(&event, 2), 0);
    assert_int_equal(cuEventCreate(&back, 2), 0);
    assert_int_equal(cuStreamBeginCapture_v2(f->stream, 0), 0);
    assert_int_equal(cuStreamIsCapturing(f->stream, &status), 0);
    assert_int_equal(status, 1);
    assert_int_equal(launch(f, 1, 1, f->stream), 0);
    assert_int_equal(cuEventRecord(event, f->stream), 0);
    assert_int_equal(cuStreamWaitEvent(f->other, event, 0), 0);
    assert_int_equal(launch(f, 2, 0, f->other), 0);
    assert_int_equal(cuEventRecord(back, f->other), 0);
    assert_int_equal(cuStreamWaitEvent(f->stream, back, 0), 0);
    assert_int_equal(launch(f, 1, 3, f->stream), 0);
    assert_int_equal(cuStreamEndCapture(f->stream, &graph), 0);
    assert_int_equal(cuGraphGetNodes(graph, NULL, &nodes), 0);
    assert_int_equal(nodes, 3);
    assert_int_equal(first(f), 1);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
    assert_int_equal(cuGraphUpload(exec, f->stream), 0);
    static const char *const seeds[] = {"0", "1", "2", "3"};
    for (size_t i = 0; i < 4; i++) {
        ptxvmSet("PTXVM_SEED", seeds[i]);
        assert_int_equal(cuMemcpyHtoD_v2(f->memory, f->values, sizeof f->values), 0);
        assert_int_equal(cuGraphLaunch(exec, f->stream), 0);
        assert_int_equal(cuGraphLaunch(exec, f->stream), 0);
        assert_int_equal(cuStreamSynchronize(f->stream), 0);
        assert_int_equal(first(f), ((1 + 1) * 2 + 3 + 1) * 2 + 3);
    }
    ptxvmSet("PTXVM_SEED", "0");
    assert_int_equal(cuGraphExecDestroy(exec), 0);
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(cuEventDestroy_v2(back), 0);
}

static void begin(const fixture *f)
{
    assert_int_equal(cuStreamBeginCapture_v2(f->stream, 0), 0);
    assert_int_equal(launch(f, 1, 1, f->stream), 0);
}

static void expect_invalid(const fixture *f)
{
    void *graph = NULL;
    assert_int_equal(cuStreamEndCapture(f->stream, &graph), 901);
    assert_null(graph);
}

/* Calls that a capture forbids say so and spoil it. */
static void test_capture_rules(void **state)
{
    fixture *f = *state;
    uint64_t memory = 0;
    void *event = NULL;
    void *graph = NULL;
    void *pinned = NULL;
    assert_int_equal(cuEventCreate(&event, 0), 0);
    begin(f);
    assert_int_equal(cuStreamSynchronize(f->stream), 900);
    expect_invalid(f);
    begin(f);
    assert_int_equal(cuCtxSynchronize(), 900);
    expect_invalid(f);
    begin(f);
    assert_int_equal(cuMemAlloc_v2(&memory, 16), 900);
    expect_invalid(f);
    begin(f);
    assert_int_equal(cuMemHostAlloc(&pinned, 16, 0), 900);
    expect_invalid(f);
    begin(f);
    assert_int_equal(cuMemcpyHtoD_v2(f->memory, f->values, 4), 900);
    expect_invalid(f);
    begin(f);
    assert_int_equal(launch(f, 1, 1, NULL), 906);
    expect_invalid(f);
    begin(f);
    assert_int_equal(cuEventRecord(event, f->stream), 0);
    assert_int_equal(cuEventSynchronize(event), 907);
    expect_invalid(f);
    begin(f);
    assert_int_equal(cuEventRecord(event, f->stream), 0);
    assert_int_equal(cuStreamWaitEvent(f->other, event, 0), 0);
    assert_int_equal(launch(f, 1, 1, f->other), 0);
    assert_int_equal(cuStreamEndCapture(f->other, &graph), 903);
    expect_invalid(f);
    begin(f);
    assert_int_equal(cuEventRecord(event, f->stream), 0);
    assert_int_equal(cuStreamWaitEvent(f->other, event, 0), 0);
    assert_int_equal(launch(f, 1, 1, f->other), 0);
    assert_int_equal(cuStreamEndCapture(f->stream, &graph), 904);
    assert_int_equal(cuStreamEndCapture(f->stream, &graph), 1);
    assert_int_equal(cuStreamBeginCapture_v2(NULL, 0), 900);
    /* The stream works again afterwards, and the relaxed mode allows allocation. */
    assert_int_equal(cuStreamBeginCapture_v2(f->stream, 2), 0);
    assert_int_equal(cuMemAlloc_v2(&memory, 16), 0);
    assert_int_equal(cuStreamEndCapture(f->stream, &graph), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
    assert_int_equal(cuMemFree_v2(memory), 0);
    assert_int_equal(cuEventDestroy_v2(event), 0);
}

/* A stream that goes away while it is captured takes the capture and its graph along; one that only
 * took part spoils it. */
static void test_capture_of_a_lost_stream(void **state)
{
    fixture *f = *state;
    void *stream = NULL;
    void *event = NULL;
    void *graph = NULL;
    char text[256];
    assert_int_equal(cuEventCreate(&event, 2), 0);
    int before = ptxvmLedger(text, sizeof text);
    assert_int_equal(cuStreamCreate(&stream, 1), 0);
    assert_int_equal(cuStreamBeginCapture_v2(stream, 0), 0);
    assert_int_equal(launch(f, 1, 1, stream), 0);
    assert_int_equal(cuEventRecord(event, stream), 0);
    assert_int_equal(cuStreamWaitEvent(f->other, event, 0), 0);
    assert_int_equal(launch(f, 1, 1, f->other), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(ptxvmLedger(text, sizeof text), before);
    assert_int_equal(cuEventQuery(event), 0);
    assert_int_equal(launch(f, 1, 1, f->other), 0);
    assert_int_equal(cuStreamSynchronize(f->other), 0);
    assert_int_equal(cuStreamCreate(&stream, 1), 0); /* the other way round */
    begin(f);
    assert_int_equal(cuEventRecord(event, f->stream), 0);
    assert_int_equal(cuStreamWaitEvent(stream, event, 0), 0);
    assert_int_equal(launch(f, 1, 1, stream), 0);
    assert_int_equal(cuStreamDestroy_v2(stream), 0);
    assert_int_equal(cuStreamEndCapture(f->stream, &graph), 901);
    assert_int_equal(ptxvmLedger(text, sizeof text), before);
    assert_int_equal(cuEventDestroy_v2(event), 0);
}

/* A kernel's error comes with the next call that waits, and sticks. */
static void test_sticky(void **state)
{
    fixture *f = *state;
    char text[1024];
    size_t free_bytes = 0;
    size_t total = 0;
    uint64_t bad = f->memory + sizeof f->values - 8;
    uint32_t one = 1;
    void *parameters[3] = {&bad, &one, &one};
    assert_int_equal(cuLaunchKernel(f->function, 1, 1, 1, N, 1, 1, 0, f->stream, parameters, NULL),
                     0);
    assert_int_equal(launch(f, 1, 1, f->stream), 0);
    assert_int_equal(cuStreamSynchronize(f->stream), 700);
    assert_int_equal(cuMemGetInfo_v2(&free_bytes, &total), 700);
    assert_int_equal(launch(f, 1, 1, f->stream), 700);
    assert_true(ptxvmReport(text, sizeof text) > 0);
    assert_non_null(strstr(text, "kernel affine, PTX line 12 (demo/affine.cu:8), block (0,0,0)"));
    assert_non_null(strstr(text, "thread (2,0,0)"));
    assert_int_equal(ptxvmReport(text, sizeof text), 0);
    ptxvmRevive();
    assert_int_equal(cuCtxSynchronize(), 0);
}

static void test_memory(void **state)
{
    (void)state;
    size_t before = 0;
    size_t after = 0;
    size_t total = 0;
    uint64_t a = 0;
    uint32_t values[8];
    void *host = NULL;
    uint64_t device = 0;
    assert_int_equal(cuMemGetInfo_v2(&before, &total), 0);
    assert_int_equal(cuMemAlloc_v2(&a, 1 << 20), 0);
    assert_int_equal(cuMemGetInfo_v2(&after, &total), 0);
    assert_int_equal(before - after, 1 << 20);
    assert_int_equal(cuMemsetD32Async(a, 0x01020304, 4, NULL), 0);
    assert_int_equal(cuMemsetD8Async(a + 16, 0xaa, 8, NULL), 0);
    assert_int_equal(cuMemsetD16Async(a + 24, 0x1234, 2, NULL), 0);
    assert_int_equal(cuMemcpyDtoD_v2(a + 28, a, 4), 0);
    run_download(values, a, sizeof values);
    assert_int_equal(values[3], 0x01020304);
    assert_int_equal(values[5], 0xaaaaaaaa);
    assert_int_equal(values[6], 0x12341234);
    assert_int_equal(values[7], 0x01020304);
    assert_int_equal(cuMemcpyDtoH_v2(values, a + (1 << 20) - 4, 8), 1);
    assert_int_equal(cuMemcpyDtoDAsync_v2(a, a + (1 << 20), 4, NULL), 1);
    assert_int_equal(cuMemsetD32Async(a + 2, 1, 1, NULL), 1);
    assert_int_equal(cuMemFree_v2(a + 4), 1);
    assert_int_equal(cuMemFree_v2(a), 0);
    assert_int_equal(cuMemFree_v2(a), 1);
    assert_int_equal(cuMemFree_v2(0), 0);
    assert_int_equal(cuMemAlloc_v2(&a, 0), 1);
    assert_int_equal(cuMemAlloc_v2(&a, total + 1), 2);
    assert_int_equal(cuMemHostAlloc(&host, 100, 0), 0);
    assert_int_equal(cuMemHostGetDevicePointer_v2(&device, host, 0), 0);
    assert_int_equal(device, (uint64_t)(uintptr_t)host);
    assert_int_equal(cuMemFreeHost(host), 0);
    assert_int_equal(cuMemFreeHost(host), 1);
    assert_int_equal(cuMemGetInfo_v2(&after, &total), 0);
    assert_int_equal(before, after);
}

/* "These bytes are undefined now" acts in stream order, and inside graphs. */
static void test_undefined(void **state)
{
    fixture *f = *state;
    char text[1024];
    assert_int_equal(launch(f, 1, 1, f->stream), 0);
    assert_int_equal(ptxvmUndefineAsync(f->memory + 8, 4, f->stream), 0);
    assert_int_equal(cuStreamSynchronize(f->stream), 0);
    assert_int_equal(launch(f, 1, 1, f->stream), 0);
    assert_int_equal(cuStreamSynchronize(f->stream), 719);
    assert_true(ptxvmReport(text, sizeof text) > 0);
    assert_non_null(strstr(text, "load of undefined global bytes"));
    assert_non_null(strstr(text, "thread (2,0,0)"));
    ptxvmRevive();
    assert_int_equal(ptxvmUndefineAsync(f->memory, sizeof f->values + 1, f->stream), 1);
}

static void test_operands(void **state)
{
    fixture *f = *state;
    char text[1024];
    ptxvm_operand good = {0, PTXVM_READ | PTXVM_WRITE, 1, sizeof f->values, 0};
    assert_int_equal(ptxvmNextOperands(&good, 1), 0);
    assert_int_equal(launch(f, 1, 1, f->stream), 0);
    assert_int_equal(cuStreamSynchronize(f->stream), 0);
    ptxvm_operand large = {0, PTXVM_READ, 1, sizeof f->values + 4, 0};
    assert_int_equal(ptxvmNextOperands(&large, 1), 0);
    assert_int_equal(launch(f, 1, 1, f->stream), 0);
    assert_int_equal(cuStreamSynchronize(f->stream), 700);
    assert_true(ptxvmReport(text, sizeof text) > 0);
    assert_non_null(strstr(text, "declared operand 0"));
    ptxvmRevive();
    /* The declaration holds for one launch only. */
    assert_int_equal(launch(f, 1, 1, f->stream), 0);
    assert_int_equal(cuStreamSynchronize(f->stream), 0);
}

static void test_modules(void **state)
{
    fixture *f = *state;
    char log[200] = "";
    char info[200] = "";
    int options[5] = {5, 6, 3, 4, 12};
    void *values[5] = {log, (void *)(uintptr_t)sizeof log, info, (void *)(uintptr_t)sizeof info,
                       NULL};
    void *module = NULL;
    void *function = NULL;
    uint64_t address = 0;
    size_t bytes = 0;
    uint32_t word = 0;
    int value = 0;
    assert_int_equal(
        cuModuleLoadDataEx(&module, ".version 8.0\n.target sm_80\nnonsense", 5, options, values),
        218);
    assert_string_equal(log, "ptxvm: line 3: unknown directive 'nonsense'");
    assert_int_equal((uintptr_t)values[1], strlen(log));
    ptxvmRevive();
    assert_int_equal(cuModuleLoadDataEx(&module, affine, 5, options, values), 0);
    assert_string_equal(info, "ptxvm: 1 functions decoded");
    assert_int_equal(cuModuleUnload(module), 0);
    assert_int_equal(cuModuleUnload(module), 400);
    ptxvmSet("PTXVM_DRIVER", "11040");
    assert_int_equal(cuModuleLoadData(&module, affine), 222);
    ptxvmSet("PTXVM_DRIVER", "");
    ptxvmRevive();
    assert_int_equal(cuModuleGetFunction(&function, f->module, "nobody"), 500);
    assert_int_equal(cuModuleGetGlobal_v2(&address, &bytes, f->module, "runs"), 0);
    assert_int_equal(bytes, 4);
    run_download(&word, address, sizeof word);
    assert_int_equal(word, 3);
    assert_int_equal(cuFuncGetAttribute(&value, 0, f->function), 0);
    assert_int_equal(value, 1024);
    assert_int_equal(cuFuncGetAttribute(&value, 99, f->function), 1);
}

/* Shared memory beyond 48 KB must be opted into, up to the device's limit. */
static void test_limits(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *device;
        int limit, major, minor;
    } all[] = {{"sm_80", 163, 8, 0},
               {"sm_86", 99, 8, 6},
               {"sm_87", 163, 8, 7},
               {"sm_90", 227, 9, 0},
               {"sm_120", 99, 12, 0}};
    uint64_t memory = f->memory;
    uint32_t one = 1;
    void *parameters[3] = {&memory, &one, &one};
    for (size_t i = 0; i < 5; i++) {
        int value = 0;
        unsigned limit = (unsigned)all[i].limit * 1024;
        ptxvmSet("PTXVM_DEVICE", all[i].device);
        assert_int_equal(cuDeviceGetAttribute(&value, 97, 0), 0);
        assert_int_equal(value, limit);
        assert_int_equal(cuDeviceGetAttribute(&value, 75, 0), 0);
        assert_int_equal(value, all[i].major);
        assert_int_equal(cuDeviceGetAttribute(&value, 76, 0), 0);
        assert_int_equal(value, all[i].minor);
        assert_int_equal(cuFuncSetAttribute(f->function, 8, 0), 0);
        assert_int_equal(
            cuLaunchKernel(f->function, 1, 1, 1, N, 1, 1, 49153, NULL, parameters, NULL), 1);
        assert_int_equal(cuFuncSetAttribute(f->function, 8, (int)limit + 1), 1);
        assert_int_equal(cuFuncSetAttribute(f->function, 8, (int)limit), 0);
        assert_int_equal(
            cuLaunchKernel(f->function, 1, 1, 1, N, 1, 1, limit, NULL, parameters, NULL), 0);
        assert_int_equal(cuCtxSynchronize(), 0);
    }
    ptxvmSet("PTXVM_DEVICE", "");
    assert_int_equal(cuLaunchKernel(f->function, 0, 1, 1, N, 1, 1, 0, NULL, parameters, NULL), 1);
    assert_int_equal(cuLaunchKernel(f->function, 1, 1, 1, 1025, 1, 1, 0, NULL, parameters, NULL),
                     1);
    assert_int_equal(cuLaunchKernel(f->function, 1, 65536, 1, N, 1, 1, 0, NULL, parameters, NULL),
                     1);
    assert_int_equal(cuLaunchKernel(NULL, 1, 1, 1, N, 1, 1, 0, NULL, parameters, NULL), 400);
}

/* Parameters may come as one blob. */
static void test_extra(void **state)
{
    fixture *f = *state;
    struct {
        uint64_t memory;
        uint32_t a, b;
    } blob = {f->memory, 4, 2};
    size_t size = sizeof blob;
    void *extra[5] = {(void *)1, &blob, (void *)2, &size, NULL};
    assert_int_equal(cuLaunchKernel(f->function, 1, 1, 1, N, 1, 1, 0, f->stream, NULL, extra), 0);
    assert_int_equal(cuStreamSynchronize(f->stream), 0);
    assert_int_equal(first(f), 6);
    size = 8;
    assert_int_equal(cuLaunchKernel(f->function, 1, 1, 1, N, 1, 1, 0, f->stream, NULL, extra), 1);
    assert_int_equal(cuLaunchKernel(f->function, 1, 1, 1, N, 1, 1, 0, f->stream, NULL, NULL), 1);
}

static void test_faults(void **state)
{
    fixture *f = *state;
    uint64_t memory = 0;
    ptxvmSet("PTXVM_FAULT", "cuMemAlloc_v2:2:2");
    assert_int_equal(cuMemAlloc_v2(&memory, 16), 0);
    cuMemFree_v2(memory);
    assert_int_equal(cuMemAlloc_v2(&memory, 16), 2);
    assert_int_equal(cuMemAlloc_v2(&memory, 16), 0);
    cuMemFree_v2(memory);
    assert_int_equal(ptxvmCalls("cuMemAlloc_v2"), 3);
    ptxvmSet("PTXVM_FAULT", "cuLaunchKernel:2:719:on");
    assert_int_equal(launch(f, 1, 1, f->stream), 0);
    assert_int_equal(launch(f, 1, 1, f->stream), 719);
    assert_int_equal(launch(f, 1, 1, f->stream), 719);
    assert_int_equal(cuStreamSynchronize(f->stream), 0);
    ptxvmSet("PTXVM_FAULT", "*:3:999");
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_int_equal(cuStreamSynchronize(f->stream), 0);
    assert_int_equal(cuCtxSynchronize(), 999);
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_int_equal(ptxvmCalls(NULL), 4);
    assert_string_equal(ptxvmEntryName(0), "cuInit");
    assert_null(ptxvmEntryName(1000));
}

static void test_ledger(void **state)
{
    (void)state;
    char text[400];
    int before = ptxvmLedger(text, sizeof text);
    void *event = NULL;
    assert_int_equal(cuEventCreate(&event, 0), 0);
    assert_int_equal(ptxvmLedger(text, sizeof text), before + 1);
    assert_non_null(strstr(text, "event: 1\n"));
    assert_int_equal(cuEventDestroy_v2(event), 0);
    assert_int_equal(ptxvmLedger(text, sizeof text), before);
    assert_null(strstr(text, "event"));
}

static void test_coverage(void **state)
{
    fixture *f = *state;
    char prefix[100];
    char path[140];
    snprintf(prefix, sizeof prefix, "/tmp/ptxvm-test-%ld", (long)getpid());
    ptxvmSet("PTXVM_COVERAGE", prefix);
    assert_int_equal(launch(f, 1, 1, f->stream), 0);
    assert_int_equal(cuStreamSynchronize(f->stream), 0);
    assert_int_equal(ptxvmWriteCoverage(), 0);
    snprintf(path, sizeof path, "%s.%ld.info", prefix, (long)getpid());
    char *info = run_read(path);
    assert_non_null(info);
    unlink(path);
    assert_non_null(
        strstr(info, "SF:demo/affine.cu\nDA:7,3\nDA:8,3\nDA:9,2\nDA:10,2\nDA:11,1\nDA:20,2\n"));
    free(info);
    snprintf(path, sizeof path, "%s.%ld.ptx", prefix, (long)getpid());
    char *code = run_read(path);
    assert_non_null(code);
    unlink(path);
    assert_non_null(strstr(code, "affine 11 of 12, missed lines: 18 from 9\n"));
    free(code);
    ptxvmSet("PTXVM_COVERAGE", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_queues, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_events, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_legacy_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_graph, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_capture_rules, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_capture_of_a_lost_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sticky, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_undefined, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_operands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_modules, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_extra, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_faults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ledger, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_coverage, set_up, tear_down)};
    const int early = cuMemGetInfo_v2(NULL, NULL); /* nothing works before cuInit */
    run_open();
    return early != 3 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
