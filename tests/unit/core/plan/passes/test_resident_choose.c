/* SPDX-License-Identifier: MIT */
/* Gaps in time that are filled, against every choice there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/plan/passes/resident_choose.h"

enum { GAPS = 12, SECTIONS = 14, WORK = 1000000 };

static uint64_t drawn = 88172645463325252u;

static uint64_t draw(uint64_t limit)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return drawn % limit;
}

typedef struct problem {
    bp_resident_gap gaps[GAPS];
    uint64_t room[SECTIONS];
    uint32_t count;
    uint32_t sections;
} problem;

/* Bytes of the gaps of a set; UINT64_MAX: some section has no room for them. */
static uint64_t bytes_of(const problem *p, uint32_t set)
{
    uint64_t load[SECTIONS] = {0}, bytes = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        for (uint32_t s = p->gaps[i].from; (set >> i & 1) != 0 && s < p->gaps[i].to; s++) {
            load[s] += p->gaps[i].bytes;
        }
        bytes += (set >> i & 1) != 0 ? p->gaps[i].bytes : 0;
    }
    for (uint32_t s = 0; s < p->sections; s++) {
        if (load[s] > p->room[s]) {
            return UINT64_MAX;
        }
    }
    return bytes;
}

static uint64_t every_choice(const problem *p)
{
    uint64_t best = 0;
    for (uint32_t set = 0; set < 1u << p->count; set++) {
        const uint64_t bytes = bytes_of(p, set);
        best = bytes != UINT64_MAX && bytes > best ? bytes : best;
    }
    return best;
}

static uint32_t chosen_set(const problem *p)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        set |= p->gaps[i].kept ? 1u << i : 0;
    }
    return set;
}

static void choose(problem *p, uint64_t work, bp_resident_chosen *out)
{
    uint8_t *scratch = malloc((size_t)bp_resident_choose_scratch(p->count, p->sections));
    assert_non_null(scratch);
    bp_resident_choose(p->gaps, p->count, p->room, p->sections, work, scratch, out);
    free(scratch);
    assert_true(bytes_of(p, chosen_set(p)) == out->bytes);
    assert_true(out->bytes <= out->most && (!out->exact || out->bytes == out->most));
}

/* Nested around one time or anywhere; `sizes` 1: all are as large as another. */
static problem random_problem(uint64_t sizes, bool nested)
{
    problem p = {.count = (uint32_t)draw(GAPS + 1), .sections = 2 + (uint32_t)draw(SECTIONS - 1)};
    const uint64_t unit = 1 + draw(5);
    for (uint32_t i = 0; i < p.count; i++) {
        const uint32_t half = p.sections / 2;
        const uint32_t from = (uint32_t)draw(nested ? half : p.sections - 1);
        const uint32_t least = nested ? half : from + 1;
        p.gaps[i] = (bp_resident_gap){.bytes = unit * (1 + draw(sizes)),
                                      .from = from,
                                      .to = least + (uint32_t)draw(p.sections - least + 1)};
    }
    for (uint32_t s = 0; s < p.sections; s++) {
        p.room[s] = draw(unit * sizes * 4);
    }
    return p;
}

/* verifies compile-30.0872 */
static void as_good_as_every_choice(void **state)
{
    (void)state;
    uint32_t whole = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        problem p = random_problem(i % 4 == 0 ? 1 : 9, i % 2 == 0);
        bp_resident_chosen out;
        choose(&p, WORK, &out);
        assert_true(out.exact);
        assert_int_equal(out.bytes, every_choice(&p));
        whole += chosen_set(&p) == (1u << p.count) - 1 ? 1 : 0;
    }
    assert_true(whole > 100 && whole < 3000);
}

/* Without any work the best of all is still within the bound, and found at once where sizes are
 * equal. */
/* verifies compile-30.0872 */
static void stopped_at_once(void **state)
{
    (void)state;
    uint32_t open = 0, less = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        problem p = random_problem(i % 4 == 0 ? 1 : 9, i % 2 == 0);
        bp_resident_chosen out;
        choose(&p, i % 3 == 0 ? GAPS : 0, &out);
        const uint64_t best = every_choice(&p);
        assert_true(out.bytes <= best && best <= out.most);
        assert_true(i % 4 != 0 || out.exact);
        open += out.exact ? 0 : 1;
        less += out.bytes < best ? 1 : 0;
    }
    assert_true(open > 50 && less > 0);
}

/* A sweep forward and back over blocks of one size keeps the last ones, however many. */
/* verifies compile-30.0872 */
static void the_last_blocks_around_a_turn(void **state)
{
    (void)state;
    enum { BLOCKS = 400 };
    static bp_resident_gap gaps[BLOCKS];
    static uint64_t room[2 * BLOCKS];
    uint8_t *scratch = malloc((size_t)bp_resident_choose_scratch(BLOCKS, 2 * BLOCKS));
    bp_resident_chosen out;
    assert_non_null(scratch);
    for (uint32_t k = 0; k <= BLOCKS / 2; k += 57) {
        for (uint32_t i = 0; i < BLOCKS; i++) {
            gaps[i] = (bp_resident_gap){.bytes = 1000, .from = i, .to = 2 * BLOCKS - i};
            room[i] = room[2 * BLOCKS - 1 - i] = 1000 * (uint64_t)k + 999;
        }
        bp_resident_choose(gaps, BLOCKS, room, 2 * BLOCKS, 0, scratch, &out);
        assert_true(out.exact && out.bytes == 1000 * (uint64_t)k);
        for (uint32_t i = 0; i < BLOCKS; i++) {
            assert_true(gaps[i].kept == (i >= BLOCKS - k));
        }
    }
    free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_good_as_every_choice),
        cmocka_unit_test(stopped_at_once),
        cmocka_unit_test(the_last_blocks_around_a_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
