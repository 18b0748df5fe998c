/* SPDX-License-Identifier: MIT */
/* The end of a step: norm, decision, AdamW; and the kernels that only move bytes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/random.h"
#include "core/ir/step.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))

static void norm_sums_squares_per_chunk_on(kernel_device *on)
{
    static const bp_norm_partial_scalars list[] = {{1, 1}, {100, 30}, {17, 100}, {5000, 1024}};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_norm_partial, list, 4, 0);
    for (uint32_t i = 0; i < 4; i++) {
        fill_normal(kernel_case_at(&c, i, OPERAND(norm_partial, x)), (uint64_t)list[i].count, i,
                    1.0);
    }
    kernel_case_run(&c, on);
    for (uint32_t i = 0; i < 4; i++) {
        const float *x = kernel_case_at(&c, i, OPERAND(norm_partial, x));
        const double *partials = kernel_case_at(&c, i, OPERAND(norm_partial, partials));
        for (int64_t from = 0; from < list[i].count; from += list[i].chunk) {
            double sum = 0.0;
            for (int64_t j = from; j < from + list[i].chunk && j < list[i].count; j++) {
                sum += (double)x[j] * (double)x[j];
            }
            assert_true(fabs(partials[from / list[i].chunk] - sum) <= 1e-14 * sum);
        }
    }
    kernel_case_free(&c);
}
/* verifies device-3.0681 */
TEST_ON_HOST(norm_sums_squares_per_chunk)

/* Runs step_decide on sums that are all `each`. */
static void decide(kernel_case *c, kernel_device *on, double max_norm, double each, double loss)
{
    bp_step_decide_scalars s = {.partials = 4, .max_norm = max_norm, .beta1 = 0.9, .beta2 = 0.999};
    kernel_case_init(c, on->device, BP_KERNEL_step_decide, &s, 1,
                     UINT32_C(1) << OPERAND(step_decide, norms));
    double *sums = AT(c, step_decide, sums);
    for (int i = 0; i < 4; i++) {
        sums[i] = each;
    }
    *(bp_control_block *)AT(c, step_decide, control) =
        (bp_control_block){.applied = 2, .correction1 = 0.5, .correction2 = 0.25};
    *(bp_result_block *)AT(c, step_decide, result) = (bp_result_block){.loss_sum = loss};
    kernel_case_run(c, on);
}

/* verifies optim-5.f2a2 */
static void decision_clips_and_counts_on(kernel_device *on)
{
    static const double max_norms[] = {0.0, 1.0, 100.0};
    static const float clips[] = {1.0f, (float)(1.0 / (10.0 + 1e-6)), 1.0f};
    for (uint32_t i = 0; i < 3; i++) {
        kernel_case c;
        decide(&c, on, max_norms[i], 25.0, 3.0);
        const bp_control_block *control = AT(&c, step_decide, control);
        const bp_result_block *result = AT(&c, step_decide, result);
        assert_true(result->norm == 10.0f);
        assert_true(result->clip == clips[i] && control->clip == clips[i]);
        assert_int_equal(result->skip, 0);
        assert_int_equal(control->skip, 0);
        assert_int_equal(result->applied, 3);
        assert_int_equal(control->applied, 3);
        assert_true(fabs(control->correction1 - (1.0 - 0.9 * 0.9 * 0.9)) < 1e-15);
        assert_true(fabs(control->correction2 - (1.0 - 0.999 * 0.999 * 0.999)) < 1e-15);
        assert_true(result->loss_sum == 3.0);
        kernel_case_free(&c);
    }
}
/* verifies optim-5.f2a2 */
TEST_ON_HOST(decision_clips_and_counts)

