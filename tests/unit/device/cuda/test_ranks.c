/* SPDX-License-Identifier: MIT */
/* Programs of several ranks on CUDA: the host's own programs of ranks, pieces larger than what is
 * staged at a time, and calls of the fabric that fail. The ranks are threads on one GPU, which the
 * instrument's host functions allow; a real driver may run those of several streams one by one. */
#include <pthread.h>
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
#include "tests/fixtures/ranks.h"
#include "tests/fixtures/share.h"

static instrument on;
static const char *const variants[] = {"graph", "plain"};

static void set_seed(uint64_t seed)
{
    const char digit[2] = {(char)('0' + seed), '\0'};
    on.set("PTXVM_SEED", digit);
}

static int reset(void **state)
{
    (void)state;
    on.set("PTXVM_SEED", "0");
    on.set("PTXVM_FAULT", "");
    return 0;
}

/* verifies ranks-14.d729 */
static void ranks_compute_what_loops_compute(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 4};
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        const ranks_setup setup = {&bp_device_cuda,          variants[i % 2], sizes[i / 2], i % 2,
                                   i > 1 ? RANKS_POISON : 0, RANKS_LONG_WAIT, NULL};
        set_seed(i);
        ranks_play(&setup);
        ranks_compare(&setup);
        assert_int_equal(on.ledger(NULL, 0), 0);
    }
}

/* verifies ranks-14.d729 */
static void groups_compute_apart(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const ranks_setup setup = {&bp_device_cuda, variants[i], 4, i, RANKS_GROUP | RANKS_POISON,
                                   RANKS_LONG_WAIT, NULL};
        set_seed(i);
        ranks_play(&setup);
        ranks_compare(&setup);
    }
}

/* ---- pieces that are staged in several parts ---- */

#define PIECE  ((int64_t)700001)
#define PAIR   2
#define ARENA  (UINT64_C(8) << 20)
#define GIVEN  0 /* places in the arena */
#define GOTTEN (UINT64_C(4) << 20)

typedef struct member {
    uint32_t rank;
    uint32_t variant;
    bp_kernel kernel;
    bp_space space; /* of what is gotten */
    const bp_fabric *fabric;
    bp_status status;
    bp_error error;
    unsigned char *given;
    unsigned char *gotten;
    pthread_t thread;
} member;

static bp_threads_world world;
static member members[PAIR];

static bp_status call_once(member *m, void *rank, void *context, void *memory, size_t bytes)
{
    const uint64_t to = bp_address(m->space, m->space == BP_SPACE_HOST ? 0 : GOTTEN);
    const uint64_t offsets[2] = {to, GIVEN};
    const uint8_t dtypes[2] = {BP_U8, BP_U8};
    const int64_t call[5] = {0, 0, PAIR, PIECE, 1};
    const int64_t landed[3] = {0, 2 * PIECE, 2 * PIECE};
    const bp_linked_op ops[2] = {
        {m->kernel, 1, offsets, call, dtypes, BP_OFFSET_ABSENT},
        {BP_KERNEL_fabric_wait, 1, offsets, landed, dtypes, BP_OFFSET_ABSENT}};
    const bp_linked_program program = {ops, 2};
    const bp_device_options options = {.variant = variants[m->variant]};
    const bp_regions places = {
        .space = {{NULL, ARENA}, {NULL, ARENA / 2}}, .fabric = m->fabric, .rank = rank};
    BP_TRY(bp_device_cuda.open(context, &options, &places, &m->error));
    BP_TRY(bp_device_cuda.link(context, 0, &program, memory, bytes));
    BP_TRY(bp_device_cuda.seal(context));
    BP_TRY(bp_device_cuda.upload(context, GIVEN, m->given, (size_t)PAIR * PIECE));
    BP_TRY(bp_device_cuda.run(context, 0)); /* twice: where a call goes on is its record's */
    BP_TRY(bp_device_cuda.run(context, 0));
    return bp_device_cuda.download(context, to, m->gotten, (size_t)PAIR * PIECE);
}

