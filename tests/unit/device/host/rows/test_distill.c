/* SPDX-License-Identifier: MIT */
/* The loss against a label and a teacher against PyTorch in float64 (tests/golden/distill.def), its
 * columns by themselves, and what a teacher says of a row. */
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

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))
#define ROWS                4
#define CLASSES             7
#define TOP                 3
#define TARGETS             3 /* rows with a label */

typedef struct loss_case {
    double alpha;
    double temperature;
    double losses[ROWS];
    double gradients[ROWS * CLASSES];
} loss_case;

#define LIST(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define LOGITS(...)
#define LABELS(...)
#define TOPS(...)
#define LOGPS(...)
#define LOSS(alpha, temperature, losses, gradients)                                                \
    {alpha, temperature, LIST losses, LIST gradients},
static const loss_case cases[] = {
#include "tests/golden/distill.def"
};
#undef LOGITS
#undef LABELS
#undef TOPS
#undef LOGPS
#undef LOSS
#define LOSS(alpha, temperature, losses, gradients)
#define LOGITS(...) static const float logits[ROWS * CLASSES] = {__VA_ARGS__};
#define LABELS(...) static const int32_t labels[ROWS] = {__VA_ARGS__};
#define TOPS(...)   static const int32_t tops[ROWS * TOP] = {__VA_ARGS__};
#define LOGPS(...)  static const double logps_read[ROWS * TOP] = {__VA_ARGS__};
#include "tests/golden/distill.def"

enum { CASES = sizeof cases / sizeof cases[0] };

static void fill_case(kernel_case *c, const loss_case *wanted, const kernel_device *on)
{
    const bp_distill_scalars s = {ROWS, CLASSES, CLASSES,       0,
                                  ROWS, TOP,     wanted->alpha, wanted->temperature};
    kernel_case_init(c, on->device, BP_KERNEL_distill, &s, 1, 0);
    *(bp_step_block *)AT(c, distill, step) = (bp_step_block){.inverse_valid = 1.0f / TARGETS};
    memcpy(AT(c, distill, logits), logits, sizeof logits);
    memcpy(AT(c, distill, labels), labels, sizeof labels);
    memcpy(AT(c, distill, tops), tops, sizeof tops);
    float *logps = AT(c, distill, logps);
    for (int i = 0; i < ROWS * TOP; i++) {
        logps[i] = (float)logps_read[i];
    }
}

static void losses_and_gradients_agree_on(kernel_device *on)
{
    for (int i = 0; i < CASES; i++) {
        kernel_case c;
        fill_case(&c, &cases[i], on);
        kernel_case_run(&c, on);
        assert_close_to(AT(&c, distill, losses), cases[i].losses, ROWS, 1e-6, 1.0);
        assert_close_to(AT(&c, distill, logits), cases[i].gradients, ROWS * CLASSES, 1e-6, 1.0);
        kernel_case_free(&c);
    }
}
/* verifies layers-34.5c43 */
TEST_ON_HOST(losses_and_gradients_agree)

/* Some columns by themselves, from what the whole left: the same bits. */
static void judge_columns(kernel_device *on, const loss_case *wanted, int first, int width)
{
    const bp_distill_columns_scalars part = {
        ROWS, width, width, first, 0, ROWS, TOP, wanted->alpha, wanted->temperature};
    const size_t bytes = (size_t)width * sizeof(float);
    kernel_case a, b;
    fill_case(&a, wanted, on);
    kernel_case_init(&b, on->device, BP_KERNEL_distill_columns, &part, 1, 0);
    kernel_case_run(&a, on);
    *(bp_step_block *)AT(&b, distill_columns, step) =
        (bp_step_block){.inverse_valid = 1.0f / TARGETS};
    memcpy(AT(&b, distill_columns, labels), labels, sizeof labels);
    memcpy(AT(&b, distill_columns, tops), tops, sizeof tops);
    memcpy(AT(&b, distill_columns, logps), AT(&a, distill, logps), ROWS * TOP * sizeof(float));
    memcpy(AT(&b, distill_columns, statistics), AT(&a, distill, statistics),
           3 * ROWS * sizeof(float));
    float *columns = AT(&b, distill_columns, logits);
    for (int r = 0; r < ROWS; r++) {
        memcpy(columns + width * r, logits + CLASSES * r + first, bytes);
    }
    kernel_case_run(&b, on);
    const float *all = AT(&a, distill, logits);
    for (int r = 0; r < ROWS; r++) {
        assert_memory_equal(columns + width * r, all + CLASSES * r + first, bytes);
    }
    kernel_case_free(&a);
    kernel_case_free(&b);
}

/* Each piece of the row: tokens of the label and the teacher lie in it, right beside, or far. */
static void columns_agree_on(kernel_device *on)
{
    for (int i = 0; i < CASES; i++) {
        for (int first = 0; first < CLASSES; first++) {
            for (int width = 1; first + width <= CLASSES; width++) {
                judge_columns(on, &cases[i], first, width);
            }
        }
    }
}
/* verifies layers-34.5c43 */
TEST_ON_HOST(columns_agree)

/* The k likeliest against a search of its own: rows with equal logits, on either side of the last
 * place too. */
static void judge_tops(kernel_device *on, int k)
{
    static const float equal[CLASSES] = {1.0f, 3.0f, 1.0f, 3.0f, 1.0f, 3.0f, 0.5f};
    const bp_top_logits_scalars s = {ROWS, CLASSES, CLASSES, k};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_top_logits, &s, 1, 0);
    float *all = AT(&c, top_logits, logits);
    memcpy(all, logits, sizeof logits);
    memcpy(all + 2 * CLASSES, equal, sizeof equal);
    kernel_case_run(&c, on);
    const int32_t *found = AT(&c, top_logits, tops);
    const float *logps = AT(&c, top_logits, logps);
    for (int r = 0; r < ROWS; r++) {
        const float *x = all + CLASSES * r;
        double sum = 0.0;
        for (int i = 0; i < CLASSES; i++) {
            sum += exp((double)x[i]);
        }
        for (int j = 0; j < k; j++) {
            const int32_t at = found[k * r + j];
            int before = 0;
            for (int i = 0; i < CLASSES; i++) {
                before += x[i] > x[at] || (!(x[i] < x[at]) && i < at) ? 1 : 0;
            }
            assert_int_equal(before, j);
            assert_true(fabs((double)logps[k * r + j] - ((double)x[at] - log(sum))) < 1e-6);
        }
    }
    kernel_case_free(&c);
}

static void tops_are_the_likeliest_on(kernel_device *on)
{
    for (int k = 1; k <= CLASSES; k++) {
        judge_tops(on, k);
    }
}
/* verifies layers-34.5c43 */
TEST_ON_HOST(tops_are_the_likeliest)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_agree),
        cmocka_unit_test(columns_agree),
        cmocka_unit_test(tops_are_the_likeliest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
