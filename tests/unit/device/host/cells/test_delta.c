/* SPDX-License-Identifier: MIT */
/* The gated delta rule and short convolutions against formulas in double, on every form; their
 * derivatives against differences of those. */
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
#define CHECKS          24 /* derivatives per operand and case */
#define STEP            1e-4
#define AT(c, row, arg) kernel_case_at((c), 0, OPERAND(row, arg))

static double *doubles(const float *from, int64_t count)
{
    double *to = malloc((size_t)count * sizeof *to + 1);
    for (int64_t i = 0; i < count; i++) {
        to[i] = (double)from[i];
    }
    return to;
}

static void near(double got, double want, double scale)
{
    if (!(fabs(got - want) <= 3e-5 * scale + 3e-5 * fabs(want))) {
        fail_msg("%.9g instead of %.9g", got, want);
    }
}

static double logistic(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double softplus(double x)
{
    return x > 30.0 ? x : log1p(exp(x));
}

/* Whether row `row` goes on where the one before it ends. */
static bool goes_on(const int32_t *starts, int64_t sequence, int64_t row)
{
    return row % sequence != 0 && (starts == NULL || starts[row] == starts[row - 1]);
}

/* Convolutions. */

typedef struct conv {
    int64_t rows, sequence, channels, taps;
    const int32_t *starts;
    double *x, *weight;
} conv;

static conv conv_of(const bp_short_conv_forward_scalars *s, const int32_t *starts, const float *x,
                    const float *weight)
{
    const int64_t rows = s->batch * s->sequence;
    return (conv){rows,
                  s->sequence,
                  s->channels,
                  s->taps,
                  starts,
                  doubles(x, rows * s->channels),
                  doubles(weight, s->channels * s->taps)};
}

/* silu(p) of a row and channel. */
static double conv_value(const conv *v, int64_t row, int64_t c)
{
    double sum = 0.0;
    int64_t from = row;
    for (int64_t j = v->taps - 1; j >= 0; j--, from--) {
        sum += v->weight[c * v->taps + j] * v->x[from * v->channels + c];
        if (!goes_on(v->starts, v->sequence, from)) {
            break;
        }
    }
    return sum * logistic(sum);
}

/* The slope of the sum of d_y y of a channel by one number. */
static double conv_slope(const conv *v, const float *d_y, int64_t c, double *by)
{
    double loss[2] = {0.0, 0.0};
    const double at = *by;
    for (int side = 0; side < 2; side++) {
        *by = at + (side == 0 ? STEP : -STEP);
        for (int64_t row = 0; row < v->rows; row++) {
            loss[side] += (double)d_y[row * v->channels + c] * conv_value(v, row, c);
        }
    }
    *by = at;
    return (loss[0] - loss[1]) / (2.0 * STEP);
}

static void conv_free(conv *v)
{
    free(v->x);
    free(v->weight);
}

static void convolutions_are_sums_of_places_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_short_conv_forward, seed);
        conv v = conv_of((const void *)c.scalars, AT(&c, short_conv_forward, starts),
                         AT(&c, short_conv_forward, x), AT(&c, short_conv_forward, weight));
        kernel_case_run(&c, on);
        const float *y = AT(&c, short_conv_forward, y);
        for (int64_t i = 0; i < v.rows * v.channels; i++) {
            near((double)y[i], conv_value(&v, i / v.channels, i % v.channels), 1.0);
        }
        conv_free(&v);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(convolutions_are_sums_of_places)

static void convolutions_have_their_derivative_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_short_conv_backward, seed);
        conv v = conv_of((const void *)c.scalars, AT(&c, short_conv_backward, starts),
                         AT(&c, short_conv_backward, x), AT(&c, short_conv_backward, weight));
        kernel_case_run(&c, on);
        const float *d_x = AT(&c, short_conv_backward, d_x);
        const float *d_y = AT(&c, short_conv_backward, d_y);
        const int64_t count = v.rows * v.channels;
        for (int64_t n = 0, i = (int64_t)seed % count; n < CHECKS; n++, i = (i + 7919) % count) {
            near((double)d_x[i], conv_slope(&v, d_y, i % v.channels, &v.x[i]), 1.0);
        }
        conv_free(&v);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(convolutions_have_their_derivative)

