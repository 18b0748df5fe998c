/* SPDX-License-Identifier: MIT */
/* Chat templates, against what jinja2 makes of them as transformers sets it up
 * (tools/golden/formats/chat.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fixtures/formats/jinja_fixture.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/chat/chat_template.h"
#include "tools/formats/chat/jinja.h"
#include "tools/formats/chat/jinja_json.h"

/* Every line of a file: what transformers writes, byte for byte, or a refusal where it raises. */
static unsigned play_file(const char *path, bool named)
{
    static char line[JINJA_TEXT];
    unsigned rows = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        bp_jinja_value row;
        size_t length;
        jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
        assert_int_equal(bp_jinja_json_bytes(&jinja_fixture.room, line, strlen(line), &row), BP_OK);
        const bp_jinja_value *source =
            bp_jinja_dict_get(row.is.dict, named ? "named" : "template", named ? 5 : 8);
        const bp_jinja_value *want = bp_jinja_dict_get(row.is.dict, "text", 4);
        const bp_jinja_value *variables = bp_jinja_dict_get(row.is.dict, "variables", 9);
        char name[32] = "";
        if (named) {
            memcpy(name, source->is.text, source->count);
        }
        const char *own = named ? bp_chat_template_named(name) : source->is.text;
        assert_non_null(own);
        bp_status status =
            jinja_fixture_render(own, named ? strlen(own) : source->count, variables, &length);
        const bool right = want->kind == BP_JINJA_NONE
                               ? status == BP_ERR_DATA
                               : status == BP_OK && length == want->count &&
                                     memcmp(jinja_fixture.text, want->is.text, length) == 0;
        if (!right) {
            print_error("%s: %d %s: %s\n%.*s\n", line, status, jinja_fixture.error.name,
                        jinja_fixture.error.text, (int)length, jinja_fixture.text);
        }
        assert_true(right);
        rows++;
    }
    fclose(file);
    return rows;
}

/* verifies formats-14.5095 */
static void constructs_are_jinjas(void **state)
{
    (void)state;
    assert_int_equal(play_file("tests/golden/chat/jinja.jsonl", false), 59);
}

/* Each condition of the reader decided by itself (tools/golden/formats/chat_corners.py). */
/* verifies formats-14.5095 */
static void corners_are_jinjas(void **state)
{
    (void)state;
    assert_int_equal(play_file("tests/golden/chat/corners.jsonl", false), 118);
}

/* verifies formats-14.5095 */
static void named_templates_write_what_the_published_ones_do(void **state)
{
    (void)state;
    assert_int_equal(play_file("tests/golden/chat/named.jsonl", true), 98);
}

/* What int and float make of texts, without and with a default: Python's answers
 * (transformers 5.24's renderer). */
static const char *const numbers[][2] = {
    {"\"0x1f\"", "0 0.0 7 d"},
    {"\"1e3\"", "1000 1000.0 1000 1000.0"},
    {"\"1_000\"", "1000 1000.0 1000 1000.0"},
    {"\" 12 \"", "12 12.0 12 12.0"},
    {"\"12abc\"", "0 0.0 7 d"},
    {"\"+5\"", "5 5.0 5 5.0"},
    {"\"-7.9\"", "-7 -7.9 -7 -7.9"},
    {"\"1_000.5\"", "1000 1000.5 1000 1000.5"},
    {"\"inf\"", "0 inf 7 inf"},
    {"\"-Infinity\"", "0 -inf 7 -inf"},
    {"\"nan\"", "0 nan 7 nan"},
    {"\"1.\"", "1 1.0 1 1.0"},
    {"\".5\"", "0 0.5 0 0.5"},
    {"\".\"", "0 0.0 7 d"},
    {"\"-.5\"", "0 -0.5 0 -0.5"},
    {"\"1__0\"", "0 0.0 7 d"},
    {"\"_1\"", "0 0.0 7 d"},
    {"\"1_\"", "0 0.0 7 d"},
    {"\"\"", "0 0.0 7 d"},
    {"\"5.\"", "5 5.0 5 5.0"},
    {"\"\\t8\\n\"", "8 8.0 8 8.0"},
    {"\"0b11\"", "0 0.0 7 d"},
    {"\"1e-3\"", "0 0.001 0 0.001"},
    {"\"-0\"", "0 -0.0 0 -0.0"},
    {"\"+-5\"", "0 0.0 7 d"},
    {"\"007.50\"", "7 7.5 7 7.5"},
    {"\"--5\"", "0 0.0 7 d"},
    {"\"1._5\"", "0 0.0 7 d"},
    {"\"00\"", "0 0.0 0 0.0"},
    {"\"1e+2\"", "100 100.0 100 100.0"},
    {"\"1.e2\"", "100 100.0 100 100.0"},
    {"\"- 5\"", "0 0.0 7 d"},
    {"\"infinit\"", "0 0.0 7 d"},
    {"\"0_0\"", "0 0.0 0 0.0"},
    {"\"5e\"", "0 0.0 7 d"},
    {"\"1e400\"", "0 inf 7 inf"},
    {"\"-1e400\"", "0 -inf 7 -inf"},
    {"\"1e-400\"", "0 0.0 0 0.0"},
    {"\"1e18\"", "1000000000000000000 1e+18 1000000000000000000 1e+18"},
    {"\"\u0661\u0662\"", "12 12.0 12 12.0"},
    {"\"-\uff15.\uff10\uff17\"", "-5 -5.07 -5 -5.07"},
    {"\"\u0967_\u0968\"", "12 12.0 12 12.0"},
    {"\"\u00a0\u20037\u3000\"", "7 7.0 7 7.0"},
    {"\"\u00b2\"", "0 0.0 7 d"},
    {"\"1\u00e9\"", "0 0.0 7 d"},
    {"\"\uff0b5\"", "0 0.0 7 d"},
    {"\"9223372036854775807\"",
     "9223372036854775807 9.223372036854776e+18 9223372036854775807 9.223372036854776e+18"},
};

