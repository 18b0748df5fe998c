/* SPDX-License-Identifier: MIT */
/* How ranks meet between steps, where the fabric fails: a process ends while the memory is still
 * there that pieces come to; a thread's caller hears of it. And memory that some ranks lack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* Before cmocka, whose `fail` is a macro; tests/fixtures has a function of the name, too. */
#define ranks_compare tool_ranks_compare
#include "tools/bedplate/app/clock.c"
#include "tools/bedplate/app/output.c"
#include "tools/bedplate/ranks/ranks.c"
#include "tools/bedplate/ranks/ranks_memory.c"

#include <cmocka.h>

enum { RANKS = 3, SELF = 1 };

/* What of the program the two files call, and no test here needs. */
static int run_none(const settings *set, const char *words, ranks_body body)
{
    (void)words;
    return body(set);
}

const ranks_engine ranks_threads = {"threads", NULL, run_none};
const ranks_engine ranks_mpi = {"mpi", NULL, run_none};
const ranks_engine ranks_nccl = {"nccl", NULL, run_none};

const option *option_at(uint32_t index)
{
    (void)index;
    return NULL;
}

const option *option_find(const char *name, size_t length)
{
    (void)name;
    (void)length;
    return NULL;
}

void option_put(bp_text *text, const option *which, const settings *set)
{
    (void)text;
    (void)which;
    (void)set;
}

void ranks_turn_take(ranks_turn *turn)
{
    turn->taken = true;
}

void ranks_turn_leave(ranks_turn *turn, uint32_t rank)
{
    (void)rank;
    turn->taken = false;
}

/* A fabric of words that are written down, of which a call may fail. */
static struct {
    bool begin_fails, wait_fails;
    bp_fabric_transfer call;
    const void *others; /* what all ranks give; NULL: what this one gives */
    int failures;
    bp_status told;
    jmp_buf ended;
} world;

static bp_status test_begin(void *context, const bp_fabric_transfer *transfer, bp_error *error)
{
    (void)context;
    world.call = *transfer;
    return world.begin_fails ? bp_error_set(error, BP_ERR_FABRIC, "test", "a rank is lost", NULL)
                             : BP_OK;
}

static bp_status test_wait(void *context, uint32_t request, bp_error *error)
{
    (void)context;
    assert_int_equal(request, world.call.request);
    for (uint32_t i = 0; i < RANKS; i++) {
        const char *from = world.others != NULL ? (const char *)world.others + i * world.call.bytes
                                                : world.call.from;
        memcpy((char *)world.call.to + i * world.call.bytes, from, (size_t)world.call.bytes);
    }
    return world.wait_fails ? bp_error_set(error, BP_ERR_USAGE, "test", "another failed", NULL)
                            : BP_OK;
}

/* The process would end here; a piece comes in before. Who gave the memory back already would be
 * found by ASan, and by the test, as this is not reached. */
static void test_fail(const bp_error *error)
{
    world.failures++;
    world.told = error->code;
    memset(world.call.to, 0x5a, (size_t)(RANKS * world.call.bytes));
    longjmp(world.ended, 1);
}

static void test_note(uint64_t step)
{
    (void)step;
}

static const bp_fabric fabric = {.name = "test", .begin = test_begin, .wait = test_wait};
static const ranks_process process = {test_fail, test_note};
static ranks own;
static settings set;
static bp_error error;

static void fresh(bool processes)
{
    memset(&world, 0, sizeof world);
    own = (ranks){.fabric = &fabric,
                  .rank = SELF,
                  .size = RANKS,
                  .host = "here",
                  .process = processes ? &process : NULL};
    memset(&set, 0, sizeof set);
    set.ranks = &own;
    error = (bp_error){.code = BP_OK};
}

/* Every way to meet; what came of it. */
static bp_status meet(int way)
{
    static uint32_t all[RANKS_MOST];
    static ranks_facts facts;
    const uint32_t mine = 7;
    uint32_t first = 0;
    switch (way) {
    case 0:
        return ranks_gather(&set, &mine, sizeof mine, all, &error);
    case 1:
        return ranks_first(&set, true, &first, &error);
    case 2:
        return ranks_compare(&set, &facts, &error);
    case 3:
        return ranks_compare_plans(&set, 5, &error);
    default:
        return ranks_memory_alike(&set, BP_OK, NULL, &error);
    }
}

enum { WAYS = 5 };

