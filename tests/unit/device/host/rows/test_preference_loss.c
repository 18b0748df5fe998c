/* SPDX-License-Identifier: MIT */
/* The loss over pairs of rows as a kernel: pairs that lack a completion or a chosen row count
 * nowhere. The numbers are tests/unit/core/ops/test_preference.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/math.h"
#include "core/ops/preference.h"
#include "core/ir/step.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))

enum { TOKENS = 3, WORDS = 3, PAIRS = 2 };

/* Two rows, of the first of which token 0 is the prompt. */
typedef struct pair {
    int32_t side[2];
    int32_t labels[2][TOKENS];
    float reference[2];
} pair;

typedef struct outcome {
    double loss;
    float told[BP_METRIC_NUMBERS];
    float weights[PAIRS * 2 * TOKENS];
} outcome;

static outcome loss_of(kernel_device *on, int64_t kind, const pair *list, int64_t pairs)
{
    static const float losses[TOKENS] = {0.5f, 1.0f, 0.25f};
    const bp_preference_loss_scalars s = {.batch = 2 * pairs,
                                          .sequence = TOKENS,
                                          .kind = kind,
                                          .beta = 0.5,
                                          .nll = kind == BP_PREFERENCE_KTO ? 0.0 : 1.0,
                                          .desirable = 1.0,
                                          .undesirable = 1.0};
    outcome o = {.loss = 0.0};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_preference_loss, &s, 1, 0);
    for (int64_t row = 0; row < 2 * pairs; row++) {
        const pair *p = &list[row / 2];
        int32_t *sides = (int32_t *)AT(&c, preference_loss, sides) + row * WORDS;
        sides[0] = p->side[row % 2];
        memcpy(&sides[1], &p->reference[row % 2], sizeof(float));
        sides[2] = 1;
        memcpy((int32_t *)AT(&c, preference_loss, labels) + row * TOKENS, p->labels[row % 2],
               sizeof p->labels[0]);
        memcpy((float *)AT(&c, preference_loss, losses) + row * TOKENS, losses, sizeof losses);
    }
    kernel_case_run(&c, on);
    bp_result_block *result = AT(&c, preference_loss, result);
    o.loss = result->loss_sum;
    memcpy(o.told, BP_PREFERENCE_METRICS(result), sizeof o.told);
    memcpy(o.weights, AT(&c, preference_loss, weights), (size_t)pairs * 2 * TOKENS * sizeof(float));
    kernel_case_free(&c);
    return o;
}

/* The whole pair beside another has the loss, and its rows the weights, that it has alone; the
 * other's rows have none. */
static void judge(kernel_device *on, int64_t kind, const pair *whole, const pair *other)
{
    const outcome alone = loss_of(on, kind, whole, 1);
    assert_true(alone.loss > 0.0);
    for (int first = 0; first < 2; first++) {
        const pair list[PAIRS] = {first == 0 ? *whole : *other, first == 0 ? *other : *whole};
        const outcome both = loss_of(on, kind, list, PAIRS);
        assert_true(both.loss == alone.loss);
        assert_memory_equal(both.told, alone.told, sizeof both.told);
        assert_memory_equal(both.weights + first * 2 * TOKENS, alone.weights,
                            2 * TOKENS * sizeof(float));
        for (int i = 0; i < 2 * TOKENS; i++) {
            assert_true(both.weights[(1 - first) * 2 * TOKENS + i] == 0.0f);
        }
    }
}

static void what_lacks_a_row_counts_nowhere_on(kernel_device *on)
{
    static const pair whole = {
        {BP_SIDE_CHOSEN, BP_SIDE_REJECTED}, {{1, 2, 3}, {1, 2, -1}}, {-1.0f, -2.0f}};
    static const pair others[] = {
        {{BP_SIDE_CHOSEN, BP_SIDE_REJECTED}, {{1, 2, -1}, {1, -1, -1}}, {-1.0f, -2.0f}},
        {{BP_SIDE_CHOSEN, BP_SIDE_REJECTED}, {{1, -1, -1}, {1, 2, 3}}, {-1.0f, -2.0f}},
        {{BP_SIDE_REJECTED, BP_SIDE_REJECTED}, {{1, 2, -1}, {1, 2, 3}}, {-1.0f, -2.0f}}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        judge(on, BP_PREFERENCE_ORPO, &whole, &others[i]);
        judge(on, BP_PREFERENCE_SIGMOID, &whole, &others[i]);
    }
    /* KTO's z is the mean over mismatched rows that have a completion. */
    static const pair single = {
        {BP_SIDE_CHOSEN, BP_SIDE_MISMATCHED}, {{1, 2, 3}, {1, 2, 3}}, {-1.0f, -5.0f}};
    static const pair nothing = {
        {BP_SIDE_CHOSEN, BP_SIDE_MISMATCHED}, {{1, -1, -1}, {1, -1, -1}}, {-1.0f, -9.0f}};
    judge(on, BP_PREFERENCE_KTO, &single, &nothing);
}
/* verifies layers-10.33a6 */
TEST_ON_HOST(what_lacks_a_row_counts_nowhere)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_lacks_a_row_counts_nowhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
