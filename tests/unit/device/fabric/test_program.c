/* SPDX-License-Identifier: MIT */
/* Whole programs on ranks that are threads: each rank has a host device of its own and runs the
 * same program, copies, calls of the fabric and computing beside one another. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/fabric/threads.h"
#include "device/host/host.h"
#include "tests/support/hand_program.h"

#define MOST      8
#define COUNT     512 /* floats of a piece */
#define PIECE     ((int64_t)COUNT * 4)
#define RUNS      3
#define LONG_WAIT 600000

static bp_threads_world world;

/* One rank: its program, its persistent buffers and what came of it. */
typedef struct player {
    uint32_t rank, size;
    uint32_t form; /* poison, threads, a change of the plan */
    bp_fabric_group group;
    hand_program h;
    bp_ref w, sums, root, ones;
    bp_status status;
    bp_error fabric_error;
    float state[COUNT], sum[COUNT], cast[COUNT];
    pthread_t thread;
} player;

static player players[MOST];

enum { FORM_POISON = 1, FORM_THREADS = 2, FORM_GROUP = 4, FORM_ODD_RANK = 8, FORM_ABSENT = 16 };

/* y = the sum of the pieces in order: a product of a row of ones and the pieces as rows. */
static void add_pieces(player *p, bp_ref y, bp_ref ones, bp_ref all, bp_ref work, int64_t ranks)
{
    const bp_matmul_scalars s = {
        .m = 1, .n = COUNT, .k = ranks, .lda = ranks, .ldb = COUNT, .ldc = COUNT};
    const bp_matmul_operands operands = {.c = hand_at(y, 0, BP_F32),
                                         .before = BP_ABSENT,
                                         .a = hand_at(ones, 0, BP_F32),
                                         .b = hand_at(all, 0, BP_F32),
                                         .bias = BP_ABSENT,
                                         .residual = BP_ABSENT,
                                         .work = work};
    hand_op(&p->h, BP_KERNEL_matmul, &operands, &s);
}

/* w is gathered from all members while it also goes to the host arena; the sum of the pieces is
 * exchanged slice by slice and gathered again, one member's w is broadcast from the host arena, and
 * w becomes the sum of slices. */
static void write_program(player *p, int64_t group, int64_t ranks)
{
    hand_program *h = &p->h;
    const int64_t slice = PIECE / 8;
    const uint64_t whole = (uint64_t)(ranks * PIECE);
    const bp_matmul_scalars s = {.m = 1, .n = COUNT, .k = ranks, .ldb = COUNT, .ldc = COUNT};
    const bp_device_options options = {.threads = 4};
    uint64_t room = bp_device_host.workspace(&options, BP_KERNEL_matmul, &s, NULL);
    hand_begin(h);
    p->w = hand_buffer(h, "w", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, (uint64_t)PIECE);
    p->sums = hand_buffer(h, "sums", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, (uint64_t)PIECE);
    p->root = hand_buffer(h, "root", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, (uint64_t)PIECE);
    p->ones = hand_buffer(h, "ones", BP_SPACE_DEVICE, BP_SCOPE_PERSISTENT, 256);
    bp_ref all = hand_buffer(h, "all", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, whole);
    bp_ref far = hand_buffer(h, "far", BP_SPACE_HOST, BP_SCOPE_PROGRAM, (uint64_t)PIECE);
    bp_ref cast = hand_buffer(h, "cast", BP_SPACE_HOST, BP_SCOPE_PROGRAM, (uint64_t)PIECE);
    bp_ref mine = hand_buffer(h, "mine", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, (uint64_t)PIECE);
    bp_ref slices = hand_buffer(h, "slices", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, (uint64_t)PIECE);
    bp_ref work = BP_ABSENT;
    if (room > 0) {
        work = hand_buffer(h, "work", BP_SPACE_DEVICE, BP_SCOPE_PROGRAM, room);
    }
    int64_t out = hand_copy_begin(h, far, p->w, PIECE);
    int64_t gather = hand_all_gather(h, group, ranks, all, p->w, PIECE);
    hand_copy_wait(h, out, far, p->w, PIECE);
    int64_t broadcast = hand_broadcast(h, group, ranks, ranks - 1, cast, far, PIECE);
    hand_fabric_wait(h, gather, all, ranks * PIECE, p->w, PIECE);
    add_pieces(p, mine, p->ones, all, work, ranks);
    hand_compute(h, slices, mine, COUNT);
    int64_t exchange = hand_exchange(h, group, ranks, slices, mine, slice);
    hand_fabric_wait(h, broadcast, cast, PIECE, far, PIECE);
    int64_t in = hand_copy_begin(h, p->root, cast, PIECE);
    hand_fabric_wait(h, exchange, slices, ranks * slice, mine, ranks * slice);
    hand_compute(h, p->sums, mine, COUNT);
    hand_compute(h, p->w, slices, COUNT);
    hand_copy_wait(h, in, p->root, cast, PIECE);
    if ((p->form & FORM_ODD_RANK) != 0 && p->rank == 1) {
        hand_compute(h, p->sums, p->w, COUNT);
    }
}

