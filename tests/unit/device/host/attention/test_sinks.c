/* SPDX-License-Identifier: MIT */
/* Sinks of attention against formulas in double, on every form: of rows that attention made, their
 * gradient, and of rows that look at a cache. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ir/step.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random.h"

#define SEEDS           25
#define AT(c, row, arg) kernel_case_at((c), 0, OPERAND(row, arg))

static void near(double got, double want, double scale)
{
    assert_true(fabs(got - want) <= 1e-5 * scale + 1e-6);
}

/* Where the log-sum-exp of place t of sample b and a head lies: of places with the same start
 * together, all heads' of the one run after the other. */
static int64_t lse_place(const bp_attention_sinks_scalars *s, const int32_t *starts, int64_t b,
                         int64_t t, int64_t head)
{
    int64_t first = 0, end = s->sequence;
    if (starts != NULL) {
        const int32_t *row = starts + b * s->sequence;
        for (first = t; first > 0 && row[first - 1] == row[t];) {
            first--;
        }
        for (end = t + 1; end < s->sequence && row[end] == row[t];) {
            end++;
        }
    }
    return (b * s->sequence + first) * s->heads + head * (end - first) + (t - first);
}

static void sinks_take_their_share_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_attention_sinks, seed);
        const bp_attention_sinks_scalars *s = (const void *)c.scalars;
        const float *sinks = AT(&c, attention_sinks, sinks);
        float *out = AT(&c, attention_sinks, out), *lse = AT(&c, attention_sinks, lse);
        const size_t rows = (size_t)(s->batch * s->sequence * s->heads);
        float *before = malloc(rows * (size_t)s->head_width * sizeof *before);
        float *lse_before = malloc(rows * sizeof *lse_before);
        for (size_t i = 0; i < rows; i++) { /* some far below their sink, some far above */
            lse[i] += i % 5 == 0 ? -40.0f : i % 7 == 0 ? 60.0f : 0.0f;
        }
        memcpy(before, out, rows * (size_t)s->head_width * sizeof *before);
        memcpy(lse_before, lse, rows * sizeof *lse_before);
        kernel_case_run(&c, on);
        const int32_t *starts = AT(&c, attention_sinks, starts);
        for (int64_t i = 0; i < (int64_t)rows; i++) {
            const int64_t head = i % s->heads, t = i / s->heads % s->sequence;
            const int64_t at = lse_place(s, starts, i / s->heads / s->sequence, t, head);
            const double old = (double)lse_before[at], sink = (double)sinks[head];
            near((double)lse[at], fmax(old, sink) + log1p(exp(-fabs(old - sink))), 60.0);
            for (int64_t d = i * s->head_width; d < (i + 1) * s->head_width; d++) {
                near((double)out[d], (double)before[d] / (1.0 + exp(sink - old)), 4.0);
            }
        }
        free(before);
        free(lse_before);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(sinks_take_their_share)

