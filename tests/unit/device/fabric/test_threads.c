/* SPDX-License-Identifier: MIT */
/* Ranks as threads: the rows of tests/fixtures/fabric_case.h for any number of ranks and any order
 * of arrival; ranks that disagree, leave or stay away end everybody's calls. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/fabric/threads.h"
#include "tests/fixtures/fabric_case.h"

#define MOST      FABRIC_RANKS
#define PIECE     FABRIC_PIECE
#define LONG_WAIT 600000 /* ms: no test ends by it */
#define SHORT     20     /* ms: somebody never comes */

static bp_threads_world world;

typedef struct player player;
typedef void (*player_act)(player *p);

/* One rank. */
struct player {
    fabric_case c; /* what it has of the fabric, and what came of it */
    player_act act;
    const fabric_row *row; /* NULL: `act` */
    bp_fabric_group groups[2];
    uint32_t group_count;
    uint64_t patience;
    pthread_t thread;
};

static player players[MOST];

static void *player_main(void *argument)
{
    player *p = argument;
    fabric_case *c = &p->c;
    const bp_fabric_options options = {&world,    c->rank,        c->size,
                                       p->groups, p->group_count, p->patience};
    c->context = malloc(bp_fabric_threads.context_bytes);
    fabric_case_note(c, bp_fabric_threads.open(c->context, &options, &c->error));
    if (c->status == BP_OK) {
        if (p->row != NULL) {
            p->row->act(c);
        } else {
            p->act(p);
        }
        bp_fabric_threads.close(c->context);
    }
    free(c->context);
    return NULL;
}

static void set_up(uint32_t size, uint64_t seed, player_act act)
{
    assert_int_equal(bp_threads_world_open(&world, size, seed), BP_OK);
    for (uint32_t i = 0; i < size; i++) {
        memset(&players[i], 0, sizeof players[i]);
        players[i].c.fabric = &bp_fabric_threads;
        players[i].c.rank = i;
        players[i].c.size = size;
        players[i].c.digest = FABRIC_DIGEST;
        players[i].act = act;
        players[i].patience = LONG_WAIT;
    }
}

/* Runs the first `count` players to their end. */
static void play(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(pthread_create(&players[i].thread, NULL, player_main, &players[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(players[i].thread, NULL);
    }
    bp_threads_world_close(&world);
}

static void play_row(const fabric_row *row, uint32_t size, uint64_t seed)
{
    set_up(size, seed, NULL);
    for (uint32_t i = 0; i < size; i++) {
        players[i].row = row;
        fabric_case_groups(i, size, players[i].groups);
        players[i].group_count = row->grouped ? 2 : 0;
    }
    play(size);
}

static void act_full(player *p)
{
    fabric_row_named("calls")->act(&p->c);
}

static void act_groups(player *p)
{
    fabric_row_named("groups")->act(&p->c);
}

static void begin(player *p, bp_fabric_call call, uint32_t group, uint32_t root, uint32_t request)
{
    fabric_case_begin(&p->c, call, group, root, request);
}

static void assert_all_well(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (players[i].c.status != BP_OK) {
            print_error("rank %u: %s (%s)\n", i, players[i].c.error.text, players[i].c.error.name);
        }
        assert_int_equal(players[i].c.status, BP_OK);
        assert_int_equal(players[i].c.wrong, 0);
    }
}

/* verifies ranks-14.d729 */
static void calls_are_plain_loops(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 8};
    const fabric_row *row;
    (void)state;
    for (uint32_t r = 0; (row = fabric_row_at(r)) != NULL; r++) {
        for (uint32_t s = 0; s < 5; s++) {
            const bool fits = row->grouped ? sizes[s] > 3 : true;
            for (uint64_t seed = 0; seed < 6 && fits; seed++) {
                play_row(row, sizes[s], seed);
                assert_all_well(sizes[s]);
            }
        }
    }
}

static void give_groups(void)
{
    for (uint32_t i = 0; i < MOST; i++) {
        fabric_case_groups(i, MOST, players[i].groups);
        players[i].group_count = 2;
    }
}