static float first_value(uint32_t rank, int i)
{
    return (float)(rank + 1) + (float)(i % 61) * 0.125f;
}

static bp_status run_rank(player *p, void *rank)
{
    const bp_device_options options = {.threads = (p->form & FORM_THREADS) != 0 ? 3 : 1};
    const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1};
    hand_program *h = &p->h;
    const bool grouped = (p->form & FORM_GROUP) != 0;
    write_program(p, grouped ? 1 : 0, grouped ? p->group.count : p->size);
    BP_TRY(hand_plan(h, &bp_device_host));
    BP_TRY(bp_fabric_threads.agree(rank, bp_graph_digest(&h->graph), &p->fabric_error));
    BP_TRY(hand_open(h, &options, (p->form & FORM_POISON) != 0, &bp_fabric_threads, rank));
    for (int i = 0; i < COUNT; i++) {
        p->state[i] = first_value(p->rank, i);
    }
    BP_TRY(hand_write(h, p->w, p->state, sizeof p->state));
    BP_TRY(hand_write(h, p->ones, ones, sizeof ones));
    for (int i = 0; i < RUNS; i++) {
        if ((p->form & FORM_ABSENT) != 0 && i == 1 && p->rank == 1) {
            return BP_OK; /* it leaves after its first run */
        }
        BP_TRY(hand_run(h));
    }
    BP_TRY(hand_read(h, p->w, p->state, sizeof p->state));
    BP_TRY(hand_read(h, p->sums, p->sum, sizeof p->sum));
    return hand_read(h, p->root, p->cast, sizeof p->cast);
}

static void *player_main(void *argument)
{
    player *p = argument;
    const bp_fabric_options options = {&world, p->rank, p->size, &p->group, 1, LONG_WAIT};
    void *rank = malloc(bp_fabric_threads.context_bytes);
    p->status = bp_fabric_threads.open(rank, &options, &p->fabric_error);
    if (p->status == BP_OK) {
        p->status = run_rank(p, rank);
        bp_fabric_threads.close(rank);
    }
    if (p->fabric_error.code == BP_OK) {
        p->fabric_error = p->h.error;
    }
    hand_close(&p->h);
    free(rank);
    return NULL;
}

