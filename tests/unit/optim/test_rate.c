/* SPDX-License-Identifier: MIT */
/* Learning-rate schedules against the values of transformers 5.23 (peak 3e-3, 4 steps of warm-up,
 * 17 steps in all; LambdaLR over get_*_schedule), and at their edges. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "optim/rate.h"

static void assert_near(double found, double wanted)
{
    if (fabs(found - wanted) > 1e-15) {
        fail_msg("%.17g is not %.17g", found, wanted);
    }
}

static void check(bp_rate rate, const bp_rate_options *options, const double *wanted, size_t count)
{
    for (size_t step = 0; step < count; step++) {
        assert_near(rate(options, step), wanted[step]);
    }
}

static const bp_rate_options usual = {
    .learning_rate = 3e-3, .warmup_steps = 4, .total_steps = 17, .decay_steps = 6};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* verifies optim-4.eab5 */
static void test_constant(void **state)
{
    (void)state;
    const double wanted[] = {0.0, 7.5e-4, 1.5e-3, 2.25e-3, 3e-3, 3e-3, 3e-3};
    check(bp_rate_constant, &usual, wanted, COUNT(wanted));
    const bp_rate_options cold = {.learning_rate = 0.5};
    assert_near(bp_rate_constant(&cold, 0), 0.5);
}

/* verifies optim-4.eab5 */
static void test_linear(void **state)
{
    (void)state;
    const double wanted[] = {0.0,
                             7.5e-4,
                             1.5e-3,
                             2.25e-3,
                             3e-3,
                             0.0027692307692307695,
                             0.0025384615384615385,
                             0.0023076923076923079,
                             0.0020769230769230769,
                             0.0018461538461538463,
                             0.0016153846153846153,
                             0.0013846153846153847,
                             0.001153846153846154,
                             0.00092307692307692316,
                             0.00069230769230769237,
                             0.00046153846153846158,
                             0.00023076923076923079,
                             0.0,
                             0.0};
    check(bp_rate_linear, &usual, wanted, COUNT(wanted));
    const bp_rate_options cold = {.learning_rate = 3e-3, .total_steps = 5};
    const double wanted_cold[] = {3e-3, 2.4e-3, 1.8e-3, 1.2e-3, 6e-4, 0.0};
    check(bp_rate_linear, &cold, wanted_cold, COUNT(wanted_cold));
    /* A minimum is where the line ends. */
    const bp_rate_options floor = {.learning_rate = 3e-3, .minimum = 1e-3, .total_steps = 5};
    assert_near(bp_rate_linear(&floor, 0), 3e-3);
    assert_near(bp_rate_linear(&floor, 2), 2.2e-3);
    assert_near(bp_rate_linear(&floor, 9), 1e-3);
}

/* verifies optim-4.eab5 */
static void test_cosine(void **state)
{
    (void)state;
    const double wanted[] = {0.0,
                             7.5e-4,
                             1.5e-3,
                             2.25e-3,
                             3e-3,
                             0.002956412726139078,
                             0.0028281840384798149,
                             0.0026227661222566518,
                             0.0023520971200967338,
                             0.0020319073305638032,
                             0.0016808050203829844,
                             0.0013191949796170156,
                             0.00096809266943619651,
                             0.00064790287990326646,
                             0.0003772338777433482,
                             0.0001718159615201853,
                             4.3587273860921985e-05,
                             0.0};
    check(bp_rate_cosine, &usual, wanted, COUNT(wanted));
    /* Past the end it stays down; warm-up as long as the run leaves no room for a decay. */
    assert_near(bp_rate_cosine(&usual, 40), 0.0);
    const bp_rate_options warm = {.learning_rate = 1.0, .warmup_steps = 9, .total_steps = 4};
    assert_near(bp_rate_cosine(&warm, 3), 3.0 / 9.0);
    assert_near(bp_rate_cosine(&warm, 9), 0.0);
}

/* Each of the cycles has the rates of the first one, to the last bit: where the parts of the way
 * are exact, so is what is left of it. */
