/* SPDX-License-Identifier: MIT */
/* The CUDA device's calls on a program of copies: results, order, refusals, and every call of the
 * driver failing in turn. Whole models are in test_cuda_training.c. */
#include <setjmp.h>
#include <signal.h>
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
#include "device/cuda/share.h"
#include "device/fabric/leave.h"
#include "tests/fixtures/fake_driver.h"

#define ARENA_BYTES (UINT64_C(4) << 20)
#define COUNT       1000
#define BYTES       (COUNT * sizeof(float))
#define TARGET      65536 /* where program 0 copies offset 0 to, and program 1 from there on */

static const bp_device *const cuda = &bp_device_cuda;
static instrument on;

/* An open device and two programs: one copies x to y, one x to y and y to z. */
typedef struct bench {
    void *context;
    void *link_memory[2];
    size_t link_bytes;
    bp_error error;
    bp_copy_scalars scalars;
    uint64_t offsets[4];
    uint8_t dtypes[2];
    bp_linked_op ops[2];
    bp_linked_program program[2];
    float x[COUNT];
    float y[COUNT];
} bench;

static bench *bench_new(void)
{
    bench *b = calloc(1, sizeof *b);
    b->context = calloc(1, cuda->context_bytes);
    b->link_bytes = cuda->link_bytes(2, 4, 2);
    b->scalars.count = COUNT;
    const uint64_t offsets[4] = {TARGET, 0, 2 * TARGET, TARGET};
    memcpy(b->offsets, offsets, sizeof offsets);
    memset(b->dtypes, BP_F32, sizeof b->dtypes);
    for (uint32_t i = 0; i < 2; i++) {
        b->link_memory[i] = malloc(b->link_bytes);
        b->ops[i] = (bp_linked_op){.kernel = BP_KERNEL_copy,
                                   .tuples = 1,
                                   .offsets = b->offsets + 2 * i,
                                   .scalars = &b->scalars,
                                   .dtypes = b->dtypes,
                                   .table = BP_OFFSET_ABSENT};
        b->program[i] = (bp_linked_program){b->ops, i + 1};
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        b->x[i] = (float)i + 0.25f;
    }
    return b;
}

static int setup(void **state)
{
    *state = bench_new();
    return 0;
}

static int teardown(void **state)
{
    bench *b = *state;
    free(b->context);
    free(b->link_memory[0]);
    free(b->link_memory[1]);
    free(b);
    return 0;
}

static bp_status open_with(bench *b, const char *variant, const char *target)
{
    const bp_device_options options = {.variant = variant, .target = target};
    b->error = (bp_error){0};
    const bp_regions places = bp_regions_device(NULL, ARENA_BYTES);
    return cuda->open(b->context, &options, &places, &b->error);
}

static bp_status link_both(bench *b)
{
    for (uint32_t i = 0; i < 2; i++) {
        BP_TRY(cuda->link(b->context, i, &b->program[i], b->link_memory[i], b->link_bytes));
    }
    return cuda->seal(b->context);
}

static bp_status use(bench *b)
{
    memset(b->y, 0, sizeof b->y);
    BP_TRY(cuda->upload(b->context, 0, b->x, BYTES));
    BP_TRY(cuda->run(b->context, 1));
    BP_TRY(cuda->download(b->context, 2 * TARGET, b->y, BYTES));
    return cuda->wait(b->context);
}

static int ledger(void)
{
    char text[512] = "";
    int alive = on.ledger(text, sizeof text);
    if (alive != 0) {
        print_message("%s", text);
    }
    return alive;
}

