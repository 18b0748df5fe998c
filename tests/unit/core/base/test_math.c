/* SPDX-License-Identifier: MIT */
/* Our elementary functions against the C library's double ones: errors in units in the last place.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/math.h"
#include "core/base/math_inline.h"

/* Distance of got from right, in units in the last place of a float near right. */
static double float_error(float got, double right)
{
    int exponent;
    if ((double)got == right || (isinf(got) && fabs(right) > 3.4028235e38)) {
        return 0.0;
    }
    frexp(right, &exponent);
    double unit = ldexp(1.0, exponent - 24 < -149 ? -149 : exponent - 24);
    return fabs((double)got - right) / unit;
}

static double double_error(double got, long double right)
{
    int exponent;
    if (got == (double)right) {
        return 0.0;
    }
    frexpl(right, &exponent);
    int unit = exponent - 53 < -1074 ? -1074 : exponent - 53;
    return (double)(fabsl((long double)got - right) / ldexpl(1.0L, unit));
}

/* The largest error of f over every 1009th float of both signs whose magnitude is in [low, high].
 */
static double worst(float (*f)(float), double (*right)(double), float low, float high)
{
    double most = 0.0;
    for (uint32_t bits = bp_float_bits(low); bits <= bp_float_bits(high); bits += 1009) {
        float x = bp_float_from_bits(bits);
        double error = float_error(f(x), right((double)x));
        double mirrored = float_error(f(-x), right(-(double)x));
        error = mirrored > error ? mirrored : error;
        most = error > most ? error : most;
    }
    return most;
}

/* verifies number-4.6b56 */
static void expf_is_within_one_unit(void **state)
{
    (void)state;
    double error = worst(bp_expf, exp, 0x1p-40f, 88.7f);
    print_message("expf: %.3f ulp\n", error);
    assert_true(error < 1.0);
    /* subnormal results too */
    for (float x = -87.0f; x > -104.0f; x -= 0x1p-9f) {
        assert_true(float_error(bp_expf(x), exp((double)x)) < 1.0);
    }
}

/* verifies number-4.6b56 */
static void expf_handles_the_ends(void **state)
{
    (void)state;
    assert_true(bp_expf(0.0f) == 1.0f);
    assert_true(bp_expf(-0.0f) == 1.0f);
    assert_true(bp_expf(-INFINITY) == 0.0f);
    assert_true(bp_expf(-104.0f) == 0.0f);
    assert_true(isinf(bp_expf(INFINITY)));
    assert_true(isinf(bp_expf(88.73f)));
    assert_true(isfinite(bp_expf(88.72f)));
    assert_true(isnan(bp_expf(NAN)));
}

/* verifies number-4.6b56 */
static void logf_is_within_one_unit(void **state)
{
    (void)state;
    double most = 0.0;
    for (uint32_t bits = 1; bits < UINT32_C(0x7f800000); bits += 2003) {
        float x = bp_float_from_bits(bits);
        double error = float_error(bp_logf(x), log((double)x));
        most = error > most ? error : most;
    }
    print_message("logf: %.3f ulp\n", most);
    assert_true(most < 0.51);
    assert_true(isinf(bp_logf(0.0f)) && bp_logf(0.0f) < 0.0f);
    assert_true(isinf(bp_logf(INFINITY)));
    assert_true(isnan(bp_logf(-1.0f)));
    assert_true(isnan(bp_logf(NAN)));
    assert_true(bp_logf(1.0f) == 0.0f);
}

/* verifies number-4.6b56 */
static void erff_is_within_two_and_a_half_units(void **state)
{
    (void)state;
    double error = worst(bp_erff, erf, 0x1p-120f, 30.0f);
    print_message("erff: %.3f ulp\n", error);
    assert_true(error < 2.5);
    assert_true(bp_erff(INFINITY) == 1.0f);
    assert_true(bp_erff(-INFINITY) == -1.0f);
    assert_true(isnan(bp_erff(NAN)));
    assert_true(bp_float_bits(bp_erff(-0.0f)) == UINT32_C(0x80000000));
}

/* verifies number-4.6b56 */
static void tanhf_is_within_two_and_a_half_units(void **state)
{
    (void)state;
    double error = worst(bp_tanhf, tanh, 0x1p-149f, 30.0f);
    print_message("tanhf: %.3f ulp\n", error);
    assert_true(error < 2.5);
    assert_true(bp_tanhf(INFINITY) == 1.0f);
    assert_true(bp_tanhf(-INFINITY) == -1.0f);
    assert_true(isnan(bp_tanhf(NAN)));
    assert_true(bp_float_bits(bp_tanhf(-0.0f)) == UINT32_C(0x80000000));
}

static double gelu_right(double x)
{
    double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return x / (1.0 + exp(-2.0 * u));
}

static double gelu_slope_right(double x)
{
    double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    double slope = 0.79788456080286535588 * (1.0 + 3.0 * 0.044715 * x * x);
    double t = tanh(u);
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope;
}

