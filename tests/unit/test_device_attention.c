/* SPDX-License-Identifier: MIT */
/* Attention against plain double loops, finite differences and itself with a cache. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/random.h"
#include "core/step.h"
#include "device/host/host.h"
#include "tests/support/kernel_case.h"

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))

/* Everything one head of one sample is computed from, in double. */
typedef struct head {
    int64_t sequence;
    int64_t width;
    double *q; /* (T, D), as are k, v, d_out */
    double *k;
    double *v;
    double *d_out;
    double *mask; /* (T, T) */
} head;

static double *numbers(int64_t count)
{
    return calloc((size_t)count, sizeof(double));
}

static void head_free(head *h)
{
    free(h->q);
    free(h->k);
    free(h->v);
    free(h->d_out);
    free(h->mask);
}

/* The dropout factor of one probability, from the published definition. */
static double factor(const bp_step_block *step, const bp_attention_forward_scalars *s,
                     int64_t sample, int64_t number, int64_t i, int64_t j)
{
    uint64_t element = (uint64_t)((number * s->sequence + i) * s->sequence + j);
    uint32_t words[4];
    bp_dropout_words(step->seed, step->step, step->sample + (uint32_t)sample, (uint32_t)s->site,
                     element / 4, words);
    bool dropped = words[element % 4] < bp_dropout_threshold(s->dropout);
    return dropped ? 0.0 : 1.0 / (1.0 - s->dropout);
}

static head head_make(const bp_attention_forward_scalars *s, const float *qkv, const float *d_out,
                      const bp_step_block *step, const int64_t place[2])
{
    int64_t t_count = s->sequence, width = s->head_width, sample = place[0], number = place[1];
    head h = {t_count,
              width,
              numbers(t_count * width),
              numbers(t_count * width),
              numbers(t_count * width),
              numbers(t_count * width),
              numbers(t_count * t_count)};
    for (int64_t t = 0; t < t_count; t++) {
        int64_t row = sample * t_count + t;
        for (int64_t d = 0; d < width; d++) {
            const float *at = qkv + row * 3 * s->heads * width + number * width + d;
            h.q[t * width + d] = (double)at[0];
            h.k[t * width + d] = (double)at[s->heads * width];
            h.v[t * width + d] = (double)at[2 * s->heads * width];
            h.d_out[t * width + d] =
                d_out != NULL ? (double)d_out[row * s->heads * width + number * width + d] : 0.0;
        }
        for (int64_t j = 0; j < t_count; j++) {
            h.mask[t * t_count + j] = factor(step, s, sample, number, t, j);
        }
    }
    return h;
}

/* Probabilities of row i and their log-sum-exp. */
static double row_probabilities(const head *h, int64_t i, double *p)
{
    double most = -(double)INFINITY, sum = 0.0;
    for (int64_t j = 0; j <= i; j++) {
        p[j] = 0.0;
        for (int64_t d = 0; d < h->width; d++) {
            p[j] += h->q[i * h->width + d] * h->k[j * h->width + d];
        }
        p[j] /= sqrt((double)h->width);
        most = p[j] > most ? p[j] : most;
    }
    for (int64_t j = 0; j <= i; j++) {
        p[j] = exp(p[j] - most);
        sum += p[j];
    }
    for (int64_t j = 0; j <= i; j++) {
        p[j] /= sum;
    }
    return most + log(sum);
}

static void row_output(const head *h, int64_t i, const double *p, double *out)
{
    for (int64_t d = 0; d < h->width; d++) {
        out[d] = 0.0;
        for (int64_t j = 0; j <= i; j++) {
            out[d] += p[j] * h->mask[i * h->sequence + j] * h->v[j * h->width + d];
        }
    }
}

static bp_step_block step_make(void)
{
    return (bp_step_block){.seed = 11, .step = 22, .sample = 3};
}

