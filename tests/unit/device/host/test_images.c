/* SPDX-License-Identifier: MIT */
/* Windows over images and batch normalisation against plain loops in double; what goes back is
 * compared with the transposed sums. */
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

enum { B = 2, H = 7, W = 6, C = 19, PITCH = 21, OH = 4, OW = 3, KH = 3, KW = 2, K = KH * KW };
enum { SH = 2, SW = 2, TOP = 2, LEFT = 1, IMAGE = B * H * W, WINDOWS = B * OH * OW };

/* How far the places of a window lie from each other. */
static int64_t apart = 1;

static bp_patches_scalars shape = {B, H, W, C, PITCH, OH, OW, KH, KW, SH, SW, TOP, LEFT, 1};

/* Which place of an image window `w` sees at its place t; -1: none. */
static int64_t seen(int64_t w, int64_t t)
{
    const int64_t y = w / OW % OH * SH + t / KW * apart - TOP;
    const int64_t x = w % OW * SW + t % KW * apart - LEFT;
    const bool inside = y >= 0 && y < H && x >= 0 && x < W;
    return inside ? (w / (OH * OW) * H + y) * W + x : -1;
}

static void check_patches(kernel_device *on)
{
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_patches, &shape, 1, 0);
    float *x = AT(&c, patches, x);
    fill_normal(x, (IMAGE - 1) * PITCH + C, 1, 1.0);
    kernel_case_run(&c, on);
    const float *columns = AT(&c, patches, columns);
    for (int64_t i = 0; i < WINDOWS * C * K; i++) {
        const int64_t at = seen(i / (C * K), i % K), channel = i / K % C;
        assert_true(columns[i] == (at < 0 ? 0.0f : x[at * PITCH + channel]));
    }
    kernel_case_free(&c);
}

static void check_patches_backward(kernel_device *on, int64_t accumulate)
{
    const bp_patches_backward_scalars s = {B,  H,  W,  C,   PITCH, OH,    OW,        KH,
                                           KW, SH, SW, TOP, LEFT,  apart, accumulate};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_patches_backward, &s, 1, 0);
    float *d_x = AT(&c, patches_backward, d_x), *d = AT(&c, patches_backward, d_columns);
    double *right = calloc(IMAGE * PITCH, sizeof *right);
    fill_normal(d, WINDOWS * C * K, 2, 1.0);
    for (int64_t i = 0; accumulate != 0 && i < (IMAGE - 1) * PITCH + C; i++) {
        right[i] = 0.5;
        d_x[i] = 0.5f;
    }
    for (int64_t i = 0; i < WINDOWS * C * K; i++) {
        const int64_t at = seen(i / (C * K), i % K);
        if (at >= 0) {
            right[at * PITCH + i / K % C] += (double)d[i];
        }
    }
    kernel_case_run(&c, on);
    for (int64_t i = 0; i < IMAGE; i++) {
        assert_close(d_x + i * PITCH, right + i * PITCH, C, 1e-5);
    }
    free(right);
    kernel_case_free(&c);
}

static void check_depthwise(kernel_device *on, bool biased)
{
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_depthwise, &shape, 1,
                     biased ? 0 : 1u << OPERAND(depthwise, bias));
    float *x = AT(&c, depthwise, x), *weight = AT(&c, depthwise, weight);
    float *bias = AT(&c, depthwise, bias);
    fill_normal(x, (IMAGE - 1) * PITCH + C, 1, 1.0);
    fill_normal(weight, C * K, 2, 1.0);
    if (biased) {
        fill_normal(bias, C, 3, 1.0);
    }
    kernel_case_run(&c, on);
    for (int64_t w = 0; w < WINDOWS; w++) {
        double right[C];
        for (int64_t i = 0; i < C; i++) {
            right[i] = biased ? (double)bias[i] : 0.0;
            for (int64_t t = 0; t < K; t++) {
                const int64_t at = seen(w, t);
                right[i] += at < 0 ? 0.0 : (double)x[at * PITCH + i] * (double)weight[i * K + t];
            }
        }
        assert_close((float *)AT(&c, depthwise, y) + w * C, right, C, 1e-5);
    }
    kernel_case_free(&c);
}

