/* SPDX-License-Identifier: MIT */
/* Arrays of elements between types, against the functions for one element. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/convert.h"
#include "core/ops/master.h"
#include "tests/fixtures/share.h"

enum { COUNT = 4096 };

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool finite(uint32_t bits)
{
    return (bits & 0x7f800000u) != 0x7f800000u;
}

/* Every pattern of 16 bits, in arrays that begin at odd addresses. */
/* verifies number-3.4e56 */
static void every_half_is_widened(void **state)
{
    (void)state;
    static uint8_t room[2 * 65536 + 1];
    static float wide[65536];
    for (uint32_t i = 0; i < 65536; i++) {
        const uint16_t bits = (uint16_t)i;
        memcpy(room + 1 + 2 * i, &bits, 2);
    }
    assert_true(bp_elements_convert(BP_F16, room + 1, BP_F32, wide, 65536));
    for (uint32_t i = 0; i < 65536; i++) {
        assert_true(bits_of(wide[i]) == bits_of(bp_f32_from_f16((uint16_t)i)));
    }
    assert_true(bp_elements_convert(BP_BF16, room + 1, BP_F32, wide, 65536));
    for (uint32_t i = 0; i < 65536; i++) {
        assert_true(bits_of(wide[i]) == bits_of(bp_f32_from_bf16((uint16_t)i)));
    }
}

static uint16_t narrowed(bp_dtype to, float value)
{
    return to == BP_F16 ? bp_f16_from_f32(value) : bp_bf16_from_f32(value);
}

/* Patterns of 32 bits: all of them, every 29th, or every 251st, in arrays of odd lengths. */
/* verifies number-3.4e56 */
static void every_single_is_narrowed(void **state)
{
    (void)state;
    static const bp_dtype types[] = {BP_F16, BP_BF16};
    static float values[COUNT], rounded[COUNT];
    static uint16_t out[COUNT];
    const uint32_t stride = share_of(1, 29, 251);
    for (uint64_t first = 0, n = 0; first < UINT64_C(1) << 32; n++) {
        const uint32_t count = COUNT - (uint32_t)(n % 19);
        for (uint32_t i = 0; i < count; i++) {
            values[i] = float_of((uint32_t)(first + (uint64_t)i * stride));
        }
        for (int t = 0; t < 2; t++) {
            const uint32_t infinity = types[t] == BP_F16 ? 0x7c00u : 0x7f80u;
            bool kept = true;
            uint32_t wrong = 0;
            bool all = bp_elements_convert(BP_F32, values, types[t], out, count);
            for (uint32_t i = 0; i < count; i++) {
                const uint16_t right = narrowed(types[t], values[i]);
                wrong += out[i] != right;
                kept = kept && ((right & 0x7fffu) != infinity || !finite(bits_of(values[i])));
            }
            memcpy(rounded, values, sizeof rounded);
            bp_elements_round(types[t], rounded, count);
            for (uint32_t i = 0; i < count; i++) {
                const float right =
                    types[t] == BP_F16 ? bp_f32_from_f16(out[i]) : bp_f32_from_bf16(out[i]);
                wrong += bits_of(rounded[i]) != bits_of(right);
            }
            assert_int_equal(wrong, 0);
            assert_true(all == kept);
        }
        first += (uint64_t)count * stride;
    }
}

/* verifies number-3.4e56 */
static void one_narrow_type_becomes_the_other(void **state)
{
    (void)state;
    static uint16_t in[65536], out[65536];
    static const bp_dtype types[] = {BP_F16, BP_BF16};
    for (uint32_t i = 0; i < 65536; i++) {
        in[i] = (uint16_t)i;
    }
    for (int t = 0; t < 2; t++) {
        assert_true(bp_elements_convert(types[t], in, types[1 - t], out, 1000));
        assert_true(bp_elements_convert(types[t], in, types[1 - t], out, 65536) ==
                    (types[t] == BP_F16)); /* bf16 has values that f16 has not */
        for (uint32_t i = 0; i < 65536; i++) {
            const float value =
                types[t] == BP_F16 ? bp_f32_from_f16((uint16_t)i) : bp_f32_from_bf16((uint16_t)i);
            assert_int_equal(out[i], narrowed(types[1 - t], value));
        }
        assert_true(bp_elements_convert(types[t], in, types[t], out, 65536));
        assert_memory_equal(in, out, sizeof in);
    }
}

