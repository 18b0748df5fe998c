/* SPDX-License-Identifier: MIT */
/* Disentangled attention against loops in double, with the buckets that transformers' code computes
 * with torch in float. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ir/step.h"
#include "device/host/kernel.h"
#include "tests/fixtures/kernels/kernel_case.h"

enum { LENGTH = 90, HEADS = 2, WIDTH = 19, SAMPLES = 2, BUCKETS = 32 };
enum { WIDE = HEADS * WIDTH, ROWS = SAMPLES * LENGTH };

/* The first distance of each bucket; 0 ends them. */
static const struct {
    int64_t buckets;
    int64_t most;
    int32_t first[BUCKETS + 1];
} tables[] = {
    {16, 64, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 20, 27, 35, 47, 64, 85}},
    {8, 12, {0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 22, 31, 43, 60, 84}},
    {32, 512, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
               13, 14, 15, 16, 17, 21, 26, 32, 41, 51, 64, 81}},
    {5, 9, {0, 1, 2, 3, 9, 33}},
};
#define TABLES (sizeof tables / sizeof tables[0])

static float qkv[ROWS * 3 * WIDE], positions[2 * BUCKETS * 2 * WIDE], d_out[ROWS * WIDE];
static float out[ROWS * WIDE], lse[SAMPLES * HEADS * LENGTH], d_qkv[ROWS * 3 * WIDE];
static float d_positions[2 * BUCKETS * 2 * WIDE];
static double right_qkv[ROWS * 3 * WIDE], right_positions[2 * BUCKETS * 2 * WIDE];
static const int32_t lengths[SAMPLES] = {LENGTH, 37};
static const float scale = 0.31f;

static void run(bp_kernel kernel, const void *pointers, const void *scalars, void **work)
{
    const uint8_t dtypes[BP_OPERANDS_MAX] = {BP_F32};
    const bp_host_kernel *row = bp_host_portable.kernels[BP_F32][kernel];
    const bp_host_call call = {pointers, scalars, dtypes, NULL, NULL};
    const uint64_t tasks = row->tasks(scalars);
    *work = malloc((size_t)row->workspace(scalars, dtypes));
    assert_non_null(*work);
    for (uint64_t task = tasks; task-- > 0;) {
        row->run(&call, task, task + 1, 0);
    }
    free(*work);
}

static size_t bucket_row(size_t table, int64_t distance)
{
    int64_t bucket = 0;
    while (bucket < tables[table].buckets && tables[table].first[bucket + 1] != 0 &&
           tables[table].first[bucket + 1] <= llabs(distance)) {
        bucket++;
    }
    const int64_t row = tables[table].buckets + (distance < 0 ? -bucket : bucket);
    return (size_t)(row < 2 * tables[table].buckets ? row : 2 * tables[table].buckets - 1);
}

/* One head of a sample: `row` of qkv at place q; s_b at place s of its row of positions. */
static double score_of(const float *q, const float *k, const float *s)
{
    double sum = 0.0;
    for (size_t n = 0; n < WIDTH; n++) {
        sum += (double)q[n] * (double)k[n] + (double)q[n] * (double)s[WIDE + n] +
               (double)s[n] * (double)k[n];
    }
    return sum * (double)scale;
}