static void check_depthwise_input(kernel_device *on)
{
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_depthwise_backward_input, &shape, 1, 0);
    float *d_y = AT(&c, depthwise_backward_input, d_y);
    float *weight = AT(&c, depthwise_backward_input, weight);
    double *right = calloc(IMAGE * C, sizeof *right);
    fill_normal(d_y, WINDOWS * C, 1, 1.0);
    fill_normal(weight, C * K, 2, 1.0);
    kernel_case_run(&c, on);
    for (int64_t i = 0; i < WINDOWS * C * K; i++) {
        const int64_t at = seen(i / (C * K), i % K), channel = i / K % C;
        if (at >= 0) {
            right[at * C + channel] +=
                (double)d_y[i / (C * K) * C + channel] * (double)weight[channel * K + i % K];
        }
    }
    for (int64_t i = 0; i < IMAGE; i++) {
        assert_close((float *)AT(&c, depthwise_backward_input, d_x) + i * PITCH, right + i * C, C,
                     1e-5);
    }
    free(right);
    kernel_case_free(&c);
}

static void check_depthwise_weight(kernel_device *on, int64_t accumulate)
{
    const bp_depthwise_backward_weight_scalars s = {B,  H,  W,  C,   PITCH, OH,    OW,        KH,
                                                    KW, SH, SW, TOP, LEFT,  apart, accumulate};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_depthwise_backward_weight, &s, 1, 0);
    float *d_w = AT(&c, depthwise_backward_weight, d_weight);
    float *d_y = AT(&c, depthwise_backward_weight, d_y), *x = AT(&c, depthwise_backward_weight, x);
    double right[C * K];
    fill_normal(d_y, WINDOWS * C, 1, 1.0);
    fill_normal(x, (IMAGE - 1) * PITCH + C, 2, 1.0);
    for (int64_t i = 0; i < C * K; i++) {
        right[i] = accumulate != 0 ? 2.0 : 0.0;
        d_w[i] = accumulate != 0 ? 2.0f : d_w[i];
        for (int64_t w = 0; w < WINDOWS; w++) {
            const int64_t at = seen(w, i % K);
            right[i] += at < 0 ? 0.0 : (double)d_y[w * C + i / K] * (double)x[at * PITCH + i / K];
        }
    }
    kernel_case_run(&c, on);
    assert_close(d_w, right, C * K, 1e-5);
    kernel_case_free(&c);
}

/* The first place of a window with the largest value of a channel; -1: it sees nothing. */
static int64_t largest(const float *x, int64_t w, int64_t channel)
{
    int64_t best = -1;
    for (int64_t t = 0; t < K; t++) {
        const int64_t at = seen(w, t), had = best < 0 ? -1 : seen(w, best);
        if (at >= 0 && (had < 0 || x[at * PITCH + channel] > x[had * PITCH + channel])) {
            best = t;
        }
    }
    return best;
}

/* Few values, so that many are equal. */
static void check_max(kernel_device *on, bool places)
{
    kernel_case c, back;
    kernel_case_init(&c, on->device, BP_KERNEL_window_max, &shape, 1,
                     places ? 0 : 1u << OPERAND(window_max, place));
    float *x = AT(&c, window_max, x), *y = AT(&c, window_max, y),
          *place = AT(&c, window_max, place);
    fill_normal(x, (IMAGE - 1) * PITCH + C, 1, 1.0);
    for (int64_t i = 0; i < (IMAGE - 1) * PITCH + C; i++) {
        x[i] = floorf(x[i]);
    }
    kernel_case_run(&c, on);
    kernel_case_init(&back, on->device, BP_KERNEL_window_max_backward, &shape, 1, 0);
    float *d_y = AT(&back, window_max_backward, d_y);
    float *given = AT(&back, window_max_backward, place);
    double *right = calloc(IMAGE * C, sizeof *right);
    fill_normal(d_y, WINDOWS * C, 2, 1.0);
    for (int64_t i = 0; i < WINDOWS * C; i++) {
        const int64_t best = largest(x, i / C, i % C), at = best < 0 ? -1 : seen(i / C, best);
        assert_true(y[i] == (at < 0 ? -INFINITY : x[at * PITCH + i % C]));
        assert_true(!places || place[i] == (float)best);
        given[i] = (float)best;
        if (at >= 0) {
            right[at * C + i % C] += (double)d_y[i];
        }
    }
    kernel_case_run(&back, on);
    for (int64_t i = 0; i < IMAGE; i++) {
        assert_close((float *)AT(&back, window_max_backward, d_x) + i * PITCH, right + i * C, C,
                     1e-5);
    }
    free(right);
    kernel_case_free(&c);
    kernel_case_free(&back);
}