/* verifies ranks-10.9048 */
static void a_process_ends_while_its_memory_is_there(void **state)
{
    (void)state;
    for (volatile int form = 0; form < 2 * WAYS; form++) {
        fresh(true);
        world.begin_fails = form % 2 == 0;
        world.wait_fails = form % 2 == 1;
        if (setjmp(world.ended) == 0) {
            const bp_status back = meet(form / 2);
            (void)back;
            fail_msg("way %d came back to who gives its memory back", form / 2);
        }
        assert_int_equal(world.failures, 1);
        assert_int_equal(world.told, world.begin_fails ? BP_ERR_FABRIC : BP_ERR_USAGE);
        if (form / 2 == 2 || form / 2 == 4) { /* on the heap: what the process leaves behind */
            free(world.call.to);
        }
    }
}

/* verifies ranks-10.9048 */
static void a_thread_comes_back_with_the_error(void **state)
{
    (void)state;
    for (int form = 0; form < 2 * WAYS; form++) {
        fresh(false);
        world.begin_fails = form % 2 == 0;
        world.wait_fails = form % 2 == 1;
        assert_int_equal(meet(form / 2), world.begin_fails ? BP_ERR_FABRIC : BP_ERR_USAGE);
        assert_int_equal(error.code, world.begin_fails ? BP_ERR_FABRIC : BP_ERR_USAGE);
        fresh(false);
        assert_int_equal(meet(form / 2), BP_OK);
        assert_int_equal(world.failures, 0);
    }
}

/* Who lacks memory, by which limit; and what all hear. */
/* verifies ranks-17.c932 */
static void memory_that_some_lack(void **state)
{
    static const struct {
        bool lacks[RANKS], processes, arenas_differ;
        bp_status mine, want;
        const char *name;
    } rows[] = {
        {{0, 0, 0}, true, true, BP_OK, BP_OK, NULL},
        {{1, 1, 1}, true, true, BP_ERR_FIT, BP_ERR_FIT, NULL},
        {{0, 0, 1}, true, true, BP_OK, BP_ERR_USAGE, "rank 2 on node2, --arena"},
        {{1, 1, 0}, true, true, BP_ERR_FIT, BP_ERR_USAGE, "rank 0 on node0, --arena"},
        {{0, 1, 0}, true, false, BP_ERR_FIT, BP_ERR_FIT, "rank 1 on node1, --arena"},
        {{0, 1, 0}, false, true, BP_ERR_FIT, BP_ERR_FIT, "rank 1 on node1, --arena"},
        {{0, 1, 0}, true, true, BP_ERR_DATA, BP_ERR_DATA, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memory_word words[RANKS];
        memset(words, 0, sizeof words);
        fresh(rows[i].processes);
        for (uint32_t r = 0; r < RANKS; r++) {
            words[r] = (memory_word){.lacks = rows[i].lacks[r],
                                     .limit = BP_LIMIT_LEAST,
                                     .found = 100 + (rows[i].arenas_differ ? r : 0),
                                     .wanted = 900,
                                     .arena = 100 + (rows[i].arenas_differ ? r : 0)};
            snprintf(words[r].name, sizeof words[r].name, ", --arena");
            snprintf(words[r].host, sizeof words[r].host, "node%u", r);
        }
        world.others = words;
        bp_error why = {.code = BP_OK};
        if (rows[i].mine != BP_OK) {
            assert_int_equal(bp_error_limit(&why, rows[i].mine, "test", "too little", "--arena",
                                            100, BP_LIMIT_LEAST, 900),
                             rows[i].mine);
        }
        assert_int_equal(ranks_memory_alike(&set, rows[i].mine, &why, &error), rows[i].want);
        assert_int_equal(error.code, rows[i].name != NULL ? rows[i].want : BP_OK);
        if (rows[i].name != NULL) {
            assert_string_equal(error.name, rows[i].name);
            assert_true(error.numbers && error.wanted == 900 && error.limit == BP_LIMIT_LEAST);
        }
    }
    set.ranks = NULL;
    assert_int_equal(ranks_memory_alike(&set, BP_ERR_FIT, NULL, NULL), BP_ERR_FIT);
}

static int said;

static void say(const void *user)
{
    said += *(const int *)user;
}

/* verifies ranks-17.c932 */
static void the_first_rank_says_it(void **state)
{
    const int once = 1;
    (void)state;
    fresh(true);
    ranks_memory_say(&set, say, &once);
    assert_int_equal(said, 0);
    own.rank = 0;
    world.call.bytes = 0;
    ranks_memory_say(&set, say, &once);
    assert_int_equal(said, 1);
    assert_int_equal(world.call.bytes, 4); /* and all have met */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_ends_while_its_memory_is_there),
        cmocka_unit_test(a_thread_comes_back_with_the_error),
        cmocka_unit_test(memory_that_some_lack),
        cmocka_unit_test(the_first_rank_says_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