/* Every rank is told which rank has another plan, and both digests. */
/* verifies ranks-4.e03f */
static void plans_that_differ_are_refused(void **state)
{
    (void)state;
    set_up(4, 3, act_full);
    players[2].c.digest = 0xabcdef;
    play(4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(players[i].c.status, BP_ERR_USAGE);
        assert_string_equal(players[i].c.error.text, "the ranks have made different plans");
        assert_string_equal(players[i].c.error.name,
                            "rank 2 has digest 0000000000abcdef, rank 0 has "
                            "0000000000000011");
    }
}

/* verifies ranks-15.459a */
static void groups_that_differ_are_refused(void **state)
{
    static const uint32_t wrong[3] = {0, 1, 2};
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        set_up(MOST, 0, act_groups);
        give_groups();
        if (kind == 0) {
            players[1].groups[0] = (bp_fabric_group){wrong, 2 + 1};
        } else if (kind == 1) {
            players[1].groups[0] = (bp_fabric_group){wrong + 1, 2};
        } else {
            players[5].group_count = 1;
        }
        play(MOST);
        for (uint32_t i = 0; i < MOST; i++) {
            assert_int_equal(players[i].c.status, BP_ERR_USAGE);
            assert_string_equal(players[i].c.error.text,
                                "the ranks do not agree on the members of a group");
        }
    }
}

/* verifies ranks-18.4f4a */
static void ranks_that_make_no_sense_are_refused(void **state)
{
    static const uint32_t ascending[2] = {0, 1}, falling[2] = {1, 0}, far[2] = {0, 9};
    static const uint32_t elsewhere[1] = {1};
    static const bp_fabric_group many[BP_THREADS_GROUPS_MAX] = {{ascending, 2}};
    const bp_fabric_group lists[3] = {{falling, 2}, {far, 2}, {elsewhere, 1}};
    void *context = malloc(bp_fabric_threads.context_bytes);
    void *second = malloc(bp_fabric_threads.context_bytes);
    bp_fabric_options options = {.world = &world, .rank = 0, .size = 2};
    (void)state;
    assert_int_equal(bp_threads_world_open(&world, 0, 0), BP_ERR_USAGE);
    assert_int_equal(bp_threads_world_open(&world, BP_THREADS_RANKS_MAX + 1, 0), BP_ERR_USAGE);
    assert_int_equal(bp_threads_world_open(&world, 2, 0), BP_OK);
    for (int i = 0; i < 3; i++) {
        options.groups = &lists[i];
        options.group_count = 1;
        assert_int_equal(bp_fabric_threads.open(context, &options, NULL), BP_ERR_USAGE);
    }
    options.groups = many;
    options.group_count = BP_THREADS_GROUPS_MAX;
    assert_int_equal(bp_fabric_threads.open(context, &options, NULL), BP_ERR_USAGE);
    options.group_count = 0;
    options.size = 3;
    assert_int_equal(bp_fabric_threads.open(context, &options, NULL), BP_ERR_USAGE);
    options.size = 2;
    options.rank = 2;
    assert_int_equal(bp_fabric_threads.open(context, &options, NULL), BP_ERR_USAGE);
    options.rank = 0;
    assert_int_equal(bp_fabric_threads.open(context, &options, NULL), BP_OK);
    assert_int_equal(bp_fabric_threads.open(second, &options, NULL), BP_ERR_USAGE);
    bp_fabric_threads.close(context);
    bp_fabric_threads.close(context); /* closing twice is harmless */
    bp_threads_world_close(&world);
    free(context);
    free(second);
}

/* A rank that is not there: who waits says which, and goes. */
/* verifies ranks-15.459a */
static void a_missing_rank_ends_the_start(void **state)
{
    (void)state;
    set_up(2, 0, act_full);
    players[0].patience = SHORT;
    play(1);
    assert_int_equal(players[0].c.status, BP_ERR_FABRIC);
    assert_string_equal(players[0].c.error.text, "a rank did not come in time");
    assert_string_equal(players[0].c.error.name, "rank 1");
}

static void act_leave(player *p)
{
    if (p->c.rank != 1) {
        act_full(p);
    }
}

/* verifies ranks-15.459a */
static void a_rank_that_leaves_ends_the_start(void **state)
{
    (void)state;
    set_up(3, 0, act_leave);
    play(3);
    assert_int_equal(players[1].c.status, BP_OK);
    for (uint32_t i = 0; i < 3; i += 2) {
        assert_int_equal(players[i].c.status, BP_ERR_FABRIC);
        assert_string_equal(players[i].c.error.text, "a rank has left");
        assert_string_equal(players[i].c.error.name, "rank 1");
    }
}

