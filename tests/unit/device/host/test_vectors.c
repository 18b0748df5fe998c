/* SPDX-License-Identifier: MIT */
/* Vectors of samples against plain double loops, and their gradients as the transposed sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/spec.h"
#include "core/ir/step.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))

enum { BATCH = 4, SEQUENCE = 5, WIDTH = 19, TOTAL = 9, SAMPLE = 3 };

static const int32_t lengths[BATCH] = {5, 1, 3, 0}; /* 0 is held to be 1 */

/* The weight of token t of a sample of n tokens. */
static double share(int64_t mode, uint64_t t, uint64_t n)
{
    const double count = (double)n;
    if (t >= n) {
        return 0.0;
    }
    switch (mode) {
    case BP_POOLING_CLS:
        return t == 0 ? 1.0 : 0.0;
    case BP_POOLING_LAST:
        return t + 1 == n ? 1.0 : 0.0;
    case BP_POOLING_SQRT:
        return 1.0 / sqrt(count);
    case BP_POOLING_WEIGHTED:
        return (double)(t + 1) / (count * (count + 1.0) / 2.0);
    default:
        return 1.0 / count;
    }
}

static uint64_t tokens_of(uint64_t b, bool all)
{
    return all ? SEQUENCE : lengths[b] > 0 ? (uint64_t)lengths[b] : 1;
}

static void check_forward(kernel_device *on, int64_t mode, bool later, bool all)
{
    const bp_pool_rows_scalars s = {BATCH, SEQUENCE, WIDTH, TOTAL, mode, later};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_pool_rows, &s, 1,
                     all ? 1u << OPERAND(pool_rows, lengths) : 0);
    float *x = AT(&c, pool_rows, x), *y = AT(&c, pool_rows, y);
    bp_step_block *step = AT(&c, pool_rows, step);
    fill_normal(x, BATCH * SEQUENCE * WIDTH, 7, 1.0);
    *step = (bp_step_block){.sample = SAMPLE};
    for (uint64_t i = 0; later && i < TOTAL * WIDTH; i++) {
        y[i] = 5.0f;
    }
    if (!all) {
        memcpy(AT(&c, pool_rows, lengths), lengths, sizeof lengths);
    }
    kernel_case_run(&c, on);
    for (uint64_t b = 0; b < BATCH; b++) {
        const uint64_t n = tokens_of(b, all);
        double right[WIDTH] = {0.0};
        for (uint64_t t = 0; t < SEQUENCE; t++) {
            for (uint64_t i = 0; i < WIDTH; i++) {
                right[i] += share(mode, t, n) * (double)x[(b * SEQUENCE + t) * WIDTH + i];
            }
        }
        assert_close(y + (SAMPLE + b) * WIDTH, right, WIDTH, 1e-6);
    }
    for (uint64_t i = 0; i < TOTAL * WIDTH; i++) {
        const bool own = i / WIDTH >= SAMPLE && i / WIDTH < SAMPLE + BATCH;
        assert_true(own || y[i] == (later ? 5.0f : 0.0f));
    }
    kernel_case_free(&c);
}

static void check_backward(kernel_device *on, int64_t mode, bool all)
{
    const bp_pool_rows_backward_scalars s = {BATCH, SEQUENCE, WIDTH, TOTAL, mode};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_pool_rows_backward, &s, 1,
                     all ? 1u << OPERAND(pool_rows_backward, lengths) : 0);
    float *d_x = AT(&c, pool_rows_backward, d_x), *d_y = AT(&c, pool_rows_backward, d_y);
    bp_step_block *step = AT(&c, pool_rows_backward, step);
    fill_normal(d_y, TOTAL * WIDTH, 8, 1.0);
    *step = (bp_step_block){.sample = SAMPLE};
    if (!all) {
        memcpy(AT(&c, pool_rows_backward, lengths), lengths, sizeof lengths);
    }
    kernel_case_run(&c, on);
    for (uint64_t row = 0; row < BATCH * SEQUENCE; row++) {
        const uint64_t b = row / SEQUENCE, place = b + SAMPLE;
        const double weight = share(mode, row % SEQUENCE, tokens_of(b, all));
        double right[WIDTH];
        for (uint64_t i = 0; i < WIDTH; i++) {
            right[i] = weight * (double)d_y[place * WIDTH + i];
        }
        assert_close_to(d_x + row * WIDTH, right, WIDTH, 1e-6, 1e-9);
    }
    kernel_case_free(&c);
}