/* verifies formats-14.5095 */
static void numbers_of_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char text[256];
        bp_jinja_value none;
        size_t length;
        const char *x = numbers[i][0];
        sprintf(text, "{{ %s | int }} {{ %s | float }} {{ %s | int(7) }} {{ %s | float('d') }}", x,
                x, x, x);
        jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
        assert_int_equal(bp_jinja_dict_new(&jinja_fixture.room, 0, &none), BP_OK);
        assert_int_equal(jinja_fixture_render(text, strlen(text), &none, &length), BP_OK);
        jinja_fixture.text[length] = '\0';
        if (strcmp(jinja_fixture.text, numbers[i][1]) != 0) {
            fail_msg("%s: %s, right is %s", x, jinja_fixture.text, numbers[i][1]);
        }
    }
}

/* Sources, and what transformers' renderer makes of them; NULL: not there, and refused. */
static void jinja_answers(const char *const (*rows)[2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bp_jinja_value none;
        size_t length;
        jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
        assert_int_equal(bp_jinja_dict_new(&jinja_fixture.room, 0, &none), BP_OK);
        bp_status status = jinja_fixture_render(rows[i][0], strlen(rows[i][0]), &none, &length);
        if (rows[i][1] == NULL) {
            assert_int_equal(status, BP_ERR_DATA);
            continue;
        }
        if (status != BP_OK) {
            print_error("%s: %s\n", rows[i][0], jinja_fixture.error.text);
        }
        assert_int_equal(status, BP_OK);
        jinja_fixture.text[length] = '\0';
        assert_string_equal(jinja_fixture.text, rows[i][1]);
    }
}

