/* SPDX-License-Identifier: MIT */
/* Forms of optimizer state: the codebooks against their construction, the quantisers against an
 * exhaustive search, round trips, sizes. */
#include "core/ops/codec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/codec_element.h"
#include "core/base/random.h"

#define BLOCK BP_CODEC_BLOCK

/* The magnitudes of a codebook: `decades` of them, the first of 1 << extra intervals. */
static uint32_t construct(uint32_t decades, uint32_t extra, double *to)
{
    uint32_t count = 0;
    to[count++] = 0.0;
    for (uint32_t i = 0; i < decades; i++) {
        uint32_t parts = 1u << (i + extra);
        for (uint32_t k = 0; k < parts; k++) {
            double in = 0.1 + 0.9 * (2.0 * k + 1.0) / (2.0 * parts);
            to[count++] = in * pow(10.0, (double)i - decades + 1.0);
        }
    }
    to[count++] = 1.0;
    return count;
}

static void check_codebook(const float *codebook, uint32_t size, uint32_t zero, const double *right)
{
    for (uint32_t i = 0; i < size; i++) {
        double want = i < zero ? -right[zero - i] : right[i - zero];
        assert_true(fabs((double)codebook[i] - want) <= 1.3e-7 * fabs(want));
        assert_true(i == 0 || codebook[i] > codebook[i - 1]);
    }
}

/* verifies number-8.7adc */
static void codebooks_are_as_constructed(void **state)
{
    double right[300];
    (void)state;
    assert_int_equal(construct(7, 0, right), 129);
    check_codebook(bp_codec_signed, 256, 127, right);
    assert_int_equal(construct(3, 0, right), 9);
    check_codebook(bp_codec_signed4, 16, 7, right);
    assert_int_equal(construct(7, 1, right), 256);
    check_codebook(bp_codec_unsigned, 256, 0, right);
    for (int32_t i = 0; i < 256; i++) { /* the tables are what the kernels compute */
        assert_true(bp_codec_signed[i] == bp_codec_codebook_signed(i));
        assert_true(bp_codec_unsigned[i] == bp_codec_codebook_unsigned(i));
        int32_t index = i % 16 - 7;
        float a = bp_codec_codebook4(index < 0 ? -index : index);
        assert_true(bp_codec_signed4[i % 16] == (index < 0 ? -a : a));
    }
    uint32_t negative = 0, zeros = 0, positive = 0;
    for (uint32_t i = 0; i < 256; i++) {
        negative += bp_codec_signed[i] < 0.0f;
        zeros += bp_codec_signed[i] == 0.0f;
        positive += bp_codec_signed[i] > 0.0f;
    }
    assert_int_equal(negative, 127);
    assert_int_equal(zeros, 1);
    assert_int_equal(positive, 128);
    assert_true(fabsf(bp_codec_signed[0] + 0.99296875f) < 1e-7f);
}

/* What a form can hold when its scale is 1. */
static uint32_t values_of(bp_codec form, bool has_sign, double *to)
{
    uint32_t count = 0;
    if (form == BP_CODEC_BLOCK8) {
        for (; count < 256; count++) {
            to[count] = (double)(has_sign ? bp_codec_signed : bp_codec_unsigned)[count];
        }
    } else if (form == BP_CODEC_BLOCK4) {
        for (; count < 16; count++) {
            to[count] = has_sign ? (double)bp_codec_signed4[count] : pow((count + 1) / 16.0, 4.0);
        }
    } else if (has_sign) {
        for (int q = -127; q <= 127; q++) {
            to[count++] = q / (254.0 - fabs((double)q));
        }
    } else {
        for (int q = 0; q < 256; q++) {
            to[count++] = (q / 255.0) * (q / 255.0);
        }
    }
    return count;
}

/* Distances are measured where the form is uniform: its codes there are equally far apart. */
static double place(bp_codec form, bool has_sign, double x)
{
    if (form != BP_CODEC_COMPANDED8) {
        return x;
    }
    return has_sign ? 2.0 * x / (1.0 + fabs(x)) : sqrt(x);
}

