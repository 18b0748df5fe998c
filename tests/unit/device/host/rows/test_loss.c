/* SPDX-License-Identifier: MIT */
/* Cross-entropy against plain double loops and finite differences; sums of losses. */
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

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))
#define VOCABULARY_MOST     300

static const int64_t sizes[][3] = {{1, 1, 1},   {4, 2, 2},   {3, 15, 15},
                                   {5, 16, 20}, {6, 65, 70}, {4, 300, 303}};
#define SIZES 6
static const double smoothings[] = {0.0, 0.1, 0.75};

static double row_loss(const double *x, int64_t vocabulary, int32_t label, double smoothing)
{
    double most = -(double)INFINITY, sum = 0.0, all = 0.0;
    for (int64_t i = 0; i < vocabulary; i++) {
        most = x[i] > most ? x[i] : most;
    }
    for (int64_t i = 0; i < vocabulary; i++) {
        sum += exp(x[i] - most);
        all += x[i];
    }
    const double target = label < 0 ? 0.0 : (1.0 - smoothing) * x[label];
    return label < 0 ? 0.0 : most + log(sum) - target - smoothing * all / (double)vocabulary;
}

/* Every third row has no label. */
static int32_t label_of(int64_t row, int64_t vocabulary)
{
    return row % 3 == 2 ? -1 : (int32_t)((row * 7 + 5) % vocabulary);
}

/* verifies device-3.0681 */
static void loss_and_gradient_agree_on(kernel_device *on)
{
    for (uint32_t n = 0; n < 3 * SIZES; n++) {
        const uint32_t i = n % SIZES;
        bp_cross_entropy_scalars s = {sizes[i][0], sizes[i][1], sizes[i][2],
                                      0,           sizes[i][0], smoothings[n / SIZES]};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_cross_entropy, &s, 1, 0);
        float *logits = AT(&c, cross_entropy, logits);
        int32_t *labels = AT(&c, cross_entropy, labels);
        fill_normal(logits, c.bytes[0] / 4, i, 4.0);
        bp_step_block *step = AT(&c, cross_entropy, step);
        *step = (bp_step_block){.inverse_valid = 0.125f};
        double right[8][VOCABULARY_MOST], losses[8];
        for (int64_t row = 0; row < s.rows; row++) {
            double x[VOCABULARY_MOST], h = 1e-4;
            labels[row] = label_of(row, s.vocabulary);
            for (int64_t j = 0; j < s.vocabulary; j++) {
                x[j] = (double)logits[row * s.pitch + j];
            }
            losses[row] = row_loss(x, s.vocabulary, labels[row], s.smoothing);
            for (int64_t j = 0; j < s.vocabulary; j++) {
                double at = x[j];
                x[j] = at + h;
                double up = row_loss(x, s.vocabulary, labels[row], s.smoothing);
                x[j] = at - h;
                double down = row_loss(x, s.vocabulary, labels[row], s.smoothing);
                x[j] = at;
                right[row][j] = (up - down) / (2.0 * h) * 0.125;
            }
        }
        kernel_case_run(&c, on);
        assert_close_to(AT(&c, cross_entropy, losses), losses, (uint64_t)s.rows, 1e-6, 1.0);
        for (int64_t row = 0; row < s.rows; row++) {
            assert_close_to(logits + row * s.pitch, right[row], (uint64_t)s.vocabulary, 1e-6,
                            0.125);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(loss_and_gradient_agree)

static void forward_gives_the_same_loss_on(kernel_device *on)
{
    for (uint32_t n = 0; n < 3 * SIZES; n++) {
        const uint32_t i = n % SIZES;
        bp_cross_entropy_scalars s = {sizes[i][0], sizes[i][1], sizes[i][2],
                                      0,           sizes[i][0], smoothings[n / SIZES]};
        kernel_case gradient, forward;
        kernel_case_init(&gradient, on->device, BP_KERNEL_cross_entropy, &s, 1, 0);
        const bp_cross_entropy_forward_scalars ahead = {s.rows, s.vocabulary, s.pitch, s.smoothing};
        kernel_case_init(&forward, on->device, BP_KERNEL_cross_entropy_forward, &ahead, 1, 0);
        float *logits = AT(&gradient, cross_entropy, logits);
        int32_t *labels = AT(&gradient, cross_entropy, labels);
        fill_normal(logits, gradient.bytes[0] / 4, i, 4.0);
        *(bp_step_block *)AT(&gradient, cross_entropy, step) = (bp_step_block){0};
        for (int64_t row = 0; row < s.rows; row++) {
            labels[row] = label_of(row, s.vocabulary);
        }
        memcpy(AT(&forward, cross_entropy_forward, logits), logits, gradient.bytes[0]);
        memcpy(AT(&forward, cross_entropy_forward, labels), labels, (size_t)s.rows * 4);
        kernel_case_run(&gradient, on);
        kernel_case_run(&forward, on);
        assert_memory_equal(AT(&forward, cross_entropy_forward, losses),
                            AT(&gradient, cross_entropy, losses), (size_t)s.rows * 4);
        kernel_case_free(&gradient);
        kernel_case_free(&forward);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(forward_gives_the_same_loss)

/* Logits so far apart that a plain exponential would overflow or vanish. */
static void large_logits_stay_finite_on(kernel_device *on)
{
    bp_cross_entropy_forward_scalars s = {2, 3, 3, 0.0};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_cross_entropy_forward, &s, 1, 0);
    static const float x[6] = {1e4f, -1e4f, 0.0f, -3e38f, 5.0f, -3e38f};
    memcpy(AT(&c, cross_entropy_forward, logits), x, sizeof(x));
    int32_t *labels = AT(&c, cross_entropy_forward, labels);
    labels[0] = 1;
    labels[1] = 1;
    kernel_case_run(&c, on);
    const float *losses = AT(&c, cross_entropy_forward, losses);
    assert_true(losses[0] == 2e4f);
    assert_true(losses[1] == 0.0f);
    kernel_case_free(&c);
}
/* verifies device-3.0681 */
TEST_ON_HOST(large_logits_stay_finite)

static void losses_are_summed_on(kernel_device *on)
{
    for (int64_t accumulate = 0; accumulate < 2; accumulate++) {
        bp_loss_sum_scalars s = {37, accumulate};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_loss_sum, &s, 1, 0);
        bp_result_block *result = AT(&c, loss_sum, result);
        float *losses = AT(&c, loss_sum, losses);
        fill_normal(losses, 37, 1, 1.0);
        double right = 0.0;
        if (accumulate != 0) {
            *result = (bp_result_block){.loss_sum = 5.0, .norm = 3.0f, .applied = 7};
            right = 5.0;
        }
        for (int i = 0; i < 37; i++) {
            right += (double)losses[i];
        }
        kernel_case_run(&c, on);
        assert_true(result->loss_sum == right);
        assert_true(result->norm == (accumulate != 0 ? 3.0f : 0.0f));
        assert_int_equal(result->applied, accumulate != 0 ? 7 : 0);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(losses_are_summed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradient_agree),
        cmocka_unit_test(forward_gives_the_same_loss),
        cmocka_unit_test(large_logits_stay_finite),
        cmocka_unit_test(losses_are_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
