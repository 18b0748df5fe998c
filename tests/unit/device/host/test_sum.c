/* SPDX-License-Identifier: MIT */
/* Sums of gradients in 8 bits: the kernels against plain loops in double, on the host and (through
 * test_cuda_kernels, which compares devices) on CUDA. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/codec.h"
#include "core/ops/codec_element.h"
#include "core/base/random.h"
#include "core/ir/step.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define GROUP 32
#define SUM   OPERAND(accumulate_codes, sum)
#define X     OPERAND(accumulate_codes, x)
#define STEP  OPERAND(accumulate_codes, step)
#define MOST  5000

static float half_bits(uint32_t bits)
{
    return bp_codec_float(bits << 16);
}

static const unsigned char *block_of(const unsigned char *sum, uint64_t i)
{
    return sum + i / 256 * 272;
}

static double scale_at(const unsigned char *sum, uint64_t i)
{
    uint16_t bits;
    memcpy(&bits, block_of(sum, i) + i % 256 / GROUP * 2, sizeof bits);
    return (double)half_bits(bits);
}

static int code_at(const unsigned char *sum, uint64_t i)
{
    return (int8_t)block_of(sum, i)[16 + i % 256];
}

/* What a code stands for, of its group's scale. */
static double value_of(int code)
{
    return (double)code / (254.0 - abs(code));
}

static double element_at(const kernel_case *c, uint32_t tuple, uint32_t operand, uint64_t i)
{
    const void *at = kernel_case_at(c, tuple, operand);
    bp_dtype type = (bp_dtype)c->dtypes[operand];
    if (type == BP_F32) {
        return (double)((const float *)at)[i];
    }
    uint16_t bits = ((const uint16_t *)at)[i];
    return (double)(type == BP_BF16 ? bp_f32_from_bf16(bits) : bp_f32_from_f16(bits));
}

static void fill_elements(kernel_case *c, uint32_t tuple, uint64_t count, uint64_t seed)
{
    static float x[MOST];
    void *to = kernel_case_at(c, tuple, X);
    fill_normal(x, count, seed, 1e-3);
    store_elements(to, (bp_dtype)c->dtypes[X], x, count);
}

static const bp_step_block step_of_test = {.seed = 99, .step = 12, .sample = 6};

/* The sums in double that a case has to store: what is there, and x. */
static void right_sums(const kernel_case *c, uint32_t tuple, const unsigned char *before,
                       const bp_accumulate_codes_scalars *s, double *right)
{
    for (uint64_t i = 0; i < (uint64_t)s->count; i++) {
        double there =
            s->accumulate != 0 ? scale_at(before, i) * value_of(code_at(before, i)) : 0.0;
        right[i] = there + element_at(c, tuple, X, i);
    }
}

/* The scale is the largest magnitude, rounded up to bf16; the code one of the two around the
 * quotient, the upper one where 16 random bits fall below its share. */
static void check_sums(const unsigned char *sum, const double *right,
                       const bp_accumulate_codes_scalars *s)
{
    const uint64_t key = bp_sum_rounding_key(step_of_test.seed, step_of_test.sample);
    for (uint64_t i = 0; i < (uint64_t)s->count; i++) {
        uint64_t first = i / GROUP * GROUP;
        double largest = 0.0, scale = scale_at(sum, i);
        for (uint64_t k = first; k < first + GROUP && k < (uint64_t)s->count; k++) {
            largest = fmax(largest, fabs(right[k]));
        }
        assert_true(scale >= largest * (1.0 - 1e-6) && scale <= largest * (1.0 + 0x1p-7));
        double n = fabs(right[i]) / scale;
        int low = (int)floor(254.0 * n / (1.0 + n) - 1e-4), code = abs(code_at(sum, i));
        double share = (n - value_of(low)) / (value_of(low + 1) - value_of(low));
        double random =
            bp_rounding_bits(key, step_of_test.step, (uint32_t)s->stream, (uint64_t)s->first + i);
        assert_true(code >= low && code <= low + 2 && code <= 127);
        if (share < 0.99 && fabs(65536.0 * share - random) > 8.0) {
            assert_int_equal(code, random < 65536.0 * share ? low + 1 : low);
        }
        assert_true(code == 0 || (code_at(sum, i) < 0) == (right[i] < 0.0));
    }
}