/* Query i of head `first / WIDTH` of a sample, whose rows begin at `base`. */
static void row_in_double(size_t table, size_t base, size_t first, size_t i, size_t keys)
{
    double p[LENGTH], sum = 0.0, right[WIDTH] = {0.0}, delta = 0.0;
    const float *q = qkv + (base + i) * 3 * WIDE + first, *g = d_out + (base + i) * WIDE + first;
    double *d_q = right_qkv + (base + i) * 3 * WIDE + first;
    for (size_t j = 0; j < keys; j++) {
        const float *k = qkv + (base + j) * 3 * WIDE + WIDE + first;
        const size_t b = bucket_row(table, (int64_t)i - (int64_t)j);
        p[j] = exp(score_of(q, k, positions + b * 2 * WIDE + first));
        sum += p[j];
    }
    for (size_t j = 0; j < keys; j++) {
        p[j] /= sum;
        for (size_t n = 0; n < WIDTH; n++) {
            right[n] += p[j] * (double)qkv[(base + j) * 3 * WIDE + 2 * WIDE + first + n];
        }
    }
    for (size_t n = 0; n < WIDTH; n++) {
        assert_true(fabs(right[n] - (double)out[(base + i) * WIDE + first + n]) < 2e-5);
        delta += right[n] * (double)g[n];
    }
    for (size_t j = 0; j < keys; j++) {
        const size_t at = (base + j) * 3 * WIDE + first;
        const size_t b = bucket_row(table, (int64_t)i - (int64_t)j) * 2 * WIDE + first;
        double d_p = 0.0;
        for (size_t n = 0; n < WIDTH; n++) {
            d_p += (double)g[n] * (double)qkv[at + 2 * WIDE + n];
        }
        const double ds = p[j] * (d_p - delta) * (double)scale;
        for (size_t n = 0; n < WIDTH; n++) {
            const double k = (double)qkv[at + WIDE + n], own = (double)q[n];
            right_qkv[at + 2 * WIDE + n] += p[j] * (double)g[n];
            right_qkv[at + WIDE + n] += ds * (own + (double)positions[b + n]);
            d_q[n] += ds * (k + (double)positions[b + WIDE + n]);
            right_positions[b + n] += ds * k;
            right_positions[b + WIDE + n] += ds * own;
        }
    }
}

static void near(const float *found, const double *right, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!(fabs((double)found[i] - right[i]) < 2e-4 * (1.0 + fabs(right[i])))) {
            fail_msg("place %zu: %.8g for %.8g", i, (double)found[i], right[i]);
        }
    }
}

/* verifies number-20.3b00 */
static void attention_is_that_of_a_loop(void **state)
{
    (void)state;
    for (size_t t = 0; t < TABLES; t++) {
        static bp_step_block step;
        const bp_attention_disentangled_forward_scalars s = {.batch = SAMPLES,
                                                             .sequence = LENGTH,
                                                             .heads = HEADS,
                                                             .head_width = WIDTH,
                                                             .scale = (double)scale,
                                                             .buckets = tables[t].buckets,
                                                             .most = tables[t].most};
        bp_attention_disentangled_backward_scalars back;
        memcpy(&back, &s, sizeof back);
        fill_normal(qkv, sizeof qkv / sizeof(float), 3 + t, 0.7);
        fill_normal(positions, sizeof positions / sizeof(float), 40 + t, 0.7);
        fill_normal(d_out, sizeof d_out / sizeof(float), 70 + t, 1.0);
        memset(right_qkv, 0, sizeof right_qkv);
        memset(right_positions, 0, sizeof right_positions);
        bp_attention_disentangled_forward_pointers p = {.out = out,
                                                        .lse = lse,
                                                        .qkv = qkv,
                                                        .positions = positions,
                                                        .lengths = lengths,
                                                        .step = &step};
        bp_attention_disentangled_backward_pointers b = {.d_qkv = d_qkv,
                                                         .d_positions = d_positions,
                                                         .d_out = d_out,
                                                         .qkv = qkv,
                                                         .out = out,
                                                         .lse = lse,
                                                         .positions = positions,
                                                         .lengths = lengths,
                                                         .step = &step};
        run(BP_KERNEL_attention_disentangled_forward, &p, &s, &p.work);
        run(BP_KERNEL_attention_disentangled_backward, &b, &back, &b.work);
        for (size_t sample = 0; sample < SAMPLES; sample++) {
            for (size_t at = 0; at < (size_t)HEADS * LENGTH; at++) {
                row_in_double(t, sample * LENGTH, at / LENGTH * WIDTH, at % LENGTH,
                              (size_t)lengths[sample]);
            }
        }
        near(d_qkv, right_qkv, ROWS * 3 * WIDE);
        near(d_positions, right_positions, (size_t)(2 * tables[t].buckets) * 2 * WIDE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention_is_that_of_a_loop)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
