/* SPDX-License-Identifier: MIT */
/* Rectangles of bytes against maps with one flag per byte: every pair of a small world, and sets
 * that grow at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/ir/written.h"

enum { BYTES = 24, ALL = 4096, ROUNDS = 20000 };

typedef struct map {
    bool at[BYTES];
} map;

static bp_rectangle all[ALL];
static uint32_t all_count;

static map paint(const bp_rectangle *r)
{
    map m = {{false}};
    for (uint64_t i = 0; i < r->rows; i++) {
        for (uint64_t k = 0; k < r->width; k++) {
            assert_true(r->first + i * r->pitch + k < BYTES);
            m.at[r->first + i * r->pitch + k] = true;
        }
    }
    return m;
}

static bp_rectangle of(uint64_t first, uint64_t rows, uint64_t width, uint64_t pitch)
{
    const bp_extent extent = {.rows = rows, .width = width, .pitch = pitch};
    return bp_rectangle_of(&extent, 1, first);
}

/* Every rectangle of bytes that fits. */
static int make_all(void **state)
{
    (void)state;
    for (uint64_t first = 0; first < BYTES; first += 1) {
        for (uint64_t rows = 1; rows <= 4; rows++) {
            for (uint64_t pitch = 1; pitch <= 7; pitch++) {
                for (uint64_t width = 1; width <= pitch; width++) {
                    if (first + (rows - 1) * pitch + width <= BYTES) {
                        assert_true(all_count + 1 < ALL);
                        all[all_count++] = of(first, rows, width, pitch);
                    }
                }
            }
        }
    }
    all[all_count] = bp_rectangle_flat(0, 0); /* behind the others, which sets are made of */
    return 0;
}

/* verifies program-11.5817 */
static void test_forms(void **state)
{
    (void)state;
    bp_rectangle r = of(8, 3, 4, 4);
    const bp_rectangle flat = bp_rectangle_flat(8, 12);
    assert_true(bp_rectangle_equal(&r, &flat));
    r = of(8, 1, 12, 0);
    assert_true(bp_rectangle_equal(&r, &flat));
    r = of(8, 0, 12, 12);
    assert_true(bp_rectangle_empty(&r));
    r = of(8, 2, 0, 12);
    assert_true(bp_rectangle_empty(&r));
    const bp_extent wide = {.rows = 3, .width = 2, .pitch = 5};
    r = bp_rectangle_of(&wide, 4, 16);
    const bp_rectangle bytes = {16, 3, 8, 20};
    assert_true(bp_rectangle_equal(&r, &bytes));
}

/* Each of the four numbers counts. */
/* verifies program-11.5817 */
static void test_equal(void **state)
{
    (void)state;
    const bp_rectangle a = {8, 3, 4, 6};
    const bp_rectangle others[] = {{9, 3, 4, 6}, {8, 2, 4, 6}, {8, 3, 5, 6}, {8, 3, 4, 7}};
    assert_true(bp_rectangle_equal(&a, &a));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(bp_rectangle_equal(&a, &others[i]));
    }
}

/* What is known of integers is the weaker of what was known and what comes; an empty set knows
 * nothing that would weaken it. */