/* verifies optim-5.f2a2 */
static void decision_skips_what_is_not_finite_on(kernel_device *on)
{
    static const double cases[][2] = {
        {(double)NAN, 1.0}, {(double)INFINITY, 1.0}, {1.0, (double)NAN}, {1.0, -(double)INFINITY}};
    for (uint32_t i = 0; i < 4; i++) {
        kernel_case c;
        decide(&c, on, 1.0, cases[i][0], cases[i][1]);
        const bp_control_block *control = AT(&c, step_decide, control);
        const bp_result_block *result = AT(&c, step_decide, result);
        assert_int_equal(control->skip, 1);
        assert_int_equal(result->skip, 1);
        assert_int_equal(control->applied, 2);
        assert_int_equal(result->applied, 2);
        assert_true(control->correction1 == 0.5 && control->correction2 == 0.25);
        kernel_case_free(&c);
    }
}
/* verifies optim-5.f2a2 */
TEST_ON_HOST(decision_skips_what_is_not_finite)

/* Clipped by the norm of the step before; the step's own is kept by its last decision alone, and
 * only where nothing is skipped. */
static void decision_clips_by_the_step_before_on(kernel_device *on)
{
    for (int64_t previous = 1; previous <= 2; previous++) {
        for (int later = 0; later < 2; later++) {
            for (int bad = 0; bad < 2; bad++) {
                bp_step_decide_scalars s = {.partials = 1,
                                            .max_norm = 2.0,
                                            .beta1 = 0.9,
                                            .beta2 = 0.999,
                                            .later = later,
                                            .previous = previous};
                kernel_case c;
                kernel_case_init(&c, on->device, BP_KERNEL_step_decide, &s, 1,
                                 UINT32_C(1) << OPERAND(step_decide, norms));
                *(double *)AT(&c, step_decide, sums) = bad != 0 ? (double)INFINITY : 9.0;
                *(bp_control_block *)AT(&c, step_decide, control) =
                    (bp_control_block){.norm = 8.0f, .clip = 0.5f};
                *(bp_result_block *)AT(&c, step_decide, result) =
                    (bp_result_block){.loss_sum = 1.0};
                kernel_case_run(&c, on);
                const bp_control_block *control = AT(&c, step_decide, control);
                double clip = later != 0 ? 0.5 : 2.0 / (8.0 + 1e-6);
                assert_true(fabs((double)control->clip - clip) <= 1e-7);
                assert_int_equal(control->skip, bad);
                assert_true(control->norm == (previous == 2 && bad == 0 ? 3.0f : 8.0f));
                kernel_case_free(&c);
            }
        }
    }
}
/* verifies optim-5.f2a2 */
TEST_ON_HOST(decision_clips_by_the_step_before)

/* 130 steps of growing and shrinking norms against a sorted copy of the last hundred; a step that
 * is skipped leaves no norm. */
static void decision_clips_at_a_percentile_on(kernel_device *on)
{
    bp_step_decide_scalars s = {.partials = 1, .beta1 = 0.9, .beta2 = 0.999, .percentile = 90};
    float norms[BP_NORM_HISTORY] = {0.0f}, kept[BP_NORM_HISTORY] = {0.0f};
    uint64_t applied = 0;
    for (uint32_t t = 0; t < 130; t++) {
        kernel_case c;
        bool bad = t % 7 == 3;
        double norm = 1.0 + (double)(t * 37 % 101);
        kernel_case_init(&c, on->device, BP_KERNEL_step_decide, &s, 1, 0);
        *(double *)AT(&c, step_decide, sums) = bad ? (double)NAN : norm * norm;
        *(bp_control_block *)AT(&c, step_decide, control) = (bp_control_block){.applied = applied};
        *(bp_result_block *)AT(&c, step_decide, result) = (bp_result_block){.loss_sum = 1.0};
        memcpy(AT(&c, step_decide, norms), norms, sizeof norms);
        kernel_case_run(&c, on);
        memcpy(norms, AT(&c, step_decide, norms), sizeof norms);
        const bp_control_block *control = AT(&c, step_decide, control);
        if (bad) {
            assert_memory_equal(norms, kept, sizeof kept);
        } else {
            for (uint32_t i = 0; i < BP_NORM_HISTORY; i++) {
                kept[i] = applied == 0 || i == applied % 100 ? (float)norm : kept[i];
            }
            uint32_t below = 0, equal = 0; /* of what the clip factor says is the percentile */
            double found = (double)control->clip * norm;
            for (uint32_t i = 0; i < BP_NORM_HISTORY; i++) {
                below += (double)kept[i] < found * (1.0 - 1e-6);
                equal += fabs((double)kept[i] - found) <= 1e-6 * found;
            }
            assert_memory_equal(norms, kept, sizeof kept);
            assert_true(control->clip == 1.0f ? below <= 90 : below <= 90 && below + equal > 90);
        }
        applied = control->applied;
        kernel_case_free(&c);
    }
    assert_int_equal(applied, 111);
}
/* verifies optim-5.f2a2 */
TEST_ON_HOST(decision_clips_at_a_percentile)

