/* SPDX-License-Identifier: MIT */
/* Recurrent cells against plain double-precision loops, their backward against differences of
 * those, and what goes on from one piece of time to the next. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/ir/step.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define AT(c, kernel, name) kernel_case_at(c, 0, OPERAND(kernel, name))

enum { ROWS = 3, WIDTH = 37, COUNT = ROWS * WIDTH };

static double logistic(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* h of one element from its six sums, those of the input and those of the state. */
static double gru(const double sums[6], double before)
{
    const double r = logistic(sums[0] + sums[3]), z = logistic(sums[1] + sums[4]);
    const double n = tanh(sums[2] + r * sums[5]);
    return (1.0 - z) * n + z * before;
}

/* h and c of one element from its four sums. */
static double lstm(const double sums[4], double before, double *c)
{
    *c = logistic(sums[1]) * before + logistic(sums[0]) * tanh(sums[2]);
    return logistic(sums[3]) * tanh(*c);
}

static size_t place(int row, int part, int parts, int column)
{
    return (size_t)(row * parts + part) * WIDTH + (size_t)column;
}

/* A GRU case with drawn sums, run; sums[i] and before[i] are its inputs. */
static void gru_forward(kernel_device *on, kernel_case *c, double sums[COUNT][6],
                        double before[COUNT])
{
    const bp_gru_forward_scalars s = {ROWS, WIDTH};
    kernel_case_init(c, on->device, BP_KERNEL_gru_forward, &s, 1, 0);
    float *gates = AT(c, gru_forward, gates), *hidden = AT(c, gru_forward, hidden);
    float *h = AT(c, gru_forward, h_before);
    fill_normal(gates, 3 * COUNT, 1, 2.0);
    fill_normal(hidden, 3 * COUNT, 2, 2.0);
    fill_normal(h, COUNT, 3, 1.0);
    for (int i = 0; i < COUNT; i++) {
        for (int part = 0; part < 3; part++) {
            sums[i][part] = (double)gates[place(i / WIDTH, part, 3, i % WIDTH)];
            sums[i][3 + part] = (double)hidden[place(i / WIDTH, part, 3, i % WIDTH)];
        }
        before[i] = (double)h[i];
    }
    kernel_case_run(c, on);
}

static void gru_agrees_on(kernel_device *on)
{
    static double sums[COUNT][6], before[COUNT], right[COUNT], kept[COUNT];
    kernel_case c;
    gru_forward(on, &c, sums, before);
    for (int i = 0; i < COUNT; i++) {
        right[i] = gru(sums[i], before[i]);
        kept[i] = sums[i][5];
    }
    assert_close(AT(&c, gru_forward, h), right, COUNT, 1e-6);
    assert_close(AT(&c, gru_forward, kept), kept, COUNT, 0.0);
    kernel_case_free(&c);
}
/* verifies device-3.0681 */
TEST_ON_HOST(gru_agrees)

/* The slope of h by sum or state number `which` (6: the state). */
static double gru_slope(const double sums[6], double before, int which)
{
    double moved[2];
    for (int side = 0; side < 2; side++) {
        double s[6], b = before, step = side == 0 ? -1e-6 : 1e-6;
        memcpy(s, sums, sizeof s);
        if (which < 6) {
            s[which] += step;
        } else {
            b += step;
        }
        moved[side] = gru(s, b);
    }
    return (moved[1] - moved[0]) / 2e-6;
}