static void weights_of_convolutions_have_theirs_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_short_conv_backward_weight, seed);
        const bp_short_conv_backward_weight_scalars *s = (const void *)c.scalars;
        conv v = conv_of((const void *)c.scalars, AT(&c, short_conv_backward_weight, starts),
                         AT(&c, short_conv_backward_weight, x),
                         AT(&c, short_conv_backward_weight, weight));
        const int64_t count = v.channels * v.taps;
        const float *got = AT(&c, short_conv_backward_weight, d_weight);
        double *before = doubles(got, count);
        kernel_case_run(&c, on);
        const float *d_y = AT(&c, short_conv_backward_weight, d_y);
        for (int64_t i = 0; i < count; i++) {
            const double slope = conv_slope(&v, d_y, i / v.taps, &v.weight[i]);
            near((double)got[i], slope + (s->accumulate != 0 ? before[i] : 0.0), 10.0);
        }
        free(before);
        conv_free(&v);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(weights_of_convolutions_have_theirs)

/* The gated delta rule. */

typedef struct rule {
    int64_t batch, sequence, key_heads, heads, key, value;
    const int32_t *starts;
    double *qkv;
    double *beta; /* (rows, heads) */
    double *step; /* the logarithm of what states are multiplied by, (rows, heads) */
} rule;

static int64_t rule_row(const rule *r)
{
    return 2 * r->key_heads * r->key + r->heads * r->value;
}

/* `gates`: the operand, a_log and dt_bias. */
static rule rule_of(const bp_delta_forward_scalars *s, const int32_t *starts, const float *qkv,
                    const float *const gates[3])
{
    rule r = {.batch = s->batch,
              .sequence = s->sequence,
              .key_heads = s->key_heads,
              .heads = s->value_heads,
              .key = s->key_width,
              .value = s->value_width,
              .starts = starts};
    const int64_t count = r.batch * r.sequence * r.heads;
    r.qkv = doubles(qkv, r.batch * r.sequence * rule_row(&r));
    r.beta = malloc((size_t)count * sizeof *r.beta);
    r.step = malloc((size_t)count * sizeof *r.step);
    for (int64_t i = 0; i < count; i++) {
        const int64_t head = i % r.heads, at = i / r.heads * 2 * r.heads + head;
        r.beta[i] = logistic((double)gates[0][at]);
        r.step[i] = -exp((double)gates[1][head]) *
                    softplus((double)gates[0][at + r.heads] + (double)gates[2][head]);
    }
    return r;
}

static void rule_free(rule *r)
{
    free(r->qkv);
    free(r->beta);
    free(r->step);
}

/* One row of a head: the state goes on, o is what it gives. */
static void rule_go_on(const rule *r, int64_t row, int64_t head, double *state, double *o)
{
    const int64_t of = head / (r->heads / r->key_heads), K = r->key, V = r->value;
    const double *q = r->qkv + row * rule_row(r) + of * K, *k = q + r->key_heads * K;
    const double *v = r->qkv + row * rule_row(r) + 2 * r->key_heads * K + head * V;
    const double decay = exp(r->step[row * r->heads + head]);
    double q_square = 1e-6, k_square = 1e-6;
    for (int64_t i = 0; i < K; i++) {
        q_square += q[i] * q[i];
        k_square += k[i] * k[i];
    }
    for (int64_t j = 0; j < V; j++) {
        double memory = 0.0;
        o[j] = 0.0;
        for (int64_t i = 0; i < K; i++) {
            state[i * V + j] *= decay;
            memory += state[i * V + j] * k[i] / sqrt(k_square);
        }
        const double u = r->beta[row * r->heads + head] * (v[j] - memory);
        for (int64_t i = 0; i < K; i++) {
            state[i * V + j] += k[i] / sqrt(k_square) * u;
            o[j] += state[i * V + j] * q[i] / sqrt(q_square) / sqrt((double)K);
        }
    }
}

/* Sum of d_y y of one sample; writes y where it is there. */
static double rule_run(const rule *r, int64_t sample, const float *d_y, double *y)
{
    double loss = 0.0, state[400], o[20];
    for (int64_t head = 0; head < r->heads; head++) {
        for (int64_t row = sample * r->sequence; row < (sample + 1) * r->sequence; row++) {
            if (!goes_on(r->starts, r->sequence, row)) {
                memset(state, 0, sizeof state);
            }
            rule_go_on(r, row, head, state, o);
            for (int64_t j = 0; j < r->value; j++) {
                const int64_t at = (row * r->heads + head) * r->value + j;
                loss += d_y != NULL ? (double)d_y[at] * o[j] : 0.0;
                if (y != NULL) {
                    y[at] = o[j];
                }
            }
        }
    }
    return loss;
}

