/* SPDX-License-Identifier: MIT */
/* Weights of 3 bytes: core/ops/fp8.h, against a plain reckoning in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/fp8.h"
#include "core/ops/quantised.h"
#include "core/base/random.h"

#define MOST 1100

typedef struct kept {
    uint8_t codes[MOST + 4 * (MOST / BP_FP8_BLOCK + 1)];
    uint16_t rest[MOST];
} kept;

/* Values of very different sizes: normal numbers times powers of two. */
static void fill(float *x, uint64_t count, uint64_t seed, int spread)
{
    for (uint64_t i = 0; i < count; i++) {
        const int power = (int)(bp_random_uniform(seed, 1, i) * spread) - spread;
        x[i] = (float)ldexp(bp_random_normal(seed, 0, i), power);
    }
}

/* To nearest multiple of 2^-`digits`, ties to even. */
static double nearest(double x, int digits)
{
    return ldexp(nearbyint(ldexp(x, digits)), -digits);
}

/* The 20 bits of a magnitude that are kept. */
static double twenty(double x)
{
    int exponent;
    const double part = frexp(x, &exponent);
    return x == 0.0 ? 0.0 : ldexp(nearest(part, 20), exponent);
}

/* The exponent of the scale of a group. */
static int scale_of(const float *x, uint64_t count)
{
    double most = 0.0;
    int e = -117;
    for (uint64_t i = 0; i < count; i++) {
        most = fmax(most, twenty(fabs((double)x[i])));
    }
    while (most > ldexp(448.0, e)) {
        e++;
    }
    return e;
}

/* A master under a scale: 20 bits, or steps of 2^-25 below 2^-6. */
static double master_of(double x, int e)
{
    const double y = fabs(ldexp(x, -e));
    const double number = y < 0x1p-6 ? nearest(y, 25) : twenty(y);
    return copysign(ldexp(number, e), x);
}

/* And what products read: 4 bits, or steps of 2^-9, half away from zero. */
static double read_of(double master, int e)
{
    const double y = fabs(ldexp(master, -e));
    int exponent;
    (void)frexp(y, &exponent);
    const int digits = y < 0x1p-6 ? 9 : 4 - exponent;
    return copysign(ldexp(floor(ldexp(y, digits) + 0.5), e - digits), master);
}

/* verifies number-13.d93e */
static void masters_and_codes_are_what_the_rule_says(void **state)
{
    static const uint64_t counts[] = {1, 63, 64, 65, 256, 257, 1030};
    static float x[MOST], back[MOST];
    static kept k;
    (void)state;
    for (uint32_t round = 0; round < 7 * 12; round++) {
        const uint64_t count = counts[round % 7];
        fill(x, count, round, 1 + (int)round % 12 * 12);
        /* about the largest that a scale of 1/4 holds */
        x[0] = round % 2 == 0 ? 112.0f + (float)(round % 40) * 0x1p-17f - 0x1p-13f : x[0];
        x[count / 2] = round % 3 == 0 ? -0.0f : x[count / 2];
        bp_fp8_store(x, count, k.codes, k.rest);
        bp_fp8_load(k.codes, k.rest, count, back);
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t group = i / BP_FP8_GROUP * BP_FP8_GROUP;
            const uint64_t left = count - group;
            const int e = scale_of(x + group, left < BP_FP8_GROUP ? left : BP_FP8_GROUP);
            const double right = master_of((double)x[i], e);
            if ((double)back[i] != right || signbit(back[i]) != signbit(x[i])) {
                fail_msg("%.9g is kept as %.9g, right is %.9g", (double)x[i], (double)back[i],
                         right);
            }
            assert_true((double)bp_fp8_read(k.codes, i) == read_of(right, e));
            assert_true(fabs(right - (double)x[i]) <=
                        fmax(ldexp(fabs((double)x[i]), -20), ldexp(1.0, e - 26)));
        }
    }
}

