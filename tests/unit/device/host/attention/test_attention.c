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

#include "core/base/random.h"
#include "core/ir/step.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))

/* Everything one query head of one sample is computed from, in double. */
typedef struct head {
    int64_t sequence;
    int64_t width;
    int64_t keys; /* the sample's length */
    bool causal;
    int64_t window;
    double cap;
    double scale;
    double *q; /* (T, D), as are k, v, d_out */
    double *k;
    double *v;
    double *d_out;
    double *mask; /* (T, T) */
} head;

/* Whether row i looks at key j. */
static bool looks(const head *h, int64_t i, int64_t j)
{
    const int64_t away = i < j ? j - i : i - j;
    return j < h->keys && (!h->causal || j <= i) && (h->window == 0 || away < h->window);
}

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

static bp_step_block step_make(void)
{
    return (bp_step_block){.seed = 11, .step = 22, .sample = 3};
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
                      const int32_t *lengths, const int64_t place[2])
{
    int64_t t_count = s->sequence, width = s->head_width, sample = place[0], number = place[1];
    int64_t kv = number / (s->heads / s->kv_heads), heads = s->heads + 2 * s->kv_heads;
    bp_step_block step = step_make();
    head h = {t_count,
              width,
              lengths != NULL ? lengths[sample] : t_count,
              s->causal != 0,
              s->window,
              s->cap,
              s->scale,
              numbers(t_count * width),
              numbers(t_count * width),
              numbers(t_count * width),
              numbers(t_count * width),
              numbers(t_count * t_count)};
    for (int64_t t = 0; t < t_count; t++) {
        int64_t row = sample * t_count + t;
        for (int64_t d = 0; d < width; d++) {
            const float *at = qkv + row * heads * width + d;
            h.q[t * width + d] = (double)at[number * width];
            h.k[t * width + d] = (double)at[(s->heads + kv) * width];
            h.v[t * width + d] = (double)at[(s->heads + s->kv_heads + kv) * width];
            h.d_out[t * width + d] =
                d_out != NULL ? (double)d_out[row * s->heads * width + number * width + d] : 0.0;
        }
        for (int64_t j = 0; j < t_count; j++) {
            h.mask[t * t_count + j] = factor(&step, s, sample, number, t, j);
        }
    }
    return h;
}

/* Before a cap. */
static double raw_score(const head *h, int64_t i, int64_t j)
{
    double score = 0.0;
    for (int64_t d = 0; d < h->width; d++) {
        score += h->q[i * h->width + d] * h->k[j * h->width + d];
    }
    return score * h->scale;
}

/* Probabilities of row i and their log-sum-exp. */
static double row_probabilities(const head *h, int64_t i, double *p)
{
    double most = -(double)INFINITY, sum = 0.0;
    for (int64_t j = 0; j < h->sequence; j++) {
        p[j] = raw_score(h, i, j);
        p[j] = h->cap > 0.0 ? h->cap * tanh(p[j] / h->cap) : p[j];
        most = looks(h, i, j) && p[j] > most ? p[j] : most;
    }
    for (int64_t j = 0; j < h->sequence; j++) {
        p[j] = looks(h, i, j) ? exp(p[j] - most) : 0.0;
        sum += p[j];
    }
    for (int64_t j = 0; j < h->sequence && sum > 0.0; j++) {
        p[j] /= sum;
    }
    return sum > 0.0 ? most + log(sum) : 0.0;
}

static void row_output(const head *h, int64_t i, const double *p, double *out)
{
    for (int64_t d = 0; d < h->width; d++) {
        out[d] = 0.0;
        for (int64_t j = 0; j < h->sequence; j++) {
            out[d] += p[j] * h->mask[i * h->sequence + j] * h->v[j * h->width + d];
        }
    }
}