static void *member_main(void *argument)
{
    member *m = argument;
    const bp_fabric_options options = {
        .world = &world, .rank = m->rank, .size = PAIR, .patience_ms = RANKS_LONG_WAIT};
    size_t bytes = (size_t)bp_device_cuda.link_bytes(2, 4, 16);
    void *rank = malloc(bp_fabric_threads.context_bytes), *memory = malloc(bytes);
    void *context = calloc(1, bp_device_cuda.context_bytes);
    m->status = bp_fabric_threads.open(rank, &options, &m->error);
    if (m->status == BP_OK) {
        m->status = call_once(m, rank, context, memory, bytes);
        bp_device_cuda.close(context);
        if (m->fabric == &bp_fabric_threads || m->rank != 1) {
            bp_fabric_threads.close(rank);
        }
    }
    free(context);
    free(memory);
    free(rank);
    return NULL;
}

static unsigned char byte_of(uint32_t rank, int64_t i)
{
    return (unsigned char)(rank * 89 + (uint64_t)i * 7 + (uint64_t)i / 1021);
}

/* Byte i of what member `rank` gets. */
static unsigned char wanted_of(bp_kernel kernel, uint32_t rank, int64_t i)
{
    switch (kernel) {
    case BP_KERNEL_all_gather_begin:
        return byte_of((uint32_t)(i / PIECE), i % PIECE);
    case BP_KERNEL_exchange_begin:
        return byte_of((uint32_t)(i / PIECE), rank * PIECE + i % PIECE);
    default:
        return i < PIECE ? byte_of(1, i) : 0;
    }
}

static void play_pair(bp_kernel kernel, bp_space space, uint32_t variant, const bp_fabric *fabric)
{
    assert_int_equal(bp_threads_world_open(&world, PAIR, 0), BP_OK);
    for (uint32_t r = 0; r < PAIR; r++) {
        unsigned char *given = malloc(PAIR * PIECE), *gotten = calloc(PAIR, PIECE);
        for (int64_t i = 0; i < PAIR * PIECE; i++) {
            given[i] = byte_of(r, i);
        }
        members[r] = (member){.rank = r,
                              .variant = variant,
                              .kernel = kernel,
                              .space = space,
                              .fabric = fabric,
                              .given = given,
                              .gotten = gotten};
        assert_int_equal(pthread_create(&members[r].thread, NULL, member_main, &members[r]), 0);
    }
    for (uint32_t r = 0; r < PAIR; r++) {
        pthread_join(members[r].thread, NULL);
    }
    bp_threads_world_close(&world);
}

static void free_pair(void)
{
    for (uint32_t r = 0; r < PAIR; r++) {
        free(members[r].given);
        free(members[r].gotten);
    }
}

/* verifies ranks-14.d729 */
static void large_pieces_go_in_parts(void **state)
{
    static const bp_kernel kernels[] = {BP_KERNEL_all_gather_begin, BP_KERNEL_exchange_begin,
                                        BP_KERNEL_broadcast_begin};
    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        bp_kernel kernel = kernels[i % 3];
        play_pair(kernel, i / 3 % 2 == 0 ? BP_SPACE_DEVICE : BP_SPACE_HOST, i / 6,
                  &bp_fabric_threads);
        for (uint32_t r = 0; r < PAIR; r++) {
            member *m = &members[r];
            if (m->status != BP_OK) {
                print_error("%s: %s (%s)\n", bp_kernel_describe(kernel)->name, m->error.text,
                            m->error.name);
            }
            assert_int_equal(m->status, BP_OK);
            for (int64_t k = 0; k < PAIR * PIECE; k++) {
                if (m->gotten[k] != wanted_of(kernel, r, k)) {
                    print_error("%s: byte %d\n", bp_kernel_describe(kernel)->name, (int)k);
                    fail();
                }
            }
        }
        free_pair();
    }
}

