/* SPDX-License-Identifier: MIT */
/* Copies in flight own memory: whoever writes their source or touches their target, and is ordered
 * neither before nor after them, is reported whatever order it ran in. And host functions, which
 * other threads may be what they wait for. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ptxvm/run.h"

enum { N = 64, BYTES = N * 4, SEEDS = 6 };

/* y[i] += 1, or only a look at x[i], whose sum with 1 goes to y[i]. */
static const char text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry add(.param .u64 y, .param .u64 x)\n"
    "{\n .reg .b32 %r<3>; .reg .b64 %d<5>;\n"
    " ld.param.u64 %d1, [y]; ld.param.u64 %d2, [x];\n"
    " mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;\n"
    " add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;\n"
    " ld.global.u32 %r2, [%d2]; add.u32 %r2, %r2, 1; st.global.u32 [%d1], %r2;\n"
    " ret;\n}\n";

typedef struct fixture {
    void *module;
    void *function;
    void *work;
    void *copies;
    void *begun;
    void *ended;
    uint64_t x;
    uint64_t y;
    uint64_t z;
    uint32_t *pinned;
} fixture;

static int set_up(void **state)
{
    uint32_t values[N];
    fixture *f = calloc(1, sizeof *f);
    assert_int_equal(cuModuleLoadData(&f->module, text), 0);
    assert_int_equal(cuModuleGetFunction(&f->function, f->module, "add"), 0);
    assert_int_equal(cuStreamCreate(&f->work, 1), 0);
    assert_int_equal(cuStreamCreate(&f->copies, 1), 0);
    assert_int_equal(cuEventCreate(&f->begun, 2), 0);
    assert_int_equal(cuEventCreate(&f->ended, 2), 0);
    for (uint32_t i = 0; i < N; i++) {
        values[i] = 10 * i;
    }
    f->x = run_upload(values, sizeof values);
    f->y = run_upload(values, sizeof values);
    f->z = run_upload(values, sizeof values);
    assert_int_equal(cuMemHostAlloc((void **)&f->pinned, BYTES, 0), 0);
    memcpy(f->pinned, values, BYTES);
    ptxvmSet("PTXVM_QUIET", "1");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    ptxvmSet("PTXVM_SEED", "0");
    ptxvmSet("PTXVM_QUIET", "0");
    ptxvmRevive();
    assert_int_equal(cuStreamDestroy_v2(f->work), 0);
    assert_int_equal(cuStreamDestroy_v2(f->copies), 0);
    assert_int_equal(cuEventDestroy_v2(f->begun), 0);
    assert_int_equal(cuEventDestroy_v2(f->ended), 0);
    assert_int_equal(cuMemFree_v2(f->x), 0);
    assert_int_equal(cuMemFree_v2(f->y), 0);
    assert_int_equal(cuMemFree_v2(f->z), 0);
    assert_int_equal(cuMemFreeHost(f->pinned), 0);
    assert_int_equal(cuModuleUnload(f->module), 0);
    free(f);
    return 0;
}

static void add(const fixture *f, uint64_t y, uint64_t x)
{
    void *parameters[2] = {&y, &x};
    assert_int_equal(cuLaunchKernel(f->function, 1, 1, 1, N, 1, 1, 0, f->work, parameters, NULL),
                     0);
}

/* `to` waits for what `from` has been given so far. */
static void order(void *from, void *to, void *event)
{
    assert_int_equal(cuEventRecord(event, from), 0);
    assert_int_equal(cuStreamWaitEvent(to, event, 0), 0);
}

/* A program: x goes to z on the stream of copies while the other does something. */
typedef void middle(const fixture *f);

static void program(const fixture *f, middle *meanwhile, middle *after)
{
    add(f, f->x, f->x);
    order(f->work, f->copies, f->begun);
    assert_int_equal(cuMemcpyAsync(f->z, f->x, BYTES, f->copies), 0);
    assert_int_equal(cuEventRecord(f->ended, f->copies), 0);
    meanwhile(f);
    assert_int_equal(cuStreamWaitEvent(f->work, f->ended, 0), 0);
    after(f);
}

static void nothing(const fixture *f)
{
    (void)f;
}

static void read_source(const fixture *f)
{
    add(f, f->y, f->x);
}

