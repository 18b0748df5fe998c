/* SPDX-License-Identifier: MIT */
/* Attention to other rows, of which there are more or fewer than queries, and attention against a
 * cache with a number for each distance, against loops in double. */
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

enum { SAMPLES = 2, HEADS = 3, WIDTH = 17, MOST = 90, WIDE = HEADS * WIDTH };

static float q[SAMPLES * MOST * WIDE], kv[SAMPLES * MOST * 2 * WIDE], d_out[SAMPLES * MOST * WIDE];
static float out[SAMPLES * MOST * WIDE], lse[SAMPLES * HEADS * MOST];
static float d_q[SAMPLES * MOST * WIDE], d_kv[SAMPLES * MOST * 2 * WIDE];
static double right_out[SAMPLES * MOST * WIDE];
static double right_q[SAMPLES * MOST * WIDE], right_kv[SAMPLES * MOST * 2 * WIDE];
static bp_step_block step;
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

/* One query of a sample and head: what it gives, and its gradients. */
static void query_in_double(size_t queries, size_t keys, size_t length, size_t sample, size_t head,
                            size_t i)
{
    double p[MOST], whole = 0.0;
    const size_t at = (sample * queries + i) * WIDE + head * WIDTH;
    for (size_t j = 0; j < length; j++) {
        const size_t row = (sample * keys + j) * 2 * WIDE + head * WIDTH;
        double dot = 0.0;
        for (size_t d = 0; d < WIDTH; d++) {
            dot += (double)q[at + d] * (double)kv[row + d];
        }
        p[j] = exp(dot * (double)scale);
        whole += p[j];
    }
    double delta = 0.0;
    for (size_t d = 0; d < WIDTH; d++) {
        for (size_t j = 0; j < length; j++) {
            const size_t row = (sample * keys + j) * 2 * WIDE + WIDE + head * WIDTH;
            right_out[at + d] += p[j] / whole * (double)kv[row + d];
        }
        delta += right_out[at + d] * (double)d_out[at + d];
    }
    for (size_t j = 0; j < length; j++) {
        const size_t k = (sample * keys + j) * 2 * WIDE + head * WIDTH, v = k + WIDE;
        double d_p = 0.0;
        for (size_t d = 0; d < WIDTH; d++) {
            d_p += (double)d_out[at + d] * (double)kv[v + d];
            right_kv[v + d] += p[j] / whole * (double)d_out[at + d];
        }
        const double ds = p[j] / whole * (d_p - delta) * (double)scale;
        for (size_t d = 0; d < WIDTH; d++) {
            right_q[at + d] += ds * (double)kv[k + d];
            right_kv[k + d] += ds * (double)q[at + d];
        }
    }
}

static void near(const float *found, const double *right, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!(fabs((double)found[i] - right[i]) < 2e-5 * (1.0 + fabs(right[i])))) {
            fail_msg("place %zu: %.8g for %.8g", i, (double)found[i], right[i]);
        }
    }
}

static void compare(size_t queries, size_t keys, const int32_t *lengths)
{
    const bp_attention_cross_forward_scalars s = {.batch = SAMPLES,
                                                  .sequence = (int64_t)queries,
                                                  .keys = (int64_t)keys,
                                                  .heads = HEADS,
                                                  .head_width = WIDTH,
                                                  .scale = (double)scale};
    bp_attention_cross_backward_scalars back;
    memcpy(&back, &s, sizeof back);
    fill_normal(q, sizeof q / sizeof(float), 3 + queries, 0.7);
    fill_normal(kv, sizeof kv / sizeof(float), 40 + keys, 0.7);
    fill_normal(d_out, sizeof d_out / sizeof(float), 70, 1.0);
    memset(right_out, 0, sizeof right_out);
    memset(right_q, 0, sizeof right_q);
    memset(right_kv, 0, sizeof right_kv);
    bp_attention_cross_forward_pointers p = {
        .out = out, .lse = lse, .q = q, .kv = kv, .lengths = lengths, .step = &step};
    bp_attention_cross_backward_pointers b = {.d_q = d_q,
                                              .d_kv = d_kv,
                                              .d_out = d_out,
                                              .q = q,
                                              .kv = kv,
                                              .out = out,
                                              .lse = lse,
                                              .lengths = lengths,
                                              .step = &step};
    run(BP_KERNEL_attention_cross_forward, &p, &s, &p.work);
    run(BP_KERNEL_attention_cross_backward, &b, &back, &b.work);
    for (size_t sample = 0; sample < SAMPLES; sample++) {
        const size_t length = lengths != NULL ? (size_t)lengths[sample] : keys;
        for (size_t at = 0; at < HEADS * queries; at++) {
            query_in_double(queries, keys, length, sample, at / queries, at % queries);
        }
    }
    near(out, right_out, SAMPLES * queries * WIDE);
    near(d_q, right_q, SAMPLES * queries * WIDE);
    near(d_kv, right_kv, SAMPLES * keys * 2 * WIDE);
}