static void check_forward_head(const kernel_case *c, const bp_attention_forward_scalars *s,
                               const int64_t place[2])
{
    bp_step_block step = step_make();
    head h = head_make(s, AT(c, attention_forward, qkv), NULL, &step, place);
    const float *out = AT(c, attention_forward, out), *lse = AT(c, attention_forward, lse);
    double *p = numbers(s->sequence), *right = numbers(s->head_width);
    for (int64_t i = 0; i < s->sequence; i++) {
        double row_lse = row_probabilities(&h, i, p);
        row_output(&h, i, p, right);
        assert_close_to(out + ((place[0] * s->sequence + i) * s->heads + place[1]) * s->head_width,
                        right, (uint64_t)s->head_width, 2e-6, 1.0);
        if (lse != NULL) {
            const float *got = lse + (place[0] * s->heads + place[1]) * s->sequence + i;
            assert_close_to(got, &row_lse, 1, 2e-6, 1.0);
        }
    }
    free(p);
    free(right);
    head_free(&h);
}

static const bp_attention_forward_scalars shapes[] = {
    {1, 1, 1, 1, 5, 0.0},   {2, 3, 2, 5, 5, 0.0},   {1, 9, 1, 4, 6, 0.3},
    {2, 33, 3, 16, 7, 0.0}, {1, 67, 2, 17, 8, 0.1}, {1, 130, 1, 64, 9, 0.2},
};
#define SHAPES 6

static void forward_agrees_on(kernel_device *on)
{
    for (uint32_t i = 0; i < 2 * SHAPES; i++) {
        const bp_attention_forward_scalars *s = &shapes[i / 2];
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_attention_forward, s, 1,
                         i % 2 == 0 ? 0 : 1u << OPERAND(attention_forward, lse));
        *(bp_step_block *)AT(&c, attention_forward, step) = step_make();
        fill_normal(AT(&c, attention_forward, qkv), c.bytes[OPERAND(attention_forward, qkv)] / 4, i,
                    1.5);
        kernel_case_run(&c, on);
        for (int64_t at = 0; at < s->batch * s->heads; at++) {
            check_forward_head(&c, s, (int64_t[]){at / s->heads, at % s->heads});
        }
        kernel_case_free(&c);
    }
}
TEST_ON_HOST(forward_agrees)

/* sum over the head of d_out * out: what backward differentiates. */
static double head_value(const head *h)
{
    double *p = numbers(h->sequence), *out = numbers(h->width), sum = 0.0;
    for (int64_t i = 0; i < h->sequence; i++) {
        row_probabilities(h, i, p);
        row_output(h, i, p, out);
        for (int64_t d = 0; d < h->width; d++) {
            sum += h->d_out[i * h->width + d] * out[d];
        }
    }
    free(p);
    free(out);
    return sum;
}

/* Runs backward on what forward of the same case computed. */
static void backward_case(kernel_case *c, kernel_device *on, const bp_attention_forward_scalars *s)
{
    bp_attention_backward_scalars b = {s->batch,      s->sequence, s->heads,
                                       s->head_width, s->site,     s->dropout};
    kernel_case forward;
    kernel_case_init(&forward, on->device, BP_KERNEL_attention_forward, s, 1, 0);
    kernel_case_init(c, on->device, BP_KERNEL_attention_backward, &b, 1, 0);
    uint64_t qkv_bytes = c->bytes[OPERAND(attention_backward, qkv)];
    fill_normal(AT(c, attention_backward, qkv), qkv_bytes / 4, 3, 1.5);
    fill_normal(AT(c, attention_backward, d_out), qkv_bytes / 12, 4, 1.0);
    *(bp_step_block *)AT(c, attention_backward, step) = step_make();
    *(bp_step_block *)AT(&forward, attention_forward, step) = step_make();
    memcpy(AT(&forward, attention_forward, qkv), AT(c, attention_backward, qkv), qkv_bytes);
    kernel_case_run(&forward, on);
    memcpy(AT(c, attention_backward, out), AT(&forward, attention_forward, out), qkv_bytes / 3);
    memcpy(AT(c, attention_backward, lse), AT(&forward, attention_forward, lse),
           c->bytes[OPERAND(attention_backward, lse)]);
    kernel_case_run(c, on);
    kernel_case_free(&forward);
}

