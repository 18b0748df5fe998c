/* SPDX-License-Identifier: MIT */
/* Saturating sizes: every pair of values at the ends against 128-bit arithmetic done by halves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "arena/base.h"

static const uint64_t ends[] = {0,
                                1,
                                2,
                                3,
                                7,
                                255,
                                256,
                                UINT64_C(0xffffffff),
                                UINT64_C(0x100000000),
                                UINT64_C(0x100000001),
                                UINT64_MAX / 3,
                                UINT64_MAX / 2,
                                UINT64_MAX / 2 + 1,
                                UINT64_MAX - 2,
                                UINT64_MAX - 1,
                                UINT64_MAX};

enum { ENDS = sizeof ends / sizeof ends[0] };

/* The high half of a product, by 32-bit parts. */
static uint64_t high_half(uint64_t a, uint64_t b)
{
    const uint64_t mask = UINT64_C(0xffffffff);
    const uint64_t low = (a & mask) * (b & mask);
    const uint64_t first = (a >> 32) * (b & mask) + (low >> 32);
    const uint64_t second = (a & mask) * (b >> 32) + (first & mask);
    return (a >> 32) * (b >> 32) + (first >> 32) + (second >> 32);
}

static void each_pair(void (*act)(uint64_t a, uint64_t b))
{
    for (int i = 0; i < ENDS; i++) {
        for (int k = 0; k < ENDS; k++) {
            act(ends[i], ends[k]);
        }
    }
}

static void act_sums(uint64_t a, uint64_t b)
{
    const bool over = a + b < a; /* goes round */
    assert_true(bp_size_add(a, b) == (over ? BP_SIZE_INVALID : a + b));
    const bool none = a == BP_SIZE_INVALID || b > a;
    assert_true(bp_size_sub(a, b) == (none ? BP_SIZE_INVALID : a - b));
}

static void act_products(uint64_t a, uint64_t b)
{
    const bool invalid = a == BP_SIZE_INVALID || b == BP_SIZE_INVALID || high_half(a, b) != 0;
    assert_true(bp_size_mul(a, b) == (invalid ? BP_SIZE_INVALID : a * b));
    const uint64_t quotient = bp_size_ceil_div(a, b);
    if (a == BP_SIZE_INVALID || b == BP_SIZE_INVALID || b == 0) {
        assert_true(quotient == BP_SIZE_INVALID);
    } else { /* the least that covers: quotient * b >= a > (quotient - 1) * b */
        assert_true(high_half(quotient, b) > 0 || quotient * b >= a);
        assert_true(quotient == 0 ? a == 0
                                  : high_half(quotient - 1, b) == 0 && (quotient - 1) * b < a);
    }
}

/* verifies arena-5.8205 */
static void sums_saturate(void **state)
{
    (void)state;
    each_pair(act_sums);
}

/* verifies arena-5.8205 */
static void products_saturate(void **state)
{
    (void)state;
    each_pair(act_products);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_saturate),
        cmocka_unit_test(products_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