/* The header's unused bytes included: what is stored again is equal to the byte. */
/* verifies number-13.d93e */
static void what_was_loaded_is_stored_again_as_it_was(void **state)
{
    static float x[MOST], back[MOST];
    static kept one, two;
    (void)state;
    for (uint64_t round = 0; round < 60; round++) {
        const uint64_t count = 1 + round * 17;
        fill(x, count, round, 1 + (int)round % 40);
        x[0] = nextafterf(ldexpf(7.0f, (int)round), INFINITY); /* just above the largest code */
        memset(&one, 0xa5, sizeof one);
        memset(&two, 0xa5, sizeof two);
        bp_fp8_store(x, count, one.codes, one.rest);
        bp_fp8_load(one.codes, one.rest, count, back);
        bp_fp8_store(back, count, two.codes, two.rest);
        assert_memory_equal(&one, &two, sizeof one);
    }
}

/* All pairs of a code and a remainder are masters of their own, under any scale in use. */
/* verifies number-13.d93e */
static void all_pairs_are_kept(void **state)
{
    uint16_t rest[BP_FP8_GROUP];
    uint8_t codes[BP_FP8_GROUP + BP_FP8_HEADER], again[BP_FP8_GROUP + BP_FP8_HEADER];
    uint16_t rests[BP_FP8_GROUP];
    float x[BP_FP8_GROUP];
    (void)state;
    for (uint32_t number = 0; number < 0x7e0000u; number += 37 * 62) {
        memset(codes, 0, sizeof codes);
        codes[0] = (uint8_t)(10 + number % 238); /* every scale */
        codes[BP_FP8_HEADER] = 0x7e;             /* 448, so that the scale is in use */
        rest[0] = 0;
        for (uint32_t i = 1; i < BP_FP8_GROUP; i++) {
            const uint32_t bits = (number + i * 37) % 0x7e0000u | (i % 2) << 23;
            codes[BP_FP8_HEADER + i] = (uint8_t)((bits + 0x8000u) >> 16);
            rest[i] = (uint16_t)bits;
        }
        bp_fp8_load(codes, rest, BP_FP8_GROUP, x);
        bp_fp8_store(x, BP_FP8_GROUP, again, rests);
        assert_memory_equal(codes, again, sizeof codes);
        assert_memory_equal(rest, rests, sizeof rest);
    }
}

/* verifies number-13.d93e */
static void what_is_not_finite_is_nan_in_its_group_alone(void **state)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    float x[200], back[200];
    kept k;
    (void)state;
    for (int b = 0; b < 3; b++) {
        fill(x, 200, 5, 3);
        x[70] = bad[b];
        bp_fp8_store(x, 200, k.codes, k.rest);
        bp_fp8_load(k.codes, k.rest, 200, back);
        for (uint64_t i = 0; i < 200; i++) {
            const bool lost = i / BP_FP8_GROUP == 1;
            assert_true(lost == (isnan(back[i]) != 0));
            assert_true(lost == (isnan(bp_fp8_read(k.codes, i)) != 0));
            assert_true(!lost || k.rest[i] == 0);
        }
    }
}

/* verifies number-13.d93e */
static void bytes_are_those_of_codes_and_headers(void **state)
{
    (void)state;
    assert_true(bp_fp8_bytes(0) == 0 && bp_fp8_bytes(1) == 5);
    assert_true(bp_fp8_bytes(256) == 260 && bp_fp8_bytes(257) == 265);
    assert_true(bp_fp8_bytes(UINT64_MAX) == BP_SIZE_INVALID);
}

/* Of the other stored forms: a NaN is larger than no magnitude, wherever it stands. */
static void a_nan_is_not_the_largest(void **state)
{
    (void)state;
    const float x[] = {-3.0f, (float)NAN, 2.0f, -(float)NAN, -0.5f};
    assert_true(bp_quantised_largest(x, 5, 0.0f) == 3.0f);
    assert_true(bp_quantised_largest(x + 1, 1, 0.25f) == 0.25f);
    assert_true(bp_quantised_largest(x + 2, 3, 4.0f) == 4.0f);
    assert_true(bp_quantised_largest(x, 1, 1.0f) == 3.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masters_and_codes_are_what_the_rule_says),
        cmocka_unit_test(what_was_loaded_is_stored_again_as_it_was),
        cmocka_unit_test(all_pairs_are_kept),
        cmocka_unit_test(what_is_not_finite_is_nan_in_its_group_alone),
        cmocka_unit_test(bytes_are_those_of_codes_and_headers),
        cmocka_unit_test(a_nan_is_not_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
