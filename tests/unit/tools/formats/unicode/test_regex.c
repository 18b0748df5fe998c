/* SPDX-License-Identifier: MIT */
/* Regular expressions: what Python's re.fullmatch says of each pair (15,000 random ones were
 * compared with it too), and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tools/formats/unicode/regex.h"

static bp_regex regex;

/* verifies formats-12.b2fa */
static void answers_of_python(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *text;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {".*\\.(q|v)_proj", "model.layers.0.self_attn.q_proj", true},
        {".*\\.(q|v)_proj", "model.layers.0.self_attn.k_proj", false},
        {"model\\.layers\\.(0|1[0-9])\\..*", "model.layers.12.mlp", true},
        {"model\\.layers\\.(0|1[0-9])\\..*", "model.layers.2.mlp", false},
        {"^a$", "a", true},
        {"a^b", "ab", false},
        {"(^|x)a", "xa", true},
        {"a{2}", "aa", true},
        {"a{2}", "aaa", false},
        {"(ab){1,2}?", "abab", true},
        {"a{,2}b", "b", true},
        {"a{2,}", "a", false},
        {"a{2,}", "aaaaa", true},
        {"(a|b){0}c", "c", true},
        {"a{x}", "a{x}", true},
        {"[^a-c]+", "xyz", true},
        {"[^a-c]+", "xaz", false},
        {"[]a]+", "a]", true},
        {"[a-]+", "-a", true},
        {"[\\d_]*", "1_2", true},
        {"\\D\\S\\W\\s", "ab. ", true},
        {"(?:a|)(?P<name>b)+?", "bb", true},
        {"(a*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false},
        {"a|b|", "", true},
        {"a.c", "a\nc", false},
        {"\\.\\-\\(", ".-(", true},
        {"\\:\\[\\{\\~\\]", ":[{~]", true},
        {"a{,}", "aaa", true},
        {"a{}", "a{}", true},
        {"a{}", "a", false},
        {"a$b", "ab", false},
        {"a{256}", "a", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_null(bp_regex_make(&regex, cases[i].pattern));
        if (bp_regex_matches(&regex, cases[i].text, strlen(cases[i].text)) != cases[i].matches) {
            fail_msg("%s on %s", cases[i].pattern, cases[i].text);
        }
    }
}

/* verifies formats-12.b2fa */
static void what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *fault;
    } cases[] = {
        {"(?=a)", "look-around"},
        {"(?i)a", "flags"},
        {"(?P<x", "look-around"},
        {"(a", "not closed"},
        {"a)", "not opened"},
        {"*a", "nothing to repeat"},
        {"a**", "nothing to"},
        {"a++", "possessive"},
        {"a{3,2}", "not a range"},
        {"a{999}", "not a range"},
        {"[a", "no end"},
        {"[b-a]", "a range of"},
        {"[a-\\d]", "a range of"},
        {"\\b", "an escape"},
        {"\\1", "an escape"},
        {"a\\", "behind a"},
        {"[\\", "behind a"},
        {"((((a{64}){64}", "too long"},
        {"(a{200}){3}", "too long"},
        {"a{1,300}", "not a range"},
        {"a{300,400}", "not a range"},
        {"[a-", "no end"},
        {"\\Z", "an escape"},
    };
    char deep[80], many[600];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *fault = bp_regex_make(&regex, cases[i].pattern);
        if (fault == NULL || strstr(fault, cases[i].fault) == NULL) {
            fail_msg("%s: %s", cases[i].pattern, fault == NULL ? "taken" : fault);
        }
    }
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    assert_non_null(strstr(bp_regex_make(&regex, deep), "too deep"));
    for (size_t i = 0; i < sizeof many - 1; i++) {
        many[i] = i % 2 == 0 ? (char)(0x80 + i / 2 % 75) : '|';
    }
    many[sizeof many - 1] = '\0';
    assert_non_null(strstr(bp_regex_make(&regex, many), "too many different"));
    memset(many, '|', 300);
    many[300] = '\0';
    assert_non_null(strstr(bp_regex_make(&regex, many), "too many parts"));
    assert_non_null(strstr(bp_regex_make(&regex, "((a|a){50}){4}"), "too many states"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers_of_python),
                                       cmocka_unit_test(what_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
