/* SPDX-License-Identifier: MIT */
/* Messages that are lost, come twice or are changed are refused by the rank that waits for them;
 * whole ones arrive as they were sent. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/fabric/checked.h"
#include "device/fabric/threads.h"
#include "tests/fixtures/kernels/unequal.h"

#define RANKS     4
#define BYTES     4096
#define LONG_WAIT 600000 /* ms: no test ends by it */

typedef struct player {
    pthread_t thread;
    uint32_t rank;
    bp_status status;
    bp_error error;
    bool right; /* all bytes are those that were sent */
    uint8_t from[RANKS * BYTES], gathered[RANKS * BYTES], swapped[RANKS * BYTES], cast[BYTES];
} player;

static bp_threads_world world;
static player players[RANKS];

static uint8_t byte_of(uint32_t rank, uint32_t piece, uint32_t i)
{
    return (uint8_t)(rank * 61 + piece * 17 + i * 7 + i / 256);
}

static bool is_right(const player *p)
{
    bool right = true;
    for (uint32_t r = 0; r < RANKS; r++) {
        for (uint32_t i = 0; i < BYTES; i++) {
            right = right && p->gathered[r * BYTES + i] == byte_of(r, 0, i) &&
                    p->swapped[r * BYTES + i] == byte_of(r, p->rank, i) &&
                    p->cast[i] == byte_of(2, 0, i);
        }
    }
    return right;
}

/* Three calls under way at once. */
static bp_status talk(player *p, void *context)
{
    const bp_fabric *fabric = &bp_fabric_checked;
    bp_fabric_transfer t = {.call = BP_FABRIC_ALL_GATHER, .bytes = BYTES, .from = p->from};
    t.to = p->gathered;
    BP_TRY(fabric->begin(context, &t, &p->error));
    t.call = BP_FABRIC_EXCHANGE;
    t.request = 1;
    t.to = p->swapped;
    BP_TRY(fabric->begin(context, &t, &p->error));
    t.call = BP_FABRIC_BROADCAST;
    t.request = 2;
    t.root = 2;
    t.to = p->cast;
    BP_TRY(fabric->begin(context, &t, &p->error));
    for (uint32_t request = 0; request < 3; request++) {
        BP_TRY(fabric->wait(context, request, &p->error));
    }
    int64_t wrong = 0;
    if (world.fault == BP_THREADS_WHOLE) {
        BP_TRY(unequal_calls(fabric, context, &p->error, &wrong));
    }
    p->right = is_right(p) && wrong == 0;
    return BP_OK;
}

static void *player_main(void *argument)
{
    player *p = argument;
    const bp_fabric_options options = {
        .world = &world, .rank = p->rank, .size = RANKS, .patience_ms = LONG_WAIT};
    void *inner = malloc(bp_fabric_threads.context_bytes);
    void *context = malloc(bp_fabric_checked.context_bytes);
    p->status = bp_fabric_threads.open(inner, &options, &p->error);
    if (p->status == BP_OK) {
        p->status = bp_checked_wrap(context, &bp_fabric_threads, inner, &p->error);
    }
    if (p->status == BP_OK) {
        p->status = bp_fabric_checked.agree(context, 7, &p->error);
    }
    if (p->status == BP_OK) {
        p->status = talk(p, context);
    }
    bp_fabric_checked.close(context);
    bp_fabric_threads.close(inner);
    free(context);
    free(inner);
    return NULL;
}

