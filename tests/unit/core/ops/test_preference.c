/* SPDX-License-Identifier: MIT */
/* Losses over pairs: known answers, derivatives against differences, and their ends. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/math.h"
#include "core/ops/preference.h"
#include "core/ir/step.h"

static bp_preference_row row_of(double sum, double reference, uint64_t count, int32_t side)
{
    return (bp_preference_row){
        .sum = sum, .reference = reference, .count = count, .all_count = count, .side = side};
}

static double loss_of(bp_preference_kind kind, double beta, double gamma,
                      const bp_preference_row *a, const bp_preference_row *b)
{
    const bp_preference_numbers numbers = {kind, beta, 0.0, gamma, {1.0, 1.0}};
    return bp_preference_pair(&numbers, 0.0, a, b).loss;
}

/* By hand: log-probabilities -12 and -20 of 4 and 5 tokens, the reference's -13 and -18. */
/* verifies layers-10.33a6 */
static void known_answers(void **state)
{
    (void)state;
    const bp_preference_row a = row_of(-12.0, -13.0, 4, BP_SIDE_CHOSEN);
    const bp_preference_row b = row_of(-20.0, -18.0, 5, BP_SIDE_REJECTED);
    assert_true(fabs(loss_of(BP_PREFERENCE_SIGMOID, 0.1, 0, &a, &b) - 0.5543552444685) < 1e-12);
    assert_true(fabs(loss_of(BP_PREFERENCE_HINGE, 0.1, 0, &a, &b) - 0.7) < 1e-12);
    assert_true(fabs(loss_of(BP_PREFERENCE_IPO, 0.1, 0, &a, &b) - 18.9225) < 1e-12);
    const bp_preference_row c = row_of(-3.0, 0.0, 1, BP_SIDE_CHOSEN);
    const bp_preference_row d = row_of(-4.0, 0.0, 1, BP_SIDE_REJECTED);
    assert_true(fabs(loss_of(BP_PREFERENCE_ORPO, 0.1, 0, &c, &d) - 0.0304602418) < 1e-10);
    assert_true(fabs(loss_of(BP_PREFERENCE_SIMPO, 2.0, 1.0, &c, &d) - 0.3132616875) < 1e-10);
}

/* verifies layers-10.33a6 */
static void slopes_are_differences(void **state)
{
    (void)state;
    for (int kind = 1; kind < BP_PREFERENCES; kind++) {
        for (int side = BP_SIDE_CHOSEN; side <= BP_SIDE_REJECTED; side++) {
            const bp_preference_numbers numbers = {kind, 0.7, 0.2, 0.4, {1.3, 0.6}};
            const int32_t first = kind == BP_PREFERENCE_KTO ? side : BP_SIDE_CHOSEN;
            bp_preference_row rows[2] = {row_of(-9.0, -10.5, 3, first),
                                         row_of(-8.0, -7.0, 4, BP_SIDE_REJECTED)};
            const bp_preference_terms t = bp_preference_pair(&numbers, 0.3, &rows[0], &rows[1]);
            assert_true(t.there);
            for (int i = 0; i < 2; i++) {
                const double h = 1e-5, at = rows[i].sum;
                rows[i].sum = at + h;
                const double up = bp_preference_pair(&numbers, 0.3, &rows[0], &rows[1]).loss;
                rows[i].sum = at - h;
                const double down = bp_preference_pair(&numbers, 0.3, &rows[0], &rows[1]).loss;
                rows[i].sum = at;
                assert_true(fabs((up - down) / (2.0 * h) - t.slope[i]) < 1e-8);
            }
        }
    }
}

/* Very sure rows give finite losses; a pair that lacks an answer gives nothing. */
/* verifies number-17.2009 */
static void ends(void **state)
{
    (void)state;
    for (int kind = 1; kind < BP_PREFERENCES; kind++) {
        const bp_preference_numbers numbers = {kind, 0.5, 0.0, 0.5, {1.0, 1.0}};
        const bp_preference_row sure = row_of(0.0, 0.0, 2, BP_SIDE_CHOSEN);
        const bp_preference_row never = row_of(-1e6, 0.0, 2, BP_SIDE_REJECTED);
        const bp_preference_row none = row_of(-1.0, 0.0, 0, BP_SIDE_REJECTED);
        const bp_preference_row wrong = row_of(-1e6, 0.0, 2, BP_SIDE_CHOSEN);
        bp_preference_terms t = bp_preference_pair(&numbers, 0.0, &sure, &never);
        assert_true(isfinite(t.loss) && isfinite(t.slope[0]) && isfinite(t.slope[1]));
        t = bp_preference_pair(&numbers, 0.0, &wrong, &sure);
        assert_true(isfinite(t.loss) && isfinite(t.slope[0]) && isfinite(t.slope[1]));
        t = bp_preference_pair(&numbers, 0.0, &none, &never);
        assert_false(t.there);
        assert_true(t.loss == 0.0 && t.slope[0] == 0.0);
        t = bp_preference_pair(&numbers, 0.0, &sure, &none);
        assert_true(t.there == (kind == BP_PREFERENCE_KTO));
    }
}

/* A row that is of neither side, or of the other, is not there; KTO takes a rejected one alone. */
/* verifies number-17.2009 */
static void sides(void **state)
{
    (void)state;
    for (int kind = 1; kind < BP_PREFERENCES; kind++) {
        const bp_preference_numbers numbers = {kind, 0.5, 0.0, 0.5, {1.0, 1.0}};
        const bp_preference_row b = row_of(-2.0, 0.0, 2, BP_SIDE_REJECTED);
        for (int32_t side = 0; side <= BP_SIDE_MISMATCHED; side++) {
            const bp_preference_row a = row_of(-1.0, 0.0, 2, side);
            const bool alone = kind == BP_PREFERENCE_KTO && side == BP_SIDE_REJECTED;
            const bool there = side == BP_SIDE_CHOSEN || alone;
            assert_true(bp_preference_pair(&numbers, 0.0, &a, &b).there == there);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(slopes_are_differences),
        cmocka_unit_test(ends),
        cmocka_unit_test(sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