static void gru_slopes_agree_on(kernel_device *on)
{
    static double sums[COUNT][6], before[COUNT], gates[3 * COUNT], hidden[3 * COUNT], h[COUNT];
    const bp_gru_backward_scalars s = {ROWS, WIDTH};
    kernel_case f, c;
    gru_forward(on, &f, sums, before);
    kernel_case_init(&c, on->device, BP_KERNEL_gru_backward, &s, 1, 0);
    memcpy(AT(&c, gru_backward, gates), AT(&f, gru_forward, gates), 3 * COUNT * sizeof(float));
    memcpy(AT(&c, gru_backward, kept), AT(&f, gru_forward, kept), COUNT * sizeof(float));
    memcpy(AT(&c, gru_backward, h_before), AT(&f, gru_forward, h_before), COUNT * sizeof(float));
    float *d_h = AT(&c, gru_backward, d_h), *d_y = AT(&c, gru_backward, d_y);
    fill_normal(d_h, COUNT, 5, 1.0);
    fill_normal(d_y, COUNT, 6, 1.0);
    for (int i = 0; i < COUNT; i++) {
        const double d = (double)d_h[i] + (double)d_y[i];
        for (int part = 0; part < 3; part++) {
            const size_t at = place(i / WIDTH, part, 3, i % WIDTH);
            gates[at] = d * gru_slope(sums[i], before[i], part);
            hidden[at] = d * gru_slope(sums[i], before[i], 3 + part);
        }
        h[i] = d * gru_slope(sums[i], before[i], 6);
    }
    kernel_case_run(&c, on);
    assert_close(AT(&c, gru_backward, d_gates), gates, 3 * COUNT, 1e-6);
    assert_close(AT(&c, gru_backward, d_hidden), hidden, 3 * COUNT, 1e-6);
    assert_close(d_h, h, COUNT, 1e-6);
    kernel_case_free(&f);
    kernel_case_free(&c);
}
/* verifies layers-4.97f8 */
TEST_ON_HOST(gru_slopes_agree)

static void lstm_forward(kernel_device *on, kernel_case *c, double sums[COUNT][4],
                         double before[COUNT])
{
    const bp_lstm_forward_scalars s = {ROWS, WIDTH};
    kernel_case_init(c, on->device, BP_KERNEL_lstm_forward, &s, 1, 0);
    float *gates = AT(c, lstm_forward, gates), *state = AT(c, lstm_forward, c_before);
    fill_normal(gates, 4 * COUNT, 1, 2.0);
    fill_normal(state, COUNT, 3, 1.0);
    for (int i = 0; i < COUNT; i++) {
        for (int part = 0; part < 4; part++) {
            sums[i][part] = (double)gates[place(i / WIDTH, part, 4, i % WIDTH)];
        }
        before[i] = (double)state[i];
    }
    kernel_case_run(c, on);
}

static void lstm_agrees_on(kernel_device *on)
{
    static double sums[COUNT][4], before[COUNT], h[COUNT], state[COUNT];
    kernel_case c;
    lstm_forward(on, &c, sums, before);
    for (int i = 0; i < COUNT; i++) {
        h[i] = lstm(sums[i], before[i], &state[i]);
    }
    assert_close(AT(&c, lstm_forward, h), h, COUNT, 1e-6);
    assert_close(AT(&c, lstm_forward, c), state, COUNT, 1e-6);
    kernel_case_free(&c);
}
/* verifies device-3.0681 */
TEST_ON_HOST(lstm_agrees)

/* The slope of d h + d_c c by sum or state number `which` (4: the state). */
static double lstm_slope(const double sums[4], double before, int which, double d, double d_c)
{
    double moved[2];
    for (int side = 0; side < 2; side++) {
        double s[4], b = before, state, step = side == 0 ? -1e-6 : 1e-6;
        memcpy(s, sums, sizeof s);
        if (which < 4) {
            s[which] += step;
        } else {
            b += step;
        }
        moved[side] = d * lstm(s, b, &state);
        moved[side] += d_c * state;
    }
    return (moved[1] - moved[0]) / 2e-6;
}

static void lstm_slopes_agree_on(kernel_device *on)
{
    static double sums[COUNT][4], before[COUNT], gates[4 * COUNT], state[COUNT];
    const bp_lstm_backward_scalars s = {ROWS, WIDTH};
    kernel_case f, c;
    lstm_forward(on, &f, sums, before);
    kernel_case_init(&c, on->device, BP_KERNEL_lstm_backward, &s, 1, 0);
    memcpy(AT(&c, lstm_backward, gates), AT(&f, lstm_forward, gates), 4 * COUNT * sizeof(float));
    memcpy(AT(&c, lstm_backward, c), AT(&f, lstm_forward, c), COUNT * sizeof(float));
    memcpy(AT(&c, lstm_backward, c_before), AT(&f, lstm_forward, c_before), COUNT * sizeof(float));
    float *d_h = AT(&c, lstm_backward, d_h), *d_y = AT(&c, lstm_backward, d_y);
    float *d_c = AT(&c, lstm_backward, d_c);
    fill_normal(d_h, COUNT, 5, 1.0);
    fill_normal(d_y, COUNT, 6, 1.0);
    fill_normal(d_c, COUNT, 7, 1.0);
    for (int i = 0; i < COUNT; i++) {
        const double d = (double)d_h[i] + (double)d_y[i], e = (double)d_c[i];
        for (int part = 0; part < 4; part++) {
            gates[place(i / WIDTH, part, 4, i % WIDTH)] =
                lstm_slope(sums[i], before[i], part, d, e);
        }
        state[i] = lstm_slope(sums[i], before[i], 4, d, e);
    }
    kernel_case_run(&c, on);
    assert_close(AT(&c, lstm_backward, d_gates), gates, 4 * COUNT, 1e-6);
    assert_close(d_c, state, COUNT, 1e-6);
    kernel_case_free(&f);
    kernel_case_free(&c);
}
/* verifies layers-4.97f8 */
TEST_ON_HOST(lstm_slopes_agree)

