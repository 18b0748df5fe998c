/* SPDX-License-Identifier: MIT */
/* GPUs of several ranks joined by NCCL, which here is a stand-in: the rows of every fabric
 * (tests/fixtures/fabric_case.h) go over streams; the host's own programs of ranks
 * give what loops give, on graphs and launch by launch, and what is refused, fails or hangs ends
 * all in time. The ranks are threads, each with a GPU of the instrument of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "tests/fixtures/fabric_case.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/ranks.h"
#include "tests/fixtures/share.h"

static instrument on;
static bp_nccl_library nccl;
static const char *const variants[] = {"graph", "plain"};

static int reset(void **state)
{
    (void)state;
    on.set("PTXVM_SEED", "0");
    unsetenv("BP_NCCL_VERSION");
    setenv("BP_NCCL_LIMIT", "60000", 1);
    unsetenv("BP_NCCL_FAILS");
    unsetenv("BP_NCCL_STALLS");
    return 0;
}

/* nccl.h wants the toolkit's headers beside it. */
static bool compiles(const char *option)
{
    char command[512];
    snprintf(command, sizeof command,
             "cc -std=gnu11 -Wall -Wextra -Werror -fsyntax-only %s -I. -isystem "
             "/usr/local/cuda/include tests/gpu/nccl.c >/dev/null 2>&1",
             option);
    return system(command) == 0;
}

/* verifies device-30.2981 */
static void declarations_are_those_of_nccl_h(void **state)
{
    (void)state;
    const bool header = access("/usr/local/cuda/include/nccl.h", R_OK) == 0 ||
                        access("/usr/include/nccl.h", R_OK) == 0;
    if (!header || access("tests/gpu/nccl.c", R_OK) != 0) {
        printf("skipped: no nccl.h here to compare NCCL's declarations with\n");
        return;
    }
    assert_true(compiles(""));
    assert_false(compiles("-DMISTAKE"));
}

static ranks_setup setup_of(uint32_t size, uint32_t variant, uint32_t form)
{
    return (ranks_setup){&bp_device_cuda,    variants[variant], size, 0,
                         form | RANKS_APART, RANKS_LONG_WAIT,   &nccl};
}

/* verifies ranks-14.d729 */
static void ranks_compute_what_loops_compute(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        const char seed[2] = {(char)('0' + i), '\0'};
        const ranks_setup setup = setup_of(i / 2 + 1, i % 2, i > 1 ? RANKS_POISON : 0);
        on.set("PTXVM_SEED", seed);
        ranks_play(&setup);
        ranks_compare(&setup);
        assert_int_equal(on.ledger(NULL, 0), 0);
    }
}

/* Their calls are messages between members, not calls of all. */
/* verifies ranks-14.d729 */
static void groups_compute_apart(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const ranks_setup setup = setup_of(4, i, RANKS_GROUP | RANKS_POISON);
        ranks_play(&setup);
        ranks_compare(&setup);
    }
}

/* Without ncclAlltoAll, as before 2.28, exchanges are messages. */
/* verifies ranks-14.d729 */
static void older_libraries_give_the_same(void **state)
{
    (void)state;
    const bp_nccl_library all = nccl;
    nccl.ncclAlltoAll = NULL;
    nccl.ncclCommWindowRegister = NULL;
    const ranks_setup setup = setup_of(3, 0, RANKS_POISON);
    ranks_play(&setup);
    ranks_compare(&setup);
    nccl = all;
}

/* verifies ranks-18.4f4a */
static void old_and_missing_libraries_are_refused(void **state)
{
    (void)state;
    bp_nccl_library library;
    bp_error error = {.code = BP_OK};
    setenv("BP_NCCL_VERSION", "21504", 1);
    assert_int_equal(bp_nccl_library_load(&library, &error), BP_ERR_DEVICE);
    assert_non_null(strstr(error.text, "NCCL is too old"));
    assert_int_equal(error.found, 21504);
    assert_int_equal(error.wanted, BP_NCCL_LEAST);
}

/* What NCCL finds on one rank ends all: those that wait learn it from the fabric below. */
/* verifies ranks-10.9048 */
static void an_asynchronous_error_ends_the_run(void **state)
{
    (void)state;
    setenv("BP_NCCL_FAILS", "1:4:6", 1);
    for (uint32_t i = 0; i < 2; i++) {
        const ranks_setup setup = setup_of(2, i, 0);
        ranks_play(&setup);
        assert_int_equal(ranks_at(1)->status, BP_ERR_FABRIC);
        assert_non_null(strstr(ranks_at(1)->fabric_error.name, "remote process exited"));
        assert_int_not_equal(ranks_at(0)->status, BP_OK);
    }
}

