/* SPDX-License-Identifier: MIT */
/* Embedding and dropout: against plain loops, and the masks' statistics and names. */
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
#include "device/host/isa_table.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))
#define SITE                77

static bp_step_block step_make(uint32_t sample)
{
    return (bp_step_block){.seed = UINT64_C(0x123456789), .step = 5, .sample = sample};
}

/* The factor of one element from the published definition. */
static double factor(uint32_t sample, uint64_t element, double dropout)
{
    bp_step_block step = step_make(sample);
    uint32_t words[4];
    bp_dropout_words(step.seed, step.step, sample, SITE, element / 4, words);
    return words[element % 4] < bp_dropout_threshold(dropout) ? 0.0 : 1.0 / (1.0 - dropout);
}

/* The noise of one element: uniform, of a key of its own. */
static double noise_at(uint32_t sample, uint64_t element, double most)
{
    const bp_step_block step = step_make(sample);
    uint32_t words[4];
    bp_dropout_words(bp_noise_key(step.seed), step.step, sample, SITE, element / 4, words);
    return ((double)(words[element % 4] ^ 0x80000000u) / 0x1p31 - 1.0) * most;
}

/* Rows, sequence, width, vocabulary. */
static const int64_t sizes[][4] = {{1, 1, 1, 1}, {6, 3, 5, 4}, {10, 5, 64, 9}, {14, 7, 131, 3}};
#define SIZES 4

static void fill_ids(int32_t *ids, int64_t rows, int64_t vocabulary)
{
    for (int64_t row = 0; row < rows; row++) {
        ids[row] = (int32_t)((row * row + 1) % vocabulary);
    }
}

/* verifies device-3.0681 */
static void forward_agrees_on(kernel_device *on)
{
    for (uint32_t i = 0; i < 4 * SIZES; i++) {
        const int64_t *size = sizes[i / 4];
        bp_embedding_forward_scalars s = {size[0],
                                          size[1],
                                          size[2],
                                          size[3],
                                          size[1] + 2,
                                          SITE,
                                          0,
                                          i % 2 == 0 ? 0.0 : 0.25,
                                          i % 4 < 2 ? 0.0 : 0.7};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_embedding_forward, &s, 1, 0);
        float *wte = AT(&c, embedding_forward, wte), *wpe = AT(&c, embedding_forward, wpe);
        int32_t *ids = AT(&c, embedding_forward, ids);
        fill_normal(wte, (uint64_t)(s.vocabulary * s.width), 1, 1.0);
        fill_normal(wpe, (uint64_t)(s.positions * s.width), 2, 1.0);
        fill_ids(ids, s.rows, s.vocabulary);
        *(bp_step_block *)AT(&c, embedding_forward, step) = step_make(4);
        kernel_case_run(&c, on);
        const float *out = AT(&c, embedding_forward, out);
        double right[200];
        for (int64_t row = 0; row < s.rows; row++) {
            int64_t t = row % s.sequence;
            for (int64_t j = 0; j < s.width; j++) {
                double mask = s.dropout > 0.0 ? factor(4 + (uint32_t)(row / s.sequence),
                                                       (uint64_t)(t * s.width + j), s.dropout)
                                              : 1.0;
                const double noise = noise_at(4 + (uint32_t)(row / s.sequence),
                                              (uint64_t)(t * s.width + j), s.noise);
                right[j] = mask * ((double)wte[ids[row] * s.width + j] + noise +
                                   (double)wpe[t * s.width + j]);
            }
            assert_close_to(out + row * s.width, right, (uint64_t)s.width, 2e-7, 1.0);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(forward_agrees)

/* No slices are no slices, also behind the last one, which ends within 64 columns. */
/* verifies device-3.0681 */
static void no_slices_clear_nothing(void **state)
{
    (void)state;
    const bp_embedding_token_backward_scalars s = {
        .rows = 1, .sequence = 1, .width = 70, .vocabulary = 2};
    const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];
    bp_host_isa_kernels(0, kernels);
    const bp_host_kernel *kernel = kernels[BP_F32][BP_KERNEL_embedding_token_backward];
    kernel_case c;
    kernel_case_init(&c, &bp_device_host, BP_KERNEL_embedding_token_backward, &s, 1, 0);
    float *d_wte = AT(&c, embedding_token_backward, d_wte);
    const bp_embedding_token_backward_pointers p = {.d_wte = d_wte,
                                                    .d_out =
                                                        AT(&c, embedding_token_backward, d_out),
                                                    .ids = AT(&c, embedding_token_backward, ids),
                                                    .step = AT(&c, embedding_token_backward, step)};
    uint8_t dtypes[BP_OPERANDS_MAX] = {BP_F32};
    const bp_host_call call = {(void *const *)(const void *)&p, &s, dtypes, NULL, NULL};
    assert_int_equal(kernel->tasks(&s), 2);
    for (uint64_t first = 0; first <= 2; first++) {
        for (uint64_t i = 0; i < 140; i++) {
            d_wte[i] = 1.0f + (float)i;
        }
        kernel->run(&call, first, first, 0);
        for (uint64_t i = 0; i < 140; i++) {
            assert_true(d_wte[i] == 1.0f + (float)i);
        }
    }
    kernel_case_free(&c);
}

/* While generating, rows continue at the step's position; those past the last stay inside wpe. */
static void decode_starts_at_the_position_on(kernel_device *on)
{
    bp_embedding_forward_scalars s = {4, 4, 3, 2, 7, 0, 1, 0.0, 0.0};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_embedding_forward, &s, 1, 0);
    float *wpe = AT(&c, embedding_forward, wpe);
    memset(AT(&c, embedding_forward, wte), 0, 2 * 3 * sizeof(float));
    fill_normal(wpe, 21, 2, 1.0);
    fill_ids(AT(&c, embedding_forward, ids), 4, 2);
    *(bp_step_block *)AT(&c, embedding_forward, step) = (bp_step_block){.position = 5};
    kernel_case_run(&c, on);
    const float *out = AT(&c, embedding_forward, out);
    assert_memory_equal(out, wpe + 15, 6 * sizeof(float));
    assert_memory_equal(out + 6, wpe + 18, 3 * sizeof(float));
    assert_memory_equal(out + 9, wpe + 18, 3 * sizeof(float));
    kernel_case_free(&c);
}
/* verifies device-3.0681 */
TEST_ON_HOST(decode_starts_at_the_position)