/* What filters make of their arguments; the answers are those of transformers 5.24's renderer. */
/* verifies formats-14.5095 */
static void arguments_of_filters(void **state)
{
    static const char *const rows[][2] = {
        {"{{ {'B': 1, 'a': 2} | dictsort }}", "[('a', 2), ('B', 1)]"},
        {"{{ {'B': 1, 'a': 2} | dictsort(true) }}", "[('B', 1), ('a', 2)]"},
        {"{{ {'B': 3, 'a': 2} | dictsort(by='value') }}", "[('a', 2), ('B', 3)]"},
        {"{{ {'b': 2, 'a': 1} | dictsort(reverse=true) }}", "[('b', 2), ('a', 1)]"},
        {"{{ ['b', 'A', 'c'] | sort }}", "['A', 'b', 'c']"},
        {"{{ ['b', 'A', 'a'] | sort(true) }}", "['b', 'A', 'a']"},
        {"{{ [{'a': 2}, {'a': 1}] | sort(attribute='a') }}", "[{'a': 1}, {'a': 2}]"},
        {"{{ ['a', 'B', 'A'] | unique | list }}", "['a', 'B']"},
        {"{{ ['A', 'a'] | unique(true) | list }}", "['A', 'a']"},
        {"{{ ['\xe6\x97\xa5', 'a', '\xe4\xb8\xad'] | sort | join }}", "a\xe4\xb8\xad\xe6\x97\xa5"},
        {"{{ ['\xe2\x80\x93' 'b', '\xe2\x80\x93' 'B'] | unique | list | length }}", "1"},
        {"{{ ['\xc3\x89', '\xc3\xa9'] | unique(true) | list | length }}", "2"},
        {"{{ ['\xc3\x89'] | sort | join }}", "\xc3\x89"},
        {"{{ ['\xc3\x89', '\xc3\xa9'] | unique | list }}", NULL}, /* case of ASCII only */
        {"{{ ['\xc3\x89', 'a'] | sort }}", NULL},
        {"{{ {'\xd0\x96': 1, 'a': 2} | dictsort }}", NULL},
        {"{{ 'h\xc3\xa9llo' | reverse }}", "oll\xc3\xa9h"},
        {"{{ 'x' | int(5) }}{{ 'q' | float(1.5) }}{{ 'x' | int(default=3) }}", "51.53"},
        {"{{ 'a\n\nb\n' | indent(2, true, true) }}.", "  a\n  \n  b\n  ."},
        {"{{ {'a': [1, {'b': 2}]} | tojson(separators=(',', ':')) }}", "{\"a\":[1,{\"b\":2}]}"},
        {"{{ [1] | tojson(false, 2) }}{{ 1 | tojson(ensure_ascii=false) }}", "[\n  1\n]1"},
        {"{{ [{'r': 1}, {'r': 2}] | selectattr('r', '!=', 1) | list }}", "[{'r': 2}]"},
        {"{{ [1, 2, 3] | select('>=', 2) | list }}{{ [1, 2] | reject('==', 2) | list }}",
         "[2, 3][1]"},
        {"{% raw %}\n x {{ y }}\n{% endraw %}\nz", "\n x {{ y }}\nz"},
        {"{{ [1] | tojson(ensure_ascii=true) }}", NULL}, /* not there, and refused */
        {"{{ [1] | tojson(sort_keys=true) }}", NULL},
        {"{{ 'a' | upper(1) }}", NULL},
        {"{{ [2, 1] | sort(foo=1) }}", NULL},
        {"{{ '0x1f' | int(0, 16) }}", NULL},
        {"{{ [1, 'a'] | sort }}", NULL},
        {"{{ 'a-b-c'.split('-', 1) }}{{ 'aaa'.replace('a', 'b', 2) }}", "['a', 'b-c']bba"},
        {"{{ 'Hello World'.find('o', 5) }}", NULL}, /* of methods likewise */
        {"{{ 'Hello World'.startswith('World', 6) }}", NULL},
        {"{{ 'a'.upper(1) }}", NULL},
    };
    (void)state;
    jinja_answers(rows, sizeof rows / sizeof rows[0]);
}

/* What jinja2 gives out one by one is there once, whoever goes through it first, and as far as it
 * goes; the answers are those of transformers 5.24's renderer. */