static void sinks_have_their_derivative_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_attention_sinks_backward, seed);
        const bp_attention_sinks_backward_scalars *s = (const void *)c.scalars;
        const bp_attention_sinks_scalars *shape = (const void *)c.scalars; /* they begin alike */
        float *got = AT(&c, attention_sinks_backward, d_sinks);
        float before[8];
        memcpy(before, got, (size_t)s->heads * sizeof *before);
        kernel_case_run(&c, on);
        const float *sinks = AT(&c, attention_sinks_backward, sinks);
        const float *out = AT(&c, attention_sinks_backward, out);
        const float *d_out = AT(&c, attention_sinks_backward, d_out);
        const float *lse = AT(&c, attention_sinks_backward, lse);
        const int32_t *starts = AT(&c, attention_sinks_backward, starts);
        for (int64_t head = 0; head < s->heads; head++) {
            double want = s->accumulate != 0 ? (double)before[head] : 0.0;
            for (int64_t row = 0; row < s->batch * s->sequence; row++) {
                const int64_t at =
                    lse_place(shape, starts, row / s->sequence, row % s->sequence, head);
                for (int64_t d = 0; d < s->head_width; d++) {
                    const int64_t i = (row * s->heads + head) * s->head_width + d;
                    want -= exp((double)sinks[head] - (double)lse[at]) * (double)out[i] *
                            (double)d_out[i];
                }
            }
            near((double)got[head], want, 20.0);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(sinks_have_their_derivative)

static void fill(float *at, int64_t count, float value)
{
    for (int64_t i = 0; i < count; i++) {
        at[i] = value;
    }
}

/* Keys of 0 make every score 0 and values of 1 every sum the scores' share: of a row that sees n
 * keys out is n / (n + e^sink). */
static void share_is_right(const float *out, int64_t width, int64_t seen, float sink)
{
    for (int64_t d = 0; d < width; d++) {
        near((double)out[d], (double)seen / ((double)seen + exp((double)sink)), 1.0);
    }
}

/* Of new rows the keys are 0 and the values 1. */
static void fill_rows(float *qkv, const int64_t sizes[4])
{
    const int64_t rows = sizes[0], queries = sizes[1] * sizes[3], keys = sizes[2] * sizes[3];
    for (int64_t r = 0; r < rows; r++) {
        fill(qkv + r * (queries + 2 * keys) + queries, keys, 0.0f);
        fill(qkv + r * (queries + 2 * keys) + queries + keys, keys, 1.0f);
    }
}

static void rows_of_a_cache_have_sinks_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_attention_sinks_decode, seed);
        const bp_attention_sinks_decode_scalars *s = (const void *)c.scalars;
        const int64_t cached = (s->others + 1) * s->positions * s->kv_heads * s->head_width;
        const int64_t position =
            (int64_t)((const bp_step_block *)AT(&c, attention_sinks_decode, step))->position;
        fill(AT(&c, attention_sinks_decode, k_cache), cached, 0.0f);
        fill(AT(&c, attention_sinks_decode, v_cache), cached, 1.0f);
        fill_rows(AT(&c, attention_sinks_decode, qkv),
                  (const int64_t[]){s->rows, s->heads, s->kv_heads, s->head_width});
        kernel_case_run(&c, on);
        const float *sinks = AT(&c, attention_sinks_decode, sinks);
        const float *out = AT(&c, attention_sinks_decode, out);
        for (int64_t i = 0; i < s->rows * s->heads; i++) {
            const int64_t own = position + (s->apart != 0 ? 0 : i / s->heads);
            const int64_t seen = s->window != 0 && s->window < own + 1 ? s->window : own + 1;
            if (own < s->positions) {
                share_is_right(out + i * s->head_width, s->head_width, seen, sinks[i % s->heads]);
            }
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(rows_of_a_cache_have_sinks)

static void rows_in_slots_have_sinks_on(kernel_device *on)
{
    int64_t shares = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_attention_sinks_slots, seed);
        const bp_attention_sinks_slots_scalars *s = (const void *)c.scalars;
        const int64_t cached =
            (s->regions * s->prompt + s->slots * s->most) * s->kv_heads * s->head_width;
        fill(AT(&c, attention_sinks_slots, k_cache), cached, 0.0f);
        fill(AT(&c, attention_sinks_slots, v_cache), cached, 1.0f);
        fill_rows(AT(&c, attention_sinks_slots, qkv),
                  (const int64_t[]){s->rows, s->heads, s->kv_heads, s->head_width});
        kernel_case_run(&c, on);
        const float *sinks = AT(&c, attention_sinks_slots, sinks);
        const float *out = AT(&c, attention_sinks_slots, out);
        const int32_t *positions = AT(&c, attention_sinks_slots, positions);
        for (int64_t i = 0; i < s->rows * s->heads; i++) {
            const int64_t own = positions[i / s->heads];
            const int64_t seen = s->window != 0 && s->window < own + 1 ? s->window : own + 1;
            const float *row = out + i * s->head_width;
            if (row[0] > 0.0f) { /* the others have no place */
                share_is_right(row, s->head_width, seen, sinks[i % s->heads]);
                shares++;
            }
        }
        kernel_case_free(&c);
    }
    assert_true(shares > 100);
}
/* verifies device-3.0681 */
TEST_ON_HOST(rows_in_slots_have_sinks)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sinks_take_their_share),
        cmocka_unit_test(sinks_have_their_derivative),
        cmocka_unit_test(rows_of_a_cache_have_sinks),
        cmocka_unit_test(rows_in_slots_have_sinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
