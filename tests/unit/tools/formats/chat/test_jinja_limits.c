/* SPDX-License-Identifier: MIT */
/* Chat templates at the ends of what they may have: memory that ends anywhere, a stray character
 * anywhere, and one of everything too many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fixtures/formats/jinja_fixture.h"
#include "tools/formats/chat/jinja.h"
#include "tools/formats/chat/jinja_json.h"

static bp_jinja_room rows; /* rows: what the file has, so that the template's is its own */

typedef void (*row_act)(const char *source, size_t length, const bp_jinja_value *variables);

/* Each construct of tests/golden/chat/jinja.jsonl with its variables. */
static void each_construct(row_act act)
{
    static char line[JINJA_TEXT];
    FILE *file = fopen("tests/golden/chat/jinja.jsonl", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        bp_jinja_value row;
        jinja_fixture_start(&rows, JINJA_ROOM);
        assert_int_equal(bp_jinja_json_bytes(&rows, line, strlen(line), &row), BP_OK);
        const bp_jinja_value *source = bp_jinja_dict_get(row.is.dict, "template", 8);
        act(source->is.text, source->count, bp_jinja_dict_get(row.is.dict, "variables", 9));
    }
    fclose(file);
}

/* Where the room is too small it says so; where it is not, the text is the same. */
static void act_room(const char *source, size_t length, const bp_jinja_value *variables)
{
    static char right[JINJA_TEXT];
    size_t written, again;
    jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
    const bp_status status = jinja_fixture_render(source, length, variables, &written);
    bp_status now = BP_ERR_FIT;
    memcpy(right, jinja_fixture.text, written);
    for (size_t bytes = 0; now == BP_ERR_FIT && bytes < JINJA_ROOM; bytes += 16) {
        jinja_fixture_start(&jinja_fixture.room, bytes);
        now = jinja_fixture_render(source, length, variables, &again);
        assert_true(now == status || (now == BP_ERR_FIT && jinja_fixture.error.code == BP_ERR_FIT));
    }
    assert_int_equal(now, status);
    assert_true(status != BP_OK ||
                (again == written && memcmp(jinja_fixture.text, right, written) == 0));
}

/* verifies formats-14.5095 */
static void rooms_of_every_size_do_or_are_refused(void **state)
{
    (void)state;
    each_construct(act_room);
}

static unsigned stray_count, stray_refused;

/* `$` means nothing in a tag. In a text or a string it is itself. */
static void act_stray(const char *source, size_t length, const bp_jinja_value *variables)
{
    static const char strays[] = {'$', '{', '|', ')', '.', '\'', '='};
    static char changed[JINJA_TEXT];
    for (size_t k = 0; k < sizeof strays; k++) {
        for (size_t at = 0; at <= length; at++) {
            size_t written;
            memcpy(changed, source, at);
            changed[at] = strays[k];
            memcpy(changed + at + 1, source + at, length - at);
            jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
            const bp_status status = jinja_fixture_render(changed, length + 1, variables, &written);
            assert_true(status == BP_OK || status == BP_ERR_DATA || status == BP_ERR_FIT);
            assert_true((status == BP_OK) == (jinja_fixture.error.code == BP_OK));
            stray_count++;
            stray_refused += status != BP_OK;
        }
    }
}

/* verifies formats-14.5095 */
static void strays_anywhere_end_well_or_are_refused(void **state)
{
    (void)state;
    each_construct(act_stray);
    assert_true(stray_refused > stray_count / 2);
}

typedef struct limit_row {
    const char *before, *each, *after; /* each: so many times */
    unsigned count;
    const char *said;
} limit_row;

/* One more than there can be; without words: as many as there can be, or no matter. */
static const limit_row limits[] = {
    {"", "{% if 1 %}", "", 49, "blocks lie too deep in one another"},
    {"{% for a, b, c, d", ", e", " in x %}{% endfor %}", 1, "more variables at once than can be"},
    {"{% macro m(a", ", a", ") %}{% endmacro %}", 16, "a macro has more parameters than can be"},
    {"", "{% macro m() %}{% endmacro %}", "", 33, "the template has more macros than can be"},
    {"{{ ", "(", "1 }}", 70, "an expression has too many levels"},
    {"{{ dict(", "1, ", "1) }}", 16, "a call has more arguments than can be"},
    {"{{ [", "[1, 1], ", "] | list | length }}", 30, NULL},
    {"", "{% with %}", "", 49, "blocks lie too deep in one another"},
    {"", "{% macro m() %}", "", 49, NULL},
    {"{% set a %}", "{% set b %}", "", 48, "blocks lie too deep in one another"},
    {"", "{% generation %}", "", 49, "blocks lie too deep in one another"},
    {"", "{% for a in x %}", "", 49, "blocks lie too deep in one another"},
    {"{{ ", "not ", "1 }}", 70, "an expression has too many levels"},
    {"{{ 1", " if 1 else 1", " }}", 70, "an expression has too many levels"},
    {"{{ '", "x", "'.upper() }}", 70, NULL},
    {"{{ 0.", "0123456789", " }}", 6, "a number that cannot be read"},
    {"{{ ", "123456789", " }}", 6, "a number that cannot be read"},
};