/* Encodes x beside a 1, which makes the scale 1, and returns what comes back. */
static double there_and_back(bp_codec form, bool has_sign, float x)
{
    float in[2] = {1.0f, x}, out[2];
    uint8_t bytes[32];
    bp_codec_encode(form, has_sign, in, 2, bytes);
    bp_codec_decode(form, has_sign, bytes, 2, out);
    assert_true(out[0] == 1.0f);
    return (double)out[1];
}

/* No value of the form is nearer by more than the arithmetic rounds (1e-6 of x), but that a root
 * that divides is never 0, and neither is what is negative in a codebook. */
static void check_nearest(bp_codec form, bool has_sign, const double *values, uint32_t count,
                          float x)
{
    double got = there_and_back(form, has_sign, x);
    double distance = fabs(place(form, has_sign, got) - place(form, has_sign, (double)x));
    double rounding =
        1e-6 * (fabs(place(form, has_sign, (double)x)) + fabs(place(form, has_sign, got))) + 1e-12;
    for (uint32_t i = 0; i < count; i++) {
        bool codebook = form != BP_CODEC_COMPANDED8;
        bool barred = values[i] == 0.0 && (has_sign ? x < 0.0f && codebook : x > 0.0f);
        double other = fabs(place(form, has_sign, values[i]) - place(form, has_sign, (double)x));
        if (!barred && other < distance - rounding) {
            fail_msg("form %d: %.9g became %.9g, but %.9g is nearer", (int)form, (double)x, got,
                     values[i]);
        }
    }
    assert_true(!(x < 0.0f && got > 0.0) && !(x > 0.0f && got < 0.0));
    assert_true(has_sign || form == BP_CODEC_F32 || x <= 0.0f || got > 0.0);
}

/* verifies number-8.7adc */
static void quantisers_find_the_nearest(void **state)
{
    (void)state;
    for (int form = BP_CODEC_BLOCK8; form < BP_CODEC_COUNT; form++) {
        for (int has_sign = 0; has_sign < 2; has_sign++) {
            double values[256];
            uint32_t count = values_of((bp_codec)form, has_sign != 0, values);
            for (uint32_t i = 0; i < count; i++) {
                float exact = (float)values[i];
                double back = there_and_back((bp_codec)form, has_sign != 0, exact);
                assert_true(fabs(back - values[i]) <= 5e-7 * fabs(values[i]));
                if (i + 1 == count) {
                    continue;
                }
                float middle = (float)(0.5 * (values[i] + values[i + 1]));
                check_nearest((bp_codec)form, has_sign != 0, values, count, middle);
                check_nearest((bp_codec)form, has_sign != 0, values, count,
                              nextafterf(middle, -2.0f));
                check_nearest((bp_codec)form, has_sign != 0, values, count,
                              nextafterf(middle, 2.0f));
            }
            for (uint64_t i = 0; i < 20000; i++) {
                double u = bp_random_uniform(3, 1, i);
                double x = u * pow(10.0, -8.0 * bp_random_uniform(3, 2, i));
                x = has_sign != 0 && i % 2 == 0 ? -x : x;
                check_nearest((bp_codec)form, has_sign != 0, values, count, (float)x);
            }
        }
    }
}

static void random_values(float *x, uint32_t count, bool has_sign, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++) {
        double v = 1e-4 * bp_random_normal(seed, 0, i);
        x[i] = (float)(has_sign ? v : v * v);
    }
}

/* Sizes on both sides of every group's end: nothing past the state is touched, decoding stays
 * within the form's error, and encoding what was decoded gives the same bytes, but where a 16-bit
 * scale is rounded anew. */
/* verifies number-11.5b14 */
static void round_trips_are_idempotent(void **state)
{
    static const uint32_t sizes[] = {1, 2, 31, 32, 33, 127, 128, 129, 255, 256};
    (void)state;
    for (int form = BP_CODEC_F32; form < BP_CODEC_COUNT; form++) {
        for (uint32_t k = 0; k < 2 * sizeof sizes / sizeof sizes[0]; k++) {
            uint32_t count = sizes[k / 2];
            bool has_sign = k % 2 == 0;
            uint8_t bytes[1040], again[1040];
            float x[BLOCK], y[BLOCK], z[BLOCK];
            uint64_t size = bp_codec_bytes(count, form);
            random_values(x, count, has_sign, k + 1);
            memset(bytes, 0x5a, sizeof bytes);
            bp_codec_encode((bp_codec)form, has_sign, x, count, bytes);
            for (uint64_t i = size; i < size + 8; i++) {
                assert_int_equal(bytes[i], 0x5a);
            }
            bp_codec_decode((bp_codec)form, has_sign, bytes, count, y);
            memset(again, 0x5a, sizeof again);
            bp_codec_encode((bp_codec)form, has_sign, y, count, again);
            bp_codec_decode((bp_codec)form, has_sign, again, count, z);
            for (uint32_t i = 0; i < count; i++) {
                double bound = form == BP_CODEC_COMPANDED8 ? 0.016 : 0.0;
                assert_true(fabs((double)(z[i] - y[i])) <= bound * fabs((double)y[i]));
            }
            if (form != BP_CODEC_COMPANDED8) {
                assert_memory_equal(bytes, again, size);
            }
        }
    }
}