/* verifies device-29.3a80 */
static void programs_run_in_either_form(void **state)
{
    bench *b = *state;
    static const char *const variants[] = {NULL, "graph", "plain"};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(open_with(b, variants[i], NULL), BP_OK);
        assert_int_equal(link_both(b), BP_OK);
        assert_int_equal(use(b), BP_OK);
        assert_memory_equal(b->x, b->y, BYTES);
        assert_string_equal(cuda->variant(b->context), "cuda sm_80");
        assert_true(cuda->bytes_in_use(b->context) >= ARENA_BYTES);
        cuda->close(b->context);
        assert_string_equal(bp_cuda_log(b->context), "");
        assert_true(on.real || ledger() == 0);
    }
}

/* verifies device-29.3a80 */
static void the_arena_begins_as_zeros(void **state)
{
    bench *b = *state;
    assert_int_equal(open_with(b, NULL, NULL), BP_OK);
    assert_int_equal(cuda->download(b->context, ARENA_BYTES - BYTES, b->y, BYTES), BP_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(b->y[i] == 0.0f);
    }
    cuda->close(b->context);
}

/* Runs see the uploads before them, downloads the runs before them, with nothing waited for. */
static void check_order(bench *b)
{
    float got[COUNT];
    assert_int_equal(open_with(b, NULL, NULL), BP_OK);
    assert_int_equal(link_both(b), BP_OK);
    for (uint32_t round = 0; round < 8; round++) {
        b->x[7] = (float)round;
        assert_int_equal(cuda->upload(b->context, 0, b->x, BYTES), BP_OK);
        b->x[7] = -1.0f; /* the caller's memory is free at once */
        assert_int_equal(cuda->run(b->context, 0), BP_OK);
        b->x[7] = 100.0f + (float)round;
        assert_int_equal(cuda->upload(b->context, 0, b->x, BYTES), BP_OK);
        if (round % 2 == 1) {
            assert_int_equal(cuda->download(b->context, TARGET, got, BYTES), BP_OK);
            assert_true(got[7] == (float)round);
        }
    }
    cuda->close(b->context);
}

/* Whichever of the streams that are ready goes first. */
/* verifies device-29.3a80 */
static void copies_and_runs_keep_their_order(void **state)
{
    for (uint32_t seed = 0; seed < (on.real ? 1 : 10); seed++) {
        const char digit[2] = {(char)('0' + seed), '\0'};
        if (!on.real) {
            on.set("PTXVM_SEED", digit);
        }
        check_order(*state);
    }
    if (!on.real) {
        on.set("PTXVM_SEED", "0");
    }
}

/* More than all staging slots together, in both directions. */
/* verifies device-29.3a80 */
static void large_copies_go_in_pieces(void **state)
{
    bench *b = *state;
    size_t bytes = 3 * CUDA_SLOT_BYTES + 12345;
    unsigned char *out = malloc(bytes);
    unsigned char *in = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (unsigned char)(i * 2654435761u >> 11);
    }
    assert_int_equal(open_with(b, NULL, NULL), BP_OK);
    assert_int_equal(cuda->upload(b->context, 77, out, bytes), BP_OK);
    assert_int_equal(cuda->download(b->context, 77, in, bytes), BP_OK);
    assert_memory_equal(in, out, bytes);
    assert_int_equal(cuda->upload(b->context, ARENA_BYTES, out, 0), BP_OK);
    assert_int_equal(cuda->upload(b->context, ARENA_BYTES, out, 1), BP_ERR_USAGE);
    assert_int_equal(cuda->download(b->context, UINT64_MAX, in, 2), BP_ERR_USAGE);
    cuda->close(b->context);
    free(out);
    free(in);
}