static void write_source(const fixture *f)
{
    add(f, f->x, f->y);
}

static void read_target(const fixture *f)
{
    add(f, f->y, f->z);
}

static void write_target(const fixture *f)
{
    add(f, f->z, f->y);
}

static void fill_target(const fixture *f)
{
    assert_int_equal(cuMemsetD32Async(f->z + 4, 7, 3, f->work), 0);
}

static void fill_elsewhere(const fixture *f)
{
    assert_int_equal(cuMemsetD32Async(f->y, 7, N, f->work), 0);
}

static void undefine_target(const fixture *f)
{
    assert_int_equal(ptxvmUndefineAsync(f->z, 4, f->work), 0);
}

static void copy_target(const fixture *f)
{
    assert_int_equal(cuMemcpyDtoDAsync_v2(f->y, f->z, 4, f->work), 0);
}

static void upload_source(const fixture *f)
{
    assert_int_equal(cuMemcpyHtoDAsync_v2(f->x, f->pinned, 4, f->work), 0);
}

static void download_target(const fixture *f)
{
    assert_int_equal(cuMemcpyDtoHAsync_v2(f->pinned, f->z, 4, f->work), 0);
}

static void download_source(const fixture *f)
{
    assert_int_equal(cuMemcpyDtoHAsync_v2(f->pinned, f->x, BYTES, f->work), 0);
}

/* Runs a program plainly or as a graph; the words of what was found, or "". */
static const char *found_in(const fixture *f, middle *meanwhile, middle *after, bool graphs)
{
    static char words[1024];
    void *graph = NULL, *exec = NULL;
    if (graphs) {
        assert_int_equal(cuStreamBeginCapture_v2(f->work, 0), 0);
    }
    program(f, meanwhile, after);
    if (graphs) {
        assert_int_equal(cuStreamEndCapture(f->work, &graph), 0);
        assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
        assert_int_equal(cuGraphLaunch(exec, f->work), 0);
    }
    int result = cuStreamSynchronize(f->work);
    words[0] = '\0';
    ptxvmReport(words, sizeof words);
    assert_int_equal(result, words[0] == '\0' ? 0 : 719);
    ptxvmRevive();
    if (graphs) {
        assert_int_equal(cuGraphExecDestroy(exec), 0);
        assert_int_equal(cuGraphDestroy(graph), 0);
    }
    return words;
}

/* Found in every order, with these words; and not when it comes after the wait. */
static void finds(const fixture *f, middle *what, const char *words)
{
    for (unsigned i = 0; i < 2 * SEEDS; i++) {
        const char seed[2] = {(char)('0' + i / 2), '\0'};
        ptxvmSet("PTXVM_SEED", seed);
        assert_string_equal(found_in(f, nothing, what, i % 2 == 1), "");
        const char *found = found_in(f, what, nothing, i % 2 == 1);
        if (words == NULL) {
            assert_string_equal(found, "");
        } else {
            if (strstr(found, words) == NULL) {
                print_error("%s\n", found);
                fail();
            }
            assert_non_null(strstr(found, "nothing orders the two"));
        }
    }
}

/* verifies device-20.1ca2 */
static void kernels_leave_copies_alone(void **state)
{
    finds(*state, read_source, NULL);
    finds(*state, fill_elsewhere, NULL);
    finds(*state, write_source, "kernel add, PTX line 10");
    finds(*state, write_source, "into its source");
    finds(*state, read_target, "into its target");
    finds(*state, write_target, "into its target");
}

/* verifies device-20.1ca2 */
static void copies_and_fills_leave_them_alone(void **state)
{
    finds(*state, fill_target, "a copy or fill writes");
    finds(*state, undefine_target, "a copy or fill writes");
    /* of two copies the one that runs first is told */
    finds(*state, copy_target, "a copy or fill");
    finds(*state, upload_source, "a copy or fill");
    finds(*state, download_target, "a copy or fill");
    finds(*state, download_source, NULL);
}