static const uint32_t everybody[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
static const uint32_t odd_even[2][4] = {{0, 2, 4, 6}, {1, 3, 5, 7}};

static void play(uint32_t size, uint64_t seed, uint32_t form)
{
    assert_int_equal(bp_threads_world_open(&world, size, seed), BP_OK);
    for (uint32_t i = 0; i < size; i++) {
        memset(&players[i], 0, sizeof players[i]);
        players[i].rank = i;
        players[i].size = size;
        players[i].form = form;
        players[i].group = (form & FORM_GROUP) != 0 ? (bp_fabric_group){odd_even[i % 2], size / 2}
                                                    : (bp_fabric_group){everybody, size};
        assert_int_equal(pthread_create(&players[i].thread, NULL, player_main, &players[i]), 0);
    }
    for (uint32_t i = 0; i < size; i++) {
        pthread_join(players[i].thread, NULL);
    }
    bp_threads_world_close(&world);
}

/* The same by loops over all members of a group at once. */
static void play_plainly(const bp_fabric_group *group, float state[MOST][COUNT], float sum[COUNT],
                         float cast[COUNT])
{
    const int slice = COUNT / 8;
    for (uint32_t m = 0; m < group->count; m++) {
        for (int i = 0; i < COUNT; i++) {
            state[m][i] = first_value(group->ranks[m], i);
        }
    }
    for (int run = 0; run < RUNS; run++) {
        memcpy(cast, state[group->count - 1], sizeof *state);
        for (int i = 0; i < COUNT; i++) {
            sum[i] = 0.0f;
            for (uint32_t m = 0; m < group->count; m++) {
                sum[i] += state[m][i];
            }
        }
        for (uint32_t m = 0; m < group->count; m++) {
            memcpy(state[m], sum, sizeof *state);
            for (uint32_t other = 0; other < group->count; other++) { /* all have the same sum */
                memcpy(state[m] + (int)other * slice, sum + (int)m * slice,
                       (size_t)slice * sizeof(float));
            }
        }
    }
}

static void compare(uint32_t size, uint32_t form)
{
    static float state[MOST][COUNT], sum[COUNT], cast[COUNT];
    const uint32_t groups = (form & FORM_GROUP) != 0 ? 2 : 1;
    for (uint32_t g = 0; g < groups; g++) {
        const bp_fabric_group *group = &players[g].group;
        play_plainly(group, state, sum, cast);
        for (uint32_t m = 0; m < group->count; m++) {
            const player *p = &players[group->ranks[m]];
            if (p->status != BP_OK) {
                print_error("rank %u of %u: %s (%s)\n", p->rank, size, p->fabric_error.text,
                            p->fabric_error.name);
            }
            assert_int_equal(p->status, BP_OK);
            assert_memory_equal(p->state, state[m], sizeof *state);
            assert_memory_equal(p->sum, sum, sizeof sum);
            assert_memory_equal(p->cast, cast, sizeof cast);
        }
    }
}

static void ranks_compute_what_loops_compute(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 8};
    (void)state;
    for (uint32_t s = 0; s < 5; s++) {
        for (uint64_t seed = 0; seed < 4; seed++) {
            const uint32_t form = (seed & 1 ? FORM_POISON : 0) | (seed & 2 ? FORM_THREADS : 0);
            play(sizes[s], seed, form);
            compare(sizes[s], form);
        }
    }
}

static void groups_compute_apart(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        play(8, seed, FORM_GROUP | FORM_POISON);
        compare(8, FORM_GROUP);
    }
}

/* Found before a device is opened. */
static void another_program_is_refused(void **state)
{
    (void)state;
    play(3, 0, FORM_ODD_RANK);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(players[i].status, BP_ERR_USAGE);
        assert_string_equal(players[i].fabric_error.text, "the ranks have made different plans");
        assert_memory_equal(players[i].fabric_error.name, "rank 1 has digest ", 18);
    }
}

/* The devices of the others say who is gone. */
static void a_rank_that_leaves_ends_the_runs(void **state)
{
    (void)state;
    play(3, 7, FORM_ABSENT);
    assert_int_equal(players[1].status, BP_OK);
    for (uint32_t i = 0; i < 3; i += 2) {
        assert_int_equal(players[i].status, BP_ERR_FABRIC);
        assert_string_equal(players[i].fabric_error.text, "a rank has left");
        assert_string_equal(players[i].fabric_error.name, "rank 1");
    }
}

/* A program of four ranks on three of them. */
static void another_number_of_ranks_is_refused(void **state)
{
    void *rank = malloc(bp_fabric_threads.context_bytes);
    const bp_fabric_options options = {.world = &world, .size = 1, .patience_ms = LONG_WAIT};
    player *p = &players[0];
    (void)state;
    memset(p, 0, sizeof *p);
    assert_int_equal(bp_threads_world_open(&world, 1, 0), BP_OK);
    assert_int_equal(bp_fabric_threads.open(rank, &options, NULL), BP_OK);
    write_program(p, 0, 4);
    assert_int_equal(hand_plan(&p->h, &bp_device_host), BP_OK);
    assert_int_equal(
        hand_open(&p->h, &(bp_device_options){.threads = 1}, false, &bp_fabric_threads, rank),
        BP_ERR_USAGE);
    assert_string_equal(p->h.error.text,
                        "a program was made for another number of ranks in the group");
    assert_string_equal(p->h.error.name, "all_gather_begin");
    assert_int_equal(p->h.error.found, 1);
    assert_int_equal(p->h.error.wanted, 4);
    hand_close(&p->h);
    bp_fabric_threads.close(rank);
    bp_threads_world_close(&world);
    free(rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_compute_what_loops_compute),
        cmocka_unit_test(groups_compute_apart),
        cmocka_unit_test(another_program_is_refused),
        cmocka_unit_test(a_rank_that_leaves_ends_the_runs),
        cmocka_unit_test(another_number_of_ranks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