/* verifies number-20.3b00 */
static void attention_to_other_rows_is_that_of_a_loop(void **state)
{
    (void)state;
    compare(35, 90, (const int32_t[]){90, 37});
    compare(90, 7, (const int32_t[]){1, 7});
    compare(1, 33, (const int32_t[]){0, 33});
    compare(40, 40, NULL);
}

/* One row at position p against the cache: with the bias of its distances. */
static void decoded_in_double(const float *bias, size_t positions, size_t p, size_t head,
                              double right[WIDTH])
{
    double whole = 0.0;
    memset(right, 0, WIDTH * sizeof right[0]);
    for (size_t j = 0; j <= p; j++) {
        double dot = 0.0;
        for (size_t d = 0; d < WIDTH; d++) {
            dot += (double)q[p * 3 * WIDE + head * WIDTH + d] *
                   (double)q[j * 3 * WIDE + WIDE + head * WIDTH + d];
        }
        const double e =
            exp(dot * (double)scale + (double)bias[head * 2 * positions + positions + j - p]);
        for (size_t d = 0; d < WIDTH; d++) {
            right[d] += e * (double)q[j * 3 * WIDE + 2 * WIDE + head * WIDTH + d];
        }
        whole += e;
    }
    for (size_t d = 0; d < WIDTH; d++) {
        right[d] /= whole;
    }
}

/* verifies number-20.3b00 */
static void cached_rows_have_numbers_for_distances(void **state)
{
    (void)state;
    enum { POSITIONS = 12, FIRST = 5 };
    static float bias[HEADS * 2 * POSITIONS];
    static float k_cache[POSITIONS * WIDE], v_cache[POSITIONS * WIDE];
    bp_attention_biased_decode_scalars s = {.rows = FIRST,
                                            .positions = POSITIONS,
                                            .heads = HEADS,
                                            .kv_heads = HEADS,
                                            .head_width = WIDTH,
                                            .scale = (double)scale};
    fill_normal(q, sizeof q / sizeof(float), 5, 0.7);
    fill_normal(bias, sizeof bias / sizeof(float), 6, 1.0);
    for (size_t p = 0; p < POSITIONS; p += p == 0 ? FIRST : 1) {
        bp_step_block at = {.position = (uint32_t)p};
        s.rows = p == 0 ? FIRST : 1;
        bp_attention_biased_decode_pointers pointers = {.out = out + p * WIDE,
                                                        .k_cache = k_cache,
                                                        .v_cache = v_cache,
                                                        .qkv = q + p * 3 * WIDE,
                                                        .bias = bias,
                                                        .step = &at};
        run(BP_KERNEL_attention_biased_decode, &pointers, &s, &pointers.work);
    }
    for (size_t at = 0; at < (size_t)HEADS * POSITIONS; at++) {
        double right[WIDTH];
        decoded_in_double(bias, POSITIONS, at / HEADS, at % HEADS, right);
        near(out + at / HEADS * WIDE + at % HEADS * WIDTH, right, WIDTH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention_to_other_rows_is_that_of_a_loop),
                                       cmocka_unit_test(cached_rows_have_numbers_for_distances)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