/* verifies number-11.5b14 */
static void zeros_are_zero_bytes(void **state)
{
    static const uint8_t none[1040] = {0};
    (void)state;
    for (int k = 0; k < 2 * BP_CODEC_COUNT; k++) {
        float x[BLOCK] = {0.0f}, y[BLOCK];
        uint8_t bytes[1040];
        memset(bytes, 0x5a, sizeof bytes);
        bp_codec_encode((bp_codec)(k / 2), k % 2 == 0, x, BLOCK, bytes);
        assert_memory_equal(bytes, none, bp_codec_bytes(BLOCK, k / 2));
        bp_codec_decode((bp_codec)(k / 2), k % 2 == 0, none, BLOCK, y);
        for (uint32_t i = 0; i < BLOCK; i++) {
            assert_true(y[i] == 0.0f);
        }
    }
}

/* Magnitudes from below the least normal float, where all is 0, to near the largest. */
static void scales_reach_far(void **state)
{
    static const float scales[] = {1e-44f, 1e-38f, 1e-30f, 1.0f, 1e30f, 3e38f};
    (void)state;
    for (uint32_t k = 0; k < 4 * sizeof scales / sizeof scales[0]; k++) {
        bp_codec form = k % 2 == 0 ? BP_CODEC_BLOCK8 : BP_CODEC_BLOCK4;
        float s = scales[k / 4], x[3] = {s, 0.5f * s, 0.0f}, y[3];
        uint8_t bytes[32];
        x[0] = k / 2 % 2 == 0 ? -s : s; /* the sign goes into the scale */
        bp_codec_encode(form, true, x, 3, bytes);
        bp_codec_decode(form, true, bytes, 3, y);
        assert_true(y[0] == (s < 0x1p-126f ? 0.0f : x[0]));
        assert_true(isfinite(y[1]) && fabsf(y[2]) <= 0.006f * s);
    }
}

/* verifies number-11.5b14 */
static void sizes_follow_the_formula(void **state)
{
    const uint64_t much = UINT64_C(5) << 31; /* beyond 2^31 elements */
    (void)state;
    assert_int_equal(bp_codec_bytes(0, BP_CODEC_BLOCK8), 0);
    assert_int_equal(bp_codec_bytes(1, BP_CODEC_BLOCK8), 5);
    assert_int_equal(bp_codec_bytes(257, BP_CODEC_BLOCK8), 265);
    assert_int_equal(bp_codec_bytes(257, BP_CODEC_COMPANDED8), 289);
    assert_int_equal(bp_codec_bytes(257, BP_CODEC_BLOCK4), 145);
    assert_true(bp_codec_bytes(much, BP_CODEC_F32) == 4 * much);
    assert_true(bp_codec_bytes(much, BP_CODEC_BLOCK8) == much / 256 * 260);
    assert_true(bp_codec_bytes(much, BP_CODEC_COMPANDED8) == much / 256 * 272);
    assert_true(bp_codec_bytes(much, BP_CODEC_BLOCK4) == much / 256 * 136);
    assert_true(bp_codec_bytes(BP_SIZE_INVALID, BP_CODEC_F32) == BP_SIZE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codebooks_are_as_constructed),
        cmocka_unit_test(quantisers_find_the_nearest),
        cmocka_unit_test(round_trips_are_idempotent),
        cmocka_unit_test(zeros_are_zero_bytes),
        cmocka_unit_test(scales_reach_far),
        cmocka_unit_test(sizes_follow_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