static double masked(const float *d_out, const int64_t size[4], int64_t row, int64_t j,
                     double dropout)
{
    int64_t t = row % size[1];
    double mask = dropout > 0.0
                      ? factor((uint32_t)(row / size[1]), (uint64_t)(t * size[2] + j), dropout)
                      : 1.0;
    return mask * (double)d_out[row * size[2] + j];
}

static void token_backward_agrees_on(kernel_device *on)
{
    for (uint32_t i = 0; i < 4 * SIZES; i++) {
        const int64_t *size = sizes[i / 4];
        bp_embedding_token_backward_scalars s = {
            size[0], size[1], size[2], size[3], 0, SITE, i % 2, (i & 2) == 0 ? 0.0 : 0.4};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_embedding_token_backward, &s, 1, 0);
        float *d_wte = AT(&c, embedding_token_backward, d_wte);
        float *d_out = AT(&c, embedding_token_backward, d_out);
        int32_t *ids = AT(&c, embedding_token_backward, ids);
        uint64_t count = (uint64_t)(s.vocabulary * s.width);
        fill_normal(d_out, (uint64_t)(s.rows * s.width), 1, 1.0);
        fill_ids(ids, s.rows, s.vocabulary);
        *(bp_step_block *)AT(&c, embedding_token_backward, step) = step_make(0);
        double *right = calloc(count, sizeof(double));
        if (s.accumulate != 0) {
            fill_normal(d_wte, count, 2, 1.0);
        }
        for (uint64_t j = 0; s.accumulate != 0 && j < count; j++) {
            right[j] = (double)d_wte[j];
        }
        for (int64_t row = 0; row < s.rows; row++) {
            for (int64_t j = 0; j < s.width; j++) {
                right[ids[row] * s.width + j] += masked(d_out, size, row, j, s.dropout);
            }
        }
        kernel_case_run(&c, on);
        assert_close(d_wte, right, count, 1e-6);
        free(right);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(token_backward_agrees)

static void position_backward_agrees_on(kernel_device *on)
{
    for (uint32_t i = 0; i < 4 * SIZES; i++) {
        const int64_t *size = sizes[i / 4];
        bp_embedding_position_backward_scalars s = {
            size[0], size[1], size[2], size[1] + 3, SITE, i % 2, (i & 2) == 0 ? 0.0 : 0.4};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_embedding_position_backward, &s, 1, 0);
        float *d_wpe = AT(&c, embedding_position_backward, d_wpe);
        float *d_out = AT(&c, embedding_position_backward, d_out);
        uint64_t count = (uint64_t)(s.positions * s.width);
        fill_normal(d_out, (uint64_t)(s.rows * s.width), 1, 1.0);
        *(bp_step_block *)AT(&c, embedding_position_backward, step) = step_make(0);
        double *right = calloc(count, sizeof(double));
        if (s.accumulate != 0) {
            fill_normal(d_wpe, count, 2, 1.0);
        }
        for (uint64_t j = 0; s.accumulate != 0 && j < count; j++) {
            right[j] = (double)d_wpe[j];
        }
        for (int64_t row = 0; row < s.rows; row++) {
            for (int64_t j = 0; j < s.width; j++) {
                right[row % s.sequence * s.width + j] += masked(d_out, size, row, j, s.dropout);
            }
        }
        kernel_case_run(&c, on);
        assert_close(d_wpe, right, count, 1e-6);
        free(right);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(position_backward_agrees)

/* Runs dropout over samples of `per_sample` ones (the first is number `sample`) into `to`. */
static void drop_ones(kernel_device *on, int64_t samples, int64_t per_sample, uint32_t sample,
                      double dropout, float *to)
{
    bp_dropout_scalars s = {samples * per_sample, per_sample, SITE, dropout, 0};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_dropout, &s, 1, 1u << OPERAND(dropout, residual));
    float *x = AT(&c, dropout, x);
    for (int64_t i = 0; i < s.count; i++) {
        x[i] = 1.0f;
    }
    *(bp_step_block *)AT(&c, dropout, step) = step_make(sample);
    kernel_case_run(&c, on);
    memcpy(to, AT(&c, dropout, y), (size_t)s.count * sizeof(float));
    kernel_case_free(&c);
}

static void dropout_keeps_the_right_share_on(kernel_device *on)
{
    static float y[40000];
    static const double rates[] = {0.1, 0.5, 0.9};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t kept = 0;
        float scale = (float)(1.0 / (1.0 - rates[i]));
        drop_ones(on, 1, 40000, 0, rates[i], y);
        for (uint32_t j = 0; j < 40000; j++) {
            assert_true(y[j] == 0.0f || y[j] == scale);
            kept += y[j] != 0.0f;
        }
        double right = 40000.0 * (1.0 - rates[i]);
        assert_true(fabs((double)kept - right) < 4.0 * sqrt(right * rates[i]));
    }
}
/* verifies number-15.65d0 */
TEST_ON_HOST(dropout_keeps_the_right_share)

