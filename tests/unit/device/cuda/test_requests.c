/* SPDX-License-Identifier: MIT */
/* What CUDA programs begin beside their work: copies between the GPU's arena and the host's, in
 * graphs and plainly. The instrument checks that nobody touches what a copy in flight owns. */
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
#include "device/fabric/leave.h"
#include "tests/fixtures/fake_driver.h"

#define DEVICE_BYTES (UINT64_C(1) << 20)
#define HOST_BYTES   (UINT64_C(1) << 18)
#define COUNT        500
#define BYTES        (COUNT * sizeof(float))
#define ROOM         4096 /* between places of a test */
#define OPS_MOST     40
#define SEEDS        5

static const bp_device *const cuda = &bp_device_cuda;
static instrument on;
static const char *const variants[] = {"graph", "plain"};

/* An open device and a program written op by op. */
typedef struct bench {
    void *context;
    void *link_memory;
    size_t link_bytes;
    bp_error error;
    bp_regions places;
    uint64_t offsets[OPS_MOST][4];
    int64_t scalars[OPS_MOST][8];
    uint8_t dtypes[4];
    bp_linked_op ops[OPS_MOST];
    uint32_t count;
    float x[COUNT];
    float y[COUNT];
} bench;

static int setup(void **state)
{
    bench *b = calloc(1, sizeof *b);
    b->context = calloc(1, cuda->context_bytes);
    b->link_bytes = cuda->link_bytes(OPS_MOST, 2 * OPS_MOST, 8 * OPS_MOST);
    b->link_memory = malloc(b->link_bytes);
    b->places = (bp_regions){.space = {{NULL, DEVICE_BYTES}, {NULL, HOST_BYTES}}};
    for (uint32_t i = 0; i < COUNT; i++) {
        b->x[i] = (float)i + 0.25f;
    }
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    bench *b = *state;
    if (!on.real) {
        on.set("PTXVM_SEED", "0");
        on.set("PTXVM_QUIET", "0");
    }
    free(b->context);
    free(b->link_memory);
    free(b);
    return 0;
}

static uint64_t device_at(uint32_t number)
{
    return bp_address(BP_SPACE_DEVICE, (uint64_t)number * ROOM);
}

static uint64_t host_at(uint32_t number)
{
    return bp_address(BP_SPACE_HOST, (uint64_t)number * ROOM);
}

/* ---- writing a program ---- */

static int64_t *add_op(bench *b, bp_kernel kernel, uint64_t to, uint64_t from)
{
    uint32_t i = b->count++;
    b->offsets[i][0] = to;
    b->offsets[i][1] = from;
    b->ops[i] =
        (bp_linked_op){kernel, 1, b->offsets[i], b->scalars[i], b->dtypes, BP_OFFSET_ABSENT};
    memset(b->scalars[i], 0, sizeof b->scalars[i]);
    return b->scalars[i];
}

/* y = x on the compute engine. */
static void compute(bench *b, uint64_t y, uint64_t x)
{
    add_op(b, BP_KERNEL_copy, y, x)[0] = COUNT;
}

static void transfer(bench *b, bp_kernel kernel, int64_t request, uint64_t to, uint64_t from)
{
    int64_t *s = add_op(b, kernel, to, from);
    s[0] = request;
    s[1] = 1;
    s[2] = s[3] = s[4] = BYTES;
}

static void begin(bench *b, int64_t request, uint64_t to, uint64_t from)
{
    transfer(b, BP_KERNEL_copy_begin, request, to, from);
}

static void wait_for(bench *b, int64_t request, uint64_t to, uint64_t from)
{
    transfer(b, BP_KERNEL_copy_wait, request, to, from);
}

/* ---- running it ---- */

static bp_status open_it(bench *b, const char *variant)
{
    const bp_device_options options = {.variant = variant};
    b->error = (bp_error){0};
    return cuda->open(b->context, &options, &b->places, &b->error);
}

static bp_status link_it(bench *b)
{
    const bp_linked_program program = {b->ops, b->count};
    BP_TRY(cuda->link(b->context, 0, &program, b->link_memory, b->link_bytes));
    return cuda->seal(b->context);
}

static void start(bench *b, const char *variant)
{
    assert_int_equal(open_it(b, variant), BP_OK);
    assert_int_equal(link_it(b), BP_OK);
    assert_int_equal(cuda->upload(b->context, device_at(0), b->x, BYTES), BP_OK);
}

static void assert_there(bench *b, uint64_t place)
{
    memset(b->y, 0, sizeof b->y);
    assert_int_equal(cuda->download(b->context, place, b->y, BYTES), BP_OK);
    assert_memory_equal(b->x, b->y, BYTES);
}

/* Closes; nothing is left. */
static void stop(bench *b)
{
    char left[512] = "";
    cuda->close(b->context);
    if (!on.real && on.ledger(left, sizeof left) != 0) {
        print_error("%s", left);
        fail();
    }
}

