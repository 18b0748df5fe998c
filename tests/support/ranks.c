/* SPDX-License-Identifier: MIT */
/* Ranks as threads that run one program each. */
#include "tests/support/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT RANKS_COUNT
#define MOST  RANKS_MOST
#define PIECE ((int64_t)COUNT * 4)
#define RUNS  3

static bp_threads_world world;

static ranks_player players[MOST];

/* y = the sum of the pieces in order: a product of a row of ones and the pieces as rows. */
static void add_pieces(ranks_player *p, bp_ref y, bp_ref ones, bp_ref all, bp_ref work,
                       int64_t ranks)
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

void ranks_program(ranks_player *p, int64_t group, int64_t ranks)
{
    hand_program *h = &p->h;
    const int64_t slice = PIECE / 8;
    const uint64_t whole = (uint64_t)(ranks * PIECE);
    const bp_matmul_scalars s = {.m = 1, .n = COUNT, .k = ranks, .ldb = COUNT, .ldc = COUNT};
    const bp_device_options options = {.threads = 4};
    uint64_t room = p->setup->device->workspace(&options, BP_KERNEL_matmul, &s, NULL);
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
    if ((p->setup->form & RANKS_ODD_RANK) != 0 && p->rank == 1) {
        hand_compute(h, p->sums, p->w, COUNT);
    }
}

static float first_value(uint32_t rank, int i)
{
    return (float)(rank + 1) + (float)(i % 61) * 0.125f;
}

static bp_status run_rank(ranks_player *p)
{
    const bp_device_options options = {.threads = (p->setup->form & RANKS_THREADS) != 0 ? 3 : 1,
                                       .ordinal = (p->setup->form & RANKS_APART) != 0 ? p->rank : 0,
                                       .variant = p->setup->variant};
    const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1};
    hand_program *h = &p->h;
    const bool grouped = (p->setup->form & RANKS_GROUP) != 0;
    ranks_program(p, grouped ? 1 : 0, grouped ? p->group.count : p->setup->size);
    BP_TRY(hand_plan(h, p->setup->device));
    BP_TRY(p->fabric->agree(p->context, bp_graph_digest(&h->graph), &p->fabric_error));
    BP_TRY(hand_open(h, &options, (p->setup->form & RANKS_POISON) != 0, p->fabric, p->context));
    for (int i = 0; i < COUNT; i++) {
        p->state[i] = first_value(p->rank, i);
    }
    BP_TRY(hand_write(h, p->w, p->state, sizeof p->state));
    BP_TRY(hand_write(h, p->ones, ones, sizeof ones));
    for (int i = 0; i < RUNS; i++) {
        if ((p->setup->form & RANKS_ABSENT) != 0 && i == 1 && p->rank == 1) {
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
    ranks_player *p = argument;
    const bp_fabric_options options = {&world,    p->rank, p->setup->size,
                                       &p->group, 1,       p->setup->patience_ms};
    void *rank = malloc(bp_fabric_threads.context_bytes);
    void *over = malloc(bp_fabric_nccl.context_bytes);
    p->status = bp_fabric_threads.open(rank, &options, &p->fabric_error);
    p->fabric = &bp_fabric_threads;
    p->context = rank;
    const bool is_member = p->status == BP_OK;
    if (p->setup->nccl != NULL) {
        bp_nccl_wrap(over, p->setup->nccl, &bp_fabric_threads, rank, &options, true);
        p->fabric = &bp_fabric_nccl;
        p->context = over;
    }
    if (is_member) {
        p->status = run_rank(p);
    }
    if (p->fabric_error.code == BP_OK) {
        p->fabric_error = p->h.error;
    }
    hand_close(&p->h); /* the device goes before its fabric */
    if (is_member) {
        bp_fabric_threads.close(rank);
    }
    free(over);
    free(rank);
    return NULL;
}

static const uint32_t everybody[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
static const uint32_t odd_even[2][4] = {{0, 2, 4, 6}, {1, 3, 5, 7}};

void ranks_play(const ranks_setup *setup)
{
    const bool grouped = (setup->form & RANKS_GROUP) != 0;
    assert_int_equal(bp_threads_world_open(&world, setup->size, setup->seed), BP_OK);
    for (uint32_t i = 0; i < setup->size; i++) {
        memset(&players[i], 0, sizeof players[i]);
        players[i].rank = i;
        players[i].setup = setup;
        players[i].group = grouped ? (bp_fabric_group){odd_even[i % 2], setup->size / 2}
                                   : (bp_fabric_group){everybody, setup->size};
        assert_int_equal(pthread_create(&players[i].thread, NULL, player_main, &players[i]), 0);
    }
    for (uint32_t i = 0; i < setup->size; i++) {
        pthread_join(players[i].thread, NULL);
    }
    bp_threads_world_close(&world);
}

const ranks_player *ranks_at(uint32_t rank)
{
    return &players[rank];
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

void ranks_compare(const ranks_setup *setup)
{
    static float state[MOST][COUNT], sum[COUNT], cast[COUNT];
    const uint32_t groups = (setup->form & RANKS_GROUP) != 0 ? 2 : 1;
    for (uint32_t g = 0; g < groups; g++) {
        const bp_fabric_group *group = &players[g].group;
        play_plainly(group, state, sum, cast);
        for (uint32_t m = 0; m < group->count; m++) {
            const ranks_player *p = &players[group->ranks[m]];
            if (p->status != BP_OK) {
                print_error("rank %u of %u: %s (%s)\n", p->rank, setup->size, p->fabric_error.text,
                            p->fabric_error.name);
            }
            assert_int_equal(p->status, BP_OK);
            assert_memory_equal(p->state, state[m], sizeof *state);
            assert_memory_equal(p->sum, sum, sizeof sum);
            assert_memory_equal(p->cast, cast, sizeof cast);
        }
    }
}
