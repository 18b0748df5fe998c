/* SPDX-License-Identifier: MIT */
/* Buckets of lengths against every choice there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "tools/bedplate/planning/buckets_cut.c"

enum { MOST = 11 };

static uint32_t state_of = 1;

static double random_share(void)
{
    state_of = state_of * 1664525u + 1013904223u;
    return (double)(state_of >> 8) / (double)(1u << 24);
}

static double cost_of(const double *share, uint32_t count, const uint32_t *chosen, uint32_t used)
{
    double cost = 0.0;
    uint32_t before = 0;
    for (uint32_t i = 0; i < used; i++) {
        assert_true(chosen[i] > before && chosen[i] < count);
        cost += (double)chosen[i] * (share[chosen[i]] - share[before]);
        before = chosen[i];
    }
    return cost + (double)count * (share[count] - share[before]);
}

/* The least cost over all sets of fewer than `buckets` numbers below count. */
static double least_cost(const double *share, uint32_t count, uint32_t buckets)
{
    double least = (double)INFINITY;
    for (uint32_t set = 0; set < 1u << (count - 1); set++) {
        uint32_t chosen[MOST], used = 0;
        for (uint32_t i = 1; i < count; i++) {
            if ((set >> (i - 1) & 1) != 0) {
                chosen[used++] = i;
            }
        }
        if (used < buckets) {
            const double cost = cost_of(share, count, chosen, used);
            least = cost < least ? cost : least;
        }
    }
    return least;
}

static void test_no_choice_is_better(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 60; round++) {
        const uint32_t count = 1 + round % MOST, buckets = 1 + round % BUCKETS_CUT_MOST;
        double share[MOST + 1] = {0.0};
        for (uint32_t i = 1; i <= count; i++) {
            share[i] = share[i - 1] + (round % 3 == 0 && i % 2 == 0 ? 0.0 : random_share());
        }
        uint32_t chosen[BUCKETS_CUT_MOST];
        const uint32_t used = buckets_cut(share, count, buckets, chosen);
        const double least = least_cost(share, count, buckets);
        assert_true(used < buckets);
        assert_true(fabs(cost_of(share, count, chosen, used) - least) <= 1e-12 * least);
    }
}

/* Where nothing is shorter than the whole there is one bucket. */
static void test_no_more_than_help(void **state)
{
    (void)state;
    const double whole[] = {0.0, 0.0, 0.0, 0.0, 1.0}, two[] = {0.0, 0.0, 0.5, 0.5, 1.0};
    uint32_t chosen[BUCKETS_CUT_MOST];
    assert_int_equal(buckets_cut(whole, 4, 4, chosen), 0);
    assert_int_equal(buckets_cut(two, 4, 4, chosen), 1);
    assert_int_equal(chosen[0], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_choice_is_better),
        cmocka_unit_test(test_no_more_than_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
