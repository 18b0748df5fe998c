/* SPDX-License-Identifier: MIT */
/* The rows of magnitudes against plain loops in double, on every form. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/quantised.h"
#include "device/host/isa_table.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random.h"

#define SEEDS           30
#define AT(c, row, arg) kernel_case_at((c), 0, OPERAND(row, arg))

static double weight_of(const kernel_case *c, const bp_weight_norms_scalars *s, uint64_t r,
                        uint64_t i)
{
    kernel_case *w = (kernel_case *)(uintptr_t)c;
    const uint64_t columns = (uint64_t)s->columns, rows = (uint64_t)s->rows;
    const uint64_t at = s->transposed != 0 ? i * rows + r : r * columns + i;
    if (s->form == BP_QUANTISED_NONE) {
        const float *plain = AT(w, weight_norms, weight);
        return (double)plain[at];
    }
    const bp_quantised_matrix codes = {.form = s->form,
                                       .columns = columns,
                                       .codes = AT(w, weight_norms, codes),
                                       .scales = AT(w, weight_norms, scales),
                                       .nested = AT(w, weight_norms, nested)};
    return (double)bp_quantised_value(&codes, at);
}

static void norms_are_lengths_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_weight_norms, seed);
        kernel_case_run(&c, on);
        const bp_weight_norms_scalars *s = (const void *)c.scalars;
        const float *a = AT(&c, weight_norms, a), *b = AT(&c, weight_norms, b);
        const float *norms = AT(&c, weight_norms, norms);
        for (int64_t r = 0; r < s->rows; r++) {
            double sum = 0.0;
            for (int64_t i = 0; i < s->columns; i++) {
                double v = weight_of(&c, s, (uint64_t)r, (uint64_t)i);
                for (int64_t k = 0; k < s->rank; k++) {
                    v += s->factor * (double)b[r * s->rank + k] * (double)a[k * s->columns + i];
                }
                sum += v * v;
            }
            assert_true(fabs((double)norms[r] - sqrt(sum)) <= 1e-5 * sqrt(sum) + 1e-6);
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(norms_are_lengths)

static void apply_scales_columns_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_magnitude_apply, seed);
        const bp_magnitude_apply_scalars *s = (const void *)c.scalars;
        float *norms = AT(&c, magnitude_apply, norms);
        norms[s->n / 2] = 0.0f;
        kernel_case_run(&c, on);
        const float *x = AT(&c, magnitude_apply, x), *m = AT(&c, magnitude_apply, magnitude);
        const float *y = AT(&c, magnitude_apply, y), *bias = AT(&c, magnitude_apply, bias);
        const float *residual = AT(&c, magnitude_apply, residual);
        norms = AT(&c, magnitude_apply, norms);
        for (int64_t r = 0; r < s->rows; r++) {
            for (int64_t i = 0; i < s->n; i++) {
                const double quotient = i == s->n / 2 ? 0.0 : (double)m[i] / (double)norms[i];
                const double part = (quotient - s->less) * (double)x[r * s->x_pitch + i];
                double want = part + (bias != NULL ? (double)bias[i] : 0.0);
                want += residual != NULL ? (double)residual[r * s->pitch + i] : 0.0;
                const double scale = fabs(quotient) * fabs((double)x[r * s->x_pitch + i]) + 10.0;
                assert_true(fabs((double)y[r * s->pitch + i] - want) <= 1e-6 * scale);
            }
        }
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(apply_scales_columns)

static void backward_adds_rows_on(kernel_device *on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case c;
        kernel_random_case(&c, on->device, BP_KERNEL_magnitude_backward, seed);
        const bp_magnitude_backward_scalars *s = (const void *)c.scalars;
        float *norms = AT(&c, magnitude_backward, norms);
        norms[0] = 0.0f;
        float *before = malloc((size_t)s->n * sizeof *before);
        memcpy(before, AT(&c, magnitude_backward, d_magnitude), (size_t)s->n * sizeof *before);
        kernel_case_run(&c, on);
        const float *d_y = AT(&c, magnitude_backward, d_y), *x = AT(&c, magnitude_backward, x);
        const float *d_m = AT(&c, magnitude_backward, d_magnitude);
        norms = AT(&c, magnitude_backward, norms);
        for (int64_t i = 0; i < s->n; i++) {
            double want = s->accumulate != 0 ? (double)before[i] : 0.0, scale = 1.0;
            for (int64_t r = 0; r < s->rows && i > 0; r++) {
                const double term = (double)d_y[r * s->pitch + i] * (double)x[r * s->n + i];
                want += term / (double)norms[i];
                scale += fabs(term / (double)norms[i]);
            }
            assert_true(fabs((double)d_m[i] - want) <= 1e-5 * scale);
        }
        free(before);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(backward_adds_rows)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(norms_are_lengths),
                                       cmocka_unit_test(apply_scales_columns),
                                       cmocka_unit_test(backward_adds_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