static void open_refuses(void **state)
{
    bench *b = *state;
    assert_int_equal(open_with(b, "avx2", NULL), BP_ERR_USAGE);
    assert_string_equal(b->error.text, "no such variant; there are graph and plain");
    assert_int_equal(open_with(b, NULL, "sm_75"), BP_ERR_USAGE);
    assert_string_equal(b->error.name, "sm_75");
    const bp_device_options far = {.ordinal = 999};
    b->error = (bp_error){0};
    const bp_regions places = bp_regions_device(NULL, ARENA_BYTES);
    assert_int_equal(cuda->open(b->context, &far, &places, &b->error), BP_ERR_DEVICE);
    assert_string_equal(b->error.text, "there is no GPU of that number, counted from 0");
    const bp_device_options plain = {0};
    b->error = (bp_error){0};
    const bp_regions huge = bp_regions_device(NULL, UINT64_C(1) << 60);
    assert_int_equal(cuda->open(b->context, &plain, &huge, &b->error), BP_ERR_DEVICE);
    assert_string_equal(b->error.text,
                        "the GPU's free memory, in bytes, is smaller than the arena");
    assert_true(b->error.wanted == INT64_C(1) << 60 && b->error.found > 0);
    assert_true(on.real || ledger() == 0);
    /* A closed context stays closed, and an error record may be missing. */
    cuda->close(b->context);
    assert_int_equal(cuda->open(b->context, &plain, &huge, NULL), BP_ERR_DEVICE);
}

/* verifies device-13.a20e */
static void machines_that_do_not_fit_are_refused(void **state)
{
    bench *b = *state;
    if (on.real) {
        return;
    }
    on.set("PTXVM_DRIVER", "11040");
    assert_int_equal(open_with(b, NULL, NULL), BP_ERR_DEVICE);
    assert_non_null(strstr(b->error.text, "the NVIDIA driver is too old for the PTX"));
    assert_int_equal(b->error.found, 11040);
    on.set("PTXVM_DRIVER", "13000");
    on.set("PTXVM_DEVICE", "none");
    assert_int_equal(open_with(b, NULL, NULL), BP_ERR_DEVICE);
    assert_string_equal(b->error.text, "the NVIDIA driver finds no GPU");
    on.set("PTXVM_DEVICE", "sm_75");
    assert_int_equal(open_with(b, NULL, NULL), BP_ERR_DEVICE);
    assert_int_equal(b->error.found, 75);
    assert_int_equal(b->error.wanted, 80);
    on.set("PTXVM_DEVICE", "sm_100");
    assert_int_equal(open_with(b, NULL, "sm_90a"), BP_ERR_DEVICE);
    assert_int_equal(b->error.found, 100);
    on.set("PTXVM_DEVICE", "sm_80");
    assert_int_equal(open_with(b, NULL, NULL), BP_OK);
    cuda->close(b->context);
    assert_int_equal(ledger(), 0);
}

/* What a plan asks needs no driver and no open device, but a target that there is. */
static void workspaces_are_known_without_a_gpu(void **state)
{
    (void)state;
    static const char *const targets[] = {NULL, "sm_80", "sm_90a"};
    const bp_copy_scalars scalars = {.count = COUNT};
    bp_device_options options = {0};
    for (uint32_t i = 0; i < 3; i++) {
        options.target = targets[i];
        assert_true(cuda->workspace(&options, BP_KERNEL_copy, &scalars, NULL) == 0);
    }
    options.target = "sm_1";
    assert_true(cuda->workspace(&options, BP_KERNEL_copy, &scalars, NULL) == BP_SIZE_INVALID);
}

static void wrong_calls_are_refused(void **state)
{
    bench *b = *state;
    assert_int_equal(open_with(b, NULL, NULL), BP_OK);
    assert_int_equal(
        cuda->link(b->context, BP_PROGRAMS_MAX, &b->program[0], b->link_memory[0], b->link_bytes),
        BP_ERR_USAGE);
    assert_int_equal(cuda->run(b->context, 0), BP_ERR_USAGE);
    assert_int_equal(cuda->run(b->context, BP_PROGRAMS_MAX), BP_ERR_USAGE);
    assert_int_equal(link_both(b), BP_OK);
    assert_int_equal(cuda->link(b->context, 0, &b->program[0], b->link_memory[0], b->link_bytes),
                     BP_ERR_SEALED);
    assert_int_equal(use(b), BP_OK);
    cuda->close(b->context);
    assert_int_equal(cuda->wait(b->context), BP_ERR_DEVICE);
}