static void check_expansion(kernel_device *on, const unsigned char *sum, uint64_t count,
                            bp_dtype type)
{
    kernel_case c;
    bp_expand_codes_scalars s = {(int64_t)count};
    const uint8_t dtypes[BP_OPERANDS_MAX] = {(uint8_t)type, BP_U8};
    kernel_case_init_typed(&c, on->device, BP_KERNEL_expand_codes, &s, 1, 0, dtypes);
    memcpy(kernel_case_at(&c, 0, OPERAND(expand_codes, sum)), sum,
           bp_codec_bytes(count, BP_CODEC_COMPANDED8));
    kernel_case_run(&c, on);
    double epsilon = type == BP_F32 ? 0x1p-22 : 0x1p-8;
    for (uint64_t i = 0; i < count; i++) {
        double right = scale_at(sum, i) * value_of(code_at(sum, i));
        double got = element_at(&c, 0, OPERAND(expand_codes, x), i);
        assert_true(fabs(got - right) <= epsilon * fabs(right));
    }
    kernel_case_free(&c);
}

static void sums_agree_with_plain_loops_on(kernel_device *on)
{
    static const bp_accumulate_codes_scalars list[] = {
        {1, 0, 3, 0}, {31, 256, 4, 1}, {257, 0, 5, 1}, {4999, 512, 6, 1}, {300, 0, 7, 0}};
    static unsigned char before[8][2 * MOST];
    static double right[MOST];
    for (uint8_t type = BP_F32; type <= BP_BF16; type++) {
        const uint8_t dtypes[BP_OPERANDS_MAX] = {BP_U8, type, BP_U8};
        kernel_case c;
        kernel_case_init_typed(&c, on->device, BP_KERNEL_accumulate_codes, list, 5, 0, dtypes);
        for (uint32_t t = 0; t < 5; t++) {
            uint64_t count = (uint64_t)list[t].count;
            uint64_t bytes = bp_codec_bytes(count, BP_CODEC_COMPANDED8);
            float values[BP_CODEC_BLOCK];
            for (uint64_t i = 0; i < count; i += BP_CODEC_BLOCK) {
                uint32_t size = (uint32_t)(count - i < 256 ? count - i : 256);
                fill_normal(values, size, 40 + t + i, 2e-3);
                bp_codec_encode(BP_CODEC_COMPANDED8, true, values, size,
                                before[t] + bp_codec_bytes(i, BP_CODEC_COMPANDED8));
            }
            memcpy(kernel_case_at(&c, t, SUM), before[t], bytes);
            fill_elements(&c, t, count, 7 + t);
            memcpy(kernel_case_at(&c, t, STEP), &step_of_test, sizeof step_of_test);
        }
        kernel_case_run(&c, on);
        for (uint32_t t = 0; t < 5; t++) {
            right_sums(&c, t, before[t], &list[t], right);
            check_sums(kernel_case_at(&c, t, SUM), right, &list[t]);
            check_expansion(on, kernel_case_at(&c, t, SUM), (uint64_t)list[t].count,
                            (bp_dtype)type);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(sums_agree_with_plain_loops)

/* One group of sums from x in one micro-batch of a step. */
static void round_once(kernel_device *on, const float *x, uint32_t count, bp_step_block step,
                       int64_t stream, unsigned char *sum)
{
    kernel_case c;
    bp_accumulate_codes_scalars s = {.count = count, .stream = stream};
    kernel_case_init(&c, on->device, BP_KERNEL_accumulate_codes, &s, 1, 0);
    memcpy(kernel_case_at(&c, 0, X), x, count * sizeof *x);
    memcpy(kernel_case_at(&c, 0, STEP), &step, sizeof step);
    kernel_case_run(&c, on);
    memcpy(sum, kernel_case_at(&c, 0, SUM), bp_codec_bytes(count, BP_CODEC_COMPANDED8));
    kernel_case_free(&c);
}

/* The mean over many steps is the value, within five deviations of it; small values too, which
 * nearest rounding would lose. */
static void rounding_has_no_bias_on(kernel_device *on)
{
    enum { DRAWS = 2000 };
    const double draws = DRAWS;
    float x[GROUP];
    double sum[GROUP] = {0.0}, square[GROUP] = {0.0};
    for (int i = 0; i < GROUP; i++) {
        x[i] = (i % 2 == 0 ? 1.0f : -1.0f) * powf(0.7f, (float)i);
    }
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        unsigned char codes[64];
        bp_step_block step = {.seed = 3, .step = draw / 2, .sample = draw % 2 == 0 ? 0 : 4};
        round_once(on, x, GROUP, step, 0, codes);
        for (uint64_t i = 0; i < GROUP; i++) {
            double value = scale_at(codes, i) * value_of(code_at(codes, i));
            sum[i] += value;
            square[i] += value * value;
        }
    }
    for (int i = 0; i < GROUP; i++) {
        double mean = sum[i] / draws, variance = square[i] / draws - mean * mean;
        assert_true(fabs(mean - (double)x[i]) <= 5.0 * sqrt(fabs(variance) / draws) + 1e-6);
    }
}
/* verifies optim-3.3540 */
TEST_ON_HOST(rounding_has_no_bias)

/* Seed, step, sample and parameter each give other random bits, and nothing else does. */
static void bits_have_names_on(kernel_device *on)
{
    const bp_step_block steps[5] = {
        {.seed = 1}, {.seed = 2}, {.seed = 1, .step = 1}, {.seed = 1, .sample = 1}, {.seed = 1}};
    unsigned char sums[6][272];
    float x[256];
    fill_normal(x, 256, 5, 1.0);
    for (uint32_t i = 0; i < 6; i++) {
        bp_step_block step = steps[i % 5];
        step.learning_rate = (float)i;
        round_once(on, x, 256, step, i == 4 ? 1 : 0, sums[i]);
        assert_true(i == 0 || i == 5 || memcmp(sums[i], sums[0], 272) != 0);
    }
    assert_memory_equal(sums[5], sums[0], 272);
}
/* verifies optim-3.3540 */
TEST_ON_HOST(bits_have_names)

/* A group that holds what is not finite holds it from then on; its neighbours know nothing of it.
 * Zeros, and what is too small for a scale, are zeros. */
static void what_is_not_finite_stays_on(kernel_device *on)
{
    static const float planted[] = {INFINITY, -INFINITY, NAN, 3.3e38f};
    for (uint32_t k = 0; k < 4; k++) {
        bp_accumulate_codes_scalars s = {.count = 128, .accumulate = 1};
        bp_step_block step = {.seed = 1};
        unsigned char sum[144];
        float x[128];
        kernel_case c;
        fill_normal(x, 128, 6, 1.0);
        memset(x + 64, 0, 32 * sizeof *x);
        for (int i = 96; i < 128; i++) {
            x[i] = 1e-40f;
        }
        x[37] = planted[k];
        round_once(on, x, 128, step, 0, sum);
        kernel_case_init(&c, on->device, BP_KERNEL_accumulate_codes, &s, 1, 0);
        memcpy(kernel_case_at(&c, 0, SUM), sum, sizeof sum);
        memcpy(kernel_case_at(&c, 0, X), x, sizeof x);
        memcpy(kernel_case_at(&c, 0, STEP), &step, sizeof step);
        kernel_case_run(&c, on);
        const unsigned char *after = kernel_case_at(&c, 0, SUM);
        for (uint64_t i = 0; i < 128; i++) {
            bool bad = isnan(scale_at(after, i) * value_of(code_at(after, i)));
            assert_true(bad == (i / GROUP == 1));
            assert_true(i < 64 || (scale_at(after, i) == 0.0 && code_at(after, i) == 0));
        }
        assert_true(isnan(scale_at(sum, 37)) == (k < 3)); /* twice 3.3e38 overflows */
        kernel_case_free(&c);
    }
}
TEST_ON_HOST(what_is_not_finite_stays)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_agree_with_plain_loops),
        cmocka_unit_test(rounding_has_no_bias),
        cmocka_unit_test(bits_have_names),
        cmocka_unit_test(what_is_not_finite_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