/* verifies formats-14.5095 */
static void one_too_many_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        static char source[JINJA_TEXT];
        const limit_row *row = &limits[i];
        bp_jinja_value none;
        size_t length = (size_t)snprintf(source, sizeof source, "%s", row->before), written;
        for (unsigned k = 0; k < row->count; k++) {
            length += (size_t)snprintf(source + length, sizeof source - length, "%s", row->each);
        }
        length += (size_t)snprintf(source + length, sizeof source - length, "%s", row->after);
        jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
        assert_int_equal(bp_jinja_dict_new(&jinja_fixture.room, 0, &none), BP_OK);
        bp_status status = jinja_fixture_render(source, length, &none, &written);
        if (row->said != NULL &&
            (status == BP_OK || strcmp(jinja_fixture.error.text, row->said) != 0)) {
            print_error("%s..: %d %s: %s\n", row->each, status, jinja_fixture.error.name,
                        jinja_fixture.error.text);
        }
        assert_true(row->said == NULL || status == BP_ERR_DATA);
        assert_true(row->said == NULL || strcmp(jinja_fixture.error.text, row->said) == 0);
    }
}

/* Names that a template has: so many, and no more. */
/* verifies formats-14.5095 */
static void names_end(void **state)
{
    static char source[1 << 15];
    size_t length = 0, written;
    bp_jinja_value none;
    (void)state;
    for (unsigned i = 0; i <= BP_JINJA_NAMES; i++) {
        jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
        assert_int_equal(bp_jinja_dict_new(&jinja_fixture.room, 0, &none), BP_OK);
        length +=
            (size_t)snprintf(source + length, sizeof source - length, "{%% set n%u = 1 %%}", i);
        const bool last = i == BP_JINJA_NAMES;
        if (last || i % 100 == 0) {
            assert_int_equal(jinja_fixture_render(source, length, &none, &written),
                             last ? BP_ERR_DATA : BP_OK);
        }
    }
    assert_string_equal(jinja_fixture.error.text, "the template has more variables than can be");
    char *large = calloc(1, BP_JINJA_SOURCE_MAX + 1);
    memset(large, 'x', BP_JINJA_SOURCE_MAX + 1);
    jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
    assert_int_equal(jinja_fixture_render(large, BP_JINJA_SOURCE_MAX + 1, &none, &written),
                     BP_ERR_DATA);
    free(large);
}

/* JSON that no variables can be: cut anywhere, too deep. */
/* verifies formats-14.5095 */
static void variables_may_be_damaged(void **state)
{
    static const char whole[] =
        "{\"a\": [1, 2.5, \"x\\u00e9\", null, true, {\"b\": {}}], \"c\": []}";
    static char deep[200];
    bp_jinja_value value;
    (void)state;
    for (size_t cut = 0; cut <= strlen(whole); cut++) {
        jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
        assert_int_equal(bp_jinja_json_bytes(&jinja_fixture.room, whole, cut, &value),
                         cut == strlen(whole) ? BP_OK : BP_ERR_DATA);
    }
    const size_t most = jinja_fixture.room.used;
    for (size_t bytes = 0; bytes <= most; bytes += 16) {
        jinja_fixture_start(&jinja_fixture.room, bytes);
        const bp_status status =
            bp_jinja_json_bytes(&jinja_fixture.room, whole, strlen(whole), &value);
        assert_true(status == (bytes < most ? BP_ERR_FIT : BP_OK) || bytes < most);
    }
    memset(deep, '[', sizeof deep);
    jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
    assert_int_equal(bp_jinja_json_bytes(&jinja_fixture.room, deep, sizeof deep, &value),
                     BP_ERR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rooms_of_every_size_do_or_are_refused),
        cmocka_unit_test(strays_anywhere_end_well_or_are_refused),
        cmocka_unit_test(one_too_many_is_refused),
        cmocka_unit_test(names_end),
        cmocka_unit_test(variables_may_be_damaged),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(jinja_fixture.room.memory);
    free(rows.memory);
    return failed;
}