/* verifies formats-14.5095 */
static void generators_are_gone_through_once(void **state)
{
    static const char *const rows[][2] = {
        {"{% set g = [1, 0, 2] | select %}{{ g | join('-') }}|{{ g | join('-') }}|{{ g | list }}",
         "1-2||[]"},
        {"{% set g = ['a', 'b'] | map('upper') %}{% for x in g %}{{ x }}{% else %}none{% endfor "
         "%}{% for x in g %}{{ x }}{% else %}none{% endfor %}",
         "ABnone"},
        {"{% set g = [1, 2, 3] | map('string') %}{{ g | first }}{{ g | first }}|{{ g | list }}|{{ "
         "g | first is defined }}",
         "12|['3']|False"},
        {"{% set g = [1, 2, 3, 4] | select %}{{ 2 in g }}{{ 1 in g }}{{ g | list }}",
         "TrueFalse[]"},
        {"{% set g = [1, 2, 3, 4] | reject('odd') %}{{ 2 in g }}{{ g | list }}{{ g is iterable }}",
         "True[4]True"},
        {"{% set g = {'a': 1} | items %}{{ g | list }}{{ g | list }}", "[('a', 1)][]"},
        {"{% set g = [2, 1] | reverse %}{{ g | sort }}{{ g | sort }}", "[1, 2][]"},
        {"{% set g = [1, 1] | unique %}{% set h = g %}{{ h | list }}{{ g | list }}", "[1][]"},
        {"{% set g = [1, 2] | select %}{% set ns = namespace(q=g) %}{{ ns.q | list }}{{ g | list "
         "}}",
         "[1, 2][]"},
        {"{% macro m(a) %}{{ a | list }}{% endmacro %}{% set g = [1] | select %}{{ m(g) }}{{ m(g) "
         "}}",
         "[1][]"},
        {"{% set g = [[1, 1], [2]] | map('unique') | map('list') %}{{ g | list }}{{ g | list }}",
         "[[1], [2]][]"},
        {"{% set g = [{'r': 'u'}, {'r': 'a'}] | selectattr('r', 'equalto', 'u') %}{{ g | list }}{{ "
         "g | list }}",
         "[{'r': 'u'}][]"},
        {"{% set g = [{'r': 'u'}, {'r': 'a'}] | rejectattr('r', 'equalto', 'u') | "
         "map(attribute='r') %}{{ g | join }}{{ g | join }}",
         "a"},
        {"{% set g = [1, 2] | select %}{% set a, b = g %}{{ a }}{{ b }}{{ g | list }}", "12[]"},
        {"{% set g = [1] | select %}{{ g == g }}{{ g == [1] }}{{ ('a',) == ['a'] }}{{ range(2) == "
         "[0, 1] }}{{ [1] == [1] }}",
         "TrueFalseFalseFalseTrue"},
        {"{% set g = [1, 2] | select | default([3]) %}{{ g | list }}{{ g | list }}", "[1, 2][]"},
        {"{% set g = [1, 2] | select %}{% if g %}{{ g | reverse | list }}{{ g | list }}{% endif %}",
         "[2, 1][]"},
        {"{% set g = [1] | select %}{% set h = g | map('string') %}{{ g | list }}",
         NULL}, /* h has it */
        {"{% set g = [1] | select %}{% for x in g %}{{ g | list }}{% endfor %}", NULL},
        {"{% set g = [1] | select %}{% for x in g %}{% break %}{% endfor %}{{ g | list }}", NULL},
        {"{% set g = [1] | select %}{% for x in g if x %}{% endfor %}{{ g | list }}", NULL},
    };
    (void)state;
    jinja_answers(rows, sizeof rows / sizeof rows[0]);
}

typedef struct refused_row {
    const char *source;
    const char *said;
    bp_status status;
} refused_row;

