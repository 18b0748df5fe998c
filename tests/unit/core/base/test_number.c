/* SPDX-License-Identifier: MIT */
/* Decimal numbers against strtod in the C locale. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/number.h"

static bp_status parse(const char *text, bp_number *number)
{
    return bp_number_parse(text, strlen(text), number);
}

static void check(const char *text)
{
    bp_number number;
    bp_status status = parse(text, &number);
    double wanted = strtod(text, NULL);
    if (isinf(wanted)) {
        assert_int_equal(status, BP_ERR_OVERFLOW);
        return;
    }
    assert_int_equal(status, BP_OK);
    uint64_t a;
    uint64_t b;
    memcpy(&a, &number.real, 8);
    memcpy(&b, &wanted, 8);
    if (a != b) {
        fail_msg("%s: %a, should be %a", text, number.real, wanted);
    }
}

/* verifies file-3.4e34 */
static void rounds_as_strtod(void **state)
{
    (void)state;
    static const char *const hard[] = {
        "0.0",
        "-0.0",
        "1",
        "0.1",
        "1e22",
        "1e23",
        "1e-22",
        "8.5e-5",
        "9007199254740993",
        "9007199254740992.5",
        "2.2250738585072011e-308",
        "2.2250738585072012e-308",
        "4.9406564584124654e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1e-323",
        "2e-324",
        "1e-343",
        "9999999999999999999e-343",
        "1e-344",
        "1e-4000",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "1e308",
        "1e309",
        "1e4000",
        "123456789012345678901234567890",
        "0.000000000000000000000000000123",
        "17976931348623157000000000000000000e274",
        "0e999999999999999999999",
        "0.00e-5",
        "5708990770823839524e274",
        "3.0e-2",
        "100000000000000000000000",
        "1e99999999999999999999",
        "1e-99999999999999999999",
    };
    for (size_t i = 0; i < sizeof hard / sizeof hard[0]; i++) {
        check(hard[i]);
    }
}

/* verifies file-3.4e34 */
static void rounds_random_numbers_as_strtod(void **state)
{
    (void)state;
    uint64_t bits = 88172645463325252u;
    char text[64];
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        double value;
        memcpy(&value, &bits, 8);
        if (isfinite(value)) {
            snprintf(text, sizeof text, "%.17g", value);
            char *plus = strstr(text, "inf");
            assert_null(plus);
            check(text);
        }
        snprintf(text, sizeof text, "%llu.%lluE%d", (unsigned long long)(bits >> 48),
                 (unsigned long long)(bits & 0xffffffffffu), (int)(bits % 700) - 350);
        check(text);
    }
}

/* verifies file-3.4e34 */
static void knows_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool integer;
        int64_t value;
    } rows[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"42", true, 42},
        {"-42", true, -42},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"-9223372036854775808", true, INT64_MIN},
        {"-9223372036854775809", false, 0},
        {"92233720368547758070", false, 0},
        {"1.0", false, 0},
        {"1e2", false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_number number;
        assert_int_equal(parse(rows[i].text, &number), BP_OK);
        assert_int_equal(number.integer, rows[i].integer);
        assert_true(number.i64 == rows[i].value);
        assert_int_equal(number.negative, rows[i].text[0] == '-');
    }
}

/* verifies file-1.7ade */
static void refuses_what_is_no_number(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",     "-",    "+1",  "01",  "1.",   ".1", "1e",  "1e+",
                                        "1e-",  "0x1",  "nan", "inf", "1 ",   " 1", "1,5", "--1",
                                        "1..2", "1e5.", "00",  "-.5", "1.e1", "e1", "0.",  "0e"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        bp_number number;
        assert_int_equal(parse(wrong[i], &number), BP_ERR_DATA);
    }
}

/* verifies file-1.7ade */
static void whole_numbers_are_within_their_bounds(void **state)
{
    (void)state;
    const double none = 0.0;
    const double wrong[] = {1e300, -1e300,      -1.0,       0.5, 9.000001,
                            10.0,  none / none, 1.0 / none, -0.1};
    int64_t value = 7;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(bp_number_whole(wrong[i], 0, 9, &value));
        assert_int_equal(value, 7);
    }
    for (int64_t right = -3; right <= 9; right++) {
        assert_true(bp_number_whole((double)right, -3, 9, &value));
        assert_int_equal(value, right);
    }
    assert_true(bp_number_whole(9007199254740992.0, 0, 9007199254740992.0, &value));
    assert_true(value == INT64_C(9007199254740992));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_as_strtod),
        cmocka_unit_test(rounds_random_numbers_as_strtod),
        cmocka_unit_test(knows_integers),
        cmocka_unit_test(refuses_what_is_no_number),
        cmocka_unit_test(whole_numbers_are_within_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