static void vectors_are_pooled_on(kernel_device *on)
{
    for (int64_t mode = 0; mode < BP_POOLINGS; mode++) {
        for (int k = 0; k < 4; k++) {
            check_forward(on, mode, (k & 1) != 0, (k & 2) != 0);
            check_backward(on, mode, (k & 2) != 0);
        }
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(vectors_are_pooled)

enum { PAIRS = 5, TEXTS = 3, KINDS = TEXTS - 1, THERE = 4 };

/* Sample e * TEXTS + k of x is row k * PAIRS + e of y. */
static void vectors_are_made_units_on(kernel_device *on)
{
    const bp_unit_rows_scalars s = {PAIRS, TEXTS, WIDTH};
    const bp_unit_rows_backward_scalars t = {PAIRS, TEXTS, WIDTH};
    kernel_case c, d;
    kernel_case_init(&c, on->device, BP_KERNEL_unit_rows, &s, 1, 0);
    kernel_case_init(&d, on->device, BP_KERNEL_unit_rows_backward, &t, 1, 0);
    float *x = AT(&c, unit_rows, x), *y = AT(&c, unit_rows, y), *norms = AT(&c, unit_rows, norms);
    float *d_y = AT(&d, unit_rows_backward, d_y), *d_x = AT(&d, unit_rows_backward, d_x);
    bp_step_block *step = AT(&c, unit_rows, step);
    fill_normal(x, PAIRS * TEXTS * WIDTH, 9, 2.0);
    fill_normal(d_y, PAIRS * TEXTS * WIDTH, 10, 1.0);
    memset(x, 0, WIDTH * sizeof *x); /* of length 0 */
    *step = (bp_step_block){.samples = THERE * TEXTS};
    kernel_case_run(&c, on);
    memcpy(AT(&d, unit_rows_backward, y), y, PAIRS * TEXTS * WIDTH * sizeof *y);
    memcpy(AT(&d, unit_rows_backward, norms), norms, PAIRS * TEXTS * sizeof *norms);
    memcpy(AT(&d, unit_rows_backward, step), step, sizeof *step);
    kernel_case_run(&d, on);
    for (uint64_t r = 0; r < PAIRS * TEXTS; r++) {
        const uint64_t row = r % TEXTS * PAIRS + r / TEXTS;
        double right[WIDTH] = {0.0}, slope[WIDTH] = {0.0}, square = 0.0, along = 0.0;
        for (uint64_t i = 0; i < WIDTH; i++) {
            square += (double)x[r * WIDTH + i] * (double)x[r * WIDTH + i];
        }
        const double norm = fmax(sqrt(square), 1e-12);
        for (uint64_t i = 0; i < WIDTH; i++) {
            right[i] = r < THERE * TEXTS ? (double)x[r * WIDTH + i] / norm : 0.0;
            along += right[i] * (double)d_y[row * WIDTH + i];
        }
        for (uint64_t i = 0; r < THERE * TEXTS && i < WIDTH; i++) {
            slope[i] = ((double)d_y[row * WIDTH + i] - right[i] * along) / norm;
        }
        assert_close_to(y + row * WIDTH, right, WIDTH, 1e-6, 1e-6);
        assert_close_to(d_x + r * WIDTH, slope, WIDTH, 1e-5, 1e-6);
    }
    kernel_case_free(&c);
    kernel_case_free(&d);
}
/* verifies device-3.0681 */
TEST_ON_HOST(vectors_are_made_units)

/* The loss of anchor `own`, of which only the examples that are there are candidates. */
static double ranking(const double *scores, uint64_t own)
{
    double sum = 0.0;
    for (uint64_t c = 0; c < KINDS * PAIRS; c++) {
        sum += c % PAIRS < THERE ? exp(20.0 * scores[c]) : 0.0;
    }
    return log(sum) - 20.0 * scores[own];
}

/* Losses, and gradients as differences. */
static void candidates_are_ranked_on(kernel_device *on)
{
    const bp_contrast_loss_scalars s = {PAIRS - 1, 1, PAIRS, KINDS, 1, 20.0};
    const uint64_t columns = KINDS * PAIRS;
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_contrast_loss, &s, 1, 0);
    float *scores = AT(&c, contrast_loss, scores), *losses = AT(&c, contrast_loss, losses);
    double before[(PAIRS - 1) * KINDS * PAIRS];
    bp_step_block *step = AT(&c, contrast_loss, step);
    bp_control_block *control = AT(&c, contrast_loss, control);
    fill_normal(scores, (PAIRS - 1) * columns, 11, 0.2);
    for (uint64_t i = 0; i < (PAIRS - 1) * columns; i++) {
        before[i] = (double)scores[i];
    }
    *step = (bp_step_block){.samples = THERE * TEXTS, .inverse_valid = 0.25f};
    *control = (bp_control_block){.scale = 8.0f};
    kernel_case_run(&c, on);
    for (uint64_t r = 0; r < PAIRS - 1; r++) {
        double right = 0.0, slope[KINDS * PAIRS] = {0.0};
        double *row = before + r * columns;
        for (uint64_t i = 0; r + 1 < THERE && i < columns; i++) {
            const double kept = row[i], step_width = 1e-6;
            row[i] = kept + step_width;
            slope[i] = ranking(row, r + 1);
            row[i] = kept - step_width;
            slope[i] = (slope[i] - ranking(row, r + 1)) / (2.0 * step_width) * 2.0; /* 0.25 * 8 */
            row[i] = kept;
            right = ranking(row, r + 1);
        }
        assert_close_to(losses + r, &right, 1, 1e-6, 1e-6);
        assert_close_to(scores + r * columns, slope, columns, 1e-6, 1e-6);
    }
    kernel_case_free(&c);
}
/* verifies device-3.0681 */
TEST_ON_HOST(candidates_are_ranked)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors_are_pooled),
                                       cmocka_unit_test(vectors_are_made_units),
                                       cmocka_unit_test(candidates_are_ranked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