/* Out to the host's arena and back to another place, beside work on other places. */
static void write_round_trip(bench *b)
{
    b->count = 0;
    compute(b, device_at(1), device_at(0));
    begin(b, 0, host_at(3), device_at(1));
    compute(b, device_at(2), device_at(1)); /* reads the source: that is allowed */
    wait_for(b, 0, host_at(3), device_at(1));
    compute(b, device_at(1), device_at(2));
    begin(b, 1, device_at(4), host_at(3));
    begin(b, 2, host_at(5), device_at(0));
    begin(b, 3, device_at(6), device_at(0));
    compute(b, device_at(5), device_at(2));
    wait_for(b, 2, host_at(5), device_at(0));
    wait_for(b, 1, device_at(4), host_at(3));
    wait_for(b, 3, device_at(6), device_at(0));
    begin(b, 4, host_at(7), host_at(5));
    compute(b, device_at(8), device_at(4));
    wait_for(b, 4, host_at(7), host_at(5));
    static const int64_t rows[5] = {5, 3, 10, 24, 16};
    memcpy(add_op(b, BP_KERNEL_copy_begin, host_at(9), device_at(0)), rows, sizeof rows);
    memcpy(add_op(b, BP_KERNEL_copy_wait, host_at(9), device_at(0)), rows, sizeof rows);
}

/* verifies device-18.3d2e */
static void copies_go_there_and_back(void **state)
{
    bench *b = *state;
    write_round_trip(b);
    for (uint32_t i = 0; i < 2 * SEEDS; i++) {
        const char seed[2] = {(char)('0' + i / 2), '\0'};
        if (!on.real) {
            on.set("PTXVM_SEED", seed);
        }
        start(b, variants[i % 2]);
        for (uint32_t run = 0; run < 3; run++) {
            b->x[7] = (float)(100 * i + run);
            assert_int_equal(cuda->upload(b->context, device_at(0), b->x, BYTES), BP_OK);
            assert_int_equal(cuda->run(b->context, 0), BP_OK);
            assert_there(b, device_at(8));
            assert_there(b, host_at(7));
            assert_there(b, device_at(6));
            assert_there(b, host_at(3));
        }
        assert_int_equal(cuda->wait(b->context), BP_OK);
        stop(b);
    }
}

/* More copies than there are events, waited for in another order. */
/* verifies device-18.3d2e */
static void many_copies_fly(void **state)
{
    bench *b = *state;
    enum { MANY = 2 * CUDA_FLIGHTS + 1 };
    for (uint32_t i = 0; i < MANY; i++) {
        begin(b, i, host_at(i), device_at(0));
    }
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t which = i * 5 % MANY;
        wait_for(b, which, host_at(which), device_at(0));
    }
    for (uint32_t i = 0; i < 2; i++) {
        start(b, variants[i]);
        assert_int_equal(cuda->run(b->context, 0), BP_OK);
        for (uint32_t k = 0; k < MANY; k++) {
            assert_there(b, host_at(k));
        }
        stop(b);
    }
}

/* Three rows of ten bytes, 16 apart here and 24 there. */
/* verifies device-18.3d2e */
static void rows_have_pitches(void **state)
{
    bench *b = *state;
    static const int64_t shape[5] = {0, 3, 10, 24, 16};
    unsigned char got[72], *x = (unsigned char *)b->x;
    memcpy(add_op(b, BP_KERNEL_copy_begin, host_at(1), device_at(0)), shape, sizeof shape);
    memcpy(add_op(b, BP_KERNEL_copy_wait, host_at(1), device_at(0)), shape, sizeof shape);
    for (uint32_t i = 0; i < 2; i++) {
        start(b, variants[i]);
        assert_int_equal(cuda->run(b->context, 0), BP_OK);
        assert_int_equal(cuda->download(b->context, host_at(1), got, sizeof got), BP_OK);
        for (uint32_t k = 0; k < sizeof got; k++) {
            assert_int_equal(got[k], k % 24 < 10 ? x[k / 24 * 16 + k % 24] : 0);
        }
        stop(b);
    }
    b->count = 0;
    memcpy(add_op(b, BP_KERNEL_copy_begin, host_at(1), device_at(0)), shape, sizeof shape);
    b->scalars[0][1] = 0; /* nothing at all */
    start(b, NULL);
    assert_int_equal(cuda->run(b->context, 0), BP_OK);
    stop(b);
}