/* Before the seal a program may be linked anew, and run. */
/* verifies device-29.3a80 */
static void programs_are_linked_anew(void **state)
{
    bench *b = *state;
    assert_int_equal(open_with(b, NULL, NULL), BP_OK);
    for (uint32_t i = 0; i < 3; i++) {
        const bp_linked_program *program = &b->program[i % 2];
        assert_int_equal(cuda->link(b->context, 1, program, b->link_memory[0], b->link_bytes),
                         BP_OK);
    }
    assert_int_equal(cuda->link(b->context, 1, &b->program[1], b->link_memory[1], b->link_bytes),
                     BP_OK);
    assert_int_equal(use(b), BP_OK);
    assert_memory_equal(b->x, b->y, BYTES);
    cuda->close(b->context);
    assert_true(on.real || ledger() == 0);
}

static void small_link_memory_is_refused(void **state)
{
    bench *b = *state;
    const size_t sizes[] = {0, sizeof(cuda_record) * BP_CUDA_LAUNCHES_MAX + 16};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(open_with(b, NULL, NULL), BP_OK);
        assert_int_equal(cuda->link(b->context, 0, &b->program[0], b->link_memory[0], sizes[i]),
                         BP_ERR_FIT);
        assert_string_equal(b->error.text, "the memory for linking is too small");
        cuda->close(b->context);
    }
}

/* verifies device-15.df67 */
static void element_types_without_a_kernel_are_refused(void **state)
{
    bench *b = *state;
    b->dtypes[0] = BP_I32;
    b->dtypes[1] = BP_I32;
    assert_int_equal(open_with(b, NULL, NULL), BP_OK);
    assert_int_equal(cuda->link(b->context, 0, &b->program[0], b->link_memory[0], b->link_bytes),
                     BP_ERR_USAGE);
    assert_string_equal(b->error.name, "copy");
    cuda->close(b->context);
}

/* verifies device-6.2f83 */
static void memory_outside_the_arena_is_reported(void **state)
{
    bench *b = *state;
    bp_device_memory memory;
    assert_int_equal(open_with(b, NULL, NULL), BP_OK);
    assert_int_equal(link_both(b), BP_OK);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(use(b), BP_OK);
    }
    assert_int_equal(bp_cuda_memory_read(b->context, true, &memory), BP_OK);
    assert_true(memory.free_context - memory.free_arena >= ARENA_BYTES);
    assert_true(memory.free_arena >= memory.free_linked);
    assert_true(memory.free_linked >= memory.free_sealed);
    assert_true(memory.free_now == memory.free_sealed || on.real);
    assert_true(memory.total >= memory.free_context);
    cuda->close(b->context);
}

static void the_share_is_asked_of_the_management_library(void **state)
{
    (void)state;
    static const bp_cu_uuid uuid = {.bytes = {'p', 't', 'x', 'v', 'm'}};
    static const char *const faults[] = {"init", "find", "list", "unknown"};
    if (on.real) {
        return;
    }
    unsetenv("FAKE_ML");
    assert_true(bp_cuda_share(&uuid) == 0); /* not there */
    assert_true(fake_driver_load_other("libnvidia-ml.so.1"));
    assert_true(bp_cuda_share(&uuid) == 123456789);
    static const bp_cu_uuid other = {.bytes = {1}};
    assert_true(bp_cuda_share(&other) == 0);
    for (size_t i = 0; i < 4; i++) {
        setenv("FAKE_ML", faults[i], 1);
        assert_true(bp_cuda_share(&uuid) == 0);
    }
    unsetenv("FAKE_ML");
}

/* The whole life of a device, until something fails. */
static bp_status live(bench *b, const char *variant)
{
    BP_TRY(open_with(b, variant, NULL));
    BP_TRY(link_both(b));
    BP_TRY(use(b));
    bp_device_memory memory;
    return bp_cuda_memory_read(b->context, true, &memory);
}