static double rule_slope(const rule *r, int64_t row, const float *d_y, double *by)
{
    const double at = *by;
    *by = at + STEP;
    const double above = rule_run(r, row / r->sequence, d_y, NULL);
    *by = at - STEP;
    const double below = rule_run(r, row / r->sequence, d_y, NULL);
    *by = at;
    return (above - below) / (2.0 * STEP);
}

static void rows_follow_the_rule_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_delta_forward, seed);
        const float *const gates[3] = {AT(&c, delta_forward, gates), AT(&c, delta_forward, a_log),
                                       AT(&c, delta_forward, dt_bias)};
        rule r = rule_of((const void *)c.scalars, AT(&c, delta_forward, starts),
                         AT(&c, delta_forward, qkv), gates);
        const int64_t count = r.batch * r.sequence * r.heads * r.value;
        double *y = malloc((size_t)count * sizeof *y);
        for (int64_t b = 0; b < r.batch; b++) {
            (void)rule_run(&r, b, NULL, y);
        }
        kernel_case_run(&c, on);
        const float *got = AT(&c, delta_forward, y);
        for (int64_t i = 0; i < count; i++) {
            near((double)got[i], y[i], 1.0);
        }
        free(y);
        rule_free(&r);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(rows_follow_the_rule)

static void the_rule_has_its_derivative_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_delta_backward, seed);
        const float *const gates[3] = {AT(&c, delta_backward, gates), AT(&c, delta_backward, a_log),
                                       AT(&c, delta_backward, dt_bias)};
        rule r = rule_of((const void *)c.scalars, AT(&c, delta_backward, starts),
                         AT(&c, delta_backward, qkv), gates);
        const int64_t rows = r.batch * r.sequence, row = rule_row(&r);
        kernel_case_run(&c, on);
        const float *d_y = AT(&c, delta_backward, d_y);
        const float *d_qkv = AT(&c, delta_backward, d_qkv);
        const float *d_steps = AT(&c, delta_backward, d_steps);
        for (int64_t n = 0, i = (int64_t)seed; n < CHECKS; n++, i += 7919) {
            const int64_t x = i % (rows * row), g = i % (rows * r.heads);
            const int64_t gate = g / r.heads * 2 * r.heads + g % r.heads;
            near((double)d_qkv[x], rule_slope(&r, x / row, d_y, &r.qkv[x]), 3.0);
            near((double)d_steps[gate], rule_slope(&r, g / r.heads, d_y, &r.beta[g]), 3.0);
            near((double)d_steps[gate + r.heads], rule_slope(&r, g / r.heads, d_y, &r.step[g]),
                 3.0);
        }
        rule_free(&r);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(the_rule_has_its_derivative)

static void gates_have_their_derivative_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_delta_gates_backward, seed);
        const bp_delta_gates_backward_scalars *s = (const void *)c.scalars;
        kernel_case_run(&c, on);
        const float *gates = AT(&c, delta_gates_backward, gates);
        const float *a_log = AT(&c, delta_gates_backward, a_log);
        const float *dt_bias = AT(&c, delta_gates_backward, dt_bias);
        const float *d_steps = AT(&c, delta_gates_backward, d_steps);
        const float *got = AT(&c, delta_gates_backward, d_gates);
        for (int64_t i = 0; i < s->rows * 2 * s->value_heads; i++) {
            const int64_t head = i % s->value_heads;
            const double b = logistic((double)gates[i]), x = (double)gates[i];
            const double slope =
                i / s->value_heads % 2 == 0
                    ? b * (1.0 - b)
                    : -exp((double)a_log[head]) * logistic(x + (double)dt_bias[head]);
            near((double)got[i], (double)d_steps[i] * slope, 1.0);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(gates_have_their_derivative)

static void parameters_of_gates_have_theirs_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_delta_gates_parameters, seed);
        const bp_delta_gates_parameters_scalars *s = (const void *)c.scalars;
        const float *d_a_log = AT(&c, delta_gates_parameters, d_a_log);
        const float *d_dt_bias = AT(&c, delta_gates_parameters, d_dt_bias);
        double *by_log = doubles(d_a_log, s->value_heads);
        double *by_bias = doubles(d_dt_bias, s->value_heads);
        kernel_case_run(&c, on);
        const float *gates = AT(&c, delta_gates_parameters, gates);
        const float *a_log = AT(&c, delta_gates_parameters, a_log);
        const float *dt_bias = AT(&c, delta_gates_parameters, dt_bias);
        const float *d_steps = AT(&c, delta_gates_parameters, d_steps);
        for (int64_t head = 0; head < s->value_heads; head++) {
            double log_sum = s->accumulate != 0 ? by_log[head] : 0.0;
            double bias_sum = s->accumulate != 0 ? by_bias[head] : 0.0;
            for (int64_t row = 0; row < s->rows; row++) {
                const int64_t at = (2 * row + 1) * s->value_heads + head;
                const double x = (double)gates[at] + (double)dt_bias[head];
                const double d = -(double)d_steps[at] * exp((double)a_log[head]);
                log_sum += d * softplus(x);
                bias_sum += d * logistic(x);
            }
            near((double)d_a_log[head], log_sum, 20.0);
            near((double)d_dt_bias[head], bias_sum, 20.0);
        }
        free(by_log);
        free(by_bias);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(parameters_of_gates_have_theirs)