/* verifies number-14.cf2b */
static void gelu_is_close(void **state)
{
    (void)state;
    for (double x = -12.0; x < 12.0; x += 0.00037) {
        float f = (float)x;
        double right = gelu_right((double)f);
        assert_true(fabs((double)bp_gelu_inline(f) - right) <= 3e-7 * fabs(right) + 1e-8);
        double slope = gelu_slope_right((double)f);
        assert_true(fabs((double)bp_gelu_slope_inline(f) - slope) <= 1e-6);
    }
    assert_true(bp_gelu_inline(1e30f) == 1e30f);
    assert_true(bp_gelu_inline(-1e30f) == 0.0f);
    assert_true(bp_gelu_slope_inline(1e30f) == 1.0f);
    assert_true(fabsf(bp_gelu_slope_inline(-1e30f)) < 1e-30f);
    assert_true(isnan(bp_gelu_inline(NAN)));
    assert_true(isnan(bp_gelu_slope_inline(NAN)));
}

/* verifies number-4.6b56 */
static void double_exp_and_log_are_within_one_unit(void **state)
{
    (void)state;
    double most_exp = 0.0, most_log = 0.0;
    for (double x = -745.0; x < 709.7; x += 0.01713) {
        double error = double_error(bp_exp(x), expl((long double)x));
        most_exp = error > most_exp ? error : most_exp;
    }
    for (double x = 5e-324; x < 1e308; x *= 1.0173) {
        double error = double_error(bp_log(x), logl((long double)x));
        most_log = error > most_log ? error : most_log;
        x = x < 1e-320 ? 2.0 * x : x;
    }
    for (double x = 0.5; x < 2.0; x += 0.000173) {
        double error = double_error(bp_log(x), logl((long double)x));
        most_log = error > most_log ? error : most_log;
    }
    print_message("exp: %.3f ulp, log: %.3f ulp\n", most_exp, most_log);
    assert_true(most_exp < 1.0);
    assert_true(most_log < 0.6);
    assert_true(bp_exp(-800.0) == 0.0);
    assert_true(isinf(bp_exp(1000.0)));
    assert_true(isnan(bp_exp((double)NAN)));
    assert_true(isinf(bp_log(0.0)) && bp_log(0.0) < 0.0);
    assert_true(isinf(bp_log((double)INFINITY)));
    assert_true(isnan(bp_log(-1.0)));
    assert_true(isnan(bp_log((double)NAN)));
}

/* verifies number-14.cf2b */
static void sin_and_cos_are_close(void **state)
{
    (void)state;
    double most = 0.0;
    for (double x = -1048576.0; x < 1048576.0; x += 17.3171) {
        double sin_error = (double)fabsl((long double)bp_sin(x) - sinl((long double)x));
        double cos_error = (double)fabsl((long double)bp_cos(x) - cosl((long double)x));
        most = sin_error > most ? sin_error : most;
        most = cos_error > most ? cos_error : most;
    }
    for (double x = -7.0; x < 7.0; x += 0.00071) {
        double sin_error = (double)fabsl((long double)bp_sin(x) - sinl((long double)x));
        double cos_error = (double)fabsl((long double)bp_cos(x) - cosl((long double)x));
        most = sin_error > most ? sin_error : most;
        most = cos_error > most ? cos_error : most;
    }
    print_message("sin, cos: %.3g absolute\n", most);
    assert_true(most < 1.7e-16);
}

/* verifies number-14.cf2b */
static void pow_is_close(void **state)
{
    (void)state;
    double most = 0.0;
    for (double base = 0.001; base < 100.0; base *= 1.37) {
        for (double e = -40.0; e < 40.0; e += 0.773) {
            long double right = powl((long double)base, (long double)e);
            double error = double_error(bp_pow(base, e), right);
            most = error > most ? error : most;
        }
    }
    print_message("pow: %.3f ulp\n", most);
    assert_true(most < 2.0);
    assert_true(bp_pow(2.0, 10.0) == 1024.0);
    assert_true(bp_pow(0.5, 0.0) == 1.0);
}

/* verifies number-14.cf2b */
static void powi_multiplies_in_order(void **state)
{
    (void)state;
    assert_true(bp_powi(0.9, 0) == 1.0);
    assert_true(bp_powi(0.9, 1) == 0.9);
    assert_true(bp_powi(3.0, 13) == 1594323.0);
    assert_true(bp_powi(0.999, UINT64_MAX) == 0.0);
    double right = pow(0.999, 12345.0);
    assert_true(fabs(bp_powi(0.999, 12345) - right) < 1e-12 * right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expf_is_within_one_unit),
        cmocka_unit_test(expf_handles_the_ends),
        cmocka_unit_test(logf_is_within_one_unit),
        cmocka_unit_test(erff_is_within_two_and_a_half_units),
        cmocka_unit_test(tanhf_is_within_two_and_a_half_units),
        cmocka_unit_test(gelu_is_close),
        cmocka_unit_test(double_exp_and_log_are_within_one_unit),
        cmocka_unit_test(sin_and_cos_are_close),
        cmocka_unit_test(pow_is_close),
        cmocka_unit_test(powi_multiplies_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