/* What is no template, or not there; and templates that are after this machine. */
static const refused_row refused[] = {
    {"{{ 1", "a tag does not end", BP_ERR_DATA},
    {"{% if x %}", "a block does not end", BP_ERR_DATA},
    {"{% endif %}", "a block ends that was not begun, or is not the innermost", BP_ERR_DATA},
    {"{% for a in b %}{% endif %}", "a block ends that was not begun, or is not the innermost",
     BP_ERR_DATA},
    {"{{ (1 }}", "the brackets of an expression do not fit together", BP_ERR_DATA},
    {"{{ (1", "a tag does not end", BP_ERR_DATA},
    {"{{ (1] }}", "the brackets of an expression do not fit together", BP_ERR_DATA},
    {"{{ ) }}", "a bracket is closed that was not opened", BP_ERR_DATA},
    {"{{ 1 + }}", "an expression ends where a value should come", BP_ERR_DATA},
    {"{{ 1 2 }}", "a tag continues where it should end", BP_ERR_DATA},
    {"{{ 'a }}", "a string does not end", BP_ERR_DATA},
    {"{{ x | nothing }}", "a filter that is not there", BP_ERR_DATA},
    {"{{ x is nothing }}", "a test that is not there", BP_ERR_DATA},
    {"{{ f(1) }}", "a function that is not there", BP_ERR_DATA},
    {"{{ 'a'.format(1) }}", "a method that is not there, or not of this kind of value",
     BP_ERR_DATA},
    {"{{ 1 < 2 < 3 }}", "chained comparisons are not there: a < b and b < c", BP_ERR_DATA},
    {"{% include 'x' %}", "a statement that is not there", BP_ERR_DATA},
    {"{% break %}", "break or continue is outside a loop", BP_ERR_DATA},
    {"{# x", "a comment does not end", BP_ERR_DATA},
    {"{% raw %}x", "raw does not end", BP_ERR_DATA},
    {"{{ 1 // 0 }}", "a division by zero", BP_ERR_DATA},
    {"{% set x.y = 1 %}", "only attributes of namespaces can be set", BP_ERR_DATA},
    {"{% for a, b in [1] %}{% endfor %}",
     "what is neither a list, string nor mapping has no "
     "parts to go through",
     BP_ERR_DATA},
    {"{{ 'a' * 2000000 }}", "a string is repeated more often than can be", BP_ERR_DATA},
    {"{{ range(100000) }}", "a range is larger than can be", BP_ERR_DATA},
    {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "macros call each other too often",
     BP_ERR_DATA},
    {"{% set r = range(65536) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
     "the template does not end; instructions", BP_ERR_FIT},
    {"{% for a in range(65536) %}abc{% endfor %}", "the rendered text is longer than it may be",
     BP_ERR_FIT},
    {"{{ 1 + 'a' }}", "a string is joined to what is none by +", BP_ERR_DATA},
    {"{{ [] - 1 }}", "values are reckoned with that are no numbers", BP_ERR_DATA},
    {"{{ 2 ** 3 }}", "powers, and quotients and rests of fractions, are not there", BP_ERR_DATA},
    {"{{ 1 / 0 }}", "a division by zero", BP_ERR_DATA},
    {"{{ 3000000000 * 3 }}", "a number is larger than templates may reckon with", BP_ERR_DATA},
    {"{{ [] < 1 }}", "values that have no order are compared", BP_ERR_DATA},
    {"{{ 1 in 2 }}", "`in` asks what has no parts", BP_ERR_DATA},
    {"{{ x[0] }}", "an element of something undefined is asked for", BP_ERR_DATA},
    {"{{ [1][::2] }}", "slices are there of lists, by steps of 1 and -1, and of strings",
     BP_ERR_DATA},
    {"{{ [1]['a':] }}", "the bounds of a slice are whole numbers", BP_ERR_DATA},
    {"{{ 'a'.replace('', 'b') }}", "an empty string is replaced", BP_ERR_DATA},
    {"{{ 'a'.split('') }}", "a string cannot be split so", BP_ERR_DATA},
    {"{{ 'a'.strip(1) }}", "an argument that should be a string is none", BP_ERR_DATA},
    {"{{ 'a'.startswith(1) }}", "startswith and endswith take a string or several", BP_ERR_DATA},
    {"{{ x.strip() }}", "a method of something undefined is called", BP_ERR_DATA},
    {"{{ 'a'.join() }}", "join takes a list", BP_ERR_DATA},
    {"{{ '\xc3\xa9' | upper }}", "upper and lower case are there of ASCII only", BP_ERR_DATA},
    {"{{ 3 | length }}", "the length of what has none is asked for", BP_ERR_DATA},
    {"{{ 3 | items }}", "what is no mapping has no items", BP_ERR_DATA},
    {"{{ [1] | map('nothing') }}", "map applies a filter that is not there", BP_ERR_DATA},
    {"{{ x | tojson }}", "an undefined value is no JSON", BP_ERR_DATA},
    {"{{ namespace() }}", "a macro, loop or namespace cannot be written", BP_ERR_DATA},
    {"{{ range() }}", "range takes one to three numbers", BP_ERR_DATA},
    {"{{ range('a') }}", "range takes whole numbers", BP_ERR_DATA},
    {"{{ range(0, 1, 0) }}", "a range is larger than can be", BP_ERR_DATA},
    {"{{ dict(1) }}", "a mapping is made of names and values", BP_ERR_DATA},
    {"{{ strftime_now('%Q') }}", "a letter of strftime_now that is not there", BP_ERR_DATA},
    {"{{ strftime_now(1) }}", "strftime_now takes a format", BP_ERR_DATA},
    {"{{ {1: 2} }}", "the keys of mappings are strings here", BP_ERR_DATA},
    {"{{ 'a' is odd }}", "a test of whole numbers is made of another value", BP_ERR_DATA},
    {"{{ 1 is eq }}", "a test lacks what it compares with", BP_ERR_DATA},
    {"{{ 1 is divisibleby(0) }}", "a test of whole numbers is made of another value", BP_ERR_DATA},
    {"{% for a, b in [[1]] %}{% endfor %}", "another number of values than of variables",
     BP_ERR_DATA},
    {"{% for a in [1] %}{{ loop.deep }}{% endfor %}", "a loop has no such attribute", BP_ERR_DATA},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "a macro is given too many arguments",
     BP_ERR_DATA},
    {"{% set 1 = 2 %}", "the name of a variable is missing", BP_ERR_DATA},
    {"{% set a. = 2 %}", "the name of an attribute is missing", BP_ERR_DATA},
    {"{% for a of b %}", "`in` is missing", BP_ERR_DATA},
    {"{% else %}", "an else or elif belongs to no if", BP_ERR_DATA},
    {"{{ a. }}", "a name is missing behind the point", BP_ERR_DATA},
    {"{{ 'a'() }}", "what is called is neither a function nor a method", BP_ERR_DATA},
    {"{{ a not b }}", "`not` stands where an operator should come", BP_ERR_DATA},
    {"{{ a else b }}", "an else has no if", BP_ERR_DATA},
    {"{{ a[] }}", "an index is empty", BP_ERR_DATA},
    {"{{ $ }}", "a character that means nothing in a tag", BP_ERR_DATA},
    {"{{ 1.5e999999 }}", "a number that cannot be read", BP_ERR_DATA},
    {"{{ * }}", "a sign stands where a value should come", BP_ERR_DATA},
    {"{% set r = range %}{{ r(2) }}", "what is called is no macro", BP_ERR_DATA},
    {"{% set r = 1 %}{{ r(2) }}", "what is called is no macro", BP_ERR_DATA},
    {"{{ 'a\nb' | indent('>') }}", "indent takes a width below 64", BP_ERR_DATA},
    {"{{ 'a\nb' | indent(-1) }}", "indent takes a width below 64", BP_ERR_DATA},
    {"{{ 'a\nb' | indent(64) }}", "indent takes a width below 64", BP_ERR_DATA},
    {"{{ [1] | map('map') }}", "map applies a filter that is not there", BP_ERR_DATA},
    {"{{ range(1, 2, 3, 4) }}", "range takes one to three numbers", BP_ERR_DATA},
    {"{{ range(0, 1, 65537) }}", "a range is larger than can be", BP_ERR_DATA},
    {"{{ range(0, 1, -65537) }}", "a range is larger than can be", BP_ERR_DATA},
    {"{{ range(2147483648, 1) }}", "a range is larger than can be", BP_ERR_DATA},
    {"{{ range(0 - 2147483648 - 1, 1) }}", "a range is larger than can be", BP_ERR_DATA},
    {"{{ range(0, 2147483648) }}", "a range is larger than can be", BP_ERR_DATA},
    {"{{ range(0, 0 - 2147483648 - 1) }}", "a range is larger than can be", BP_ERR_DATA},
    {"{{ '1e300' | int }}", "a whole number is beyond 64 bits", BP_ERR_DATA},
    {"{{ '-1e300' | int(7) }}", "a whole number is beyond 64 bits", BP_ERR_DATA},
    {"{{ 1e300 | int }}", "a whole number is beyond 64 bits", BP_ERR_DATA},
    {"{{ -1e19 | int }}", "a whole number is beyond 64 bits", BP_ERR_DATA},
    {"{{ '12345678901234567890' | int }}", "a whole number is beyond 64 bits", BP_ERR_DATA},
    {"{{ 'inf' | float | int(7) }}", "a whole number is beyond 64 bits", BP_ERR_DATA},
    {"{{ x | int }}", "a number is asked of what is undefined", BP_ERR_DATA},
    {"{{ x | float(2.5) }}", "a number is asked of what is undefined", BP_ERR_DATA},
    {"{{ x | abs }}", "abs takes a number", BP_ERR_DATA},
    {"{{ 'a' | abs }}", "abs takes a number", BP_ERR_DATA},
    {"{{ [1] | select | length }}", "the length of a generator is asked for", BP_ERR_DATA},
    {"{{ [1] | map('int') | last }}", "the last of a generator is asked for", BP_ERR_DATA},
    {"{{ [1] | select }}", "a generator or a range cannot be written", BP_ERR_DATA},
    {"{{ [1] | unique | tojson }}", "a generator or a range cannot be written", BP_ERR_DATA},
    {"{{ range(3) }}", "a generator or a range cannot be written", BP_ERR_DATA},
    {"{{ range(3) | tojson }}", "a generator or a range cannot be written", BP_ERR_DATA},
    {"{{ [[1] | select] }}", "a generator or a range cannot be written", BP_ERR_DATA},
    {"{{ ([1] | select)[0:] }}", "slices are there of lists, by steps of 1 and -1, and of strings",
     BP_ERR_DATA},
    {"{{ 5 | indent }}", "indent takes a string", BP_ERR_DATA},
    {"{{ strftime_now('%') }}", "a letter of strftime_now that is not there", BP_ERR_DATA},
    {"{{ strftime_now('%-') }}", "a letter of strftime_now that is not there", BP_ERR_DATA},
    {"{{ 'a'.split(none, 1) }}", "a string cannot be split so", BP_ERR_DATA},
    {"{{ 5[1:] }}", "slices are there of lists, by steps of 1 and -1, and of strings", BP_ERR_DATA},
    {"{{ 'abc'[::-1] }}", "slices are there of lists, by steps of 1 and -1, and of strings",
     BP_ERR_DATA},
    {"{{ (0 - 2147483648 - 1) * 3 }}", "a number is larger than templates may reckon with",
     BP_ERR_DATA},
    {"{{ 3 * 3000000000 }}", "a number is larger than templates may reckon with", BP_ERR_DATA},
    {"{{ 3 * (0 - 2147483648 - 1) }}", "a number is larger than templates may reckon with",
     BP_ERR_DATA},
    {"{% set n = namespace(l=0) %}{% for a in [1] %}{% set n.l = loop %}{% endfor %}"
     "{{ n.l.index }}",
     "a loop is asked of after its end", BP_ERR_DATA},
    {"{% for a in [1] %}{% else %}{% break %}{% endfor %}", "break or continue is outside a loop",
     BP_ERR_DATA},
    {"{% for a in [1] %}{% set b %}{% break %}{% endset %}{% endfor %}",
     "break or continue is outside a loop", BP_ERR_DATA},
    {"{% raw %}{%", "a tag does not end", BP_ERR_DATA},
    {"{{ f(a", "a tag does not end", BP_ERR_DATA},
    {"{% set ns = namespace(s='xxxxxxxx') %}{% for a in range(65536) %}{% set ns.s = ns.s + ns.s "
     "%}{% endfor %}",
     "the template needs more memory than it may have", BP_ERR_FIT},
};

