/* SPDX-License-Identifier: MIT */
/* Learning-rate schedules against the values of transformers (tests/golden/rates.def). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "optim/rate.h"

typedef struct rate_case {
    const char *name;
    bp_rate_options options;
    const double *rates;
    size_t count;
} rate_case;

#define LIST(...) ((const double[]){__VA_ARGS__})
#define RATE(name_, peak, warmup, steps, cycles_, power_, end, scale, ...)                         \
    {.name = (name_),                                                                              \
     .options = {.learning_rate = (peak),                                                          \
                 .minimum = (end),                                                                 \
                 .warmup_steps = (warmup),                                                         \
                 .total_steps = (steps),                                                           \
                 .cycles = (cycles_),                                                              \
                 .power = (power_),                                                                \
                 .timescale = (scale)},                                                            \
     .rates = LIST(__VA_ARGS__),                                                                   \
     .count = sizeof LIST(__VA_ARGS__) / sizeof(double)},

static const rate_case cases[] = {
#include "tests/golden/rates.def"
};

/* verifies optim-4.eab5 */
static void test_cases(void **state)
{
    (void)state;
    size_t count = sizeof cases / sizeof cases[0];
    assert_int_equal(count, 11);
    for (size_t i = 0; i < count; i++) {
        bp_rate rate = bp_rate_find(cases[i].name);
        assert_non_null(rate);
        assert_int_equal(cases[i].count, cases[i].options.total_steps + 1);
        for (size_t step = 0; step < cases[i].count; step++) {
            const double found = rate(&cases[i].options, step);
            if (!(fabs(found - cases[i].rates[step]) <= 1e-15)) {
                fail_msg("%s %zu, step %zu: %.17g is not %.17g", cases[i].name, i, step, found,
                         cases[i].rates[step]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
