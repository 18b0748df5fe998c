/* SPDX-License-Identifier: MIT */
/* Built-in rewards and regular expressions. What is TRL's is compared with numbers that its
 * functions gave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "tools/bedplate/reward/pattern.c"
#include "tools/bedplate/reward/reward_builtin.c"

static bp_error error;

static double score_of(const char *reward, const char *completion, const char *answer)
{
    static reward_builtin r;
    const reward_case one = {.completion = completion,
                             .completion_bytes = strlen(completion),
                             .answer = answer,
                             .answer_bytes = answer != NULL ? strlen(answer) : 0};
    double score = -99;
    error = (bp_error){.code = BP_OK};
    assert_int_equal(reward_builtin_read(&r, reward, &error), BP_OK);
    assert_int_equal(reward_builtin_score(&r, &one, &score, &error), BP_OK);
    return score;
}

static double score_ids(const char *reward, const int32_t *ids, uint32_t count, const char *text,
                        const char *answer)
{
    static reward_builtin r;
    const reward_case one = {.completion = text,
                             .completion_bytes = strlen(text),
                             .answer = answer,
                             .answer_bytes = strlen(answer),
                             .ids = ids,
                             .id_count = count};
    double score = -99;
    assert_int_equal(reward_builtin_read(&r, reward, &error), BP_OK);
    assert_int_equal(reward_builtin_score(&r, &one, &score, &error), BP_OK);
    return score;
}

static void is(double got, double right)
{
    assert_true(fabs(got - right) < 1e-15);
}

/* verifies reward-1.6edb */
static void answers_are_found_in_completions(void **state)
{
    (void)state;
    is(score_of("exact", " 42\n", "42"), 1);
    is(score_of("exact", "42.", "42"), 0);
    is(score_of("exact:yes", "yes", NULL), 1);
    is(score_of("contains", "it is Paris.", "Paris"), 1);
    is(score_of("contains", "it is paris.", "Paris"), 0);
    assert_true(isnan(score_of("contains", "anything", " ")));
    assert_true(isnan(score_of("exact", "42", NULL)));
    is(score_of("places", "5515", "5555"), 0.75);
    is(score_of("places", "55555555", "5555"), 0.5);
    is(score_of("places", "", "5555"), 0);
    is(score_of("number", "so 3 + 4 = 1,007.50 in all", "#### 1007.5"), 1);
    is(score_of("number", "x = -7", "7"), 0);
    is(score_of("number", "x = -7", "-7.0"), 1);
    is(score_of("number", "9-7", "7"), 1);
    is(score_of("number", "007", "7"), 1);
    is(score_of("number", "none", "7"), 0);
    is(score_of("number:0.01", "99.5", "100"), 1);
    is(score_of("number:0.001", "99.5", "100"), 0);
    assert_true(isnan(score_of("number", "7", "seven")));
    is(score_of("marker:####", "5\n#### 1\n#### 72 \nmore", "work #### 72"), 1);
    is(score_of("marker:####", "72", "72"), 0);
    is(score_of("boxed", "\\boxed{1} then \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"), 1);
    is(score_of("boxed", "\\boxed{\\frac{1}{2}", "\\frac{1}{2}"), 0);
}

/* verifies reward-1.6edb */
static void forms_are_recognised(void **state)
{
    (void)state;
    is(score_of("json", " {\"a\": [1, 2]} ", NULL), 1);
    is(score_of("json", "{\"a\": [1, 2}", NULL), 0);
    is(score_of("json", "{} {}", NULL), 0);
    is(score_of("json:name,age", "{\"age\":1,\"name\":\"x\"}", NULL), 1);
    is(score_of("json:name,age", "{\"name\":{\"age\":1}}", NULL), 0);
    is(score_of("json:name,age", "[]", NULL), 0);
    is(score_of("think", "<think>\nThis is my reasoning.\n</think>\nThis is my answer.", NULL), 1);
    is(score_of("think", "<think>\nThis is my reasoning.\nThis is my answer.", NULL), 0);
    is(score_of("think", "so <think>a</think>b", NULL), 0);
    is(score_of("think", "<think>a<think>b</think>c", NULL), 0);
    is(score_of("think", "<think></think>", NULL), 1);
}

/* verifies reward-1.6edb */
static void lengths_and_repetitions_cost(void **state)
{
    static const int32_t many[101] = {0};
    static const int32_t some[] = {1, 2, 3, 4}, fives[] = {5, 5, 5, 5, 5};
    (void)state;
    is(score_ids("overlong:100,20", many, 80, "", ""), 0);
    is(score_ids("overlong:100,20", many, 90, "", ""), -0.5);
    is(score_ids("overlong:100,20", many, 100, "", ""), -1);
    is(score_ids("overlong:100,20", many, 101, "", ""), -1);
    is(score_ids("overlong:100,0", many, 100, "", ""), 0);
    is(score_ids("repetition:2,-1", some, 4, "", ""), 0);
    is(score_ids("repetition:2,-1", fives, 5, "", ""), -0.75);
    is(score_ids("repetition", fives, 5, "", ""), 1.0 / 3 * -2);
    is(score_ids("repetition", fives, 2, "", ""), 0);
    is(score_ids("cosine:100", many, 0, "7", "7"), 1);
    is(score_ids("cosine:100", many, 50, "7", "7"), 0.75);
    is(score_ids("cosine:100", many, 101, "7", "7"), 0.5);
    is(score_ids("cosine:100", many, 0, "8", "7"), -1);
    is(score_ids("cosine:100", many, 100, "the end", "end"), 0.5);
    is(score_ids("cosine:100", many, 100, "the beginning", "end"), -0.5);
}

