/* SPDX-License-Identifier: MIT */
/* Buckets of lengths against every choice there is. A program of its own (tests/suite.sh). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "core/plan/search/lengths.c"

enum { MOST = 11 };

static bp_lengths_work work;
static uint32_t state_of = 1;

static uint32_t cut(const double *share, uint32_t count, uint32_t buckets, uint32_t *chosen)
{
    memcpy(work.share, share, (count + 1) * sizeof *share);
    return lengths_cut(&work, count, buckets, chosen);
}

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

/* verifies compile-42.96ec */
static void test_no_choice_is_better(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 60; round++) {
        const uint32_t count = 1 + round % MOST, buckets = 1 + round % BP_LENGTHS_MOST;
        double share[MOST + 1] = {0.0};
        for (uint32_t i = 1; i <= count; i++) {
            share[i] = share[i - 1] + (round % 3 == 0 && i % 2 == 0 ? 0.0 : random_share());
        }
        uint32_t chosen[BP_LENGTHS_MOST];
        const uint32_t used = cut(share, count, buckets, chosen);
        const double least = least_cost(share, count, buckets);
        assert_true(used < buckets);
        assert_true(fabs(cost_of(share, count, chosen, used) - least) <= 1e-12 * least);
    }
}

/* Where nothing is shorter than the whole there is one bucket. */
/* verifies compile-42.96ec */
static void test_no_more_than_help(void **state)
{
    (void)state;
    const double whole[] = {0.0, 0.0, 0.0, 0.0, 1.0}, two[] = {0.0, 0.0, 0.5, 0.5, 1.0};
    uint32_t chosen[BP_LENGTHS_MOST];
    assert_int_equal(cut(whole, 4, 4, chosen), 0);
    assert_int_equal(cut(two, 4, 4, chosen), 1);
    assert_int_equal(chosen[0], 2);
}

/* Samples of which one in four has 60 tokens, the others 20. */
static bp_status tokens_of(const void *user, uint64_t sample, uint32_t *tokens)
{
    const uint64_t *count = user;
    assert_true(sample < *count);
    *tokens = sample % 4 == 0 ? 60 : 20;
    return BP_OK;
}

static bp_status no_tokens(const void *user, uint64_t sample, uint32_t *tokens)
{
    (void)user;
    *tokens = 0;
    return sample < 5 ? BP_OK : BP_ERR_DATA;
}

/* Tokens expected for a micro-batch with one shorter program, of `length`: the closed form of
 * lengths.h. */
static double expected_tokens(uint32_t length, uint32_t together)
{
    const double share = length < 20 ? 0.0 : length < 60 ? pow(0.75, together) : 1.0;
    return share * length + (1.0 - share) * 100.0;
}

/* verifies compile-42.96ec */
static void test_lengths_of_samples(void **state)
{
    (void)state;
    uint64_t count = 400;
    bp_lengths_samples samples = {.tokens = tokens_of, .user = &count, .count = count};
    bp_spec spec = {.sequence = 100};
    for (samples.together = 1; samples.together < 12; samples.together++) {
        double least = 100.0;
        for (uint32_t length = 8; length < 100; length += 8) {
            const double tokens = expected_tokens(length, samples.together);
            least = tokens < least ? tokens : least;
        }
        assert_int_equal(bp_lengths_find(&spec, 2, &samples, &work), BP_OK);
        assert_int_equal(spec.length_count, 1);
        assert_true(fabs(expected_tokens(spec.lengths[0], samples.together) - least) < 1e-9);
    }
    samples.together = 1;
    assert_int_equal(bp_lengths_find(&spec, 4, &samples, &work), BP_OK);
    assert_int_equal(spec.length_count, 2);
    assert_true(spec.lengths[0] == 24 && spec.lengths[1] == 64);
    count = samples.count = UINT64_C(1) << 40; /* not all are looked at */
    assert_int_equal(bp_lengths_find(&spec, 1, &samples, &work), BP_OK);
    assert_int_equal(spec.length_count, 0);
}

/* Without samples: even distances in multiples of 8, none twice, none of the whole sequence. */
/* verifies compile-42.96ec */
static void test_lengths_without_samples(void **state)
{
    (void)state;
    static const uint32_t sequences[] = {1, 8, 9, 64, 100, 4096, 5000, UINT32_C(1) << 24};
    for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++) {
        for (uint32_t programs = 1; programs <= BP_LENGTHS_MOST; programs++) {
            bp_spec spec = {.sequence = sequences[i]};
            uint32_t before = 0;
            assert_int_equal(bp_lengths_find(&spec, programs, NULL, &work), BP_OK);
            assert_true(spec.length_count < programs);
            for (uint32_t k = 0; k < spec.length_count; k++) {
                assert_true(spec.lengths[k] > before && spec.lengths[k] % 8 == 0);
                before = spec.lengths[k];
            }
            assert_true(before < spec.sequence);
        }
    }
    bp_spec spec = {.sequence = 64};
    assert_int_equal(bp_lengths_find(&spec, 4, NULL, &work), BP_OK);
    assert_true(spec.length_count == 3 && spec.lengths[0] == 16 && spec.lengths[2] == 48);
}

/* verifies compile-42.96ec */
static void test_what_cannot_be(void **state)
{
    (void)state;
    const bp_lengths_samples samples = {.tokens = no_tokens, .count = 9, .together = 1};
    bp_spec spec = {.sequence = 64, .length_count = 1};
    assert_int_equal(bp_lengths_find(&spec, 0, NULL, &work), BP_ERR_USAGE);
    assert_int_equal(spec.length_count, 0);
    assert_int_equal(bp_lengths_find(&spec, BP_LENGTHS_MOST + 1, NULL, &work), BP_ERR_USAGE);
    assert_int_equal(bp_lengths_find(&spec, 4, &samples, &work), BP_ERR_DATA);
    assert_int_equal(spec.length_count, 0);
    spec.sequence = 0;
    assert_int_equal(bp_lengths_find(&spec, 4, NULL, &work), BP_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_choice_is_better), cmocka_unit_test(test_no_more_than_help),
        cmocka_unit_test(test_lengths_of_samples),  cmocka_unit_test(test_lengths_without_samples),
        cmocka_unit_test(test_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