/* Rank 1 agrees and then: leaves; begins and leaves; stays without a word until the others are gone
 * (its patience, like theirs, does not end the test: it waits for what the others never begin). */
static int mischief;

static void act_mischief(player *p)
{
    fabric_case_agree(&p->c);
    fabric_case_fill(&p->c, 0);
    if (p->c.rank != 1 || mischief == 1) {
        begin(p, BP_FABRIC_EXCHANGE, 0, 0, 5);
    }
    if (p->c.rank != 1) {
        fabric_case_wait(&p->c, 5);
        begin(p, BP_FABRIC_EXCHANGE, 0, 0, 6); /* nothing goes on afterwards */
        fabric_case_wait(&p->c, 6);
    }
}

/* verifies ranks-5.1fd2 */
static void a_rank_that_is_lost_ends_the_calls(void **state)
{
    (void)state;
    for (mischief = 0; mischief < 2; mischief++) {
        set_up(4, 5, act_mischief);
        play(4);
        for (uint32_t i = 0; i < 4; i++) {
            if (i == 1) {
                continue;
            }
            assert_int_equal(players[i].c.status, BP_ERR_FABRIC);
            assert_string_equal(players[i].c.error.text, "a rank has left");
            assert_string_equal(players[i].c.error.name, "rank 1");
        }
    }
}

/* Rank 1 has begun, and so has a thread of its own that waits for rank 2, which never begins: what
 * ends both is that it abandons the calls, twice. Rank 2 comes later. */
static void *abandon_main(void *argument)
{
    player *p = argument;
    const bp_error causes[2] = {{.code = BP_ERR_DEVICE, .where = "test", .text = "a device failed"},
                                {.code = BP_ERR_DATA, .where = "test", .text = "later"}};
    for (uint32_t i = 0; i < 2; i++) {
        bp_fabric_threads.abandon(p->c.context, &causes[i]);
    }
    return NULL;
}

static void act_abandon(player *p)
{
    pthread_t other;
    fabric_case_agree(&p->c);
    if (p->c.rank == 2) {
        while (bp_fabric_threads.check(p->c.context, NULL) == BP_OK) {
            sched_yield(); /* no wait: for the state, however long that takes */
        }
    }
    begin(p, BP_FABRIC_EXCHANGE, 0, 0, 5);
    const bool abandons = p->c.rank == 1 && pthread_create(&other, NULL, abandon_main, p) == 0;
    fabric_case_wait(&p->c, 5);
    if (abandons) {
        pthread_join(other, NULL);
    }
}

/* verifies ranks-10.9048 */
static void a_rank_that_abandons_ends_the_calls(void **state)
{
    (void)state;
    set_up(3, 0, act_abandon);
    play(3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(players[i].c.status, BP_ERR_DEVICE);
        assert_string_equal(players[i].c.error.text, "a device failed"); /* the first stays */
    }
}

/* A rank that says nothing more, and is there: the others' patience ends. */
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_opened = PTHREAD_COND_INITIALIZER;
static int gate_count;

static void act_silent(player *p)
{
    fabric_case_agree(&p->c);
    fabric_case_fill(&p->c, 0);
    if (p->c.rank != 1) {
        begin(p, BP_FABRIC_ALL_GATHER, 0, 0, 5);
        fabric_case_wait(&p->c, 5);
    }
    pthread_mutex_lock(&gate_lock);
    gate_count += p->c.rank != 1;
    pthread_cond_broadcast(&gate_opened);
    while (p->c.rank == 1 && gate_count < 2) {
        pthread_cond_wait(&gate_opened, &gate_lock);
    }
    pthread_mutex_unlock(&gate_lock);
    if (p->c.rank == 1) { /* too late */
        begin(p, BP_FABRIC_ALL_GATHER, 0, 0, 5);
    }
}

/* verifies ranks-15.459a */
static void patience_ends(void **state)
{
    (void)state;
    set_up(3, 0, act_silent);
    players[0].patience = LONG_WAIT; /* is told by rank 2 */
    players[2].patience = SHORT;
    gate_count = 0;
    /* the start waits for all: with so little patience it may have to be tried again */
    play(3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(players[i].c.status, BP_ERR_FABRIC);
    }
    assert_string_equal(players[1].c.error.name, players[0].c.error.name);
}

