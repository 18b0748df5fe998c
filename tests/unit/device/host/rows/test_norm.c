/* SPDX-License-Identifier: MIT */
/* Layer normalisation against plain double loops and finite differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))
#define EPSILON             1e-5
#define WIDTH_MOST          300

static const int64_t sizes[][2] = {{1, 1}, {3, 2}, {4, 15}, {2, 16}, {5, 17}, {3, 65}, {7, 300}};
#define SIZES 7

static void statistics(const double *x, int64_t width, double *mean, double *rstd)
{
    double sum = 0.0, square = 0.0;
    for (int64_t i = 0; i < width; i++) {
        sum += x[i];
    }
    *mean = sum / (double)width;
    for (int64_t i = 0; i < width; i++) {
        square += (x[i] - *mean) * (x[i] - *mean);
    }
    *rstd = 1.0 / sqrt(square / (double)width + EPSILON);
}

/* verifies device-3.0681 */
static void forward_agrees_on(kernel_device *on)
{
    for (uint32_t i = 0; i < 2 * SIZES; i++) {
        bp_layernorm_forward_scalars s = {sizes[i / 2][0], sizes[i / 2][1], EPSILON};
        uint32_t absent = i % 2 == 0 ? 0
                                     : 1u << OPERAND(layernorm_forward, mean) |
                                           1u << OPERAND(layernorm_forward, rstd);
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_layernorm_forward, &s, 1, absent);
        float *x = AT(&c, layernorm_forward, x), *weight = AT(&c, layernorm_forward, weight);
        float *bias = AT(&c, layernorm_forward, bias), *y = AT(&c, layernorm_forward, y);
        uint64_t width = (uint64_t)s.width;
        fill_normal(x, (uint64_t)s.rows * width, i, 3.0);
        fill_normal(weight, width, i + 1, 1.0);
        fill_normal(bias, width, i + 2, 1.0);
        kernel_case_run(&c, on);
        for (int64_t row = 0; row < s.rows; row++) {
            double values[WIDTH_MOST], right[WIDTH_MOST], mean, rstd;
            for (uint64_t j = 0; j < width; j++) {
                values[j] = (double)x[(uint64_t)row * width + j];
            }
            statistics(values, s.width, &mean, &rstd);
            for (uint64_t j = 0; j < width; j++) {
                right[j] = (values[j] - mean) * rstd * (double)weight[j] + (double)bias[j];
            }
            assert_close(y + (uint64_t)row * width, right, width, 2e-6);
            if (absent == 0) {
                float *means = AT(&c, layernorm_forward, mean);
                float *rstds = AT(&c, layernorm_forward, rstd);
                assert_true(fabs((double)means[row] - mean) < 1e-6);
                assert_true(fabs((double)rstds[row] - rstd) < 2e-6 * rstd);
            }
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(forward_agrees)

/* sum over the row of d_y * layernorm(x): what backward differentiates. */
static double row_value(const double *x, const float *d_y, const float *weight, int64_t width)
{
    double mean, rstd, sum = 0.0;
    statistics(x, width, &mean, &rstd);
    for (int64_t i = 0; i < width; i++) {
        sum += (double)d_y[i] * (double)weight[i] * (x[i] - mean) * rstd;
    }
    return sum;
}

static void fill_backward(const float *x, float *mean, float *rstd, int64_t rows, int64_t width)
{
    for (int64_t row = 0; row < rows; row++) {
        double values[WIDTH_MOST], m, r;
        for (int64_t j = 0; j < width; j++) {
            values[j] = (double)x[row * width + j];
        }
        statistics(values, width, &m, &r);
        mean[row] = (float)m;
        rstd[row] = (float)r;
    }
}

/* variant 0: no residual; 1: one; 2: one that is d_x; 3: none, and d_y is d_x. */
static void check_input(kernel_device *on, int64_t rows, int64_t width, uint32_t variant)
{
    bp_layernorm_backward_input_scalars s = {rows, width};
    bool added = variant == 1 || variant == 2;
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_layernorm_backward_input, &s, 1,
                     added ? 0 : 1u << OPERAND(layernorm_backward_input, residual));
    if (variant >= 2) {
        kernel_case_join(&c, OPERAND(layernorm_backward_input, d_x),
                         variant == 2 ? OPERAND(layernorm_backward_input, residual)
                                      : OPERAND(layernorm_backward_input, d_y));
    }
    float *x = AT(&c, layernorm_backward_input, x), *d_y = AT(&c, layernorm_backward_input, d_y);
    float *weight = AT(&c, layernorm_backward_input, weight);
    float *residual = AT(&c, layernorm_backward_input, residual);
    uint64_t count = (uint64_t)(rows * width);
    fill_normal(x, count, 1, 2.0);
    fill_normal(d_y, count, 2, 1.0);
    fill_normal(weight, (uint64_t)width, 3, 1.0);
    if (added) {
        fill_normal(residual, count, 4, 1.0);
    }
    fill_backward(x, AT(&c, layernorm_backward_input, mean), AT(&c, layernorm_backward_input, rstd),
                  rows, width);
    double *right = malloc(count * sizeof(double));
    for (int64_t row = 0; row < rows; row++) {
        double values[WIDTH_MOST], h = 1e-5;
        for (int64_t j = 0; j < width; j++) {
            values[j] = (double)x[row * width + j];
        }
        for (int64_t j = 0; j < width; j++) {
            double at = values[j];
            values[j] = at + h;
            double up = row_value(values, d_y + row * width, weight, width);
            values[j] = at - h;
            double down = row_value(values, d_y + row * width, weight, width);
            values[j] = at;
            right[row * width + j] =
                (up - down) / (2.0 * h) + (added ? (double)residual[row * width + j] : 0.0);
        }
    }
    kernel_case_run(&c, on);
    assert_close_to(AT(&c, layernorm_backward_input, d_x), right, count, 4e-6, 1.0);
    free(right);
    kernel_case_free(&c);
}

static void backward_input_agrees_with_differences_on(kernel_device *on)
{
    for (uint32_t i = 0; i < SIZES; i++) {
        for (uint32_t variant = 0; variant < 4; variant++) {
            check_input(on, sizes[i][0], sizes[i][1], variant);
        }
    }
}
/* verifies layers-4.97f8 */
TEST_ON_HOST(backward_input_agrees_with_differences)

static void backward_parameters_agree_on(kernel_device *on)
{
    for (uint32_t i = 0; i < 2 * SIZES; i++) {
        bp_layernorm_backward_parameters_scalars s = {sizes[i / 2][0], sizes[i / 2][1], i % 2};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_layernorm_backward_parameters, &s, 1, 0);
        float *x = AT(&c, layernorm_backward_parameters, x);
        float *d_y = AT(&c, layernorm_backward_parameters, d_y);
        float *mean = AT(&c, layernorm_backward_parameters, mean);
        float *rstd = AT(&c, layernorm_backward_parameters, rstd);
        float *d_weight = AT(&c, layernorm_backward_parameters, d_weight);
        float *d_bias = AT(&c, layernorm_backward_parameters, d_bias);
        uint64_t width = (uint64_t)s.width;
        fill_normal(x, (uint64_t)s.rows * width, 1, 2.0);
        fill_normal(d_y, (uint64_t)s.rows * width, 2, 1.0);
        fill_backward(x, mean, rstd, s.rows, s.width);
        if (s.accumulate != 0) {
            fill_normal(d_weight, width, 3, 1.0);
            fill_normal(d_bias, width, 4, 1.0);
        }
        /* y is linear in weight and bias, so their gradients are plain sums */
        double right_weight[WIDTH_MOST], right_bias[WIDTH_MOST];
        for (uint64_t j = 0; j < width; j++) {
            right_weight[j] = s.accumulate != 0 ? (double)d_weight[j] : 0.0;
            right_bias[j] = s.accumulate != 0 ? (double)d_bias[j] : 0.0;
            for (uint64_t row = 0; row < (uint64_t)s.rows; row++) {
                uint64_t at = row * width + j;
                double normal = ((double)x[at] - (double)mean[row]) * (double)rstd[row];
                right_weight[j] += (double)d_y[at] * normal;
                right_bias[j] += (double)d_y[at];
            }
        }
        kernel_case_run(&c, on);
        assert_close(d_weight, right_weight, width, 2e-6);
        assert_close(d_bias, right_bias, width, 2e-6);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(backward_parameters_agree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_agrees),
        cmocka_unit_test(backward_input_agrees_with_differences),
        cmocka_unit_test(backward_parameters_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
