/* SPDX-License-Identifier: MIT */
/* Element types: names, sizes, and every 16-bit float both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "core/base/dtype.h"

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* verifies number-18.d59d */
static void names_go_both_ways(void **state)
{
    (void)state;
    static const size_t bytes[BP_DTYPE_COUNT] = {4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1};
    for (int i = 0; i < BP_DTYPE_COUNT; i++) {
        const char *name = bp_dtype_name((bp_dtype)i);
        bp_dtype back;
        assert_true(bp_dtype_parse(name, strlen(name), &back));
        assert_int_equal(back, i);
        assert_int_equal(bp_dtype_bytes((bp_dtype)i), bytes[i]);
    }
    assert_string_equal(bp_dtype_name(BP_BF16), "BF16");
}

/* verifies number-18.d59d */
static void unknown_types_have_no_name_and_no_size(void **state)
{
    (void)state;
    bp_dtype back;
    assert_string_equal(bp_dtype_name(BP_DTYPE_COUNT), "?");
    assert_int_equal(bp_dtype_bytes(BP_DTYPE_COUNT), 0);
    assert_string_equal(bp_dtype_name((bp_dtype)-1), "?");
    assert_int_equal(bp_dtype_bytes((bp_dtype)-1), 0);
    assert_false(bp_dtype_parse("F3", 2, &back));
    assert_false(bp_dtype_parse("F3X", 3, &back));
    assert_false(bp_dtype_parse("F8_E4M3", 7, &back));
    assert_false(bp_dtype_parse("", 0, &back));
}

/* verifies number-3.4e56 */
static void bf16_is_the_upper_half(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = bp_f32_from_bf16((uint16_t)bits);
        assert_int_equal(bits_of(value), bits << 16);
        uint16_t back = bp_bf16_from_f32(value);
        if (isnan(value)) {
            assert_true(isnan(bp_f32_from_bf16(back)));
        } else {
            assert_int_equal(back, bits);
        }
    }
}

/* verifies number-3.4e56 */
static void bf16_rounds_half_away_from_zero(void **state)
{
    (void)state;
    assert_int_equal(bp_bf16_from_f32(float_of(0x3f808000)), 0x3f81); /* even would stay */
    assert_int_equal(bp_bf16_from_f32(float_of(0x3f807fff)), 0x3f80);
    assert_int_equal(bp_bf16_from_f32(float_of(0xbf808000)), 0xbf81);
    assert_int_equal(bp_bf16_from_f32(float_of(0x7f7fffff)), 0x7f80); /* up to infinity */
    assert_true(isnan(bp_f32_from_bf16(bp_bf16_from_f32(float_of(0x7fffffff)))));
    assert_true(isnan(bp_f32_from_bf16(bp_bf16_from_f32(float_of(0x7f800001)))));
}

/* Both neighbours of every value, the half between them, and a hair to both sides of it. */
/* verifies number-3.4e56 */
static void bf16_rounds_to_nearest_even_when_asked(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x7f80; bits++) {
        uint32_t half = bits << 16 | 0x8000;
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            uint32_t below = sign | bits, tie = sign << 16 | half;
            assert_int_equal(bp_bf16_even_from_f32(float_of(tie - 0x8000)), below);
            assert_int_equal(bp_bf16_even_from_f32(float_of(tie - 1)), below);
            assert_int_equal(bp_bf16_even_from_f32(float_of(tie)), below + (bits & 1));
            assert_int_equal(bp_bf16_even_from_f32(float_of(tie + 1)), below + 1);
            assert_int_equal(bp_bf16_even_from_f32(float_of(tie + 0x7fff)), below + 1);
        }
    }
    assert_int_equal(bp_bf16_even_from_f32(-INFINITY), 0xff80);
    assert_int_equal(bp_bf16_even_from_f32(float_of(0x7f800001)), 0x7fc0); /* no infinity */
    assert_int_equal(bp_bf16_even_from_f32(float_of(0xffffffff)), 0xffff); /* no zero */
}

/* verifies number-3.4e56 */
static void every_f16_comes_back(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = bp_f32_from_f16((uint16_t)bits);
        uint32_t exponent = bits >> 10 & 31;
        uint32_t fraction = bits & 1023;
        float wanted = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                       : exponent == 0 ? ldexpf((float)fraction, -24)
                                       : ldexpf((float)(1024 + fraction), (int)exponent - 25);
        wanted = (bits & 0x8000) != 0 ? -wanted : wanted;
        if (isnan(wanted)) {
            assert_true(isnan(value) && (bits_of(value) & 0x400000) != 0);
            assert_true(isnan(bp_f32_from_f16(bp_f16_from_f32(value))));
        } else {
            assert_int_equal(bits_of(value), bits_of(wanted));
            assert_int_equal(bp_f16_from_f32(value), bits);
        }
    }
}

/* The nearest of all finite f16 values by search, ties to even, infinity from 65520 up. */
static uint16_t nearest_f16(float value)
{
    float magnitude = fabsf(value);
    uint32_t low = 0;
    uint32_t high = 0x7c00; /* stands for 65536 here */
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        float there = bp_f32_from_f16((uint16_t)middle);
        low = there <= magnitude ? middle : low;
        high = there <= magnitude ? high : middle;
    }
    double above = high == 0x7c00 ? 65536.0 : (double)bp_f32_from_f16((uint16_t)high);
    double below = (double)bp_f32_from_f16((uint16_t)low);
    double to_above = above - (double)magnitude;
    double to_below = (double)magnitude - below;
    uint32_t best = to_above < to_below || (to_above == to_below && low % 2 != 0) ? high : low;
    return (uint16_t)(best | (signbit(value) ? 0x8000u : 0u));
}

/* verifies number-3.4e56 */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    /* Halves between neighbours, and a hair to both sides of them. */
    for (uint32_t bits = 0; bits < 0x7c00; bits++) {
        float low = bp_f32_from_f16((uint16_t)bits);
        float high = bits == 0x7bff ? 65536.0f : bp_f32_from_f16((uint16_t)(bits + 1));
        uint32_t half = bits_of(low + (high - low) / 2);
        for (uint32_t probe = half - 1; probe <= half + 1; probe++) {
            float value = float_of(probe);
            assert_int_equal(bp_f16_from_f32(value), nearest_f16(value));
            assert_int_equal(bp_f16_from_f32(-value), nearest_f16(-value));
        }
    }
    assert_int_equal(bp_f16_from_f32(1e30f), 0x7c00);
    assert_int_equal(bp_f16_from_f32(-INFINITY), 0xfc00);
    assert_int_equal(bp_f16_from_f32(1e-30f), 0);
    assert_int_equal(bp_f16_from_f32(-NAN) & 0x7fff, 0x7e00);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_go_both_ways),
        cmocka_unit_test(unknown_types_have_no_name_and_no_size),
        cmocka_unit_test(bf16_is_the_upper_half),
        cmocka_unit_test(bf16_rounds_half_away_from_zero),
        cmocka_unit_test(bf16_rounds_to_nearest_even_when_asked),
        cmocka_unit_test(every_f16_comes_back),
        cmocka_unit_test(f16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