/* verifies program-11.5817 */
static void test_indices(void **state)
{
    (void)state;
    static const struct {
        uint32_t count;
        bp_indices had, come, known;
    } rows[] = {
        {0, {0, true}, {5, false}, {5, false}},  {0, {9, true}, {0, true}, {0, true}},
        {1, {0, false}, {5, false}, {0, false}}, {1, {9, false}, {5, false}, {9, false}},
        {1, {5, false}, {9, true}, {9, true}},   {1, {5, true}, {9, false}, {9, true}},
        {1, {5, false}, {0, false}, {0, false}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_written set = {.count = rows[i].count, .indices = rows[i].had};
        bp_written_indices(&set, rows[i].come);
        assert_true(set.indices.below == rows[i].known.below);
        assert_int_equal(set.indices.negative, rows[i].known.negative);
    }
}

/* `touch` may only err where the pitches of two blocks differ, `contains` where they do, too; both
 * to the safe side. */
/* verifies program-11.5817 */
static void test_every_pair(void **state)
{
    (void)state;
    uint64_t touching = 0;
    for (uint32_t a = 0; a <= all_count; a++) {
        const map x = paint(&all[a]);
        for (uint32_t b = 0; b <= all_count; b++) {
            const map y = paint(&all[b]);
            bool touch = false, inside = true;
            for (uint32_t i = 0; i < BYTES; i++) {
                touch = touch || (x.at[i] && y.at[i]);
                inside = inside && (x.at[i] || !y.at[i]);
            }
            const bool blocks = all[a].rows > 1 && all[b].rows > 1;
            const bool free = blocks && all[a].pitch != all[b].pitch;
            const bool said = bp_rectangle_touch(&all[a], &all[b]);
            const bool holds = bp_rectangle_contains(&all[a], &all[b]);
            if (said != touch && !(free && said)) {
                fail_msg("touch of %u and %u", a, b);
            }
            if (holds != inside && !(free && !holds)) {
                fail_msg("contains of %u and %u", a, b);
            }
            touching += touch;
        }
    }
    assert_true(touching > 1000);
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

/* A set never says more than what was added and not forgotten. */
/* verifies program-11.5817 */
static void test_sets_are_sound(void **state)
{
    (void)state;
    uint64_t seed = 11, held = 0, lost = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        bp_written set = {.count = 0};
        map truth = {{false}};
        for (uint32_t step = 0; step < 8; step++) {
            const bp_rectangle *r = &all[draw(&seed, all_count)];
            const map m = paint(r);
            const bool forgets = draw(&seed, 8) == 0;
            for (uint32_t i = 0; i < BYTES; i++) {
                truth.at[i] = forgets ? truth.at[i] && !m.at[i] : truth.at[i] || m.at[i];
            }
            if (forgets) {
                bp_written_forget(&set, r);
                assert_false(bp_written_contains(&set, r));
            } else {
                bp_written_add(&set, r);
                assert_true(bp_written_contains(&set, r));
            }
            assert_true(set.count <= BP_WRITTEN_MAX);
            map said = {{false}};
            for (uint32_t p = 0; p < set.count; p++) {
                const map part = paint(&set.part[p]);
                for (uint32_t i = 0; i < BYTES; i++) {
                    said.at[i] = said.at[i] || part.at[i];
                }
            }
            for (uint32_t i = 0; i < BYTES; i++) {
                assert_true(truth.at[i] || !said.at[i]);
                held += said.at[i];
                lost += truth.at[i] && !said.at[i];
            }
        }
    }
    assert_true(held > 2 * lost); /* and it does know something */
}

static bool holds(const bp_written *set, bp_rectangle r)
{
    return bp_written_contains(set, &r);
}

static void add(bp_written *set, bp_rectangle r)
{
    bp_written_add(set, &r);
}

/* Columns in any order, rows in any order, and both, become one flat piece. */
/* verifies program-11.5817 */
static void test_neighbours_become_one(void **state)
{
    (void)state;
    const uint64_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (uint32_t o = 0; o < 6; o++) {
        bp_written columns = {.count = 0}, rows = {.count = 0};
        for (uint32_t i = 0; i < 3; i++) {
            assert_false(holds(&columns, bp_rectangle_flat(0, 24)));
            add(&columns, of(2 * orders[o][i], 4, 2, 6));
            add(&rows, of(8 * orders[o][i], 2, 3, 4));
        }
        assert_true(holds(&columns, bp_rectangle_flat(0, 24)));
        assert_int_equal(columns.count, 1);
        assert_int_equal(rows.count, 1);
        assert_true(holds(&rows, of(0, 6, 3, 4)));
        assert_false(holds(&rows, bp_rectangle_flat(0, 4)));
    }
    bp_written one = {.count = 0};
    add(&one, of(0, 2, 3, 5));
    add(&one, of(10, 1, 3, 3)); /* a single row goes on below, whatever its pitch */
    assert_int_equal(one.count, 1);
    assert_true(one.grown);
    one.grown = false;
    add(&one, of(5, 1, 2, 2));
    assert_false(one.grown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),          cmocka_unit_test(test_equal),
        cmocka_unit_test(test_indices),        cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_sets_are_sound), cmocka_unit_test(test_neighbours_become_one),
    };
    return cmocka_run_group_tests(tests, make_all, NULL);
}