/* verifies device-18.3d2e */
static void the_host_arena_is_written_and_read(void **state)
{
    bench *b = *state;
    uint32_t words[COUNT];
    add_op(b, BP_KERNEL_poison, host_at(2), 0)[0] = BYTES;
    start(b, NULL);
    assert_int_equal(cuda->download(b->context, host_at(2), words, BYTES), BP_OK);
    assert_true(words[0] == 0 && words[COUNT - 1] == 0);
    assert_int_equal(cuda->upload(b->context, host_at(2), b->x, BYTES), BP_OK);
    assert_there(b, host_at(2));
    assert_int_equal(cuda->run(b->context, 0), BP_OK);
    assert_int_equal(cuda->download(b->context, host_at(2), words, BYTES), BP_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(words[i], 0x7fa00000);
    }
    uint64_t end = bp_address(BP_SPACE_HOST, HOST_BYTES);
    assert_int_equal(cuda->upload(b->context, end, b->x, 1), BP_ERR_USAGE);
    assert_int_equal(cuda->download(b->context, end - 3, b->y, 4), BP_ERR_USAGE);
    assert_int_equal(cuda->download(b->context, BP_OFFSET_ABSENT, b->y, 1), BP_ERR_USAGE);
    stop(b);
}

/* With nothing but the device arena there is nothing beside the work: copies are part of it. */
/* verifies device-18.3d2e */
static void without_a_host_arena_copies_are_work(void **state)
{
    bench *b = *state;
    b->places.space[BP_SPACE_HOST].bytes = 0;
    begin(b, 0, device_at(1), device_at(0));
    wait_for(b, 0, device_at(1), device_at(0));
    compute(b, device_at(2), device_at(1));
    for (uint32_t i = 0; i < 2; i++) {
        start(b, variants[i]);
        assert_null(((cuda_context *)b->context)->begun);
        assert_int_equal(cuda->run(b->context, 0), BP_OK);
        assert_there(b, device_at(2));
        stop(b);
    }
    begin(b, 1, host_at(1), device_at(0));
    assert_int_equal(open_it(b, NULL), BP_OK);
    assert_int_equal(link_it(b), BP_ERR_USAGE);
    assert_string_equal(b->error.text, "an operand lies in a memory space that was not given");
    assert_string_equal(b->error.name, "copy_begin");
    stop(b);
}

/* A group of one rank needs no fabric. */
/* verifies device-18.3d2e */
static void one_rank_is_a_group(void **state)
{
    static const bp_kernel calls[] = {BP_KERNEL_all_gather_begin, BP_KERNEL_exchange_begin,
                                      BP_KERNEL_broadcast_begin};
    bench *b = *state;
    for (uint32_t i = 0; i < 3; i++) {
        int64_t *s = add_op(b, calls[i], host_at(i), i == 0 ? device_at(0) : host_at(i - 1));
        s[0] = 2 * i;
        s[2] = 1;
        s[3] = BYTES;
        add_op(b, BP_KERNEL_fabric_wait, host_at(i), host_at(0))[0] = 2 * i;
        s = add_op(b, BP_KERNEL_broadcast_begin, host_at(i), host_at(i)); /* in place */
        s[0] = 2 * i + 1;
        s[2] = 1;
        s[3] = BYTES;
        add_op(b, BP_KERNEL_fabric_wait, host_at(i), host_at(i))[0] = 2 * i + 1;
    }
    for (uint32_t i = 0; i < 2; i++) {
        start(b, variants[i]);
        assert_int_equal(cuda->run(b->context, 0), BP_OK);
        assert_there(b, host_at(2));
        stop(b);
    }
    b->scalars[0][2] = 2;
    assert_int_equal(open_it(b, NULL), BP_OK);
    assert_int_equal(link_it(b), BP_ERR_USAGE);
    assert_string_equal(b->error.name, "all_gather_begin");
    stop(b);
}

/* verifies device-28.3659 */
static void rows_too_far_apart_are_refused(void **state)
{
    bench *b = *state;
    static const int64_t shape[5] = {0, 2, 0, INT64_C(1) << 31, 16};
    memcpy(add_op(b, BP_KERNEL_copy_begin, host_at(1), device_at(0)), shape, sizeof shape);
    assert_int_equal(open_it(b, NULL), BP_OK);
    assert_int_equal(link_it(b), BP_ERR_USAGE);
    assert_string_equal(b->error.text, "rows of a copy lie further apart than a GPU takes");
    stop(b);
}

/* ---- programs that are wrong ---- */

enum { LIVED = 0, FAILED_WELL = 3, FAILED_BADLY = 4 };