typedef struct adamw_right {
    double weight;
    double m;
    double v;
} adamw_right;

/* torch.optim.AdamW in double. */
static adamw_right adamw_step(const bp_adamw_scalars *s, const bp_control_block *control, double lr,
                              adamw_right at, double gradient)
{
    double g = gradient * (double)control->clip;
    at.weight *= 1.0 - lr * s->decay;
    at.m = s->beta1 * at.m + (1.0 - s->beta1) * g;
    at.v = s->beta2 * at.v + (1.0 - s->beta2) * g * g;
    double below = sqrt(at.v) / sqrt(control->correction2) + s->epsilon;
    at.weight -= lr / control->correction1 * at.m / below;
    return at;
}

static void fill_adamw(kernel_case *c, const bp_adamw_scalars *list,
                       const bp_control_block *control)
{
    for (uint32_t i = 0; i < c->tuples; i++) {
        uint64_t count = (uint64_t)list[i].count;
        float *v = kernel_case_at(c, i, OPERAND(adamw, state2));
        fill_normal(kernel_case_at(c, i, OPERAND(adamw, weight)), count, 4 * i, 1.0);
        fill_normal(kernel_case_at(c, i, OPERAND(adamw, state1)), count, 4 * i + 1, 0.1);
        fill_normal(kernel_case_at(c, i, OPERAND(adamw, gradient)), count, 4 * i + 2, 1.0);
        fill_normal(v, count, 4 * i + 3, 0.1);
        for (uint64_t j = 0; j < count; j++) {
            v[j] = fabsf(v[j]);
        }
        memcpy(kernel_case_at(c, i, OPERAND(adamw, control)), control, sizeof(*control));
        *(bp_step_block *)kernel_case_at(c, i, OPERAND(adamw, step)) =
            (bp_step_block){.learning_rate = 0.01f};
    }
}

static void check_adamw(const kernel_case *c, const kernel_case *start, uint32_t tuple,
                        const bp_adamw_scalars *s, const bp_control_block *control)
{
    const uint32_t operands[] = {OPERAND(adamw, weight), OPERAND(adamw, state1),
                                 OPERAND(adamw, state2)};
    const float *got[3], *before[3];
    for (int i = 0; i < 3; i++) {
        got[i] = kernel_case_at(c, tuple, operands[i]);
        before[i] = kernel_case_at(start, tuple, operands[i]);
    }
    const float *gradient = kernel_case_at(start, tuple, OPERAND(adamw, gradient));
    double lr = (double)0.01f * s->rate_scale;
    for (int64_t j = 0; j < s->count; j++) {
        adamw_right at = {(double)before[0][j], (double)before[1][j], (double)before[2][j]};
        at = adamw_step(s, control, lr, at, (double)gradient[j]);
        assert_close_to(got[0] + j, &at.weight, 1, 5e-7, 0.1);
        assert_close_to(got[1] + j, &at.m, 1, 5e-7, 0.1);
        assert_close_to(got[2] + j, &at.v, 1, 5e-7, 0.1);
    }
}