/* Members that make different calls, or a call too many. */
static int confusion;

static void act_confused(player *p)
{
    fabric_case_agree(&p->c);
    fabric_case_fill(&p->c, 0);
    if (confusion == 3 || confusion == 4) {
        for (uint32_t i = 0; p->c.rank == 0 && i <= bp_fabric_threads.collectives; i++) {
            begin(p, BP_FABRIC_ALL_GATHER, 0, 0, confusion == 3 ? i : 0);
        }
        return;
    }
    if (confusion == 5 || confusion == 6) {
        if (p->c.rank == 0 && confusion == 5) {
            fabric_case_wait(&p->c, 77);
        } else if (p->c.rank == 0) {
            begin(p, BP_FABRIC_ALL_GATHER, 4, 0, 5);
        }
        return;
    }
    bp_fabric_transfer transfer = {BP_FABRIC_BROADCAST, 5,        0, 0, PIECE, NULL,
                                   p->c.to[0],          p->c.from};
    if (p->c.rank == 1) {
        transfer.call = confusion == 0 ? BP_FABRIC_EXCHANGE : BP_FABRIC_BROADCAST;
        transfer.bytes = confusion == 1 ? PIECE - 1 : PIECE;
        transfer.root = confusion == 2 ? 1 : 0;
    }
    fabric_case_note(&p->c, bp_fabric_threads.begin(p->c.context, &transfer, &p->c.error));
    fabric_case_wait(&p->c, 5);
}

/* verifies ranks-15.459a */
static void calls_that_differ_are_refused(void **state)
{
    static const char *const texts[] = {"the ranks make different calls",
                                        "the ranks make different calls",
                                        "the ranks make different calls",
                                        "a rank began a call that it may not begin",
                                        "a rank began a call that it may not begin",
                                        "a rank waits for no call of its",
                                        "a rank began a call that it may not begin"};
    (void)state;
    for (confusion = 0; confusion < 7; confusion++) {
        set_up(2, 0, act_confused);
        play(2);
        assert_int_equal(players[0].c.status, BP_ERR_USAGE);
        assert_string_equal(players[0].c.error.text, texts[confusion]);
        assert_true(confusion > 2 || players[1].c.status == BP_ERR_USAGE);
    }
}

/* verifies ranks-15.459a */
static void who_has_left_is_known_at_once(void **state)
{
    (void)state;
    bp_error error = {.code = BP_OK};
    void *contexts[2];
    assert_int_equal(bp_threads_world_open(&world, 2, 0), BP_OK);
    for (uint32_t i = 0; i < 2; i++) {
        const bp_fabric_options options = {
            .world = &world, .rank = i, .size = 2, .patience_ms = LONG_WAIT};
        contexts[i] = malloc(bp_fabric_threads.context_bytes);
        assert_int_equal(bp_fabric_threads.open(contexts[i], &options, &error), BP_OK);
    }
    assert_int_equal(bp_fabric_threads.check(contexts[0], &error), BP_OK);
    bp_fabric_threads.close(contexts[1]);
    assert_int_equal(bp_fabric_threads.check(contexts[0], &error), BP_ERR_FABRIC);
    assert_string_equal(error.text, "a rank has left");
    assert_string_equal(error.name, "rank 1");
    assert_int_equal(bp_fabric_threads.check(contexts[0], NULL), BP_ERR_FABRIC); /* it stays */
    bp_fabric_threads.close(contexts[0]);
    bp_threads_world_close(&world);
    free(contexts[0]);
    free(contexts[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_plain_loops),
        cmocka_unit_test(plans_that_differ_are_refused),
        cmocka_unit_test(groups_that_differ_are_refused),
        cmocka_unit_test(ranks_that_make_no_sense_are_refused),
        cmocka_unit_test(a_missing_rank_ends_the_start),
        cmocka_unit_test(a_rank_that_leaves_ends_the_start),
        cmocka_unit_test(a_rank_that_is_lost_ends_the_calls),
        cmocka_unit_test(a_rank_that_abandons_ends_the_calls),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(calls_that_differ_are_refused),
        cmocka_unit_test(who_has_left_is_known_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