/* A NaN is the largest, and infinities are numbers. */
static void check_max_of_nan(kernel_device *on)
{
    const bp_window_max_scalars s = {1, 1, 4, 1, 1, 1, 2, 1, 2, 1, 2, 0, 0, 1};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_window_max, &s, 1, 0);
    float *x = AT(&c, window_max, x), *y = AT(&c, window_max, y),
          *place = AT(&c, window_max, place);
    memcpy(x, (float[]){NAN, 3.0f, -INFINITY, -INFINITY}, 4 * sizeof *x);
    kernel_case_run(&c, on);
    assert_true(isnan(y[0]) && place[0] == 0.0f);
    assert_true(y[1] == -INFINITY && place[1] == 0.0f);
    memcpy(x, (float[]){INFINITY, NAN, 2.0f, -NAN}, 4 * sizeof *x); /* also where it comes later */
    kernel_case_run(&c, on);
    assert_true(isnan(y[0]) && place[0] == 1.0f);
    assert_true(isnan(y[1]) && place[1] == 1.0f);
    kernel_case_free(&c);
}

static void check_mean(kernel_device *on, int64_t inside)
{
    const bp_window_mean_scalars s = {B,  H,  W,  C,   PITCH, OH,    OW,    KH,
                                      KW, SH, SW, TOP, LEFT,  apart, inside};
    kernel_case c, back;
    kernel_case_init(&c, on->device, BP_KERNEL_window_mean, &s, 1, 0);
    kernel_case_init(&back, on->device, BP_KERNEL_window_mean_backward, &s, 1, 0);
    float *x = AT(&c, window_mean, x), *d_y = AT(&back, window_mean_backward, d_y);
    double *right = calloc(IMAGE * C, sizeof *right), *mean = calloc(WINDOWS * C, sizeof *mean);
    fill_normal(x, (IMAGE - 1) * PITCH + C, 1, 1.0);
    fill_normal(d_y, WINDOWS * C, 2, 1.0);
    for (int64_t i = 0; i < WINDOWS * C; i++) {
        double count = 0.0;
        for (int64_t t = 0; t < K; t++) {
            count += inside == 0 || seen(i / C, t) >= 0 ? 1.0 : 0.0;
        }
        for (int64_t t = 0; t < K; t++) {
            const int64_t at = seen(i / C, t);
            if (at >= 0) {
                mean[i] += (double)x[at * PITCH + i % C] / count;
                right[at * C + i % C] += (double)d_y[i] / count;
            }
        }
    }
    kernel_case_run(&c, on);
    kernel_case_run(&back, on);
    assert_close(AT(&c, window_mean, y), mean, WINDOWS * C, 1e-5);
    for (int64_t i = 0; i < IMAGE; i++) {
        assert_close((float *)AT(&back, window_mean_backward, d_x) + i * PITCH, right + i * C, C,
                     1e-5);
    }
    free(right);
    free(mean);
    kernel_case_free(&c);
    kernel_case_free(&back);
}

static void windows_apart_on(kernel_device *on, int64_t dilation)
{
    apart = shape.dilation = dilation;
    check_patches(on);
    for (int flag = 0; flag < 2; flag++) {
        check_patches_backward(on, flag);
        check_depthwise(on, flag != 0);
        check_depthwise_weight(on, flag);
        check_max(on, flag != 0);
        check_mean(on, flag);
    }
    check_depthwise_input(on);
    check_max_of_nan(on);
}

static void windows_on(kernel_device *on)
{
    for (int64_t dilation = 1; dilation < 4; dilation++) {
        windows_apart_on(on, dilation);
    }
}

/* verifies device-3.0681 */
TEST_ON_HOST(windows)

/* Of 255 as a deviation every number is the quotient that IEEE has; means and deviations of three
 * channels, from the middle of an image on, are those of a formula in double. */
