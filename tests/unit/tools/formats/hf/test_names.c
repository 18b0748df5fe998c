/* SPDX-License-Identifier: MIT */
/* Patterns of tensor names, and the families' tables of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tools/formats/family/family.h"
#include "tools/formats/hf/tensor_match.h"

/* verifies formats-25.6dee */
static void patterns_match_whole_names(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool matches;
    } cases[] = {
        {"h.#.attn.bias", "h.11.attn.bias", true},
        {"h.#.attn.bias", "h.0.attn.c_attn.bias", false},
        {"h.#.attn.bias", "h..attn.bias", false},
        {"h.#.attn.bias", "h.x.attn.bias", false},
        {"h.#.attn.bias", "h.1.attn.bias.", false},
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "anything", true},
        {"a*", "a", true},
        {"a*", "b", false},
        {"*.LayerNorm.weight", "bert.LayerNorm.LayerNorm.weight", true},
        {"*.LayerNorm.weight", "LayerNorm.weight", false},
        {"a.*.#", "a.b.12.3", true},
        {"a.*.#", "a.b.12.", false},
        {"a*b*", "axb", false}, /* one star more than a pattern may have */
        {"#*#", "1x", false},
        {"#*#", "1x2", true},
        {"#.#.#.#.#", "1.2.3.4.5", false}, /* one number more than a pattern may have */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(bp_name_matches(cases[i].pattern, cases[i].name), cases[i].matches);
    }
}

/* verifies formats-25.6dee */
static void names_are_rewritten_with_what_was_matched(void **state)
{
    (void)state;
    char out[32];
    assert_true(bp_name_rewrite("h.#.attn.*", "blk.#.attn_*", "h.12.attn.w", out, sizeof out));
    assert_string_equal(out, "blk.12.attn_w");
    assert_true(bp_name_rewrite("a.#.#", "#/#", "a.1.23", out, sizeof out));
    assert_string_equal(out, "1/23");
    assert_true(bp_name_rewrite("transformer.*", "*", "transformer.wte", out, sizeof out));
    assert_string_equal(out, "wte");
    assert_false(bp_name_rewrite("transformer.*", "*", "wte", out, sizeof out));
    assert_true(bp_name_rewrite("*", "*", "1234567", out, 8));
    assert_false(bp_name_rewrite("*", "*", "12345678", out, 8));
    assert_true(bp_name_rewrite("a", "*#", "a", out, sizeof out)); /* nothing was captured */
    assert_string_equal(out, "*#");
}

/* verifies formats-25.6dee */
static void families_name_their_tensors(void **state)
{
    (void)state;
    char name[BP_TENSOR_NAME_MAX];
    const bp_family *gpt2 = bp_family_find("gpt2");
    assert_non_null(gpt2);
    assert_null(bp_family_find("mamba"));
    const bp_tensor_rule *rule = bp_tensor_name(&gpt2->naming, "transformer.wte.weight", name);
    assert_non_null(rule);
    assert_string_equal(name, "transformer.wte.weight");
    assert_int_equal(rule->form, BP_LAYOUT_PLAIN);
    char longest[2 * BP_TENSOR_NAME_MAX];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(bp_tensor_name(&gpt2->naming, longest, name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_whole_names),
        cmocka_unit_test(names_are_rewritten_with_what_was_matched),
        cmocka_unit_test(families_name_their_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