/* Compares gradients `right` (T, D) of one of q, k, v. */
static void check_part(const kernel_case *c, const bp_attention_forward_scalars *s,
                       const int64_t place[2], int64_t part, const double *right)
{
    const float *d_qkv = AT(c, attention_backward, d_qkv);
    for (int64_t t = 0; t < s->sequence; t++) {
        int64_t row = (place[0] * s->sequence + t) * 3 + part;
        assert_close_to(d_qkv + (row * s->heads + place[1]) * s->head_width,
                        right + t * s->head_width, (uint64_t)s->head_width, 1e-5, 1.0);
    }
}

static void backward_agrees_with_differences_on(kernel_device *on)
{
    for (uint32_t i = 0; i < 3; i++) {
        const bp_attention_forward_scalars *s = &shapes[i];
        kernel_case c;
        backward_case(&c, on, s);
        bp_step_block step = step_make();
        for (int64_t at = 0; at < s->batch * s->heads; at++) {
            int64_t place[2] = {at / s->heads, at % s->heads};
            head h = head_make(s, AT(&c, attention_backward, qkv),
                               AT(&c, attention_backward, d_out), &step, place);
            double *parts[3] = {h.q, h.k, h.v}, *right = numbers(s->sequence * s->head_width);
            for (int64_t part = 0; part < 3; part++) {
                for (int64_t e = 0; e < s->sequence * s->head_width; e++) {
                    double value = parts[part][e], step_size = 1e-5;
                    parts[part][e] = value + step_size;
                    double up = head_value(&h);
                    parts[part][e] = value - step_size;
                    double down = head_value(&h);
                    parts[part][e] = value;
                    right[e] = (up - down) / (2.0 * step_size);
                }
                check_part(&c, s, place, part, right);
            }
            free(right);
            head_free(&h);
        }
        kernel_case_free(&c);
    }
}
TEST_ON_HOST(backward_agrees_with_differences)

/* d_q, d_k, d_v (T, D each) of a head by the formulas, in double. */
static void head_backward(const head *h, double *d_q, double *d_k, double *d_v)
{
    double *p = numbers(h->sequence), *d_p = numbers(h->sequence);
    for (int64_t i = 0; i < h->sequence; i++) {
        const double *d_out = h->d_out + i * h->width;
        double delta = 0.0;
        row_probabilities(h, i, p);
        for (int64_t j = 0; j <= i; j++) {
            double mask = h->mask[i * h->sequence + j];
            d_p[j] = 0.0;
            for (int64_t d = 0; d < h->width; d++) {
                d_p[j] += d_out[d] * h->v[j * h->width + d] * mask;
                d_v[j * h->width + d] += p[j] * mask * d_out[d];
            }
            delta += p[j] * d_p[j];
        }
        for (int64_t j = 0; j <= i; j++) {
            double ds = p[j] * (d_p[j] - delta) / sqrt((double)h->width);
            for (int64_t d = 0; d < h->width; d++) {
                d_q[i * h->width + d] += ds * h->k[j * h->width + d];
                d_k[j * h->width + d] += ds * h->q[i * h->width + d];
            }
        }
    }
    free(p);
    free(d_p);
}

static void backward_agrees_on(kernel_device *on)
{
    for (uint32_t i = 0; i < SHAPES; i++) {
        const bp_attention_forward_scalars *s = &shapes[i];
        kernel_case c;
        backward_case(&c, on, s);
        bp_step_block step = step_make();
        for (int64_t at = 0; at < s->batch * s->heads; at++) {
            int64_t place[2] = {at / s->heads, at % s->heads};
            int64_t count = s->sequence * s->head_width;
            head h = head_make(s, AT(&c, attention_backward, qkv),
                               AT(&c, attention_backward, d_out), &step, place);
            double *d_q = numbers(count), *d_k = numbers(count), *d_v = numbers(count);
            head_backward(&h, d_q, d_k, d_v);
            check_part(&c, s, place, 0, d_q);
            check_part(&c, s, place, 1, d_k);
            check_part(&c, s, place, 2, d_v);
            free(d_q);
            free(d_k);
            free(d_v);
            head_free(&h);
        }
        kernel_case_free(&c);
    }
}
TEST_ON_HOST(backward_agrees)