static void pixels_on(kernel_device *on)
{
    enum { COUNT = 9001, FIRST = 7 };
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    static double right[COUNT];
    for (int64_t channels = 1; channels <= 3; channels += 2) {
        const bool plain = channels == 1;
        bp_pixels_scalars s = {COUNT, FIRST,  channels, plain ? 1.0 : 1.0 / 255.0,
                               0.0,   0.0,    0.0,      0.0,
                               255.0, std[1], std[2],   1.0};
        if (!plain) {
            s.mean0 = mean[0];
            s.mean1 = mean[1];
            s.mean2 = mean[2];
            s.std0 = std[0];
        }
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_pixels, &s, 1, 0);
        uint8_t *x = AT(&c, pixels, x);
        for (int64_t i = 0; i < FIRST + COUNT; i++) {
            x[i] = (uint8_t)(i * 7919 % 256);
        }
        kernel_case_run(&c, on);
        const float *y = AT(&c, pixels, y);
        for (int64_t i = 0; i < COUNT; i++) {
            const int64_t byte = (FIRST + i) * 7919 % 256, channel = (FIRST + i) % 3;
            right[i] = ((double)byte / 255.0 - mean[channel]) / std[channel];
            assert_true(!plain || y[i] == (float)byte / 255.0f);
        }
        if (!plain) {
            assert_close(y, right, COUNT, 1e-6);
        }
        kernel_case_free(&c);
    }
}

/* verifies device-3.0681 */
TEST_ON_HOST(pixels)

/* Batch normalisation. */

enum { SAMPLES = 4, EACH = 11, ROWS = SAMPLES * EACH };

static const int32_t lengths[SAMPLES] = {5, 0, 1, 7}; /* the second is not there */
static const double epsilon = 1e-3;

static bool there(int64_t row, bool all)
{
    return all || lengths[row / EACH] > 0;
}

/* Mean and biased variance of a column over the rows that are there, and how many those are. */
static double moments(const float *x, int64_t column, bool all, double *mean, double *variance)
{
    double n = 0.0;
    *mean = *variance = 0.0;
    for (int64_t r = 0; r < ROWS; r++) {
        n += there(r, all) ? 1.0 : 0.0;
        *mean += there(r, all) ? (double)x[r * C + column] : 0.0;
    }
    *mean /= n;
    for (int64_t r = 0; r < ROWS; r++) {
        const double d = (double)x[r * C + column] - *mean;
        *variance += there(r, all) ? d * d / n : 0.0;
    }
    return n;
}

static void check_statistics(kernel_device *on, const float *x, bool all, float *mean, float *var)
{
    const bp_batchnorm_statistics_scalars s = {SAMPLES, EACH, C};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_batchnorm_statistics, &s, 1,
                     all ? 1u << OPERAND(batchnorm_statistics, lengths) : 0);
    memcpy(AT(&c, batchnorm_statistics, x), x, ROWS * C * sizeof *x);
    if (!all) {
        memcpy(AT(&c, batchnorm_statistics, lengths), lengths, sizeof lengths);
    }
    kernel_case_run(&c, on);
    double right[2][C];
    for (int64_t i = 0; i < C; i++) {
        moments(x, i, all, &right[0][i], &right[1][i]);
    }
    memcpy(mean, AT(&c, batchnorm_statistics, mean), C * sizeof *mean);
    memcpy(var, AT(&c, batchnorm_statistics, variance), C * sizeof *var);
    assert_close(mean, right[0], C, 1e-6);
    assert_close(var, right[1], C, 1e-6);
    kernel_case_free(&c);
}

/* Of a batch of which no sample is there, moments are zeros and no division by nothing. */
static void check_statistics_of_nothing(kernel_device *on, const float *x)
{
    static const int32_t none[SAMPLES] = {0};
    const bp_batchnorm_statistics_scalars s = {SAMPLES, EACH, C};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_batchnorm_statistics, &s, 1, 0);
    memcpy(AT(&c, batchnorm_statistics, x), x, ROWS * C * sizeof *x);
    memcpy(AT(&c, batchnorm_statistics, lengths), none, sizeof none);
    kernel_case_run(&c, on);
    for (int64_t i = 0; i < C; i++) {
        assert_true(((float *)AT(&c, batchnorm_statistics, mean))[i] == 0.0f);
        assert_true(((float *)AT(&c, batchnorm_statistics, variance))[i] == 0.0f);
    }
    kernel_case_free(&c);
}

static double normal(const float *x, int64_t i, const float *mean, const float *var)
{
    return ((double)x[i] - (double)mean[i % C]) / sqrt((double)var[i % C] + epsilon);
}