/* A rank that does not come: nobody waits longer than they are patient. */
/* verifies ranks-10.9048 */
static void a_rank_that_hangs_is_left_behind(void **state)
{
    (void)state;
    setenv("BP_NCCL_STALLS", "1:4", 1);
    for (uint32_t i = 0; i < 2; i++) {
        ranks_setup setup = setup_of(2, i, 0);
        setup.patience_ms = 1500;
        ranks_play(&setup);
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(ranks_at(r)->status, BP_ERR_FABRIC);
            assert_non_null(strstr(ranks_at(r)->fabric_error.text, "in time"));
        }
    }
}

/* A rank whose calls are work of a stream on a GPU: a fabric for fabric_case.h, whose begin brings
 * the bytes to the GPU, queues the call, and takes what came back. */
enum { STREAM_RANKS = 4, STREAM_HALF = 4 << 20 };

typedef struct stream_rank {
    pthread_t thread;
    const fabric_row *row;
    fabric_case c;
    bp_fabric_group groups[2];
    bp_cu_driver driver;
    bp_cu_stream stream;
    bp_cu_address arena; /* what is given, and from STREAM_HALF on what is gotten */
    void *over;          /* context of bp_fabric_nccl */
    bool attached;
} stream_rank;

static bp_threads_world stream_world;
static stream_rank stream_ranks[STREAM_RANKS];

static bp_status stream_did(int result)
{
    return result == BP_CU_SUCCESS ? BP_OK : BP_ERR_DEVICE;
}

static bp_status stream_agree(void *context, uint64_t digest, bp_error *error)
{
    stream_rank *r = context;
    BP_TRY(bp_fabric_nccl.agree(r->over, digest, error));
    if (!r->attached) {
        r->attached = true;
        return bp_fabric_nccl.stream->attach(r->over, (void *)(uintptr_t)r->arena, 2 * STREAM_HALF,
                                             false, r->stream, error);
    }
    return BP_OK;
}

static uint32_t stream_rank_of(const void *context)
{
    return bp_fabric_nccl.rank(((const stream_rank *)context)->over);
}

static uint32_t stream_size(const void *context)
{
    return bp_fabric_nccl.size(((const stream_rank *)context)->over);
}

static uint32_t stream_members(const void *context, uint32_t group)
{
    return bp_fabric_nccl.members(((const stream_rank *)context)->over, group);
}

static bp_status stream_begin(void *context, const bp_fabric_transfer *transfer, bp_error *error)
{
    stream_rank *r = context;
    bp_fabric_transfer there = *transfer;
    uint64_t given = 0, gotten = 0;
    const bool one = transfer->call == BP_FABRIC_BROADCAST;
    for (uint32_t m = 0; m < (one ? 1 : stream_members(r, transfer->group)); m++) {
        const bp_fabric_piece to = bp_fabric_piece_for(transfer, m);
        const bp_fabric_piece of = bp_fabric_piece_of(transfer, m);
        given = to.first + to.bytes > given ? to.first + to.bytes : given;
        gotten = of.first + of.bytes > gotten ? of.first + of.bytes : gotten;
    }
    there.from = (const void *)(uintptr_t)r->arena;
    there.to = (void *)(uintptr_t)(r->arena + STREAM_HALF);
    BP_TRY(stream_did(r->driver.cuMemcpyHtoDAsync_v2(r->arena, transfer->from, given, r->stream)));
    BP_TRY(bp_fabric_nccl.stream->enqueue(r->over, &there, r->stream, error));
    BP_TRY(stream_did(
        r->driver.cuMemcpyDtoHAsync_v2(transfer->to, r->arena + STREAM_HALF, gotten, r->stream)));
    return stream_did(r->driver.cuStreamSynchronize(r->stream));
}

/* The call was made whole. */
static bp_status stream_wait(void *context, uint32_t request, bp_error *error)
{
    const stream_rank *r = context;
    (void)request;
    return bp_fabric_nccl.stream->poll(r->over, 0, error);
}

static bp_status stream_check(void *context, bp_error *error)
{
    return bp_fabric_nccl.check(((const stream_rank *)context)->over, error);
}

static const bp_fabric by_streams = {.name = "nccl on a stream",
                                     .collectives = 3,
                                     .agree = stream_agree,
                                     .rank = stream_rank_of,
                                     .size = stream_size,
                                     .members = stream_members,
                                     .begin = stream_begin,
                                     .wait = stream_wait,
                                     .check = stream_check};