/* Rank 1 goes instead of making its call. */
static bp_status leave(void *context, const bp_fabric_transfer *transfer, bp_error *error)
{
    if (bp_fabric_threads.rank(context) == 1) {
        bp_fabric_threads.close(context);
        return bp_error_set(error, BP_ERR_FABRIC, "fabric", "this rank leaves", NULL);
    }
    return bp_fabric_threads.begin(context, transfer, error);
}

/* What a call says reaches whoever waits for the run, and no further call is made. */
/* verifies ranks-15.459a */
static void a_rank_that_leaves_ends_the_runs(void **state)
{
    bp_fabric leaving = bp_fabric_threads;
    (void)state;
    leaving.begin = leave;
    for (uint32_t i = 0; i < 4; i++) {
        play_pair(BP_KERNEL_exchange_begin, i / 2 == 0 ? BP_SPACE_DEVICE : BP_SPACE_HOST, i % 2,
                  &leaving);
        for (uint32_t r = 0; r < PAIR; r++) {
            assert_int_equal(members[r].status, BP_ERR_FABRIC);
            assert_string_equal(members[r].error.text,
                                r == 1 ? "this rank leaves" : "a rank has left");
        }
        free_pair();
        assert_int_equal(on.ledger(NULL, 0), 0);
    }
}

/* ---- calls of the driver that fail with a fabric open ---- */

/* Fails call number n of the driver in the life of the only rank; 0: there were fewer. */
static int fail_call(int n, const char *variant)
{
    char fault[64], left[512] = "";
    const ranks_setup setup = {&bp_device_cuda, variant, 1, 0, 0, RANKS_LONG_WAIT, NULL};
    snprintf(fault, sizeof fault, "*:%d:1", n);
    on.set("PTXVM_FAULT", fault);
    ranks_play(&setup);
    on.set("PTXVM_FAULT", "");
    const ranks_player *p = ranks_at(0);
    const bool capture = strstr(p->fabric_error.name, "from cuStreamEndCapture") != NULL;
    bool clean = capture || on.ledger(left, sizeof left) == 0;
    bool told = p->status == BP_OK ||
                (p->status == BP_ERR_DEVICE && strstr(p->fabric_error.name, "from cu") != NULL);
    if (!clean || !told) {
        print_error("call %d: %s %s\n", n, p->fabric_error.name, left);
    }
    return !clean || !told ? 2 : p->status != BP_OK;
}

/* verifies ranks-10.9048 */
static void every_call_may_fail(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        int n = 1, ended = 1;
        for (; ended == 1 && n < 1000; n++) {
            pid_t child = fork();
            if (child == 0) {
                bp_leave(fail_call(n, variants[i]));
            }
            assert_int_equal(waitpid(child, &ended, 0), child);
            ended = WIFEXITED(ended) ? WEXITSTATUS(ended) : 2;
        }
        if (ended != 0) {
            print_error("%s, call %d ends with %d\n", variants[i], n - 1, ended);
        }
        assert_int_equal(ended, 0);
        assert_true(n > 80);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(ranks_compute_what_loops_compute, reset),
        cmocka_unit_test_teardown(groups_compute_apart, reset),
        cmocka_unit_test_teardown(large_pieces_go_in_parts, reset),
        cmocka_unit_test_teardown(a_rank_that_leaves_ends_the_runs, reset),
        cmocka_unit_test_teardown(every_call_may_fail, reset),
    };
    /* Races are looked for in every kernel by test_kernels.c and its like. */
    if (!long_form()) {
        (void)setenv("PTXVM_RACES", "0", 0);
    }
    if (!fake_driver_load(&on)) {
        return 77;
    }
    if (on.real) {
        printf("skipped: a real driver may make host functions of several streams one by one\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