/* 4 of 16 words of a row: the gaps are nobody's. */
/* verifies device-20.1ca2 */
static void rows_have_gaps(void **state)
{
    const fixture *f = *state;
    static const uint64_t places[] = {0, 12, 16, 48, 64, 128 + 12, 192 + 16};
    static const bool owned[] = {true, true, false, false, true, true, false};
    const abi_copy copy = {.source_type = ABI_UNIFIED,
                           .source_device = f->x,
                           .source_pitch = 64,
                           .target_type = ABI_UNIFIED,
                           .target_device = f->z,
                           .target_pitch = 64,
                           .width = 16,
                           .height = 4};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        assert_int_equal(cuMemcpy2DAsync_v2(&copy, f->copies), 0);
        assert_int_equal(cuMemsetD32Async(f->z + places[i], 7, 1, f->work), 0);
        assert_int_equal(cuCtxSynchronize(), owned[i] ? 719 : 0);
        ptxvmRevive();
    }
    uint32_t z[N];
    assert_int_equal(cuMemcpy2DAsync_v2(&copy, f->copies), 0);
    assert_int_equal(cuCtxSynchronize(), 0);
    run_download(z, f->z, sizeof z);
    assert_true(z[0] == 0 && z[3] == 30 && z[16] == 160 && z[51] == 510);
    abi_copy wrong = copy;
    wrong.height = 5;
    assert_int_equal(cuMemcpy2DAsync_v2(&wrong, f->copies), 1);
    wrong = copy;
    wrong.target_pitch = 12;
    assert_int_equal(cuMemcpy2DAsync_v2(&wrong, f->copies), 1);
    wrong = copy;
    wrong.source_type = 1;
    assert_int_equal(cuMemcpy2DAsync_v2(&wrong, f->copies), 1);
    assert_int_equal(cuMemcpy2DAsync_v2(&copy, &wrong), 400);
    assert_int_equal(cuMemcpyAsync(f->z, (uint64_t)(uintptr_t)&wrong, 4, f->copies), 1);
}

/* The host's waits order what comes later, and so does the legacy stream. */
/* verifies device-20.1ca2 */
static void other_orders_count(void **state)
{
    const fixture *f = *state;
    void *blocking = NULL;
    assert_int_equal(cuMemcpyAsync(f->z, f->x, BYTES, f->copies), 0);
    assert_int_equal(cuStreamSynchronize(f->copies), 0);
    write_target(f);
    assert_int_equal(cuCtxSynchronize(), 0);
    /* but not what was queued before them */
    assert_int_equal(cuMemcpyAsync(f->z, f->x, BYTES, f->copies), 0);
    write_target(f);
    assert_int_equal(cuStreamSynchronize(f->copies), 0);
    assert_int_equal(cuStreamSynchronize(f->work), 719);
    ptxvmRevive();
    assert_int_equal(cuMemcpyAsync(f->z, f->x, BYTES, f->copies), 0);
    assert_int_equal(cuEventRecord(f->ended, f->copies), 0);
    assert_int_equal(cuEventSynchronize(f->ended), 0);
    write_target(f);
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_int_equal(cuMemcpyAsync(f->z, f->x, BYTES, f->copies), 0);
    while (cuStreamQuery(f->copies) == 600) {
    }
    write_target(f);
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_int_equal(cuStreamCreate(&blocking, 0), 0);
    assert_int_equal(cuMemcpyAsync(f->z, f->x, BYTES, blocking), 0);
    assert_int_equal(cuMemsetD32Async(f->z, 7, N, NULL), 0);
    assert_int_equal(cuMemcpyAsync(f->z, f->x, BYTES, blocking), 0);
    assert_int_equal(cuCtxSynchronize(), 0);
    assert_int_equal(cuStreamDestroy_v2(blocking), 0);
    /* pinned memory is owned as well */
    assert_int_equal(cuMemcpyAsync((uint64_t)(uintptr_t)f->pinned, f->x, BYTES, f->copies), 0);
    assert_int_equal(cuMemcpyAsync(f->y, (uint64_t)(uintptr_t)f->pinned, 4, f->work), 0);
    assert_int_equal(cuCtxSynchronize(), 719);
    ptxvmRevive();
}

