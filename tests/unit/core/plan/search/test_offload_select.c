/* SPDX-License-Identifier: MIT */
/* What is left below, against every choice there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/plan/search/offload_select.h"

#define NODES 1000000

static uint64_t drawn = 88172645463325252u;

static uint64_t draw(uint64_t limit)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return drawn % limit;
}

/* The least cost of all choices that free enough; UINT64_MAX: none does. */
static uint64_t every_choice(const bp_offload_class *classes, uint32_t count, uint64_t need)
{
    uint64_t choices = 1, best = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        choices *= classes[i].count + 1;
    }
    for (uint64_t choice = 0; choice < choices; choice++) {
        uint64_t rest = choice, freed = 0, cost = 0;
        for (uint32_t i = 0; i < count; i++) {
            const uint64_t taken = rest % (classes[i].count + 1);
            rest /= classes[i].count + 1;
            freed += taken * classes[i].bytes;
            cost += taken * classes[i].cost;
        }
        best = freed >= need && cost < best ? cost : best;
    }
    return best;
}

static void sum(const bp_offload_class *classes, uint32_t count, uint64_t *freed, uint64_t *cost)
{
    *freed = *cost = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(classes[i].taken <= classes[i].count);
        *freed += classes[i].taken * classes[i].bytes;
        *cost += classes[i].taken * classes[i].cost;
    }
}

static void random_classes(bp_offload_class *classes, uint32_t count, uint64_t sizes)
{
    for (uint32_t i = 0; i < count; i++) {
        classes[i] = (bp_offload_class){.bytes = 1 + draw(sizes),
                                        .cost = draw(3) == 0 ? draw(3) : draw(2 * sizes),
                                        .count = 1 + (uint32_t)draw(5)};
    }
}

/* verifies compile-19.bd49 */
static void the_least_of_every_choice(void **state)
{
    (void)state;
    uint32_t impossible = 0;
    for (uint32_t trial = 0; trial < 3000; trial++) {
        bp_offload_class classes[5];
        bp_offload_selected out;
        uint64_t all = 0, freed, cost;
        const uint32_t count = 1 + (uint32_t)draw(5);
        random_classes(classes, count, trial % 2 == 0 ? 12 : 1u << 30);
        for (uint32_t i = 0; i < count; i++) {
            all += classes[i].bytes * classes[i].count;
        }
        const uint64_t need = draw(all + all / 8 + 2);
        const uint64_t best = every_choice(classes, count, need);
        const bool enough = bp_offload_choose(classes, count, need, NODES, &out);
        sum(classes, count, &freed, &cost);
        assert_int_equal(enough, best != UINT64_MAX);
        assert_int_equal(out.cost, cost);
        assert_true(freed >= need || !enough);
        assert_true(!enough || (out.exact && cost == best && out.bound == best));
        assert_true(enough || freed == all);
        impossible += !enough;
    }
    assert_true(impossible > 50);
}

/* Stopped early it still frees enough, and its bound is one. */
/* verifies compile-19.bd49 */
static void a_search_that_is_stopped(void **state)
{
    (void)state;
    uint32_t stopped = 0;
    for (uint32_t trial = 0; trial < 2000; trial++) {
        bp_offload_class classes[5];
        bp_offload_selected out;
        uint64_t freed, cost;
        random_classes(classes, 5, 1u << 20);
        const uint64_t need = 1 + draw(1u << 21);
        const uint64_t best = every_choice(classes, 5, need);
        if (!bp_offload_choose(classes, 5, need, 1 + draw(12), &out)) {
            continue;
        }
        sum(classes, 5, &freed, &cost);
        assert_true(freed >= need && out.bound <= best && best <= cost && cost == out.cost);
        stopped += !out.exact;
    }
    assert_true(stopped > 100);
}

/* Layers that are alike: the least number that is enough, in one step. */
/* verifies compile-19.bd49 */
static void equal_sizes_are_counted(void **state)
{
    (void)state;
    bp_offload_selected out;
    bp_offload_class layers = {.bytes = 1000, .cost = 3000, .count = 48};
    assert_true(bp_offload_choose(&layers, 1, 12001, NODES, &out));
    assert_int_equal(layers.taken, 13);
    assert_true(out.exact && out.bound == 39000 && out.cost == 39000);
    assert_true(bp_offload_choose(&layers, 1, 0, NODES, &out));
    assert_true(layers.taken == 0 && out.cost == 0 && out.exact);
    assert_false(bp_offload_choose(&layers, 1, 48001, NODES, &out));
    assert_int_equal(layers.taken, 48);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_least_of_every_choice),
                                       cmocka_unit_test(a_search_that_is_stopped),
                                       cmocka_unit_test(equal_sizes_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