/* verifies reward-2.bb0e */
static void regular_expressions_match(void **state)
{
    static const struct {
        const char *pattern, *text;
        int right;
    } cases[] = {
        {"abc", "xxabcxx", 1},
        {"abc", "xxabxc", 0},
        {"^abc$", "abc", 1},
        {"^abc$", "abcd", 0},
        {"^$", "", 1},
        {"^$", "a", 0},
        {"a|b|c", "xc", 1},
        {"^(a|bc)*d$", "abcad", 1},
        {"^(a|bc)*d$", "acd", 0},
        {"^(?:ab){2,3}$", "abab", 1},
        {"^(?:ab){2,3}$", "ababab", 1},
        {"^(?:ab){2,3}$", "abababab", 0},
        {"^(?:ab){2,3}$", "ab", 0},
        {"^a{0,2}$", "", 1},
        {"^a{0,2}$", "aaa", 0},
        {"^a{2}$", "aa", 1},
        {"^a{2,}$", "aaaaa", 1},
        {"^a{2,}$", "a", 0},
        {"^\\d+\\.\\d*$", "12.", 1},
        {"^\\d+\\.\\d*$", "12", 0},
        {"^[^a-c\\]]+$", "xyz", 1},
        {"^[^a-c\\]]+$", "xy]", 0},
        {"^[]a]+$", "a]a", 1},
        {"^[a-]+$", "a-a", 1},
        {"^\\w+\\s\\W$", "ab_9 !", 1},
        {"^\\S\\D$", "ab", 1},
        {"^\\S\\D$", "a7", 0},
        {"^.*?b.+$", "aab\nc", 1},
        {"^(|a)b$", "b", 1},
        {"^(a*)*$", "aaaa", 1},
        {"^(a?){3}$", "aa", 1},
        {"^((a|b)|(c|d))+$", "abcd", 1},
        {"x*", "", 1},
    };
    static pattern p;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        error = (bp_error){.code = BP_OK};
        assert_int_equal(pattern_compile(&p, cases[i].pattern, &error), BP_OK);
        if (pattern_search(&p, cases[i].text, strlen(cases[i].text)) != (cases[i].right == 1)) {
            fail_msg("%s in %s", cases[i].pattern, cases[i].text);
        }
    }
}

/* What makes other engines take 2^n steps. */
/* verifies reward-2.bb0e */
static void no_pattern_is_slow(void **state)
{
    static char text[20001];
    static pattern p;
    (void)state;
    memset(text, 'a', 20000);
    assert_int_equal(pattern_compile(&p, "^(a+)+(a|a)*(a?){40}b$", &error), BP_OK);
    assert_false(pattern_search(&p, text, 20000));
}

/* verifies reward-2.bb0e */
/* verifies reward-3.225b */
static void wrong_arguments_are_named(void **state)
{
    static const struct {
        const char *reward, *what;
    } cases[] = {
        {"exakt", "there is no reward of this name"},
        {"regex", "the arguments of a reward are wrong"},
        {"regex:a(b", "the regular expression has a ( without ), before this byte"},
        {"regex:a)b", "the regular expression has a ) without (, before this byte"},
        {"regex:*a", "the regular expression repeats nothing, before this byte"},
        {"regex:[a", "the regular expression has a [ without ], at this byte"},
        {"regex:[b-a", "the regular expression has a range that ends before it begins, at this "
                       "byte"},
        {"regex:[b-a]", "the regular expression has a range that ends before it begins, at this "
                        "byte"},
        {"regex:(a)\\1", "the regular expression has an escape that is not known here (no "
                         "references, no \\b), at this byte"},
        {"regex:(?=a)", "the regular expression looks ahead or behind, which takes more than "
                        "linear time, at this byte"},
        {"regex:a{2", "the regular expression has a repetition that is not {m}, {m,} or {m,n}, "
                      "before this byte"},
        {"regex:a{0}", "the regular expression has a repetition that is not {m}, {m,} or {m,n}, "
                       "before this byte"},
        {"regex:(a{100}){100}", "the regular expression has too many states, at this byte"},
        {"think:x", "the arguments of a reward are wrong"},
        {"overlong:100", "the arguments of a reward are wrong"},
        {"overlong:100,200", "the arguments of a reward are wrong"},
        {"repetition:0", "the arguments of a reward are wrong"},
        {"repetition:3,1", "the arguments of a reward are wrong"},
        {"number:x", "the arguments of a reward are wrong"},
        {"marker:", "the arguments of a reward are wrong"},
    };
    static reward_builtin r;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        error = (bp_error){.code = BP_OK};
        assert_int_equal(reward_builtin_read(&r, cases[i].reward, &error), BP_ERR_USAGE);
        assert_string_equal(error.text, cases[i].what);
    }
    error = (bp_error){.code = BP_OK};
    assert_int_equal(reward_builtin_read(&r, "exakt", &error), BP_ERR_USAGE);
    assert_memory_equal(error.right, "one of exact contains ", 22);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_found_in_completions),
        cmocka_unit_test(forms_are_recognised),
        cmocka_unit_test(lengths_and_repetitions_cost),
        cmocka_unit_test(regular_expressions_match),
        cmocka_unit_test(no_pattern_is_slow),
        cmocka_unit_test(wrong_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