/* A graph in flight owns what its copies do, for what runs beside it. */
/* verifies device-20.1ca2 */
static void graphs_own_memory_too(void **state)
{
    const fixture *f = *state;
    void *graph = NULL, *exec = NULL;
    assert_int_equal(cuStreamBeginCapture_v2(f->copies, 0), 0);
    assert_int_equal(cuMemcpyAsync(f->z, f->x, BYTES, f->copies), 0);
    assert_int_equal(cuStreamEndCapture(f->copies, &graph), 0);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    for (int ordered = 0; ordered < 2; ordered++) {
        assert_int_equal(cuGraphLaunch(exec, f->copies), 0);
        if (ordered == 1) {
            order(f->copies, f->work, f->ended);
        }
        read_target(f);
        assert_int_equal(cuCtxSynchronize(), ordered == 1 ? 0 : 719);
        ptxvmRevive();
    }
    assert_int_equal(cuGraphExecDestroy(exec), 0);
    assert_int_equal(cuGraphDestroy(graph), 0);
}

/* More streams than are followed: their work counts as ordered. */
/* verifies device-20.1ca2 */
static void many_streams(void **state)
{
    const fixture *f = *state;
    void *streams[40];
    for (int i = 0; i < 40; i++) {
        assert_int_equal(cuStreamCreate(&streams[i], 1), 0);
        assert_int_equal(cuMemcpyAsync(f->y, f->x, 4, streams[i]), 0);
        assert_int_equal(cuStreamSynchronize(streams[i]), 0);
    }
    for (int i = 0; i < 40; i++) {
        assert_int_equal(cuStreamDestroy_v2(streams[i]), 0);
    }
    finds(f, write_target, "into its target");
}

/* ---- host functions ---- */

static pthread_barrier_t meeting;
static int refused;

static void meet(void *data)
{
    int version = 0;
    refused = cuDriverGetVersion(&version) == 800 && cuInit(0) == 800 ? 1 : 0;
    pthread_barrier_wait(&meeting);
    *(int *)data += 1;
}

static void *wait_for(void *stream)
{
    static int failed;
    return cuStreamSynchronize(stream) == 0 ? NULL : &failed;
}

/* Each waits for the other, on threads that wait for their own streams. */
/* verifies device-20.1ca2 */
static void host_functions_do_not_stop_others(void **state)
{
    const fixture *f = *state;
    int met[2] = {0, 0};
    pthread_t other;
    void *failed = NULL;
    assert_int_equal(pthread_barrier_init(&meeting, NULL, 2), 0);
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        const char digit[2] = {(char)('0' + seed), '\0'};
        ptxvmSet("PTXVM_SEED", digit);
        write_source(f);
        assert_int_equal(cuLaunchHostFunc(f->work, meet, &met[0]), 0);
        assert_int_equal(cuLaunchHostFunc(f->copies, meet, &met[1]), 0);
        write_source(f);
        assert_int_equal(pthread_create(&other, NULL, wait_for, f->copies), 0);
        assert_null(wait_for(f->work));
        assert_int_equal(pthread_join(other, &failed), 0);
        assert_null(failed);
    }
    assert_true(met[0] == SEEDS && met[1] == SEEDS && refused == 1);
    assert_int_equal(pthread_barrier_destroy(&meeting), 0);
}

static void *allocate(void *unused)
{
    uint64_t memory = 0;
    static int failed;
    (void)unused;
    return cuMemAlloc_v2(&memory, 64) == 0 && cuMemFree_v2(memory) == 0 ? NULL : &failed;
}

/* What another thread allocates spoils a capture that minds every thread, not one that minds its
 * own. */
/* verifies device-20.1ca2 */
static void captures_mind_their_threads(void **state)
{
    const fixture *f = *state;
    for (int mode = 0; mode < 3; mode++) {
        void *graph = NULL, *failed = NULL;
        pthread_t other;
        assert_int_equal(cuStreamBeginCapture_v2(f->work, mode), 0);
        write_source(f);
        assert_int_equal(pthread_create(&other, NULL, allocate, NULL), 0);
        assert_int_equal(pthread_join(other, &failed), 0);
        assert_true((failed == NULL) == (mode != 0));
        assert_int_equal(cuStreamEndCapture(f->work, &graph), mode == 0 ? 901 : 0);
        assert_true(mode == 0 || cuGraphDestroy(graph) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_leave_copies_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies_and_fills_leave_them_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_have_gaps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_orders_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(graphs_own_memory_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_streams, set_up, tear_down),
        cmocka_unit_test_setup_teardown(host_functions_do_not_stop_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(captures_mind_their_threads, set_up, tear_down),
    };
    run_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
