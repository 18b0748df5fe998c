/* SPDX-License-Identifier: MIT */
/* The state of a trainer as bytes one behind the other and as tensors, over tables made by hand: a
 * row of the arena, a frozen one behind its end, and another of the arena. Whole trainers are
 * tests/cli/plan/test_emit_c.sh's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/host/trainer.h"

enum { ARENA = 64, FIRST = 5, FROZEN = 4, LAST = 7, ALL = FIRST + FROZEN + LAST };

static const unsigned char frozen[FROZEN] = {91, 92, 93, 94};
static const bp_trainer_range rows[] = {{8, FIRST}, {ARENA, FROZEN}, {32, LAST}};
static const bp_trainer_plan plan = {
    .arena_bytes = ARENA, .frozen = frozen, .state = rows, .state_count = 3};

static uint64_t arena[ARENA / sizeof(uint64_t)];

/* What byte `at` of the state is. */
static unsigned char value(size_t at)
{
    return at >= FIRST && at < FIRST + FROZEN ? frozen[at - FIRST] : (unsigned char)(at + 1);
}

static void fill(bp_trainer *trainer)
{
    unsigned char all[ALL];
    for (size_t i = 0; i < ALL; i++) {
        all[i] = value(i);
    }
    assert_int_equal(bp_trainer_open(trainer, &plan, arena, sizeof arena), BP_OK);
    assert_int_equal(bp_trainer_write_state(trainer, 0, all, ALL), BP_OK);
}

/* verifies device-25.d3df */
static void every_part_of_the_state(void **state)
{
    (void)state;
    bp_trainer trainer;
    unsigned char some[ALL + 1];
    fill(&trainer);
    assert_int_equal(bp_trainer_state_bytes(&trainer), ALL);
    for (size_t from = 0; from <= ALL; from++) {
        for (size_t bytes = 0; from + bytes <= ALL + 1; bytes++) {
            const bool inside = from + bytes <= ALL;
            memset(some, 0, sizeof some);
            assert_int_equal(bp_trainer_read_state(&trainer, from, some, bytes),
                             inside ? BP_OK : BP_ERR_USAGE);
            for (size_t i = 0; i < sizeof some; i++) {
                const bool there = i < bytes && from + i < ALL;
                assert_int_equal(some[i], there ? value(from + i) : 0);
            }
            assert_int_equal(bp_trainer_write_state(&trainer, from, some, bytes),
                             inside ? BP_OK : BP_ERR_USAGE);
        }
    }
    some[0] = frozen[1];
    assert_int_equal(bp_trainer_write_state(&trainer, FIRST, some, 1), BP_ERR_DATA);
}

/* verifies device-25.d3df */
static void tensors_of_the_state(void **state)
{
    (void)state;
    bp_trainer trainer;
    unsigned char some[LAST] = {0};
    fill(&trainer);
    const bp_state_io io = bp_trainer_state_io(&trainer);
    assert_int_equal(io.read(io.user, 2, 3, some, LAST - 3), BP_OK);
    assert_int_equal(some[0], value(FIRST + FROZEN + 3));
    assert_int_equal(io.read(io.user, 2, 3, some, LAST - 2), BP_ERR_USAGE);
    assert_int_equal(io.read(io.user, 3, 0, some, 1), BP_ERR_USAGE);
    assert_int_equal(io.read(io.user, 0, UINT64_MAX, some, 1), BP_ERR_USAGE);
    assert_int_equal(io.write(io.user, 3, 0, some, 0), BP_ERR_USAGE);
    assert_int_equal(io.write(io.user, 1, 1, frozen + 1, 2), BP_OK);
    assert_int_equal(io.write(io.user, 1, 0, frozen + 1, 2), BP_ERR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_part_of_the_state),
                                       cmocka_unit_test(tensors_of_the_state)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