static void check_norm_forward(kernel_device *on, const float *x, const float *mean,
                               const float *var, const float *weight)
{
    const bp_batchnorm_forward_scalars s = {ROWS, C, epsilon};
    kernel_case c;
    double right[ROWS * C];
    kernel_case_init(&c, on->device, BP_KERNEL_batchnorm_forward, &s, 1, 0);
    memcpy(AT(&c, batchnorm_forward, x), x, ROWS * C * sizeof *x);
    memcpy(AT(&c, batchnorm_forward, mean), mean, C * sizeof *x);
    memcpy(AT(&c, batchnorm_forward, variance), var, C * sizeof *x);
    memcpy(AT(&c, batchnorm_forward, weight), weight, C * sizeof *x);
    fill_normal(AT(&c, batchnorm_forward, bias), C, 5, 1.0);
    for (int64_t i = 0; i < ROWS * C; i++) {
        right[i] = normal(x, i, mean, var) * (double)weight[i % C] +
                   (double)((float *)AT(&c, batchnorm_forward, bias))[i % C];
    }
    kernel_case_run(&c, on);
    assert_close(AT(&c, batchnorm_forward, y), right, ROWS * C, 1e-5);
    kernel_case_free(&c);
}

/* The sums that a column's gradients are made of. */
static void check_sums(kernel_device *on, const float *x, const float *d_y, bool all,
                       const float *mean, const float *var, float *sums)
{
    const bp_batchnorm_sums_scalars s = {SAMPLES, EACH, C, epsilon};
    kernel_case c;
    double weights[C] = {0.0}, biases[C] = {0.0};
    kernel_case_init(&c, on->device, BP_KERNEL_batchnorm_sums, &s, 1,
                     all ? 1u << OPERAND(batchnorm_sums, lengths) : 0);
    memcpy(AT(&c, batchnorm_sums, x), x, ROWS * C * sizeof *x);
    memcpy(AT(&c, batchnorm_sums, d_y), d_y, ROWS * C * sizeof *x);
    memcpy(AT(&c, batchnorm_sums, mean), mean, C * sizeof *x);
    memcpy(AT(&c, batchnorm_sums, variance), var, C * sizeof *x);
    if (!all) {
        memcpy(AT(&c, batchnorm_sums, lengths), lengths, sizeof lengths);
    }
    for (int64_t i = 0; i < ROWS * C; i++) {
        weights[i % C] += there(i / C, all) ? (double)d_y[i] * normal(x, i, mean, var) : 0.0;
        biases[i % C] += there(i / C, all) ? (double)d_y[i] : 0.0;
    }
    kernel_case_run(&c, on);
    memcpy(sums, AT(&c, batchnorm_sums, d_weight), C * sizeof *sums);
    memcpy(sums + C, AT(&c, batchnorm_sums, d_bias), C * sizeof *sums);
    assert_close(sums, weights, C, 1e-5);
    assert_close(sums + C, biases, C, 1e-5);
    kernel_case_free(&c);
}

/* The loss that the norm's gradient is checked with: sum of d_y y over the rows that are there, as
 * a function of one element of x. */
static double norm_loss(float *x, const float *d_y, const float *weight, bool all, int64_t i,
                        double change)
{
    const int64_t column = i % C;
    double mean, variance, loss = 0.0;
    const float before = x[i];
    x[i] = (float)((double)before + change);
    moments(x, column, all, &mean, &variance);
    for (int64_t r = 0; r < ROWS; r++) {
        const double y = ((double)x[r * C + column] - mean) / sqrt(variance + epsilon);
        loss += there(r, all) ? (double)d_y[r * C + column] * y * (double)weight[column] : 0.0;
    }
    x[i] = before;
    return loss;
}