static void adamw_agrees_over_a_list_on(kernel_device *on)
{
    static const bp_adamw_scalars list[] = {{.count = 1,
                                             .beta1 = 0.9,
                                             .beta2 = 0.999,
                                             .epsilon = 1e-8,
                                             .decay = 0.0,
                                             .rate_scale = 1.0},
                                            {.count = 4097,
                                             .beta1 = 0.9,
                                             .beta2 = 0.999,
                                             .epsilon = 1e-8,
                                             .decay = 0.1,
                                             .rate_scale = 1.0},
                                            {.count = 33,
                                             .beta1 = 0.8,
                                             .beta2 = 0.95,
                                             .epsilon = 1e-6,
                                             .decay = 0.01,
                                             .rate_scale = 0.5},
                                            {.count = 9000,
                                             .beta1 = 0.0,
                                             .beta2 = 0.9,
                                             .epsilon = 1e-8,
                                             .decay = 0.0,
                                             .rate_scale = 1.0}};
    const uint32_t absent =
        1u << OPERAND(adamw, master) | 1u << OPERAND(adamw, state3) | 1u << OPERAND(adamw, trust);
    bp_control_block control = {
        .applied = 3, .clip = 0.5f, .correction1 = 0.271, .correction2 = 0.003};
    for (control.skip = 0; control.skip < 2; control.skip++) {
        kernel_case c, start;
        kernel_case_init(&c, on->device, BP_KERNEL_adamw, list, 4, absent);
        kernel_case_init(&start, on->device, BP_KERNEL_adamw, list, 4, absent);
        fill_adamw(&c, list, &control);
        fill_adamw(&start, list, &control);
        kernel_case_run(&c, on);
        if (control.skip != 0) {
            assert_memory_equal(c.image, start.image, c.image_bytes);
        }
        for (uint32_t i = 0; control.skip == 0 && i < 4; i++) {
            check_adamw(&c, &start, i, &list[i], &control);
        }
        kernel_case_free(&c);
        kernel_case_free(&start);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(adamw_agrees_over_a_list)

/* The slow average of AdEMAMix after one step from nothing: of betas that are 0 there is no
 * logarithm, and beta3 is taken as it is. */
static float slow_average(kernel_device *on, double beta1, double beta3)
{
    const bp_ademamix_scalars s = {.count = 1,
                                   .rate_scale = 1.0,
                                   .beta1 = beta1,
                                   .beta2 = 0.999,
                                   .beta3 = beta3,
                                   .epsilon = 1e-8,
                                   .alpha = 5.0,
                                   .t_beta3 = 60.0};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_ademamix, &s, 1,
                     1u << OPERAND(ademamix, master) | 1u << OPERAND(ademamix, trust));
    *(float *)AT(&c, ademamix, gradient) = 2.0f;
    *(bp_control_block *)AT(&c, ademamix, control) =
        (bp_control_block){.applied = 30, .clip = 1.0f, .correction1 = 1.0, .correction2 = 1.0};
    *(bp_step_block *)AT(&c, ademamix, step) = (bp_step_block){.learning_rate = 0.01f};
    kernel_case_run(&c, on);
    const float average = *(float *)AT(&c, ademamix, state2);
    kernel_case_free(&c);
    return average;
}

static void betas_may_be_zero_on(kernel_device *on)
{
    assert_true(fabs((double)slow_average(on, 0.0, 0.75) - 0.5) < 1e-6);
    assert_true(slow_average(on, 0.9, 0.0) == 2.0f);
    assert_true(slow_average(on, 0.5, 0.75) > 0.5f); /* half way between */
}
/* verifies device-3.0681 */
TEST_ON_HOST(betas_may_be_zero)

/* What has no length has no ratio, and what has no norm is not clipped. */
static void lengths_may_be_zero_on(kernel_device *on)
{
    static const struct {
        double weight, update;
        float trust;
    } rows[] = {{4.0, 1.0, 4.0f}, {4.0, 0.0, 1.0f}, {0.0, 1.0, 1.0f}, {0.0, 0.0, 1.0f}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bp_trust_ratio_scalars s = {.pairs = 1, .coefficient = 2.0};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_trust_ratio, &s, 1, 0);
        ((double *)AT(&c, trust_ratio, partials))[0] = rows[i].weight;
        ((double *)AT(&c, trust_ratio, partials))[1] = rows[i].update;
        kernel_case_run(&c, on);
        assert_true(*(float *)AT(&c, trust_ratio, trust) == rows[i].trust);
        kernel_case_free(&c);
    }
    const bp_step_decide_scalars s = {
        .partials = 1, .beta1 = 0.9, .beta2 = 0.999, .percentile = 90};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_step_decide, &s, 1, 0);
    memset(AT(&c, step_decide, norms), 0, BP_NORM_HISTORY * sizeof(float));
    *(double *)AT(&c, step_decide, sums) = 0.0;
    *(bp_control_block *)AT(&c, step_decide, control) = (bp_control_block){.applied = 0};
    *(bp_result_block *)AT(&c, step_decide, result) = (bp_result_block){.loss_sum = 1.0};
    kernel_case_run(&c, on);
    assert_true(((bp_control_block *)AT(&c, step_decide, control))->clip == 1.0f);
    kernel_case_free(&c);
}
/* verifies device-3.0681 */
TEST_ON_HOST(lengths_may_be_zero)