/* What a lost context had is lost with its process only. */
static int in_child(int (*what)(bench *b, const void *about), bench *b, const void *about)
{
    int ended = 0;
    pid_t child = fork();
    if (child == 0) {
        bp_leave(what(b, about));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : FAILED_BADLY;
}

typedef struct wrong_run {
    const char *variant;
    const char *seed;
    const char *words; /* of the instrument's report */
} wrong_run;

static int run_wrongly(bench *b, const void *about)
{
    const wrong_run *how = about;
    char report[1024] = "";
    on.set("PTXVM_SEED", how->seed);
    on.set("PTXVM_QUIET", "1");
    start(b, how->variant);
    bp_status status = cuda->run(b->context, 0);
    status = status == BP_OK ? cuda->wait(b->context) : BP_OK;
    on.report(report, sizeof report);
    bool found = status == BP_ERR_DEVICE && strstr(report, how->words) != NULL;
    if (!found) {
        print_error("seed %s, %s: '%s'\n", how->seed, how->variant, report);
    }
    return found ? FAILED_WELL : FAILED_BADLY;
}

/* A program whose wait comes too late: the instrument says in these words what was touched. */
static void assert_reported(bench *b, const char *words)
{
    for (uint32_t i = 0; i < 2 * SEEDS; i++) {
        const char seed[2] = {(char)('0' + i / 2), '\0'};
        const wrong_run how = {variants[i % 2], seed, words};
        assert_int_equal(in_child(run_wrongly, b, &how), FAILED_WELL);
    }
}

/* verifies device-20.1ca2 */
static void work_before_the_wait_is_found(void **state)
{
    bench *b = *state;
    if (on.real) {
        return;
    }
    begin(b, 0, host_at(1), device_at(1));
    compute(b, device_at(1), device_at(0)); /* writes the source */
    wait_for(b, 0, host_at(1), device_at(1));
    assert_reported(b, "into its source");
    b->count = 0;
    begin(b, 0, device_at(1), host_at(1));
    compute(b, device_at(2), device_at(1)); /* reads the target */
    wait_for(b, 0, device_at(1), host_at(1));
    assert_reported(b, "kernel bp_copy");
    b->count = 0;
    begin(b, 0, device_at(1), host_at(1));
    begin(b, 1, host_at(2), device_at(3));
    wait_for(b, 1, host_at(2), device_at(3));
    compute(b, device_at(1), device_at(2)); /* after the other wait, of later work */
    wait_for(b, 0, device_at(1), host_at(1));
    start(b, NULL); /* which on one stream came after this copy too */
    assert_int_equal(cuda->run(b->context, 0), BP_OK);
    assert_int_equal(cuda->wait(b->context), BP_OK);
    stop(b);
}

/* ---- failing calls ---- */

static bp_status live(bench *b, const char *variant)
{
    BP_TRY(open_it(b, variant));
    BP_TRY(link_it(b));
    BP_TRY(cuda->upload(b->context, device_at(0), b->x, BYTES));
    BP_TRY(cuda->run(b->context, 0));
    BP_TRY(cuda->download(b->context, host_at(7), b->y, BYTES));
    return cuda->wait(b->context);
}

typedef struct failing_call {
    const char *variant;
    int number;
    int result;
} failing_call;

/* Fails call number n of the driver: the error is told, and nothing is left. */
static int fail_call(bench *b, const void *about)
{
    const failing_call *how = about;
    char fault[64], left[512] = "";
    snprintf(fault, sizeof fault, "*:%d:%d", how->number, how->result);
    on.set("PTXVM_FAULT", fault);
    bp_status status = live(b, how->variant);
    bool kept =
        bp_cu_result_fatal(how->result) || strstr(b->error.name, "from cuStreamEndCapture") != NULL;
    bool told =
        status == BP_OK || (status == BP_ERR_DEVICE && strstr(b->error.name, "from cu") != NULL);
    if (status == BP_OK) {
        on.set("PTXVM_FAULT", "");
    }
    cuda->close(b->context);
    bool clean = kept || on.ledger(left, sizeof left) == 0;
    if (!told || !clean) {
        print_error("call %d: %s: %s\n", how->number, b->error.name, left);
        return FAILED_BADLY;
    }
    return status == BP_OK ? LIVED : FAILED_WELL;
}

/* verifies device-12.8cb0 */
static void every_call_may_fail(void **state)
{
    static const int results[] = {1, 719};
    bench *b = *state;
    if (on.real) {
        return;
    }
    write_round_trip(b);
    for (uint32_t i = 0; i < 4; i++) {
        int code = FAILED_WELL, n = 1;
        for (; code == FAILED_WELL && n < 1000; n++) {
            const failing_call how = {variants[i % 2], n, results[i / 2]};
            code = in_child(fail_call, b, &how);
        }
        assert_int_equal(code, LIVED);
        assert_true(n > 60);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(copies_go_there_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(many_copies_fly, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_have_pitches, setup, teardown),
        cmocka_unit_test_setup_teardown(the_host_arena_is_written_and_read, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_host_arena_copies_are_work, setup, teardown),
        cmocka_unit_test_setup_teardown(one_rank_is_a_group, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_too_far_apart_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(work_before_the_wait_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(every_call_may_fail, setup, teardown),
    };
    if (!fake_driver_load(&on)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