/* verifies formats-14.5095 */
static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        bp_jinja_value none;
        size_t length;
        jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
        assert_int_equal(bp_jinja_dict_new(&jinja_fixture.room, 0, &none), BP_OK);
        bp_status status =
            jinja_fixture_render(refused[i].source, strlen(refused[i].source), &none, &length);
        if (status != refused[i].status || strcmp(jinja_fixture.error.text, refused[i].said) != 0) {
            print_error("%s: %d %s: %s\n", refused[i].source, status, jinja_fixture.error.name,
                        jinja_fixture.error.text);
        }
        assert_int_equal(status, refused[i].status);
        assert_string_equal(jinja_fixture.error.text, refused[i].said);
    }
}

/* Where jinja2 raises, or reckons with numbers of any size, and this machine has an answer. */
/* verifies formats-14.5095 */
static void what_jinja_refuses_may_have_an_answer(void **state)
{
    static const char *const rows[][2] = {
        {"{{ '\\xaG\\x:0\\U00110000\\ud800\\udfff' }}", "\\xaG\\x:0\\U00110000\\ud800\\udfff"},
        {"{{ -0.0 | abs }} {{ true | abs }} {{ -7 | abs }} {{ (0 - 2.5) | abs }}", "0.0 1 7 2.5"},
        {"{{ [] | select and 1 }}{{ [] | select | list or 2 }}{{ not {} | items }}", "12False"},
        {"{{ 1 if [{'a': 1}] | selectattr('b') else 2 }}{{ [] | map('int') is sequence }}",
         "1False"},
        {"{{ ([3, 4] | reject)[0] is defined }}{{ [] | reverse and 5 }}{{ [] | unique and 6 }}",
         "False56"},
        {"{{ [] | sort or 7 }}{{ ([1] | reverse | list)[0] }}{{ range(3) | list }}", "71[0, 1, 2]"},
        {"{{ [] | int }}{{ 'nan' | float | int(3) }}", "03"},
        {"{{ 'b'.startswith(('b', 1)) }}{{ 'b'.startswith((1, 'a')) }}", "TrueFalse"},
        {"{{ 'a,b'.split(',', 'x') }}", "['a', 'b']"},
        {"{{ 'a,b,c'.split(',', 1) }}{{ [1, 2][::-1] }}{{ 'abc'[0:2] }}", "['a', 'b,c'][2, 1]ab"},
        {"{{ 'aB (CD'.title() }}{{ 'aB (cD' | title }}", "Ab (CdAb (Cd"},
        {"{{ {'a': 1} | tojson(indent=0) }}{{ [1] | tojson(indent=3) }}",
         "{\n\"a\": 1\n}[\n   1\n]"},
        {"{% macro m() %}q{% endmacro m %}{{ m() }}", "q"},
        {"{% with a=1, b=2, %}{{ a }}{% endwith %}", "1"},
        {"{{ 1 is odd if 1 else 3 }}{{ 1 is odd is boolean }}", "TrueTrue"},
        {"{{ 1 is odd in [true] }}{{ 1 is odd not in [true] }}", "TrueFalse"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_jinja_value none;
        size_t length;
        jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
        assert_int_equal(bp_jinja_dict_new(&jinja_fixture.room, 0, &none), BP_OK);
        bp_status status = jinja_fixture_render(rows[i][0], strlen(rows[i][0]), &none, &length);
        if (status != BP_OK) {
            print_error("%s: %s\n", rows[i][0], jinja_fixture.error.text);
        }
        assert_int_equal(status, BP_OK);
        jinja_fixture.text[length] = '\0';
        assert_string_equal(jinja_fixture.text, rows[i][1]);
    }
}

/* Any piece of a template, and one with a byte changed, ends: well or with a refusal. */
/* verifies formats-14.5095 */
static void damaged_templates_end(void **state)
{
    (void)state;
    for (uint32_t i = 0; bp_chat_template_name(i) != NULL; i++) {
        char source[4096];
        const char *own = bp_chat_template_named(bp_chat_template_name(i));
        const size_t length = strlen(own);
        assert_true(length < sizeof source);
        for (size_t cut = 0; cut < length; cut++) {
            bp_jinja_value variables;
            size_t written;
            jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
            memcpy(source, own, length);
            assert_int_equal(bp_jinja_dict_new(&jinja_fixture.room, 0, &variables), BP_OK);
            (void)!jinja_fixture_render(source, cut, &variables, &written);
            jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
            assert_int_equal(bp_jinja_dict_new(&jinja_fixture.room, 0, &variables), BP_OK);
            source[cut] = "{}%|('[.+~"[cut % 10];
            (void)!jinja_fixture_render(source, length, &variables, &written);
        }
    }
}

/* Where a directory has its template. */
/* verifies formats-14.5095 */
static void directories_have_templates(void **state)
{
    static const struct {
        const char *file;
        const char *content;
        const char *found;
        bp_status status;
    } rows[] = {
        {"m/chat_template.jinja", "{{ 1 }}", "{{ 1 }}", BP_OK},
        {"m/tokenizer_config.json", "{\"a\": [1], \"chat_template\": \"{{ 2 }}\", \"b\": 3}",
         "{{ 2 }}", BP_OK},
        {"m/tokenizer_config.json",
         "{\"chat_template\": [{\"name\": \"default\", \"template\": \"d\", \"x\": 1}, {\"name\": "
         "\"rag\", \"template\": \"r\"}]}",
         "d", BP_OK},
        {"m/tokenizer_config.json",
         "{\"chat_template\": [{\"template\": \"r\", \"name\": \"rag\"}]}", "r", BP_OK},
        {"m/tokenizer_config.json", "{\"chat_template\": null}", "", BP_OK},
        {"m/tokenizer_config.json", "{\"x\": 1}", "", BP_OK},
        {"m/tokenizer_config.json", "[]", "", BP_ERR_DATA},
        {"m/tokenizer_config.json", "{\"chat_template\": [{\"template\": 3}]}", "", BP_ERR_DATA},
        {"m/other", "", "", BP_OK},
    };
    static uint64_t scratch[BP_CHAT_TEMPLATE_SCRATCH / 8];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memory_store store;
        size_t length = 0;
        char *to = malloc(BP_JINJA_SOURCE_MAX);
        assert_non_null(to);
        memory_store_init(&store);
        assert_int_equal(store.store.make_directory(&store.store, "m"), BP_OK);
        memory_store_put(&store, rows[i].file, rows[i].content, strlen(rows[i].content));
        jinja_fixture.error = (bp_error){.code = BP_OK};
        assert_int_equal(
            bp_chat_template_find(&store.store, "m", to, &length, scratch, &jinja_fixture.error),
            rows[i].status);
        if (rows[i].status == BP_OK) {
            assert_int_equal(length, strlen(rows[i].found));
            assert_memory_equal(to, rows[i].found, length);
        }
        assert_int_equal(store.open_files, 0);
        memory_store_free(&store);
        free(to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constructs_are_jinjas),
        cmocka_unit_test(corners_are_jinjas),
        cmocka_unit_test(named_templates_write_what_the_published_ones_do),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(what_jinja_refuses_may_have_an_answer),
        cmocka_unit_test(numbers_of_texts),
        cmocka_unit_test(arguments_of_filters),
        cmocka_unit_test(generators_are_gone_through_once),
        cmocka_unit_test(damaged_templates_end),
        cmocka_unit_test(directories_have_templates),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(jinja_fixture.room.memory);
    return failed;
}
