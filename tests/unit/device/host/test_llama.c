/* SPDX-License-Identifier: MIT */
/* RMS normalisation, rotary positions, SwiGLU, activations and sample losses against plain double
 * loops and finite differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/activation.h"
#include "core/plan/spec.h"
#include "core/ir/step.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))
#define EPSILON             1e-5
#define MOST                600
#define TARGET_OF(i)        (0.125 * (double)((i) % 23) - 1.0)

static const int64_t sizes[][2] = {{1, 1}, {3, 2}, {4, 15}, {2, 16}, {5, 17}, {3, 65}, {7, 300}};
#define SIZES 7

static double rms(const double *x, int64_t width)
{
    double square = 0.0;
    for (int64_t i = 0; i < width; i++) {
        square += x[i] * x[i];
    }
    return 1.0 / sqrt(square / (double)width + EPSILON);
}

static void doubles(const float *from, int64_t count, double *to)
{
    for (int64_t i = 0; i < count; i++) {
        to[i] = (double)from[i];
    }
}

/* verifies device-3.0681 */
static void rmsnorm_forward_agrees_on(kernel_device *on)
{
    for (uint32_t i = 0; i < SIZES; i++) {
        bp_rmsnorm_forward_scalars s = {sizes[i][0], sizes[i][1], EPSILON, 1, sizes[i][1], 0};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_rmsnorm_forward, &s, 1, 0);
        float *x = AT(&c, rmsnorm_forward, x), *weight = AT(&c, rmsnorm_forward, weight);
        float *y = AT(&c, rmsnorm_forward, y), *rstd = AT(&c, rmsnorm_forward, rstd);
        fill_normal(x, (uint64_t)(s.rows * s.width), i, 3.0);
        fill_normal(weight, (uint64_t)s.width, i + 1, 1.0);
        kernel_case_run(&c, on);
        for (int64_t row = 0; row < s.rows; row++) {
            double values[MOST], right[MOST];
            doubles(x + row * s.width, s.width, values);
            double r = rms(values, s.width);
            for (int64_t j = 0; j < s.width; j++) {
                right[j] = values[j] * r * (double)weight[j];
            }
            assert_close(y + row * s.width, right, (uint64_t)s.width, 2e-6);
            assert_true(fabs((double)rstd[row] - r) < 2e-6 * r);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(rmsnorm_forward_agrees)

/* sum over the row of d_y * rmsnorm(x) */
static double rms_value(const double *x, const float *d_y, const float *weight, int64_t width)
{
    double sum = 0.0, r = rms(x, width);
    for (int64_t i = 0; i < width; i++) {
        sum += (double)d_y[i] * (double)weight[i] * x[i] * r;
    }
    return sum;
}

/* variant 0: no residual; 1: one; 2: one that is d_x; 3: none, and d_y is d_x. */
static void check_rms_input(kernel_device *on, int64_t rows, int64_t width, uint32_t variant)
{
    bp_rmsnorm_backward_input_scalars s = {rows, width, 1, width, 0};
    bool added = variant == 1 || variant == 2;
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_rmsnorm_backward_input, &s, 1,
                     added ? 0 : 1u << OPERAND(rmsnorm_backward_input, residual));
    if (variant >= 2) {
        kernel_case_join(&c, OPERAND(rmsnorm_backward_input, d_x),
                         variant == 2 ? OPERAND(rmsnorm_backward_input, residual)
                                      : OPERAND(rmsnorm_backward_input, d_y));
    }
    float *x = AT(&c, rmsnorm_backward_input, x), *d_y = AT(&c, rmsnorm_backward_input, d_y);
    float *weight = AT(&c, rmsnorm_backward_input, weight);
    float *residual = AT(&c, rmsnorm_backward_input, residual);
    float *rstd = AT(&c, rmsnorm_backward_input, rstd);
    uint64_t count = (uint64_t)(rows * width);
    fill_normal(x, count, 1, 2.0);
    fill_normal(d_y, count, 2, 1.0);
    fill_normal(weight, (uint64_t)width, 3, 1.0);
    if (added) {
        fill_normal(residual, count, 4, 1.0);
    }
    double *right = malloc(count * sizeof *right);
    for (int64_t row = 0; row < rows; row++) {
        double values[MOST];
        doubles(x + row * width, width, values);
        rstd[row] = (float)rms(values, width);
        for (int64_t j = 0; j < width; j++) {
            double kept = values[j], step = 1e-5;
            values[j] = kept + step;
            double above = rms_value(values, d_y + row * width, weight, width);
            values[j] = kept - step;
            double below = rms_value(values, d_y + row * width, weight, width);
            values[j] = kept;
            right[row * width + j] = (above - below) / (2.0 * step);
            right[row * width + j] += added ? (double)residual[row * width + j] : 0.0;
        }
    }
    kernel_case_run(&c, on);
    assert_close_to(AT(&c, rmsnorm_backward_input, d_x), right, count, 1e-5, 0.1);
    free(right);
    kernel_case_free(&c);
}

static void rmsnorm_backward_agrees_on(kernel_device *on)
{
    for (uint32_t i = 0; i < SIZES; i++) {
        for (uint32_t variant = 0; variant < 4; variant++) {
            check_rms_input(on, sizes[i][0], sizes[i][1], variant);
        }
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(rmsnorm_backward_agrees)

static void rmsnorm_weight_agrees_on(kernel_device *on)
{
    for (uint32_t i = 0; i < 2 * SIZES; i++) {
        bp_rmsnorm_backward_weight_scalars s = {sizes[i / 2][0], sizes[i / 2][1], i % 2, 1,
                                                sizes[i / 2][1]};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_rmsnorm_backward_weight, &s, 1, 0);
        float *x = AT(&c, rmsnorm_backward_weight, x), *d_y = AT(&c, rmsnorm_backward_weight, d_y);
        float *rstd = AT(&c, rmsnorm_backward_weight, rstd);
        float *d_weight = AT(&c, rmsnorm_backward_weight, d_weight);
        double right[MOST];
        fill_normal(x, (uint64_t)(s.rows * s.width), 1, 2.0);
        fill_normal(d_y, (uint64_t)(s.rows * s.width), 2, 1.0);
        fill_normal(rstd, (uint64_t)s.rows, 3, 1.0);
        fill_normal(d_weight, s.accumulate != 0 ? (uint64_t)s.width : 0, 4, 1.0);
        for (int64_t j = 0; j < s.width; j++) {
            right[j] = s.accumulate != 0 ? (double)d_weight[j] : 0.0;
            for (int64_t row = 0; row < s.rows; row++) {
                int64_t at = row * s.width + j;
                right[j] += (double)d_y[at] * (double)x[at] * (double)rstd[row];
            }
        }
        kernel_case_run(&c, on);
        assert_close(d_weight, right, (uint64_t)s.width, 3e-6);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(rmsnorm_weight_agrees)

/* Llama 3's own numbers: theta 500000, factor 8, low 1, high 4, 8192 positions. */
static double llama3_frequency(int64_t i, int64_t width)
{
    double f = (double)(float)(1.0 / pow(500000.0, 2.0 * (double)i / (double)width));
    double wavelength = 2.0 * 3.14159265358979323846 / f;
    double smooth = (8192.0 / wavelength - 1.0) / 3.0;
    if (wavelength > 8192.0) {
        return f / 8.0;
    }
    return wavelength < 2048.0 ? f : (1.0 - smooth) * f / 8.0 + smooth * f;
}

static void check_table(kernel_device *on, bool scaled, int64_t width, uint32_t start)
{
    bp_rotary_table_scalars s = {
        5, width, start > 0, scaled ? 500000.0 : 10000.0, scaled ? 8.0 : 0.0, 1.0, 4.0, 8192.0, 0};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_rotary_table, &s, 1, 0);
    bp_step_block *step = AT(&c, rotary_table, step);
    float *table = AT(&c, rotary_table, table);
    *step = (bp_step_block){.position = start};
    kernel_case_run(&c, on);
    for (int64_t i = 0; i < width / 2; i++) {
        double f = scaled ? llama3_frequency(i, width)
                          : 1.0 / pow(10000.0, 2.0 * (double)i / (double)width);
        for (int64_t row = 0; row < s.rows; row++) {
            double p = (double)(row + (int64_t)start);
            /* f and p f are floats */
            double bound = 1e-7 + 2.5e-7 * p * f;
            assert_true(fabs((double)table[row * width + i] - cos(p * f)) <= bound);
            assert_true(fabs((double)table[row * width + width / 2 + i] - sin(p * f)) <= bound);
        }
    }
    kernel_case_free(&c);
}

static void rotary_table_agrees_on(kernel_device *on)
{
    check_table(on, false, 2, 0);
    check_table(on, false, 64, 0);
    check_table(on, false, 10, 77);
    check_table(on, true, 128, 0);
    check_table(on, true, 128, 100);
}
/* verifies device-3.0681 */
TEST_ON_HOST(rotary_table_agrees)

/* Two samples, a qkv of 3 turned heads and 1 left alone; back again gives the start. With a second
 * table every third row has a text that is long enough for it. */
static void rotary_turns_and_returns_on(kernel_device *on)
{
    static const int64_t widths[] = {2, 6, 16, 40, 64};
    for (uint32_t w = 0; w < 10; w++) { /* of halves, then of neighbours */
        const int64_t side = w / 5;
        int64_t width = widths[w % 5], half = width / 2, pitch = 4 * width;
        bp_rotary_scalars s = {10, 5, 3, width, pitch, 0, width, w % 2, 7, side};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_rotary, &s, 1, 0);
        float *x = AT(&c, rotary, x), *table = AT(&c, rotary, table);
        int32_t *extents = AT(&c, rotary, extents);
        uint64_t count = (uint64_t)(9 * pitch + 3 * width);
        float *before = malloc(count * sizeof *before);
        double *right = malloc(count * sizeof *right);
        fill_normal(x, count, w, 1.0);
        memcpy(before, x, count * sizeof *before);
        doubles(x, (int64_t)count, right);
        for (int64_t row = 0; row < s.rows; row++) {
            extents[row] = row % 3 == 2 ? 8 : 7;
            const bool far = s.second != 0 && row % 3 == 2;
            float *turns = table + (row % 5 + (far ? 5 : 0)) * width;
            for (int64_t i = 0; i < half; i++) {
                double angle = (far ? 0.7 : 0.3) * (double)(row % 5) + (double)i;
                turns[i] = (float)cos(angle);
                turns[half + i] = (float)sin(angle);
                for (int64_t head = 0; head < 3; head++) {
                    double *a = right + row * pitch + head * width + (side ? 2 * i : i);
                    double *b = a + (side ? 1 : half);
                    double u = *a * cos(angle) - *b * sin(angle);
                    *b = *b * cos(angle) + *a * sin(angle);
                    *a = u;
                }
            }
        }
        kernel_case_run(&c, on);
        assert_close(x, right, count, 1e-6);
        ((bp_rotary_scalars *)(void *)c.scalars)->inverse = 1;
        kernel_case_run(&c, on);
        doubles(before, (int64_t)count, right);
        assert_close(x, right, count, 1e-6);
        free(before);
        free(right);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(rotary_turns_and_returns)

/* Queries, keys and values that lie head by head, and back. */
static void regroup_swaps_and_returns_on(kernel_device *on)
{
    static const int64_t shapes[][4] = {{1, 1, 1, 1}, {3, 2, 3, 5}, {2, 5, 3, 1}, {4, 3, 2, 16}};
    for (uint32_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        const int64_t rows = shapes[k][0], groups = shapes[k][1], parts = shapes[k][2],
                      width = shapes[k][3];
        const uint64_t count = (uint64_t)(rows * groups * parts * width);
        bp_regroup_scalars s = {rows, groups, parts, width};
        kernel_case there, back;
        kernel_case_init(&there, on->device, BP_KERNEL_regroup, &s, 1, 0);
        float *x = AT(&there, regroup, x), *y = AT(&there, regroup, y);
        fill_normal(x, count, k, 1.0);
        kernel_case_run(&there, on);
        for (int64_t i = 0; i < (int64_t)count; i++) {
            const int64_t c = i % width, g = i / width % groups, p = i / width / groups % parts;
            const int64_t row = i / width / groups / parts;
            assert_true(y[i] == x[((row * groups + g) * parts + p) * width + c]);
        }
        s = (bp_regroup_scalars){rows, parts, groups, width};
        kernel_case_init(&back, on->device, BP_KERNEL_regroup, &s, 1, 0);
        memcpy(AT(&back, regroup, x), y, count * sizeof *y);
        kernel_case_run(&back, on);
        assert_memory_equal(AT(&back, regroup, y), x, count * sizeof *x);
        kernel_case_free(&there);
        kernel_case_free(&back);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(regroup_swaps_and_returns)

static double silu(double x)
{
    return x / (1.0 + exp(-x));
}

static void fill_wide(float *x, uint64_t count)
{
    static const float ends[] = {0.0f, -0.0f, 90.0f, -90.0f, 1e-20f, -200.0f, 1.0f, -1.0f};
    fill_normal(x, count, 5, 3.0);
    for (uint64_t i = 0; i < 8 && i < count; i++) {
        x[i] = ends[i];
    }
}

static void swiglu_agrees_on(kernel_device *on)
{
    enum { COUNT = 517 };
    bp_swiglu_forward_scalars s = {COUNT, BP_GATE_SILU, COUNT, COUNT};
    bp_swiglu_backward_scalars t = {COUNT, BP_GATE_SILU, COUNT, COUNT};
    kernel_case c;
    double right[COUNT], right_up[COUNT];
    kernel_case_init(&c, on->device, BP_KERNEL_swiglu_forward, &s, 1, 0);
    float *gate = AT(&c, swiglu_forward, gate), *up = AT(&c, swiglu_forward, up);
    fill_wide(gate, COUNT);
    fill_normal(up, COUNT, 6, 1.0);
    for (int i = 0; i < COUNT; i++) {
        right[i] = silu((double)gate[i]) * (double)up[i];
    }
    kernel_case_run(&c, on);
    assert_close(AT(&c, swiglu_forward, y), right, COUNT, 1e-6);
    kernel_case_free(&c);
    for (uint32_t fused = 0; fused < 2; fused++) {
        kernel_case_init(&c, on->device, BP_KERNEL_swiglu_backward, &t, 1, 0);
        if (fused != 0) {
            kernel_case_join(&c, OPERAND(swiglu_backward, d_gate), OPERAND(swiglu_backward, gate));
            kernel_case_join(&c, OPERAND(swiglu_backward, d_up), OPERAND(swiglu_backward, up));
        }
        gate = AT(&c, swiglu_backward, gate), up = AT(&c, swiglu_backward, up);
        float *d_y = AT(&c, swiglu_backward, d_y);
        fill_wide(gate, COUNT);
        fill_normal(up, COUNT, 6, 1.0);
        fill_normal(d_y, COUNT, 7, 1.0);
        for (int i = 0; i < COUNT; i++) {
            double g = (double)gate[i], step = 1e-5;
            double slope = (silu(g + step) - silu(g - step)) / (2.0 * step);
            right[i] = (double)d_y[i] * (double)up[i] * slope;
            right_up[i] = (double)d_y[i] * silu(g);
        }
        kernel_case_run(&c, on);
        assert_close(AT(&c, swiglu_backward, d_gate), right, COUNT, 1e-6);
        assert_close(AT(&c, swiglu_backward, d_up), right_up, COUNT, 1e-6);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(swiglu_agrees)

static double activation(int64_t kind, double x)
{
    return kind == BP_ACTIVATION_GELU_ERF       ? 0.5 * x * erfc(-x / sqrt(2.0))
           : kind == BP_ACTIVATION_TANH         ? tanh(x)
           : kind == BP_ACTIVATION_RELU6        ? fmin(fmax(x, 0.0), 6.0)
           : kind == BP_ACTIVATION_GELU_QUICK   ? x / (1.0 + exp(-1.702 * x))
           : kind == BP_ACTIVATION_RELU_SQUARED ? fmax(x, 0.0) * fmax(x, 0.0)
                                                : fmax(x, 0.0);
}

static void activations_agree_on(kernel_device *on)
{
    enum { COUNT = 1234 };
    for (int64_t kind = 0; kind < BP_ACTIVATION_COUNT; kind++) {
        bp_activation_forward_scalars s = {COUNT, kind};
        bp_activation_backward_scalars t = {COUNT, kind};
        kernel_case c;
        double right[COUNT];
        kernel_case_init(&c, on->device, BP_KERNEL_activation_forward, &s, 1, 0);
        float *x = AT(&c, activation_forward, x), *y = AT(&c, activation_forward, y);
        fill_wide(x, COUNT);
        kernel_case_run(&c, on);
        for (int i = 0; i < COUNT; i++) {
            double wanted = activation(kind, (double)x[i]);
            assert_true(fabs((double)y[i] - wanted) <= 5e-7 * fabs(wanted) + 2e-7);
        }
        kernel_case_free(&c);
        kernel_case_init(&c, on->device, BP_KERNEL_activation_backward, &t, 1, 0);
        x = AT(&c, activation_backward, x);
        float *d_y = AT(&c, activation_backward, d_y);
        fill_wide(x, COUNT);
        x[0] = x[1] = 0.5f; /* the slope at a kink is not a difference */
        fill_normal(d_y, COUNT, 7, 1.0);
        for (int i = 0; i < COUNT; i++) {
            double at = (double)x[i], step = 1e-6;
            double slope =
                (activation(kind, at + step) - activation(kind, at - step)) / (2.0 * step);
            if (kind == BP_ACTIVATION_RELU || kind == BP_ACTIVATION_RELU6) {
                slope = at > 0.0 && (kind == BP_ACTIVATION_RELU || at < 6.0) ? 1.0 : 0.0;
            }
            right[i] = (double)d_y[i] * slope;
        }
        kernel_case_run(&c, on);
        assert_close(AT(&c, activation_backward, d_x), right, COUNT, 1e-6);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(activations_agree)

static void sample_rows_are_picked_on(kernel_device *on)
{
    const bp_sample_row_scalars s = {4, 5, 3, 0};
    const bp_sample_row_backward_scalars t = {4, 5, 3, 0};
    const int32_t lengths[] = {5, 1, 0, 9}; /* 0 and 9 are held inside */
    const uint64_t last[] = {4, 0, 0, 4};
    for (uint32_t first = 0; first < 2; first++) {
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_sample_row, &s, 1,
                         first << OPERAND(sample_row, lengths));
        float *x = AT(&c, sample_row, x), *y = AT(&c, sample_row, y);
        fill_normal(x, 60, 1, 1.0);
        if (first == 0) {
            memcpy(AT(&c, sample_row, lengths), lengths, sizeof lengths);
        }
        kernel_case_run(&c, on);
        for (uint64_t b = 0; b < 4; b++) {
            uint64_t row = b * 5 + (first != 0 ? 0 : last[b]);
            assert_memory_equal(y + b * 3, x + row * 3, 3 * sizeof(float));
        }
        kernel_case_free(&c);
        kernel_case_init(&c, on->device, BP_KERNEL_sample_row_backward, &t, 1,
                         first << OPERAND(sample_row_backward, lengths));
        float *d_x = AT(&c, sample_row_backward, d_x), *d_y = AT(&c, sample_row_backward, d_y);
        fill_normal(d_y, 12, 1, 1.0);
        if (first == 0) {
            memcpy(AT(&c, sample_row_backward, lengths), lengths, sizeof lengths);
        }
        kernel_case_run(&c, on);
        for (uint64_t i = 0; i < 60; i++) {
            uint64_t b = i / 15, row = i % 15 / 3;
            bool picked = row == (first != 0 ? 0 : last[b]);
            assert_true(d_x[i] == (picked ? d_y[b * 3 + i % 3] : 0.0f));
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(sample_rows_are_picked)

/* Lengths beyond the sequence, and of nothing, count as its and as one row. */
static void sample_rows_are_averaged_on(kernel_device *on)
{
    static const int32_t lengths[] = {3, 9, 0, 1};
    const bp_sample_row_scalars s = {4, 5, 3, 1};
    const bp_sample_row_backward_scalars t = {4, 5, 3, 1};
    for (uint32_t absent = 0; absent < 2; absent++) {
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_sample_row, &s, 1,
                         absent << OPERAND(sample_row, lengths));
        float *x = AT(&c, sample_row, x), *y = AT(&c, sample_row, y);
        fill_normal(x, 60, absent, 1.0);
        if (absent == 0) {
            memcpy(AT(&c, sample_row, lengths), lengths, sizeof lengths);
        }
        kernel_case_run(&c, on);
        for (int64_t i = 0; i < 12; i++) {
            const int64_t b = i / 3, n = absent != 0 || b == 1 ? 5 : b == 0 ? 3 : 1;
            double sum = 0.0;
            for (int64_t r = 0; r < n; r++) {
                sum += (double)x[(b * 5 + r) * 3 + i % 3];
            }
            assert_true(fabs((double)y[i] - sum / (double)n) < 1e-6);
        }
        kernel_case_free(&c);
        kernel_case_init(&c, on->device, BP_KERNEL_sample_row_backward, &t, 1,
                         absent << OPERAND(sample_row_backward, lengths));
        float *d_x = AT(&c, sample_row_backward, d_x), *d_y = AT(&c, sample_row_backward, d_y);
        fill_normal(d_y, 12, absent, 1.0);
        if (absent == 0) {
            memcpy(AT(&c, sample_row_backward, lengths), lengths, sizeof lengths);
        }
        kernel_case_run(&c, on);
        for (int64_t i = 0; i < 60; i++) {
            const int64_t b = i / 15, n = absent != 0 || b == 1 ? 5 : b == 0 ? 3 : 1;
            const double right = i / 3 % 5 < n ? (double)d_y[b * 3 + i % 3] / (double)n : 0.0;
            assert_true(fabs((double)d_x[i] - right) < 1e-6);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(sample_rows_are_averaged)

/* What a sample loss is asked for. */
typedef struct sample_ask {
    int64_t kind;
    int64_t classes;
    double smoothing;
    bool weighted; /* classes have the weights class_weight */
    bool targets;  /* of regression: output i is to be TARGET_OF(i) */
} sample_ask;

static double class_weight(const sample_ask *ask, int64_t class_number)
{
    return ask->weighted ? 0.25 + 0.5 * (double)(class_number % 5) : 1.0;
}

/* The loss of one sample in doubles. */
static double sample_value(const sample_ask *ask, const double *x, uint32_t label)
{
    const int64_t kind = ask->kind, classes = ask->classes;
    double sum = 0.0, all = 0.0;
    float target;
    memcpy(&target, &label, sizeof target);
    for (int64_t i = 0; i < classes; i++) {
        target = ask->targets ? (float)TARGET_OF(i) : target;
        double bit = i < 32 && (label >> i & 1) != 0 ? 1.0 : 0.0;
        sum += kind == BP_TASK_CLASSES   ? exp(x[i])
               : kind == BP_TASK_LABELS  ? log1p(exp(x[i])) - bit * x[i]
               : kind == BP_TASK_RANKING ? log1p(exp(x[i])) - (double)target * x[i]
                                         : (x[i] - (double)target) * (x[i] - (double)target);
    }
    for (int64_t i = 0; i < classes; i++) {
        all += class_weight(ask, i) * (log(sum) - x[i]);
    }
    if (kind != BP_TASK_CLASSES) {
        return sum / (double)classes;
    }
    const double own = class_weight(ask, label) * (log(sum) - x[label]);
    return (1.0 - ask->smoothing) * own + ask->smoothing / (double)classes * all;
}

static void check_sample_loss(kernel_device *on, const sample_ask *ask, int64_t gradient)
{
    const int64_t kind = ask->kind, classes = ask->classes;
    const bp_sample_loss_scalars s = {3, 2, classes, kind, gradient, 1, ask->smoothing};
    const uint32_t absent = (ask->weighted ? 0 : 1u << OPERAND(sample_loss, class_weights)) |
                            (ask->targets ? 0 : 1u << OPERAND(sample_loss, targets));
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_sample_loss, &s, 1, absent);
    for (int64_t i = 0; ask->weighted && i < classes; i++) {
        ((float *)AT(&c, sample_loss, class_weights))[i] = (float)class_weight(ask, i);
    }
    for (int64_t i = 0; ask->targets && i < 3 * classes; i++) {
        ((float *)AT(&c, sample_loss, targets))[i] = (float)TARGET_OF(i % classes);
    }
    float *x = AT(&c, sample_loss, logits), *losses = AT(&c, sample_loss, losses);
    int32_t *labels = AT(&c, sample_loss, labels), *lengths = AT(&c, sample_loss, lengths);
    *(bp_step_block *)AT(&c, sample_loss, step) = (bp_step_block){.inverse_valid = 0.25f};
    *(bp_control_block *)AT(&c, sample_loss, control) = (bp_control_block){.scale = 8.0f};
    const float target = kind == BP_TASK_RANKING ? 0.3f : -0.75f;
    int32_t label = kind == BP_TASK_CLASSES ? (int32_t)classes - 1 : 0x2d;
    if (kind == BP_TASK_REGRESSION || kind == BP_TASK_RANKING) {
        memcpy(&label, &target, sizeof label);
    }
    for (int b = 0; b < 3; b++) {
        lengths[b] = b == 1 ? 0 : 2;
        labels[2 * b] = label;
        labels[2 * b + 1] = -1;
    }
    fill_normal(x, (uint64_t)(3 * classes), 3, 2.0);
    double values[3 * 40], right[3 * 40];
    doubles(x, 3 * classes, values);
    for (int64_t i = 0; i < 3 * classes; i++) {
        double *sample = values + i / classes * classes, kept = values[i], h = 1e-6;
        values[i] = kept + h;
        double above = sample_value(ask, sample, (uint32_t)label);
        values[i] = kept - h;
        double below = sample_value(ask, sample, (uint32_t)label);
        values[i] = kept;
        right[i] = i / classes == 1 ? 0.0 : (above - below) / (2.0 * h) * 0.25 * 8.0;
    }
    kernel_case_run(&c, on);
    for (int64_t b = 0; b < 3; b++) {
        double loss = sample_value(ask, values + b * classes, (uint32_t)label);
        assert_true(fabs((double)losses[2 * b] - (b == 1 ? 0.0 : loss)) <= 2e-6 * (1.0 + loss));
        assert_true(losses[2 * b + 1] == 0.0f);
    }
    assert_close(x, gradient != 0 ? right : values, (uint64_t)(3 * classes), 2e-6);
    kernel_case_free(&c);
}

static void sample_losses_agree_on(kernel_device *on)
{
    static const int64_t kinds[] = {BP_TASK_CLASSES, BP_TASK_LABELS, BP_TASK_REGRESSION,
                                    BP_TASK_RANKING};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const int64_t kind = kinds[k];
        for (int64_t i = 0; i < 24; i++) {
            static const int64_t classes[] = {1, 2, 40};
            const bool class_of = kind == BP_TASK_CLASSES;
            const sample_ask ask = {kind, classes[i % 3], class_of && i / 6 % 2 != 0 ? 0.15 : 0.0,
                                    class_of && i / 12 != 0,
                                    kind == BP_TASK_REGRESSION && i / 12 != 0};
            check_sample_loss(on, &ask, i / 3 % 2);
        }
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(sample_losses_agree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_forward_agrees),
        cmocka_unit_test(rmsnorm_backward_agrees),
        cmocka_unit_test(rmsnorm_weight_agrees),
        cmocka_unit_test(rotary_table_agrees),
        cmocka_unit_test(rotary_turns_and_returns),
        cmocka_unit_test(regroup_swaps_and_returns),
        cmocka_unit_test(swiglu_agrees),
        cmocka_unit_test(activations_agree),
        cmocka_unit_test(sample_rows_are_picked),
        cmocka_unit_test(sample_rows_are_averaged),

        cmocka_unit_test(sample_losses_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