/* Three samples at once or one by one, whatever their length: the same masks. */
static void masks_do_not_depend_on_the_batch_on(kernel_device *on)
{
    static const int64_t lengths[] = {1, 3, 64, 65, 5000};
    static float together[15000], apart[5000];
    for (uint32_t i = 0; i < 5; i++) {
        drop_ones(on, 3, lengths[i], 2, 0.5, together);
        for (uint32_t sample = 0; sample < 3; sample++) {
            drop_ones(on, 1, lengths[i], 2 + sample, 0.5, apart);
            assert_memory_equal(together + (int64_t)sample * lengths[i], apart,
                                (size_t)lengths[i] * sizeof(float));
        }
    }
    assert_memory_not_equal(together, together + 5000, 5000 * sizeof(float));
}
/* verifies number-5.10ed */
TEST_ON_HOST(masks_do_not_depend_on_the_batch)

/* The embedding's forward and both its backwards drop the same elements as dropout itself. */
static void forward_and_backward_share_masks_on(kernel_device *on)
{
    enum { SAMPLES = 2, T = 5, C = 33, COUNT = SAMPLES * T * C };
    static float mask[COUNT], sum[T * C];
    drop_ones(on, SAMPLES, T * C, 0, 0.5, mask);
    bp_embedding_position_backward_scalars s = {SAMPLES * T, T, C, T, SITE, 0, 0.5};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_embedding_position_backward, &s, 1, 0);
    float *d_out = AT(&c, embedding_position_backward, d_out);
    for (uint32_t i = 0; i < COUNT; i++) {
        d_out[i] = 1.0f;
        sum[i % (T * C)] = (i < T * C ? 0.0f : sum[i % (T * C)]) + mask[i];
    }
    *(bp_step_block *)AT(&c, embedding_position_backward, step) = step_make(0);
    kernel_case_run(&c, on);
    assert_memory_equal(AT(&c, embedding_position_backward, d_wpe), sum, sizeof(sum));
    kernel_case_free(&c);
}
/* verifies number-5.10ed */
TEST_ON_HOST(forward_and_backward_share_masks)

/* With a residual, apart and on top of either operand. */
static void dropout_adds_the_residual_on(kernel_device *on)
{
    for (uint32_t variant = 0; variant < 3; variant++) {
        bp_dropout_scalars s = {9000, 4500, SITE, 0.3, 0};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_dropout, &s, 1, 0);
        if (variant != 0) {
            kernel_case_join(&c, OPERAND(dropout, y),
                             variant == 1 ? OPERAND(dropout, x) : OPERAND(dropout, residual));
        }
        float *x = AT(&c, dropout, x), *residual = AT(&c, dropout, residual);
        fill_normal(x, 9000, 1, 1.0);
        fill_normal(residual, 9000, 2, 1.0);
        *(bp_step_block *)AT(&c, dropout, step) = step_make(1);
        static double right[9000];
        for (uint32_t i = 0; i < 9000; i++) {
            right[i] = (double)residual[i] + (double)x[i] * factor(1 + i / 4500, i % 4500, 0.3);
        }
        kernel_case_run(&c, on);
        assert_close(AT(&c, dropout, y), right, 9000, 1e-7);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(dropout_adds_the_residual)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_agrees),
        cmocka_unit_test(decode_starts_at_the_position),
        cmocka_unit_test(token_backward_agrees),
        cmocka_unit_test(no_slices_clear_nothing),
        cmocka_unit_test(position_backward_agrees),
        cmocka_unit_test(dropout_keeps_the_right_share),
        cmocka_unit_test(masks_do_not_depend_on_the_batch),
        cmocka_unit_test(forward_and_backward_share_masks),
        cmocka_unit_test(dropout_adds_the_residual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