/* After a failure nothing is asked of the driver but to take things back. */
static bool stays_down(bench *b)
{
    int before = on.calls(NULL);
    bool down = cuda->upload(b->context, 0, b->x, BYTES) == BP_ERR_DEVICE &&
                cuda->download(b->context, 0, b->y, BYTES) == BP_ERR_DEVICE &&
                cuda->wait(b->context) == BP_ERR_DEVICE && cuda->bytes_in_use(b->context) == 0;
    return down && on.calls(NULL) == before;
}

static bool opened(const bench *b)
{
    return ((const cuda_context *)b->context)->handle != NULL;
}

enum { LIVED = 0, FAILED_WELL = 3, FAILED_BADLY = 4 };

static int badly(int n, const bench *b, const char *text)
{
    print_error("call %d (%s): %s\n", n, b->error.name, text);
    return FAILED_BADLY;
}

/* Fails call number n of the driver with `result` and looks at what is left. */
static int fail_call(bench *b, const char *variant, int n, int result)
{
    char fault[64];
    char left[512] = "";
    snprintf(fault, sizeof fault, "*:%d:%d", n, result);
    on.set("PTXVM_FAULT", fault);
    bp_status status = live(b, variant);
    bool capture = strstr(b->error.name, "from cuStreamEndCapture") != NULL;
    if (status == BP_OK) {
        on.set("PTXVM_FAULT", "");
        cuda->close(b->context);
        return on.ledger(left, sizeof left) == 0 ? LIVED : badly(n, b, left);
    }
    if (status != BP_ERR_DEVICE || b->error.code != BP_ERR_DEVICE || b->error.text == NULL ||
        b->error.name[0] == '\0') {
        return badly(n, b, "the error is not told");
    }
    if (opened(b) && !stays_down(b)) {
        return badly(n, b, "a failed device goes on");
    }
    int before = on.calls(NULL);
    cuda->close(b->context);
    bool fatal = bp_cu_result_fatal(result);
    if (fatal && on.calls(NULL) - before > 2) {
        return badly(n, b, "a lost context is asked for more than its release");
    }
    /* A capture that cannot be ended ends with its stream, which the instrument does not do. */
    bool clean = fatal || capture || on.ledger(left, sizeof left) == 0;
    return clean ? FAILED_WELL : badly(n, b, left);
}

/* The same in a process of its own, since what a lost context had is lost with its process. */
static int fail_in_child(bench *b, const char *variant, int n, int result)
{
    int ended = 0;
    pid_t child = fork();
    if (child == 0) {
        int code = fail_call(b, variant, n, result);
        if (bp_cu_result_fatal(result) ||
            strstr(b->error.name, "from cuStreamEndCapture") != NULL) {
            bp_leave(code); /* and with it what the instrument still holds */
        }
        exit(code);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : FAILED_BADLY;
}

/* Every call of open, link, seal, use and close, one after the other. */
static void every_call_fails(bench *b, const char *variant, int result)
{
    int n = 1;
    int code = FAILED_WELL;
    while (code == FAILED_WELL && n < 1000) {
        code = fail_in_child(b, variant, n, result);
        n++;
    }
    assert_int_equal(code, LIVED);
    assert_true(n > 40);
}

/* Touches the arena while the GPU has work: what a Jetson's answers with a bus error. */
static void touch_while_busy(bench *b)
{
    const cuda_context *context = b->context;
    int ended = 0;
    const pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* cmocka's own would go on with the next test */
        const bp_status before = cuda->upload(b->context, 0, b->x, BYTES);
        memcpy(b->y, (const void *)(uintptr_t)context->arena, BYTES); /* idle: the host's */
        const bp_status run = cuda->run(b->context, 1);
        bp_leave(before != BP_OK || run != BP_OK ||
                 *(const volatile unsigned char *)(uintptr_t)context->arena != 77);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended));
}