static void check_forward_head(const kernel_case *c, const bp_attention_forward_scalars *s,
                               const int64_t place[2])
{
    head h =
        head_make(s, AT(c, attention_forward, qkv), NULL, AT(c, attention_forward, lengths), place);
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

#define CAUSAL 1
#define OPEN   0

static const bp_attention_forward_scalars shapes[] = {
    {1, 1, 1, 1, 1, CAUSAL, 5, 1.0, 0.0, 0, 0.0},
    {2, 3, 2, 2, 5, CAUSAL, 5, 0.4, 0.0, 0, 0.0},
    {1, 9, 1, 1, 4, CAUSAL, 6, 0.5, 0.3, 0, 0.0},
    {2, 7, 4, 2, 3, OPEN, 6, 0.7, 0.3, 0, 0.0},
    {2, 9, 2, 1, 4, CAUSAL, 6, 0.5, 0.3, 3, 1.5},
    {1, 8, 2, 2, 3, OPEN, 6, 0.5, 0.0, 2, 0},
    {2, 33, 3, 3, 16, CAUSAL, 7, 0.25, 0.0, 0, 0.0},
    {1, 67, 2, 2, 17, CAUSAL, 8, 0.24, 0.1, 0, 0.0},
    {1, 130, 1, 1, 64, CAUSAL, 9, 0.125, 0.2, 0, 0.0},
    {3, 70, 4, 1, 16, OPEN, 9, 0.2, 0.0, 0, 0.0},
    {3, 97, 6, 2, 20, CAUSAL, 9, 0.2, 0.1, 0, 0.0},
    {3, 201, 4, 2, 16, CAUSAL, 9, 0.2, 0.1, 40, 2.0},
    {3, 201, 2, 1, 20, OPEN, 9, 0.2, 0.1, 33, 0.0},
    {2, 70, 2, 2, 17, CAUSAL, 9, 0.1, 0.0, 1, 5.0},
    {2, 67, 2, 2, 17, CAUSAL, 9, 0.3, 0.0, 66, 0.0},
    {1, 300, 1, 1, 64, CAUSAL, 9, 0.1, 0.0, 100, 0.0},
};
#define SHAPES 16
#define SMALL  6 /* of them are small enough for differences */

/* Lengths of samples: whole, none, some; around the edges of blocks and tiles. */
static void fill_lengths(int32_t *lengths, const bp_attention_forward_scalars *s)
{
    for (int64_t b = 0; lengths != NULL && b < s->batch; b++) {
        const int64_t some[3] = {s->sequence * 3 / 5, s->sequence, 0};
        lengths[b] = (int32_t)some[b % 3];
    }
}

/* verifies device-3.0681 */
static void forward_agrees_on(kernel_device *on)
{
    for (uint32_t i = 0; i < 4 * SHAPES; i++) {
        const bp_attention_forward_scalars *s = &shapes[i / 4];
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_attention_forward, s, 1,
                         (i & 1) << OPERAND(attention_forward, lse) |
                             (i >> 1 & 1) << OPERAND(attention_forward, lengths));
        fill_lengths(AT(&c, attention_forward, lengths), s);
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
/* verifies device-3.0681 */
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
static void backward_case(kernel_case *c, kernel_device *on, const bp_attention_forward_scalars *s,
                          bool lengths)
{
    bp_attention_backward_scalars b;
    memcpy(&b, s, sizeof(b)); /* the same words */
    kernel_case forward;
    kernel_case_init(&forward, on->device, BP_KERNEL_attention_forward, s, 1,
                     lengths ? 0 : 1u << OPERAND(attention_forward, lengths));
    kernel_case_init(c, on->device, BP_KERNEL_attention_backward, &b, 1,
                     lengths ? 0 : 1u << OPERAND(attention_backward, lengths));
    uint64_t qkv_bytes = c->bytes[OPERAND(attention_backward, qkv)];
    uint64_t out_bytes = c->bytes[OPERAND(attention_backward, out)];
    fill_normal(AT(c, attention_backward, qkv), qkv_bytes / 4, 3, 1.5);
    fill_normal(AT(c, attention_backward, d_out), out_bytes / 4, 4, 1.0);
    fill_lengths(AT(c, attention_backward, lengths), s);
    fill_lengths(AT(&forward, attention_forward, lengths), s);
    *(bp_step_block *)AT(c, attention_backward, step) = step_make();
    *(bp_step_block *)AT(&forward, attention_forward, step) = step_make();
    memcpy(AT(&forward, attention_forward, qkv), AT(c, attention_backward, qkv), qkv_bytes);
    kernel_case_run(&forward, on);
    memcpy(AT(c, attention_backward, out), AT(&forward, attention_forward, out), out_bytes);
    memcpy(AT(c, attention_backward, lse), AT(&forward, attention_forward, lse),
           c->bytes[OPERAND(attention_backward, lse)]);
    kernel_case_run(c, on);
    kernel_case_free(&forward);
}

/* Compares gradients `right` (T, D) of head number `place[1]` of those in a row of qkv. */
static void check_part(const kernel_case *c, const bp_attention_forward_scalars *s,
                       const int64_t place[2], const double *right)
{
    const float *d_qkv = AT(c, attention_backward, d_qkv);
    int64_t heads = s->heads + 2 * s->kv_heads;
    for (int64_t t = 0; t < s->sequence; t++) {
        int64_t row = (place[0] * s->sequence + t) * heads + place[1];
        assert_close_to(d_qkv + row * s->head_width, right + t * s->head_width,
                        (uint64_t)s->head_width, 1e-5, 1.0);
    }
}

/* right (D) += derivatives of the head's value by each element of x. */
static void differences(const head *h, double *x, double *right)
{
    for (int64_t e = 0; e < h->sequence * h->width; e++) {
        double value = x[e], step_size = 1e-5;
        x[e] = value + step_size;
        double up = head_value(h);
        x[e] = value - step_size;
        double down = head_value(h);
        x[e] = value;
        right[e] += (up - down) / (2.0 * step_size);
    }
}

typedef void (*gradients)(const head *h, double *d_q, double *d_k, double *d_v);

/* Every gradient of a case against what `of` finds for each head: those of a key-value head are the
 * sums over its query heads. */
static void check_gradients(const kernel_case *c, const bp_attention_forward_scalars *s,
                            gradients of)
{
    int64_t count = s->sequence * s->head_width, group = s->heads / s->kv_heads;
    for (int64_t at = 0; at < s->batch * s->kv_heads; at++) {
        int64_t sample = at / s->kv_heads, kv = at % s->kv_heads;
        double *d_k = numbers(count), *d_v = numbers(count);
        for (int64_t i = 0; i < group; i++) {
            const int64_t place[2] = {sample, kv * group + i};
            double *d_q = numbers(count);
            head h = head_make(s, AT(c, attention_backward, qkv), AT(c, attention_backward, d_out),
                               AT(c, attention_backward, lengths), place);
            of(&h, d_q, d_k, d_v);
            check_part(c, s, place, d_q);
            free(d_q);
            head_free(&h);
        }
        check_part(c, s, (int64_t[]){sample, s->heads + kv}, d_k);
        check_part(c, s, (int64_t[]){sample, s->heads + s->kv_heads + kv}, d_v);
        free(d_k);
        free(d_v);
    }
}

static void head_differences(const head *h, double *d_q, double *d_k, double *d_v)
{
    differences(h, h->q, d_q);
    differences(h, h->k, d_k);
    differences(h, h->v, d_v);
}

static void backward_agrees_with_differences_on(kernel_device *on)
{
    for (uint32_t i = 0; i < 2 * SMALL; i++) {
        kernel_case c;
        backward_case(&c, on, &shapes[i / 2], i % 2 == 1);
        check_gradients(&c, &shapes[i / 2], head_differences);
        kernel_case_free(&c);
    }
}
/* verifies layers-4.97f8 */
TEST_ON_HOST(backward_agrees_with_differences)

/* d_q, d_k, d_v (T, D each) of a head by the formulas, in double. */
static void head_backward(const head *h, double *d_q, double *d_k, double *d_v)
{
    double *p = numbers(h->sequence), *d_p = numbers(h->sequence);
    for (int64_t i = 0; i < h->sequence; i++) {
        const double *d_out = h->d_out + i * h->width;
        double delta = 0.0;
        row_probabilities(h, i, p);
        for (int64_t j = 0; j < h->sequence; j++) {
            double mask = h->mask[i * h->sequence + j];
            d_p[j] = 0.0;
            for (int64_t d = 0; d < h->width; d++) {
                d_p[j] += d_out[d] * h->v[j * h->width + d] * mask;
                d_v[j * h->width + d] += p[j] * mask * d_out[d];
            }
            delta += p[j] * d_p[j];
        }
        for (int64_t j = 0; j < h->sequence; j++) {
            const double t = h->cap > 0.0 ? tanh(raw_score(h, i, j) / h->cap) : 0.0;
            double ds = p[j] * (d_p[j] - delta) * h->scale * (1.0 - t * t);
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
    for (uint32_t i = 0; i < 2 * SHAPES; i++) {
        kernel_case c;
        backward_case(&c, on, &shapes[i / 2], i % 2 == 1);
        check_gradients(&c, &shapes[i / 2], head_backward);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(backward_agrees)

/* Rows fed to the cache in pieces give the bits that one forward over all of them gives. */
static void decode_equals(kernel_device *on, int64_t window, double cap)
{
    enum { T = 40, H = 4, K = 2, D = 18, ROW = (H + 2 * K) * D };
    static const int64_t pieces[] = {1, 17, 20, 2};
    bp_attention_forward_scalars s = {1, T, H, K, D, CAUSAL, 0, 0.3, 0.0, window, cap};
    kernel_case forward;
    kernel_case_init(&forward, on->device, BP_KERNEL_attention_forward, &s, 1,
                     1u << OPERAND(attention_forward, lengths));
    float *qkv = AT(&forward, attention_forward, qkv);
    fill_normal(qkv, T * ROW, 9, 1.0);
    *(bp_step_block *)AT(&forward, attention_forward, step) = step_make();
    kernel_case_run(&forward, on);
    const float *right = AT(&forward, attention_forward, out);
    static float k_cache[T * K * D], v_cache[T * K * D];
    uint32_t position = 0;
    for (uint32_t i = 0; i < 4; i++) {
        bp_attention_decode_scalars d = {pieces[i], T, H, K, D, 0.3, window, cap, 0, 0};
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

static void decode_equals_forward_on(kernel_device *on)
{
    decode_equals(on, 0, 0.0);
    decode_equals(on, 18, 0.0);
    decode_equals(on, 5, 1.25);
}
/* verifies run-18.bb6f */
TEST_ON_HOST(decode_equals_forward)

/* Rows past the cache's end leave everything as it was. */
static void decode_stops_at_the_caches_end_on(kernel_device *on)
{
    for (uint32_t position = 3; position < 7; position++) {
        bp_attention_decode_scalars s = {3, 5, 2, 2, 4, 0.5, 0, 0.0, 0, 0};
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

enum { APART_T = 9, APART_H = 4, APART_K = 2, APART_D = 18, APART_N = 3 };
enum { APART_ROW = (APART_H + 2 * APART_K) * APART_D, APART_CACHE = APART_T * APART_K * APART_D };

/* One call from these rows and caches, which become what it leaves. */
static void decode_apart(kernel_device *on, const bp_attention_decode_scalars *s,
                         const bp_step_block *step, const float *qkv, float *caches[2], float *out)
{
    const size_t rows = (size_t)s->rows;
    const size_t held = (size_t)(s->others + 1) * APART_CACHE * sizeof(float);
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_attention_decode, s, 1, 0);
    memcpy(AT(&c, attention_decode, qkv), qkv, rows * APART_ROW * sizeof(float));
    memcpy(AT(&c, attention_decode, k_cache), caches[0], held);
    memcpy(AT(&c, attention_decode, v_cache), caches[1], held);
    *(bp_step_block *)AT(&c, attention_decode, step) = *step;
    kernel_case_run(&c, on);
    memcpy(out, AT(&c, attention_decode, out), rows * APART_H * APART_D * sizeof(float));
    memcpy(caches[0], AT(&c, attention_decode, k_cache), held);
    memcpy(caches[1], AT(&c, attention_decode, v_cache), held);
    kernel_case_free(&c);
}

/* Rows that begin all sequences enter all caches; then rows of sequences of their own have the bits
 * that each has alone. */
static void sequences_decode_apart_on(kernel_device *on)
{
    static float qkv[APART_N * APART_ROW], out[APART_N * APART_H * APART_D],
        own[APART_N * APART_H * APART_D], all[2][APART_N * APART_CACHE], one[2][APART_CACHE];
    const bp_attention_decode_scalars alone = {1,   APART_T, APART_H, APART_K, APART_D,
                                               0.3, 4,       0.0,     0,       0};
    bp_attention_decode_scalars together = alone;
    float *caches[2] = {all[0], all[1]}, *cache[2] = {one[0], one[1]};
    memset(all, 0, sizeof all);
    fill_normal(qkv, APART_N * APART_ROW, 1, 1.0);
    together.rows = APART_N;
    together.others = APART_N - 1;
    decode_apart(on, &together, &(bp_step_block){.position = 0}, qkv, caches, out);
    for (int i = 0; i < 2 * APART_N; i++) {
        assert_memory_equal(all[i % 2] + i / 2 * APART_CACHE, all[i % 2], sizeof one[0]);
    }
    assert_true(all[1][2 * APART_K * APART_D] != 0.0f && all[1][3 * APART_K * APART_D] == 0.0f);
    together.apart = 1;
    for (uint32_t position = 3; position < APART_T; position += 2) {
        const bp_step_block step = {.position = position};
        static float was[2][APART_N * APART_CACHE];
        memcpy(was, all, sizeof was);
        fill_normal(qkv, APART_N * APART_ROW, position, 1.0);
        decode_apart(on, &together, &step, qkv, caches, out);
        for (int r = 0; r < APART_N; r++) {
            memcpy(one[0], was[0] + r * APART_CACHE, sizeof one[0]);
            memcpy(one[1], was[1] + r * APART_CACHE, sizeof one[1]);
            decode_apart(on, &alone, &step, qkv + r * APART_ROW, cache, own);
            assert_memory_equal(out + r * APART_H * APART_D, own,
                                APART_H * APART_D * sizeof(float));
            assert_memory_equal(all[0] + r * APART_CACHE, one[0], sizeof one[0]);
            assert_memory_equal(all[1] + r * APART_CACHE, one[1], sizeof one[1]);
        }
    }
}
/* verifies run-18.bb6f */
TEST_ON_HOST(sequences_decode_apart)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_agrees),
        cmocka_unit_test(backward_agrees_with_differences),
        cmocka_unit_test(backward_agrees),
        cmocka_unit_test(decode_equals_forward),
        cmocka_unit_test(decode_stops_at_the_caches_end),
        cmocka_unit_test(sequences_decode_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