/* Sums far out, where exp overflows, give gates of 0 and 1. */
static void far_sums_are_finite_on(kernel_device *on)
{
    const bp_lstm_forward_scalars s = {1, 2};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_lstm_forward, &s, 1, 0);
    float *gates = AT(&c, lstm_forward, gates), *before = AT(&c, lstm_forward, c_before);
    for (int i = 0; i < 8; i++) {
        gates[i] = i % 2 == 0 ? -1e30f : 1e30f;
    }
    before[0] = before[1] = 3.0f;
    kernel_case_run(&c, on);
    const float *h = AT(&c, lstm_forward, h), *state = AT(&c, lstm_forward, c);
    assert_true(gates[0] == 0.0f && gates[1] == 1.0f && gates[4] == -1.0f && gates[5] == 1.0f);
    assert_true(state[0] == 0.0f && state[1] == 4.0f && h[0] == 0.0f && h[1] > 0.99f);
    kernel_case_free(&c);
}
/* verifies device-3.0681 */
TEST_ON_HOST(far_sums_are_finite)

static void time_is_sliced_on(kernel_device *on)
{
    enum { BATCH = 3, LENGTH = 4, SEQUENCE = 7 };
    const bp_time_slice_scalars s = {BATCH, SEQUENCE, LENGTH};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_time_slice, &s, 1, 0);
    int32_t *x = AT(&c, time_slice, x);
    for (int b = 0; b < BATCH; b++) {
        for (int t = 0; t < LENGTH; t++) {
            x[b * SEQUENCE + t] = 100 * b + t;
        }
    }
    kernel_case_run(&c, on);
    const int32_t *y = AT(&c, time_slice, y);
    for (int i = 0; i < BATCH * LENGTH; i++) {
        assert_int_equal(y[i], 100 * (i % BATCH) + i / BATCH);
    }
    kernel_case_free(&c);
}
/* verifies device-3.0681 */
TEST_ON_HOST(time_is_sliced)

/* A state goes on, or begins with 0: where there is none, and where generation begins. */
static void states_begin_on(kernel_device *on)
{
    for (int way = 0; way < 4; way++) {
        const bp_state_begin_scalars s = {COUNT, way >= 2};
        kernel_case c;
        const uint32_t absent = way == 1 ? UINT32_C(1) << OPERAND(state_begin, x) : 0;
        kernel_case_init(&c, on->device, BP_KERNEL_state_begin, &s, 1, absent);
        ((bp_step_block *)AT(&c, state_begin, step))->position = way == 3 ? 5 : 0;
        if (way != 1) {
            fill_normal(AT(&c, state_begin, x), COUNT, 3, 1.0);
        }
        kernel_case_run(&c, on);
        const float *y = AT(&c, state_begin, y), *x = AT(&c, state_begin, x);
        for (int i = 0; i < COUNT; i++) {
            assert_true(y[i] == (way == 0 || way == 3 ? x[i] : 0.0f));
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(states_begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gru_agrees),          cmocka_unit_test(gru_slopes_agree),
        cmocka_unit_test(lstm_agrees),         cmocka_unit_test(lstm_slopes_agree),
        cmocka_unit_test(far_sums_are_finite), cmocka_unit_test(time_is_sliced),
        cmocka_unit_test(states_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