/* Generation. */

/* Rows that are there. */
static int64_t rows_there(const bp_step_block *step, int64_t rows, int64_t apart)
{
    return apart != 0 || (int64_t)step->last_row + 1 > rows ? rows : (int64_t)step->last_row + 1;
}

static void decoded_rows_go_on_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_delta_decode, seed);
        const bp_delta_decode_scalars *s = (const void *)c.scalars;
        const bp_step_block *step = AT(&c, delta_decode, step);
        const bp_delta_forward_scalars of = {
            1, s->rows, s->key_heads, s->value_heads, s->key_width, s->value_width};
        const float *const gates[3] = {AT(&c, delta_decode, gates), AT(&c, delta_decode, a_log),
                                       AT(&c, delta_decode, dt_bias)};
        rule r = rule_of(&of, NULL, AT(&c, delta_decode, qkv), gates);
        const int64_t size = r.key * r.value, all = (s->others + 1) * r.heads * size;
        double *state = doubles(AT(&c, delta_decode, state), all);
        kernel_case_run(&c, on);
        const float *y = AT(&c, delta_decode, y), *left = AT(&c, delta_decode, state);
        for (int64_t i = 0; step->position == 0 && i < all; i++) {
            state[i] = 0.0;
        }
        for (int64_t i = 0; i < s->rows * r.heads; i++) {
            const int64_t row = i / r.heads, head = i % r.heads, own = s->apart != 0 ? row : 0;
            double o[20] = {0.0};
            if (row < rows_there(step, s->rows, s->apart)) {
                rule_go_on(&r, row, head, state + (own * r.heads + head) * size, o);
            }
            for (int64_t j = 0; j < r.value; j++) {
                near((double)y[i * r.value + j], o[j], 3.0);
            }
        }
        for (int64_t i = 0; i < all; i++) {
            near((double)left[i], state[s->apart != 0 ? i : i % (r.heads * size)], 3.0);
        }
        free(state);
        rule_free(&r);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(decoded_rows_go_on)

/* Channel `at` of a sequence whose first row is `first`. */
static void check_decoded(const kernel_case *c, const double *state, int64_t sequence,
                          int64_t first, int64_t rows, int64_t at)
{
    const bp_short_conv_decode_scalars *s = (const void *)c->scalars;
    const bp_step_block *step = AT(c, short_conv_decode, step);
    const float *x = AT(c, short_conv_decode, x), *w = AT(c, short_conv_decode, weight);
    const float *y = AT(c, short_conv_decode, y), *left = AT(c, short_conv_decode, state);
    const int64_t before = s->before, width = s->channels;
    double read[24];
    for (int64_t t = 0; t < before + rows; t++) {
        read[t] = t >= before           ? (double)x[(first + t - before) * width + at]
                  : step->position == 0 ? 0.0
                                        : state[(first * before + t) * width + at];
    }
    for (int64_t t = 0; t < rows; t++) {
        double p = 0.0;
        for (int64_t j = 0; j <= before; j++) {
            p += (double)w[at * (before + 1) + j] * read[t + j];
        }
        near((double)y[(first + t) * width + at], p * logistic(p), 1.0);
    }
    for (int64_t t = 0; t < before; t++) {
        near((double)left[(sequence * before + t) * width + at], read[rows + t], 0.0);
    }
}

