/* SPDX-License-Identifier: MIT */
/* Master forms and name patterns: core/ops/master.h, core/base/glob.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/glob.h"
#include "core/ops/master.h"
#include "tests/fixtures/share.h"

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

/* All 2^32 patterns but NaN, or a share of them: splitting and joining gives the same bits, and the
 * weight is the one that a separate fp32 master gives (half away from zero). */
/* verifies number-1.d059 */
static void test_split_is_exact_for_every_pattern(void **state)
{
    (void)state;
    uint64_t wrong = 0;
    const uint32_t stride = share_of(1, 13, 61);
    uint32_t bits = 0;
    uint32_t before;
    do {
        if ((bits & 0x7fffffffu) <= 0x7f800000u) {
            uint16_t weight[2], rest, single;
            bp_master_store(BP_BF16, BP_MASTER_SPLIT, &weight[0], &rest, 0, float_of(bits));
            float joined = bp_master_load(BP_BF16, BP_MASTER_SPLIT, &weight[0], &rest, 0);
            single = (uint16_t)((bits + 0x8000u) >> 16);
            wrong += bits_of(joined) != bits || weight[0] != single;
        }
        before = bits;
        bits += stride;
    } while (bits > before);
    assert_int_equal(wrong, 0);
}

/* 24 bits: the nearest of 2^24 masters, and joining what was split of a 24-bit value is exact. */
/* verifies number-2.639c */
static void test_split8_keeps_24_bits(void **state)
{
    (void)state;
    for (uint32_t high = 0; high < 0x7f7fff00u >> 8; high += 7) {
        uint16_t weight;
        uint8_t rest;
        for (uint32_t low = 0; low < 256; low += 51) {
            uint32_t bits = high << 8 | low;
            bp_master_store(BP_BF16, BP_MASTER_SPLIT8, &weight, &rest, 0, float_of(bits));
            uint32_t back = bits_of(bp_master_load(BP_BF16, BP_MASTER_SPLIT8, &weight, &rest, 0));
            uint32_t wanted = (high + (low >= 128)) << 8;
            assert_int_equal(back, wanted);
        }
    }
}

static void test_other_forms(void **state)
{
    (void)state;
    uint16_t half;
    float master, weight;
    bp_master_store(BP_F16, BP_MASTER_FP32, &half, &master, 0, 0.1f);
    assert_true(master == 0.1f && half == bp_f16_from_f32(0.1f));
    assert_true(bp_master_load(BP_F16, BP_MASTER_FP32, &half, &master, 0) == 0.1f);
    bp_master_store(BP_BF16, BP_MASTER_STOCHASTIC, &half, NULL, 0, 0.1f);
    assert_true(bp_master_load(BP_BF16, BP_MASTER_STOCHASTIC, &half, NULL, 0) ==
                bp_f32_from_bf16(bp_bf16_from_f32(0.1f)));
    bp_master_store(BP_F32, BP_MASTER_WEIGHT, &weight, NULL, 0, -3.5f);
    assert_true(bp_master_load(BP_F32, BP_MASTER_WEIGHT, &weight, NULL, 0) == -3.5f);
    assert_string_equal(bp_master_name(BP_MASTER_SPLIT8), "split8");
}

/* verifies file-12.2092 */
static void test_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *glob, *name;
        bool match;
    } cases[] = {{"*", "", true},
                 {"", "", true},
                 {"", "a", false},
                 {"a?c", "abc", true},
                 {"a?c", "ac", false},
                 {"transformer.wte*", "transformer.wte.weight", true},
                 {"*.h.*.weight", "transformer.h.11.attn.weight", true},
                 {"*.h.1.*", "transformer.h.11.attn.weight", false},
                 {"*a*b", "aabab", true},
                 {"*a*b", "aababc", false},
                 {"**x", "yyx", true},
                 {"a*", "b", false},
                 {"h.[0-5].*", "h.4.x", true},
                 {"h.[0-5].*", "h.6.x", false},
                 {"h.[!0-5].*", "h.6.x", true},
                 {"h.[^ab]", "h.a", false},
                 {"[]-]x", "]x", true},
                 {"a[b", "a[b", true},
                 {"*[", "x[", true},
                 {"@classifier", "classifier.weight", true},
                 {"@classifier", "model.classifier.out.bias", true},
                 {"@classifier", "pre_classifier.weight", false},
                 {"@classifier", "classifier_2.weight", false},
                 {"@classifier", "model.classifier", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(bp_glob_match(cases[i].glob, cases[i].name), cases[i].match);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_is_exact_for_every_pattern),
        cmocka_unit_test(test_split8_keeps_24_bits),
        cmocka_unit_test(test_other_forms),
        cmocka_unit_test(test_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