/* Every element by its own number, whatever the runs that tasks are cut into. */
static void random_normal_draws_by_number_on(kernel_device *on)
{
    static const int64_t counts[] = {1, 2, 4095, 4096, 4097, 12289};
    for (uint32_t i = 0; i < 6; i++) {
        bp_random_normal_scalars s = {.count = counts[i], .stream = 7, .deviation = 0.02};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_random_normal, &s, 1, 0);
        *(bp_step_block *)AT(&c, random_normal, step) = (bp_step_block){.seed = 99};
        kernel_case_run(&c, on);
        const float *y = AT(&c, random_normal, y);
        for (int64_t j = 0; j < s.count; j++) {
            assert_true(y[j] == (float)(0.02 * bp_random_normal(99, 7, (uint64_t)j)));
        }
        kernel_case_free(&c);
    }
}
/* verifies number-5.10ed */
TEST_ON_HOST(random_normal_draws_by_number)

static void copy_copies_on(kernel_device *on)
{
    static const int64_t counts[] = {1, 4096, 4097, 20000};
    for (uint32_t i = 0; i < 4; i++) {
        bp_copy_scalars s = {counts[i]};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_copy, &s, 1, 0);
        fill_normal(AT(&c, copy, x), (uint64_t)s.count, 1, 1.0);
        kernel_case_run(&c, on);
        assert_memory_equal(AT(&c, copy, x), AT(&c, copy, y), (size_t)s.count * 4);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(copy_copies)

static void pick_row_takes_the_named_row_on(kernel_device *on)
{
    bp_pick_row_scalars s = {5, 7};
    for (uint32_t row = 0; row < 6; row++) {
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_pick_row, &s, 1, 0);
        float *x = AT(&c, pick_row, x);
        fill_normal(x, 35, 1, 1.0);
        *(bp_step_block *)AT(&c, pick_row, step) = (bp_step_block){.last_row = row};
        kernel_case_run(&c, on);
        assert_memory_equal(AT(&c, pick_row, y), x + (row < 5 ? row : 4) * 7, 28);
        kernel_case_free(&c);
    }
}
/* verifies device-3.0681 */
TEST_ON_HOST(pick_row_takes_the_named_row)

static void poison_fills_with_signalling_nans_on(kernel_device *on)
{
    static const int64_t counts[] = {4, 16384, 16388, 70000};
    for (uint32_t i = 0; i < 4; i++) {
        bp_poison_scalars s = {counts[i]};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_poison, &s, 1, 0);
        kernel_case_run(&c, on);
        const uint32_t *y = AT(&c, poison, y);
        for (int64_t j = 0; j < s.count / 4; j++) {
            assert_int_equal(y[j], UINT32_C(0x7fa00000));
        }
        kernel_case_free(&c);
    }
}
TEST_ON_HOST(poison_fills_with_signalling_nans)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_sums_squares_per_chunk),
        cmocka_unit_test(decision_clips_and_counts),
        cmocka_unit_test(decision_skips_what_is_not_finite),
        cmocka_unit_test(decision_clips_at_a_percentile),
        cmocka_unit_test(betas_may_be_zero),
        cmocka_unit_test(lengths_may_be_zero),
        cmocka_unit_test(decision_clips_by_the_step_before),
        cmocka_unit_test(adamw_agrees_over_a_list),
        cmocka_unit_test(random_normal_draws_by_number),
        cmocka_unit_test(copy_copies),
        cmocka_unit_test(pick_row_takes_the_named_row),
        cmocka_unit_test(poison_fills_with_signalling_nans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