static void decoded_convolutions_go_on_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_short_conv_decode, seed);
        const bp_short_conv_decode_scalars *s = (const void *)c.scalars;
        const int64_t sequences = s->others + 1;
        double *state =
            doubles(AT(&c, short_conv_decode, state), sequences * s->before * s->channels);
        const int64_t there = rows_there(AT(&c, short_conv_decode, step), s->rows, s->apart);
        kernel_case_run(&c, on);
        for (int64_t i = 0; i < sequences * s->channels; i++) {
            const int64_t sequence = i / s->channels;
            check_decoded(&c, state, sequence, s->apart != 0 ? sequence : 0,
                          s->apart != 0 ? 1 : there, i % s->channels);
        }
        free(state);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(decoded_convolutions_go_on)

/* Three places as transformers 5.24 computes them in torch_recurrent_gated_delta_rule, from
 * queries, keys and values of width 2, logarithms of decays and betas. Here queries and keys have
 * the length 1, which normalising leaves but for its epsilon; its queries were not divided by
 * sqrt(2). */
static void three_places_are_as_transformers_has_them_on(kernel_device *on)
{
    static const float qkv[3][6] = {{1.0f, 0.0f, 0.6f, 0.8f, 1.0f, 2.0f},
                                    {0.6f, 0.8f, 1.0f, 0.0f, 3.0f, -1.0f},
                                    {0.0f, 1.0f, 0.8f, -0.6f, 0.5f, 4.0f}};
    static const double step[3] = {0.1, 0.5, 0.2}, beta[3] = {0.5, 0.9, 0.25};
    static const double want[6] = {0.3, 0.6, 1.82500736, -0.12998527, 0.37281352, -0.32333341};
    const bp_delta_forward_scalars s = {1, 3, 1, 1, 2, 2};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_delta_forward, &s, 1,
                     UINT32_C(1) << OPERAND(delta_forward, starts));
    memcpy(AT(&c, delta_forward, qkv), qkv, sizeof qkv);
    *(float *)AT(&c, delta_forward, a_log) = 0.0f;
    *(float *)AT(&c, delta_forward, dt_bias) = 0.0f;
    for (int t = 0; t < 3; t++) {
        float *gates = (float *)AT(&c, delta_forward, gates) + 2 * t;
        gates[0] = (float)log(beta[t] / (1.0 - beta[t]));
        gates[1] = (float)log(expm1(step[t]));
    }
    kernel_case_run(&c, on);
    for (int i = 0; i < 6; i++) {
        near((double)((const float *)AT(&c, delta_forward, y))[i], want[i] / sqrt(2.0), 1.0);
    }
    kernel_case_free(&c);
}
/* verifies device-3.0681 */
TEST_ON_HOST(three_places_are_as_transformers_has_them)

static void parts_lie_apart_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
        const bool joins = seed % 2 == 0;
        kernel_case c;
        kernel_random_case(&c, on->device, joins ? BP_KERNEL_parts_join : BP_KERNEL_parts_split,
                           seed);
        const bp_parts_split_scalars *s = (const void *)c.scalars; /* both have the same */
        const int64_t width[4] = {s->width0, s->width1, s->width2, s->width3};
        const int64_t pitch[4] = {s->pitch0, s->pitch1, s->pitch2, s->pitch3};
        kernel_case_run(&c, on);
        const float *x = joins ? AT(&c, parts_join, x) : AT(&c, parts_split, x);
        const uint32_t first = joins ? OPERAND(parts_join, y0) : OPERAND(parts_split, y0);
        for (int64_t i = 0; i < s->rows * s->groups * 4; i++) {
            const int64_t row = i / 4 / s->groups, g = i / 4 % s->groups, part = i % 4;
            const float *y = kernel_case_at(&c, 0, first + (uint32_t)part);
            int64_t at = row * s->pitch + g * (width[0] + width[1] + width[2] + width[3]);
            for (int64_t before = 0; before < part; before++) {
                at += width[before];
            }
            for (int64_t w = 0; y != NULL && w < width[part]; w++) {
                near((double)y[row * pitch[part] + g * width[part] + w], (double)x[at + w], 0.0);
            }
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(parts_lie_apart)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_are_sums_of_places),
        cmocka_unit_test(convolutions_have_their_derivative),
        cmocka_unit_test(weights_of_convolutions_have_theirs),
        cmocka_unit_test(rows_follow_the_rule),
        cmocka_unit_test(the_rule_has_its_derivative),
        cmocka_unit_test(gates_have_their_derivative),
        cmocka_unit_test(parameters_of_gates_have_theirs),
        cmocka_unit_test(decoded_rows_go_on),
        cmocka_unit_test(decoded_convolutions_go_on),
        cmocka_unit_test(three_places_are_as_transformers_has_them),
        cmocka_unit_test(parts_lie_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
