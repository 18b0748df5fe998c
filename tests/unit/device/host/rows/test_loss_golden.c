/* SPDX-License-Identifier: MIT */
/* Smoothed labels and weighted classes against transformers' LabelSmoother and PyTorch's
 * cross_entropy (tests/golden/smoothing.def). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/storage_format.h"
#include "core/ir/step.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))
#define ROWS                4
#define CLASSES             5
#define TARGETS             3 /* rows with a label */

typedef struct loss_case {
    int kind;
    double smoothing;
    double loss;
    double weights[CLASSES];
    double gradients[ROWS * CLASSES];
} loss_case;

#define LIST(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define LOGITS(...)
#define LABELS(...)
#define LOSS(kind, smoothing, loss, weights, gradients)                                            \
    {kind, smoothing, loss, LIST weights, LIST gradients},
static const loss_case cases[] = {
#include "tests/golden/smoothing.def"
};
#undef LOGITS
#undef LABELS
#undef LOSS
#define LOSS(kind, smoothing, loss, weights, gradients)
#define LOGITS(...) static const float logits[ROWS * CLASSES] = {__VA_ARGS__};
#define LABELS(...) static const int32_t labels[ROWS] = {__VA_ARGS__};
#include "tests/golden/smoothing.def"

enum { CASES = sizeof cases / sizeof cases[0] };

/* The mean of the losses, over what the targets weigh together. */
static void check_loss(const float *losses, const loss_case *wanted, double weight)
{
    double sum = 0.0;
    for (int r = 0; r < ROWS; r++) {
        sum += (double)losses[r];
    }
    if (fabs(sum / weight - wanted->loss) > 1e-6 * wanted->loss) {
        fail_msg("%.9g is not %.9g", sum / weight, wanted->loss);
    }
}

static void smoothed_labels_agree_on(kernel_device *on)
{
    for (int i = 0; i < CASES; i++) {
        const loss_case *wanted = &cases[i];
        if (wanted->kind != 0) {
            continue;
        }
        const bp_cross_entropy_scalars s = {ROWS, CLASSES, CLASSES, 0, ROWS, wanted->smoothing};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_cross_entropy, &s, 1, 0);
        *(bp_step_block *)AT(&c, cross_entropy, step) =
            (bp_step_block){.inverse_valid = 1.0f / TARGETS};
        memcpy(AT(&c, cross_entropy, logits), logits, sizeof logits);
        memcpy(AT(&c, cross_entropy, labels), labels, sizeof labels);
        kernel_case_run(&c, on);
        check_loss(AT(&c, cross_entropy, losses), wanted, TARGETS);
        assert_close_to(AT(&c, cross_entropy, logits), wanted->gradients, ROWS * CLASSES, 1e-6,
                        1.0);
        kernel_case_free(&c);
    }
}
/* verifies face-24.2c85 */
TEST_ON_HOST(smoothed_labels_agree)

/* Columns 1 .. 3 by themselves, from what the whole left. */
static void columns_agree_on(kernel_device *on)
{
    for (int i = 0; i < CASES; i++) {
        const loss_case *wanted = &cases[i];
        if (wanted->kind != 0) {
            continue;
        }
        const bp_cross_entropy_scalars whole = {ROWS, CLASSES, CLASSES, 0, ROWS, wanted->smoothing};
        const bp_cross_entropy_columns_scalars part = {ROWS, 3,    3,       1,
                                                       0,    ROWS, CLASSES, wanted->smoothing};
        kernel_case a, b;
        kernel_case_init(&a, on->device, BP_KERNEL_cross_entropy, &whole, 1, 0);
        kernel_case_init(&b, on->device, BP_KERNEL_cross_entropy_columns, &part, 1, 0);
        const bp_step_block step = {.inverse_valid = 1.0f / TARGETS};
        *(bp_step_block *)AT(&a, cross_entropy, step) = step;
        *(bp_step_block *)AT(&b, cross_entropy_columns, step) = step;
        memcpy(AT(&a, cross_entropy, logits), logits, sizeof logits);
        memcpy(AT(&a, cross_entropy, labels), labels, sizeof labels);
        memcpy(AT(&b, cross_entropy_columns, labels), labels, sizeof labels);
        kernel_case_run(&a, on);
        float *columns = AT(&b, cross_entropy_columns, logits);
        memcpy(AT(&b, cross_entropy_columns, statistics), AT(&a, cross_entropy, statistics),
               2 * ROWS * sizeof(float));
        for (int r = 0; r < ROWS; r++) {
            memcpy(columns + 3 * r, logits + CLASSES * r + 1, 3 * sizeof(float));
        }
        kernel_case_run(&b, on);
        const float *all = AT(&a, cross_entropy, logits);
        for (int r = 0; r < ROWS; r++) {
            assert_memory_equal(columns + 3 * r, all + CLASSES * r + 1, 3 * sizeof(float));
        }
        kernel_case_free(&a);
        kernel_case_free(&b);
    }
}
/* verifies face-24.2c85 */
TEST_ON_HOST(columns_agree)

static void weighted_classes_agree_on(kernel_device *on)
{
    for (int i = 0; i < CASES; i++) {
        const loss_case *wanted = &cases[i];
        double weight = 0.0;
        for (int r = 0; r < ROWS; r++) {
            weight += labels[r] >= 0 ? wanted->weights[labels[r]] : 0.0;
        }
        const bp_sample_loss_scalars s = {ROWS, 1, CLASSES,          BP_TASK_CLASSES,
                                          1,    0, wanted->smoothing};
        kernel_case c;
        /* Samples of a length, or rows that have none. */
        const uint32_t absent = i % 2 != 0 ? 1u << OPERAND(sample_loss, lengths) : 0;
        kernel_case_init(&c, on->device, BP_KERNEL_sample_loss, &s, 1, absent);
        *(bp_step_block *)AT(&c, sample_loss, step) =
            (bp_step_block){.inverse_valid = (float)(1.0 / weight)};
        memcpy(AT(&c, sample_loss, logits), logits, sizeof logits);
        memcpy(AT(&c, sample_loss, labels), labels, sizeof labels);
        for (int n = 0; n < CLASSES; n++) {
            ((float *)AT(&c, sample_loss, class_weights))[n] = (float)wanted->weights[n];
        }
        for (int r = 0; absent == 0 && r < ROWS; r++) {
            ((int32_t *)AT(&c, sample_loss, lengths))[r] = 1;
        }
        kernel_case_run(&c, on);
        check_loss(AT(&c, sample_loss, losses), wanted, weight);
        assert_close_to(AT(&c, sample_loss, logits), wanted->gradients, ROWS * CLASSES, 1e-6, 1.0);
        kernel_case_free(&c);
    }
}
/* verifies face-24.2c85 */
TEST_ON_HOST(weighted_classes_agree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smoothed_labels_agree),
        cmocka_unit_test(columns_agree),
        cmocka_unit_test(weighted_classes_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