static void check_norm_backward(kernel_device *on, float *x, const float *d_y, const float *weight,
                                bool all, bool frozen, const float *moved[3])
{
    const bp_batchnorm_backward_scalars s = {SAMPLES, EACH, C, frozen, epsilon};
    const uint32_t sized = 1u << OPERAND(batchnorm_backward, x) |
                           1u << OPERAND(batchnorm_backward, d_weight) |
                           1u << OPERAND(batchnorm_backward, d_bias);
    kernel_case c;
    double right[ROWS * C];
    kernel_case_init(&c, on->device, BP_KERNEL_batchnorm_backward, &s, 1,
                     (all ? 1u << OPERAND(batchnorm_backward, lengths) : 0) | (frozen ? sized : 0));
    memcpy(AT(&c, batchnorm_backward, d_y), d_y, ROWS * C * sizeof *x);
    memcpy(AT(&c, batchnorm_backward, mean), moved[0], C * sizeof *x);
    memcpy(AT(&c, batchnorm_backward, variance), moved[1], C * sizeof *x);
    memcpy(AT(&c, batchnorm_backward, weight), weight, C * sizeof *x);
    if (!frozen) {
        memcpy(AT(&c, batchnorm_backward, x), x, ROWS * C * sizeof *x);
        memcpy(AT(&c, batchnorm_backward, d_weight), moved[2], C * sizeof *x);
        memcpy(AT(&c, batchnorm_backward, d_bias), moved[2] + C, C * sizeof *x);
    }
    if (!all) {
        memcpy(AT(&c, batchnorm_backward, lengths), lengths, sizeof lengths);
    }
    kernel_case_run(&c, on);
    const double h = 0x1p-8;
    for (int64_t i = 0; i < ROWS * C; i++) {
        const double up = norm_loss(x, d_y, weight, all, i, h);
        const double slope = (up - norm_loss(x, d_y, weight, all, i, -h)) / (2.0 * h);
        const double still =
            (double)weight[i % C] * (double)d_y[i] / sqrt((double)moved[1][i % C] + epsilon);
        right[i] = !there(i / C, all) ? 0.0 : frozen ? still : slope;
    }
    assert_close(AT(&c, batchnorm_backward, d_x), right, ROWS * C, frozen ? 1e-5 : 1e-3);
    kernel_case_free(&c);
}

static void batchnorm_on(kernel_device *on)
{
    float x[ROWS * C], d_y[ROWS * C], weight[C], mean[C], variance[C], sums[2 * C];
    const float *moved[3] = {mean, variance, sums};
    fill_normal(x, ROWS * C, 1, 2.0);
    fill_normal(d_y, ROWS * C, 2, 1.0);
    fill_normal(weight, C, 3, 1.0);
    for (int all = 0; all < 2; all++) {
        check_statistics(on, x, all != 0, mean, variance);
        check_statistics_of_nothing(on, x);
        check_norm_forward(on, x, mean, variance, weight);
        check_sums(on, x, d_y, all != 0, mean, variance, sums);
        check_norm_backward(on, x, d_y, weight, all != 0, false, moved);
        check_norm_backward(on, x, d_y, weight, all != 0, true, moved);
    }
}

/* verifies device-3.0681 */
TEST_ON_HOST(batchnorm)

/* The values that PyTorch gives for 1, 2, 4, 9 of one channel, momentum 0.1: running mean 0.4,
 * running variance 2.1666667, begun with 0 and 1. */
static void running_on(kernel_device *on)
{
    static const int32_t none[2] = {0, 0};
    const bp_batchnorm_running_scalars s = {2, 2, 1, 0.1};
    for (int turn = 0; turn < 3; turn++) { /* all there, of one sample one, none */
        const bp_batchnorm_running_scalars one = {1, 1, 1, 0.1};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_batchnorm_running, turn == 1 ? &one : &s, 1,
                         turn == 2 ? 0 : 1u << OPERAND(batchnorm_running, lengths));
        float *mean = AT(&c, batchnorm_running, running_mean);
        float *variance = AT(&c, batchnorm_running, running_variance);
        int32_t *batches = AT(&c, batchnorm_running, batches);
        *mean = 0.0f;
        *variance = 1.0f;
        const int32_t counted = turn == 1 ? INT32_MAX : 16777217; /* more than a float counts */
        *batches = counted;
        *(float *)AT(&c, batchnorm_running, mean) = 4.0f;
        *(float *)AT(&c, batchnorm_running, variance) = 9.5f;
        if (turn == 2) {
            memcpy(AT(&c, batchnorm_running, lengths), none, sizeof none);
        }
        kernel_case_run(&c, on);
        assert_true(fabs((double)*mean - (turn == 2 ? 0.0 : 0.4)) < 1e-6);
        const double right = turn == 2 ? 1.0 : turn == 1 ? 1.85 : 2.1666667;
        assert_true(fabs((double)*variance - right) < 1e-6);
        assert_int_equal(*batches, counted + (turn == 0 ? 1 : 0)); /* the greatest stays */
        kernel_case_free(&c);
    }
}

/* verifies device-3.0681 */
TEST_ON_HOST(running)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows), cmocka_unit_test(batchnorm),
                                       cmocka_unit_test(running), cmocka_unit_test(pixels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