/* Rows fed to the cache in pieces give the bits that one forward over all of them gives. */
static void decode_equals_forward_on(kernel_device *on)
{
    enum { T = 40, H = 3, D = 18, ROW = 3 * H * D };
    static const int64_t pieces[] = {1, 17, 20, 2};
    bp_attention_forward_scalars s = {1, T, H, D, 0, 0.0};
    kernel_case forward;
    kernel_case_init(&forward, on->device, BP_KERNEL_attention_forward, &s, 1, 0);
    float *qkv = AT(&forward, attention_forward, qkv);
    fill_normal(qkv, T * ROW, 9, 1.0);
    *(bp_step_block *)AT(&forward, attention_forward, step) = step_make();
    kernel_case_run(&forward, on);
    const float *right = AT(&forward, attention_forward, out);
    static float k_cache[T * H * D], v_cache[T * H * D];
    uint32_t position = 0;
    for (uint32_t i = 0; i < 4; i++) {
        bp_attention_decode_scalars d = {pieces[i], T, H, D};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_attention_decode, &d, 1, 0);
        memcpy(AT(&c, attention_decode, qkv), qkv + position * ROW,
               (size_t)pieces[i] * ROW * sizeof(float));
        memcpy(AT(&c, attention_decode, k_cache), k_cache, sizeof(k_cache));
        memcpy(AT(&c, attention_decode, v_cache), v_cache, sizeof(v_cache));
        *(bp_step_block *)AT(&c, attention_decode, step) = (bp_step_block){.position = position};
        kernel_case_run(&c, on);
        assert_memory_equal(AT(&c, attention_decode, out), right + position * H * D,
                            (size_t)pieces[i] * H * D * sizeof(float));
        memcpy(k_cache, AT(&c, attention_decode, k_cache), sizeof(k_cache));
        memcpy(v_cache, AT(&c, attention_decode, v_cache), sizeof(v_cache));
        position += (uint32_t)pieces[i];
        kernel_case_free(&c);
    }
    kernel_case_free(&forward);
}
TEST_ON_HOST(decode_equals_forward)

/* Rows past the cache's end leave everything as it was. */
static void decode_stops_at_the_caches_end_on(kernel_device *on)
{
    for (uint32_t position = 3; position < 7; position++) {
        bp_attention_decode_scalars s = {3, 5, 2, 4};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_attention_decode, &s, 1, 0);
        fill_normal(AT(&c, attention_decode, qkv), 3 * 24, 1, 1.0);
        fill_normal(AT(&c, attention_decode, k_cache), 5 * 8, 2, 1.0);
        fill_normal(AT(&c, attention_decode, v_cache), 5 * 8, 3, 1.0);
        *(bp_step_block *)AT(&c, attention_decode, step) = (bp_step_block){.position = position};
        kernel_case_run(&c, on);
        const uint32_t *out = AT(&c, attention_decode, out);
        for (uint32_t row = 0; row < 3; row++) {
            assert_int_equal(out[row * 8] != UINT32_C(0xa5a5a5a5), position + row < 5);
        }
        kernel_case_free(&c);
    }
}
TEST_ON_HOST(decode_stops_at_the_caches_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_agrees),
        cmocka_unit_test(backward_agrees_with_differences),
        cmocka_unit_test(backward_agrees),
        cmocka_unit_test(decode_equals_forward),
        cmocka_unit_test(decode_stops_at_the_caches_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