/* verifies optim-4.eab5 */
static void test_cosine_with_restarts(void **state)
{
    (void)state;
    const bp_rate_options four = {.learning_rate = 1.0, .total_steps = 64, .cycles = 4.0};
    for (uint64_t step = 16; step < 64; step++) {
        assert_true(bp_rate_cosine_with_restarts(&four, step) ==
                    bp_rate_cosine_with_restarts(&four, step - 16));
    }
    assert_near(bp_rate_cosine_with_restarts(&four, 40), 0.5);
    assert_near(bp_rate_cosine_with_restarts(&four, 64), 0.0);
}

/* transformers' get_inverse_sqrt_schedule: 1 / sqrt((step + t - warmup) / t), t the steps of
 * warmup, or 10,000 where there are none. */
/* verifies optim-4.eab5 */
static void test_inverse_sqrt(void **state)
{
    (void)state;
    const bp_rate_options none = {.learning_rate = 1.0},
                          one = {.learning_rate = 1.0, .warmup_steps = 1};
    assert_true(bp_rate_inverse_sqrt(&none, 30000) == 0.5);
    assert_true(bp_rate_inverse_sqrt(&one, 4) == 0.5);
    assert_true(bp_rate_inverse_sqrt(&one, 1) == 1.0);
}

/* verifies optim-4.eab5 */
static void test_warmup_stable_decay(void **state)
{
    (void)state;
    bp_rate_options options = usual;
    options.minimum = 3e-4;
    const double wanted[] = {3e-4,
                             9.75e-4,
                             1.65e-3,
                             2.325e-3,
                             3e-3,
                             3e-3,
                             3e-3,
                             3e-3,
                             3e-3,
                             3e-3,
                             3e-3,
                             3e-3,
                             0.0028191342951089924,
                             2.325e-3,
                             1.65e-3,
                             0.00097500000000000039,
                             0.00048086570489100773,
                             3e-4,
                             3e-4};
    check(bp_rate_warmup_stable_decay, &options, wanted, COUNT(wanted));
    /* By itself the last phase is a tenth. */
    const bp_rate_options tenth = {.learning_rate = 1.0, .total_steps = 100};
    assert_near(bp_rate_warmup_stable_decay(&tenth, 90), 1.0);
    assert_near(bp_rate_warmup_stable_decay(&tenth, 95), 0.5);
    /* A last phase longer than the run, and one that warm-up runs into. */
    const bp_rate_options all = {.learning_rate = 1.0, .total_steps = 10, .decay_steps = 20};
    assert_near(bp_rate_warmup_stable_decay(&all, 10), 0.5);
    const bp_rate_options late = {
        .learning_rate = 1.0, .warmup_steps = 8, .total_steps = 10, .decay_steps = 4};
    assert_near(bp_rate_warmup_stable_decay(&late, 8), 1.0);
    assert_near(bp_rate_warmup_stable_decay(&late, 10), 0.5);
}

static void test_names(void **state)
{
    (void)state;
    assert_ptr_equal(bp_rate_find("constant"), bp_rate_constant);
    assert_ptr_equal(bp_rate_find("constant_with_warmup"), bp_rate_constant);
    assert_ptr_equal(bp_rate_find("linear"), bp_rate_linear);
    assert_ptr_equal(bp_rate_find("cosine"), bp_rate_cosine);
    assert_ptr_equal(bp_rate_find("warmup-stable-decay"), bp_rate_warmup_stable_decay);
    assert_null(bp_rate_find("cosin"));
    assert_null(bp_rate_find("linears"));
    assert_null(bp_rate_find(""));
    uint32_t count = 0;
    while (bp_rate_name(count) != NULL) {
        assert_non_null(bp_rate_find(bp_rate_name(count)));
        count++;
    }
    assert_int_equal(count, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant),     cmocka_unit_test(test_linear),
        cmocka_unit_test(test_cosine),       cmocka_unit_test(test_cosine_with_restarts),
        cmocka_unit_test(test_inverse_sqrt), cmocka_unit_test(test_warmup_stable_decay),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