/* A GPU without memory of its own has the arena where the host reaches it: nothing is copied, and
 * the host waits until the GPU is idle. */
/* verifies device-35.61d3 */
static void an_integrated_gpu_shares_its_arena(void **state)
{
    bench *b = *state;
    if (on.real) {
        return;
    }
    on.set("PTXVM_DEVICE", "sm_87");
    const int copies = on.calls("cuMemcpyHtoDAsync_v2") + on.calls("cuMemcpyDtoHAsync_v2");
    assert_int_equal(open_with(b, NULL, NULL), BP_OK);
    const cuda_context *context = b->context;
    assert_true(context->shared && cuda->bytes_in_use(b->context) >= ARENA_BYTES);
    assert_int_equal(link_both(b), BP_OK);
    assert_int_equal(use(b), BP_OK);
    assert_memory_equal(b->x, b->y, BYTES);
    assert_memory_equal(b->x, (const unsigned char *)(uintptr_t)context->arena + TARGET, BYTES);
    touch_while_busy(b);
    cuda->close(b->context);
    check_order(b);
    every_call_fails(b, "graph", 1);
    assert_int_equal(on.calls("cuMemcpyHtoDAsync_v2") + on.calls("cuMemcpyDtoHAsync_v2"), copies);
    on.set("PTXVM_MEMORY", "1000000");
    assert_int_equal(open_with(b, NULL, NULL), BP_ERR_DEVICE);
    on.set("PTXVM_MEMORY", "");
    on.set("PTXVM_DEVICE", "sm_80");
    assert_int_equal(open_with(b, NULL, NULL), BP_OK);
    assert_false(context->shared);
    cuda->close(b->context);
    assert_int_equal(ledger(), 0);
}

/* verifies device-12.8cb0 */
static void every_call_may_fail(void **state)
{
    if (!on.real) {
        every_call_fails(*state, "graph", 1);
        every_call_fails(*state, "graph", 2);
        every_call_fails(*state, "plain", 1);
    }
}

/* A lost context takes all it had with it; only its release is asked for. */
/* verifies device-12.8cb0 */
static void a_lost_gpu_is_left_alone(void **state)
{
    if (!on.real) {
        every_call_fails(*state, "graph", 719);
        every_call_fails(*state, "plain", 999);
    }
}

/* Closing goes on when giving something back fails, and stops asking when the context is lost. */
/* verifies device-12.8cb0 */
static void closing_survives_failures(void **state)
{
    bench *b = *state;
    static const int results[] = {1, 700};
    for (int n = 0; !on.real && n < 36; n++) {
        char fault[64];
        int ended = 0;
        pid_t child = fork();
        if (child == 0) {
            bool lived = live(b, NULL) == BP_OK;
            snprintf(fault, sizeof fault, "*:%d:%d", n / 2 + 1, results[n % 2]);
            on.set("PTXVM_FAULT", fault);
            cuda->close(b->context);
            bp_leave(lived && b->error.code == BP_OK && !opened(b) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_int_equal(ended, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(programs_run_in_either_form, setup, teardown),
        cmocka_unit_test_setup_teardown(the_arena_begins_as_zeros, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_and_runs_keep_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(large_copies_go_in_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(open_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(machines_that_do_not_fit_are_refused, setup, teardown),
        cmocka_unit_test(workspaces_are_known_without_a_gpu),
        cmocka_unit_test_setup_teardown(wrong_calls_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(programs_are_linked_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(small_link_memory_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(element_types_without_a_kernel_are_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(memory_outside_the_arena_is_reported, setup, teardown),
        cmocka_unit_test(the_share_is_asked_of_the_management_library),
        cmocka_unit_test_setup_teardown(an_integrated_gpu_shares_its_arena, setup, teardown),
        cmocka_unit_test_setup_teardown(every_call_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_gpu_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_survives_failures, setup, teardown),
    };
    if (!fake_driver_load(&on)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