/* On the GPU of the rank's number. */
static bp_status stream_open(stream_rank *r)
{
    bp_cu_device device;
    bp_cu_context context;
    int version = 0;
    BP_TRY(bp_cu_driver_load(&r->driver, &r->c.error));
    BP_TRY(bp_cu_driver_begin(&r->driver, &version, &r->c.error));
    BP_TRY(stream_did(r->driver.cuDeviceGet(&device, (int)r->c.rank)));
    BP_TRY(stream_did(r->driver.cuDevicePrimaryCtxRetain(&context, device)));
    BP_TRY(stream_did(r->driver.cuCtxSetCurrent(context)));
    BP_TRY(stream_did(r->driver.cuStreamCreate(&r->stream, 0)));
    return stream_did(r->driver.cuMemAlloc_v2(&r->arena, 2 * STREAM_HALF));
}

static void *stream_main(void *argument)
{
    stream_rank *r = argument;
    const bp_fabric_options options = {
        &stream_world, r->c.rank, r->c.size, r->groups, r->row->grouped ? 2 : 0, RANKS_LONG_WAIT};
    void *inner = malloc(bp_fabric_threads.context_bytes);
    r->over = malloc(bp_fabric_nccl.context_bytes);
    r->c.fabric = &by_streams;
    r->c.context = r;
    fabric_case_note(&r->c, bp_fabric_threads.open(inner, &options, &r->c.error));
    bp_nccl_wrap(r->over, &nccl, &bp_fabric_threads, inner, &options, false);
    fabric_case_note(&r->c, stream_open(r));
    if (r->c.status == BP_OK) {
        r->row->act(&r->c);
    }
    bp_fabric_nccl.stream->detach(r->over, r->c.status != BP_OK);
    r->driver.cuMemFree_v2(r->arena);
    r->driver.cuStreamDestroy_v2(r->stream);
    r->driver.cuDevicePrimaryCtxRelease_v2((bp_cu_device)r->c.rank);
    bp_fabric_threads.close(inner);
    free(r->over);
    free(inner);
    return NULL;
}

static void stream_play(const fabric_row *row, uint32_t size)
{
    memset(stream_ranks, 0, sizeof stream_ranks);
    assert_int_equal(bp_threads_world_open(&stream_world, size, 0), BP_OK);
    for (uint32_t i = 0; i < size; i++) {
        stream_rank *r = &stream_ranks[i];
        r->row = row;
        r->c.rank = i;
        r->c.size = size;
        r->c.digest = FABRIC_DIGEST;
        fabric_case_groups(i, size, r->groups);
        assert_int_equal(pthread_create(&r->thread, NULL, stream_main, r), 0);
    }
    for (uint32_t i = 0; i < size; i++) {
        pthread_join(stream_ranks[i].thread, NULL);
    }
    bp_threads_world_close(&stream_world);
    for (uint32_t i = 0; i < size; i++) {
        const fabric_case *c = &stream_ranks[i].c;
        if (c->status != BP_OK || c->wrong != 0) {
            print_error("%s, rank %u of %u: %s (%s), %d wrong\n", row->name, i, size, c->error.text,
                        c->error.name, (int)c->wrong);
        }
        assert_int_equal(c->status, BP_OK);
        assert_int_equal(c->wrong, 0);
    }
}

/* verifies ranks-14.d729 */
static void calls_on_streams_are_plain_loops(void **state)
{
    const fabric_row *row;
    (void)state;
    for (uint32_t r = 0; (row = fabric_row_at(r)) != NULL; r++) {
        stream_play(row, 4);
    }
    stream_play(fabric_row_named("calls"), 1);
    stream_play(fabric_row_named("calls"), 3);
    assert_int_equal(on.ledger(NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(declarations_are_those_of_nccl_h),
        cmocka_unit_test_teardown(calls_on_streams_are_plain_loops, reset),
        cmocka_unit_test_teardown(ranks_compute_what_loops_compute, reset),
        cmocka_unit_test_teardown(groups_compute_apart, reset),
        cmocka_unit_test_teardown(older_libraries_give_the_same, reset),
        cmocka_unit_test_teardown(old_and_missing_libraries_are_refused, reset),
        cmocka_unit_test_teardown(an_asynchronous_error_ends_the_run, reset),
        cmocka_unit_test_teardown(a_rank_that_hangs_is_left_behind, reset),
    };
    bp_error error = {.code = BP_OK};
    /* Races are looked for in every kernel by test_kernels.c and its like. */
    if (!long_form()) {
        (void)setenv("PTXVM_RACES", "0", 0);
    }
    if (!fake_driver_load(&on)) {
        return 77;
    }
    if (on.real) {
        printf("skipped: real NCCL takes several GPUs; make gpu runs it from the program\n");
        return 0;
    }
    on.set("PTXVM_DEVICES", "4");
    if (!fake_driver_load_other("nccl/libnccl.so.2") ||
        bp_nccl_library_load(&nccl, &error) != BP_OK) {
        printf("no stand-in for NCCL: %s\n", error.name);
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