/* One bad element at any place is found, and no good one is taken for it. */
static void what_is_not_finite_is_found(void **state)
{
    (void)state;
    static const struct {
        bp_dtype dtype;
        uint32_t good, bad[2];
    } rows[] = {{BP_F32, 0xff7fffffu, {0x7f800000u, 0xffc00001u}},
                {BP_BF16, 0xff7fu, {0x7f80u, 0xff81u}},
                {BP_F16, 0xfbffu, {0xfc00u, 0x7c01u}}};
    for (int r = 0; r < 3; r++) {
        const size_t width = bp_dtype_bytes(rows[r].dtype);
        uint8_t elements[67 * 4 + 1];
        for (size_t i = 0; i < 67; i++) {
            memcpy(elements + 1 + i * width, &rows[r].good, width);
        }
        assert_true(bp_elements_finite(rows[r].dtype, elements + 1, 67));
        assert_true(bp_elements_finite(rows[r].dtype, elements + 1, 0));
        for (size_t i = 0; i < 67; i++) {
            memcpy(elements + 1 + i * width, &rows[r].bad[i % 2], width);
            assert_false(bp_elements_finite(rows[r].dtype, elements + 1, 67));
            assert_true(bp_elements_finite(rows[r].dtype, elements + 1, i));
            memcpy(elements + 1 + i * width, &rows[r].good, width);
        }
    }
}

/* Every form of weight and master, as the functions for one element store and load it. */
/* verifies number-3.4e56 */
static void masters_are_those_of_one_element(void **state)
{
    (void)state;
    static const struct {
        bp_dtype dtype;
        bp_master form;
    } forms[] = {{BP_F32, BP_MASTER_WEIGHT},  {BP_BF16, BP_MASTER_WEIGHT},
                 {BP_F16, BP_MASTER_WEIGHT},  {BP_BF16, BP_MASTER_FP32},
                 {BP_F16, BP_MASTER_FP32},    {BP_BF16, BP_MASTER_SPLIT},
                 {BP_BF16, BP_MASTER_SPLIT8}, {BP_BF16, BP_MASTER_STOCHASTIC}};
    enum { N = 1027 };
    static float values[N], got[N];
    static uint32_t weights[2][N], masters[2][N];
    for (uint32_t i = 0; i < N; i++) {
        values[i] = float_of((i * 2654435761u & 0x8fffffffu) + 0x30000000u);
    }
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        memset(weights, 0x5a, sizeof weights);
        memset(masters, 0x5a, sizeof masters);
        bp_elements_store(forms[f].dtype, forms[f].form, weights[0], masters[0], values, N);
        for (uint32_t i = 0; i < N; i++) {
            bp_master_store(forms[f].dtype, forms[f].form, weights[1], masters[1], i, values[i]);
        }
        assert_memory_equal(weights[0], weights[1], sizeof weights[0]);
        assert_memory_equal(masters[0], masters[1], sizeof masters[0]);
        bp_elements_load(forms[f].dtype, forms[f].form, weights[0], masters[0], got, N);
        for (uint32_t i = 0; i < N; i++) {
            const float right =
                bp_master_load(forms[f].dtype, forms[f].form, weights[0], masters[0], i);
            assert_true(bits_of(got[i]) == bits_of(right));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_is_widened),
        cmocka_unit_test(every_single_is_narrowed),
        cmocka_unit_test(one_narrow_type_becomes_the_other),
        cmocka_unit_test(what_is_not_finite_is_found),
        cmocka_unit_test(masters_are_those_of_one_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