/* Rank 1 is struck by a fault in its message number `at`. */
static void play(bp_threads_fault fault, uint64_t at, uint64_t seed)
{
    assert_int_equal(bp_threads_world_open(&world, RANKS, seed), BP_OK);
    world.fault = fault;
    world.fault_rank = 1;
    world.fault_at = at;
    for (uint32_t r = 0; r < RANKS; r++) {
        memset(&players[r], 0, sizeof players[r]);
        players[r].rank = r;
        for (uint32_t i = 0; i < RANKS * BYTES; i++) {
            players[r].from[i] = byte_of(r, i / BYTES, i % BYTES);
        }
        assert_int_equal(pthread_create(&players[r].thread, NULL, player_main, &players[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        pthread_join(players[r].thread, NULL);
    }
    bp_threads_world_close(&world);
}

/* verifies ranks-6.335d */
static void whole_messages_arrive(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        play(BP_THREADS_WHOLE, 0, seed);
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_int_equal(players[r].status, BP_OK);
            assert_true(players[r].right);
        }
    }
}

/* Rank 1 gets 3 messages of each of two calls, and 1 of the last, digests beside them: 14. */
/* verifies ranks-6.335d */
static void others_are_refused(void **state)
{
    (void)state;
    uint32_t struck = 0;
    for (bp_threads_fault fault = BP_THREADS_DROPPED; fault <= BP_THREADS_CORRUPTED; fault++) {
        for (uint64_t at = 0; at < 14; at++) {
            play(fault, at, 0);
            const player *p = &players[1];
            assert_true(p->status != BP_OK || p->right); /* never silently used */
            if (p->status != BP_OK) {
                assert_int_equal(p->status, BP_ERR_FABRIC);
                assert_non_null(strstr(p->error.text, "not what was sent"));
                struck++;
            }
        }
    }
    assert_true(struck >= 36); /* some have none of their size before them to come again */
}

static void what_cannot_be_wrapped_is_refused(void **state)
{
    (void)state;
    bp_fabric gpu = bp_fabric_threads;
    bp_error error = {.code = BP_OK};
    void *context = malloc(bp_fabric_checked.context_bytes);
    const bp_fabric_stream stream = {.enqueue = NULL};
    gpu.stream = &stream;
    assert_int_equal(bp_checked_wrap(context, &gpu, NULL, &error), BP_ERR_USAGE);
    assert_int_equal(bp_fabric_checked.open(context, NULL, NULL), BP_ERR_USAGE);
    free(context);
}

/* A fabric of which only the answers count. */
static uint32_t many_ranks;
static int begins; /* that go well */

static uint32_t many(const void *context)
{
    (void)context;
    return many_ranks;
}

static uint32_t two(const void *context, uint32_t group)
{
    (void)context;
    return group < BP_CHECKED_GROUPS_MAX ? 2 : 0;
}

static bp_status begin_some(void *context, const bp_fabric_transfer *transfer, bp_error *error)
{
    (void)context;
    (void)transfer;
    return begins-- > 0 ? BP_OK : bp_error_set(error, BP_ERR_FABRIC, "test", "no", NULL);
}

static bp_status check_no(void *context, bp_error *error)
{
    (void)context;
    return bp_error_set(error, BP_ERR_FABRIC, "test", "no", NULL);
}

static bp_status abandoned;

static void abandon_noted(void *context, const bp_error *cause)
{
    (void)context;
    abandoned = cause->code;
}

static void what_is_inside_is_passed_on(void **state)
{
    static uint8_t bytes[2 * BYTES];
    const bp_fabric inner = {.name = "some",
                             .rank = many,
                             .size = many,
                             .members = two,
                             .begin = begin_some,
                             .check = check_no,
                             .abandon = abandon_noted};
    const bp_error cause = {.code = BP_ERR_DEVICE};
    bp_fabric_transfer t = {.call = BP_FABRIC_EXCHANGE, .bytes = BYTES, .from = bytes, .to = bytes};
    bp_error error = {.code = BP_OK};
    void *context = malloc(bp_fabric_checked.context_bytes);
    (void)state;
    many_ranks = BP_CHECKED_RANKS_MAX + 1;
    assert_int_equal(bp_checked_wrap(context, &inner, NULL, NULL), BP_ERR_USAGE);
    many_ranks = BP_CHECKED_RANKS_MAX;
    assert_int_equal(bp_checked_wrap(context, &inner, NULL, NULL), BP_OK);
    assert_int_equal(bp_fabric_checked.rank(context), many_ranks);
    assert_int_equal(bp_fabric_checked.size(context), many_ranks);
    assert_int_equal(bp_fabric_checked.check(context, &error), BP_ERR_FABRIC);
    bp_fabric_checked.abandon(context, &cause);
    assert_int_equal(abandoned, BP_ERR_DEVICE);
    for (begins = 0; begins < 2;) { /* the message, and its digest */
        const int before = begins;
        assert_int_equal(bp_fabric_checked.begin(context, &t, NULL), BP_ERR_FABRIC);
        begins = before + 1;
    }
    t.group = BP_CHECKED_GROUPS_MAX;
    assert_int_equal(bp_fabric_checked.begin(context, &t, NULL), BP_ERR_USAGE);
    t.group = 0;
    begins = 1000;
    for (t.request = 0; t.request < BP_CHECKED_COLLECTIVES_MAX; t.request++) {
        assert_int_equal(bp_fabric_checked.begin(context, &t, NULL), BP_OK);
    }
    assert_int_equal(bp_fabric_checked.begin(context, &t, NULL), BP_ERR_USAGE);
    assert_int_equal(bp_fabric_checked.wait(context, t.request, NULL), BP_ERR_USAGE);
    free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_messages_arrive),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(what_cannot_be_wrapped_is_refused),
        cmocka_unit_test(what_is_inside_is_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
