/* SPDX-License-Identifier: MIT */
/* Philox against published vectors; the distributions and the permutation drawn from it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/random.h"

/* The known-answer vectors that come with Random123 (philox4x32, 10 rounds). */
/* verifies number-5.10ed */
static void philox_matches_the_published_vectors(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint32_t key[2];
        uint32_t right[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t out[4];
        bp_philox(rows[i].counter, (uint64_t)rows[i].key[1] << 32 | rows[i].key[0], out);
        assert_memory_equal(out, rows[i].right, sizeof(out));
    }
}

/* verifies number-5.10ed */
static void dropout_words_use_the_stated_counter(void **state)
{
    (void)state;
    uint32_t counter[4] = {0x89abcdef, 0x2a << 12 | 0x567, 7, 0x11223344};
    uint32_t right[4], out[4];
    bp_philox(counter, 99, right);
    bp_dropout_words(99, UINT64_C(0x5511223344), 7, 0x2a, UINT64_C(0x56789abcdef), out);
    assert_memory_equal(out, right, sizeof(out));
}

/* verifies number-15.65d0 */
static void threshold_rounds_and_stays_in_range(void **state)
{
    (void)state;
    assert_int_equal(bp_dropout_threshold(0.0), 0);
    assert_int_equal(bp_dropout_threshold(0.5), UINT32_C(0x80000000));
    assert_int_equal(bp_dropout_threshold(0.1), 429496730);
    assert_int_equal(bp_dropout_threshold(0.9999999999999), UINT32_MAX);
}

/* verifies number-15.65d0 */
static void normals_have_the_moments(void **state)
{
    (void)state;
    double sum = 0.0, square = 0.0, cube = 0.0, fourth = 0.0;
    const uint64_t count = 100000;
    for (uint64_t i = 0; i < count; i++) {
        double x = bp_random_normal(5, 3, i);
        assert_true(isfinite(x));
        sum += x;
        square += x * x;
        cube += x * x * x;
        fourth += x * x * x * x;
    }
    double n = (double)count;
    assert_true(fabs(sum / n) < 4.0 / sqrt(n));
    assert_true(fabs(square / n - 1.0) < 4.0 * sqrt(2.0 / n));
    assert_true(fabs(cube / n) < 4.0 * sqrt(15.0 / n));
    assert_true(fabs(fourth / n - 3.0) < 4.0 * sqrt(96.0 / n));
    assert_true(bp_random_normal(5, 3, 0) != bp_random_normal(5, 4, 0));
    assert_true(bp_random_normal(5, 3, 0) != bp_random_normal(6, 3, 0));
}

/* verifies number-15.65d0 */
static void uniforms_fill_their_range(void **state)
{
    (void)state;
    int bins[16] = {0};
    for (uint64_t i = 0; i < 16000; i++) {
        double x = bp_random_uniform(1, 2, i << 20);
        assert_true(x >= 0.0 && x < 1.0);
        bins[(int)(x * 16.0)]++;
    }
    for (int i = 0; i < 16; i++) {
        assert_in_range(bins[i], 880, 1120);
    }
}

/* verifies number-6.2553 */
static void permutation_is_a_bijection(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1,  2,  3,  4,  5,   7,   8,   15,   16,   17,   31,
                                      63, 64, 65, 99, 255, 256, 257, 1000, 1024, 1025, 4097};
    static unsigned char seen[4097];
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, sizeof(seen));
            for (uint64_t i = 0; i < counts[c]; i++) {
                uint64_t to = bp_random_permute(42, epoch, counts[c], i);
                assert_true(to < counts[c]);
                assert_int_equal(seen[to], 0);
                seen[to] = 1;
            }
        }
    }
}

/* verifies number-6.2553 */
static void permutation_depends_on_seed_and_epoch(void **state)
{
    (void)state;
    int same_epoch = 0, same_seed = 0, fixed = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t to = bp_random_permute(1, 0, 1000, i);
        same_epoch += to == bp_random_permute(1, 1, 1000, i);
        same_seed += to == bp_random_permute(2, 0, 1000, i);
        fixed += to == i;
    }
    assert_true(same_epoch < 10);
    assert_true(same_seed < 10);
    assert_true(fixed < 10);
    /* counts near the ends of 64 bits: the halves stop growing at 32 bits */
    assert_true(bp_random_permute(1, 0, UINT64_MAX, 12345) < UINT64_MAX);
    assert_true(bp_random_permute(1, 0, (UINT64_C(1) << 40) + 1, 5) <= UINT64_C(1) << 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_matches_the_published_vectors),
        cmocka_unit_test(dropout_words_use_the_stated_counter),
        cmocka_unit_test(threshold_rounds_and_stays_in_range),
        cmocka_unit_test(normals_have_the_moments),
        cmocka_unit_test(uniforms_fill_their_range),
        cmocka_unit_test(permutation_is_a_bijection),
        cmocka_unit_test(permutation_depends_on_seed_and_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
