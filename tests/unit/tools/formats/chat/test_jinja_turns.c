/* SPDX-License-Identifier: MIT */
/* What a template tells of itself while it is written (where each turn begins, what it generates),
 * and values at their ends. */
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

enum { SPANS = 4, TURNS = 3 };

typedef struct told {
    bp_jinja_render render;
    bp_jinja_span spans[SPANS];
    uint32_t starts[TURNS];
} told;

/* Renders a template over variables in JSON, whose `messages` are the turns. */
static bp_status tell(told *t, const char *source, const char *variables)
{
    static bp_jinja_value values;
    static bp_jinja_program program;
    jinja_fixture_start(&jinja_fixture.room, JINJA_ROOM);
    assert_int_equal(
        bp_jinja_json_bytes(&jinja_fixture.room, variables, strlen(variables), &values), BP_OK);
    bp_status status = bp_jinja_compile(&program, &jinja_fixture.room, source, strlen(source));
    if (status != BP_OK) {
        return status;
    }
    memset(t->starts, 0xff, sizeof t->starts);
    t->render = (bp_jinja_render){.program = &program,
                                  .room = &jinja_fixture.room,
                                  .variables = &values,
                                  .now = {2024, 7, 26, 0, 0, 0},
                                  .out = jinja_fixture.text,
                                  .out_room = sizeof jinja_fixture.text,
                                  .spans = t->spans,
                                  .span_room = SPANS,
                                  .turns = bp_jinja_dict_get(values.is.dict, "messages", 8),
                                  .turn_starts = t->starts};
    return bp_jinja_run(&t->render);
}

static bool wrote(const told *t, const char *text)
{
    return t->render.length == strlen(text) &&
           memcmp(jinja_fixture.text, text, t->render.length) == 0;
}

#define MESSAGES "{\"messages\": [{\"c\": \"a\"}, \"no turn\", {\"c\": \"b\"}], \"x\": [1]}"
#define EACH     "{% for m in messages %}{{ m.c }}{% endfor %}"

/* A turn begins where a loop of the text itself comes to it: not in a macro, not in what is kept,
 * and other parts are none. */
/* verifies formats-14.5095 */
static void turns_begin_in_the_text_itself(void **state)
{
    (void)state;
    static const struct {
        const char *source, *text;
        uint32_t starts[TURNS];
    } rows[] = {
        {"{% for m in messages %}<{{ m.c }}>{% endfor %}", "<a><><b>", {0, UINT32_MAX, 5}},
        {"{% for n in x %}{{ n }}{% endfor %}." EACH, "1.ab", {2, UINT32_MAX, 3}},
        {"{% macro m() %}" EACH "{% endmacro %}{{ m() }}",
         "ab",
         {UINT32_MAX, UINT32_MAX, UINT32_MAX}},
        {"{% set kept %}" EACH "{% endset %}{{ kept }}",
         "ab",
         {UINT32_MAX, UINT32_MAX, UINT32_MAX}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static told t;
        assert_int_equal(tell(&t, rows[i].source, MESSAGES), BP_OK);
        assert_true(wrote(&t, rows[i].text));
        assert_memory_equal(t.starts, rows[i].starts, sizeof t.starts);
    }
}

/* What is generated is noted where it goes to the text itself. */
/* verifies formats-14.5095 */
static void spans_lie_in_the_text_itself(void **state)
{
    (void)state;
    static const struct {
        const char *source, *text;
        uint32_t spans, from, to;
    } rows[] = {
        {"<{% generation %}ab{% endgeneration %}>", "<ab>", 1, 1, 3},
        {"{% macro m() %}{% generation %}ab{% endgeneration %}{% endmacro %}{{ m() }}", "ab", 0, 0,
         0},
        {"{% set kept %}{% generation %}ab{% endgeneration %}{% endset %}{{ kept }}", "ab", 0, 0,
         0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static told t;
        assert_int_equal(tell(&t, rows[i].source, MESSAGES), BP_OK);
        assert_true(wrote(&t, rows[i].text));
        assert_int_equal(t.render.span_count, rows[i].spans);
        if (rows[i].spans > 0) {
            assert_int_equal(t.spans[0].from, rows[i].from);
            assert_int_equal(t.spans[0].to, rows[i].to);
        }
    }
}

/* Values of forms that no golden template has; text NULL: refused. */
/* verifies formats-14.5095 */
static void values_at_their_ends(void **state)
{
    (void)state;
    static const struct {
        const char *source, *text;
    } rows[] = {
        {"{{ 'a,b,c'.split(',', 1) }}", "['a', 'b,c']"},
        {"{{ 'a b c'.split(none, 1) }}", NULL},
        {"{{ 'abc'[1:] }}", "bc"},
        {"{{ 'abc'[::-1] }}", NULL},
        {"{{ [1, 2, 3][::-1] }}", "[3, 2, 1]"},
        {"{{ [1, 2, 3][::2] }}", NULL},
        {"{{ 3[1:] }}", NULL},
        {"{{ [1,, 2] }}", NULL},
        {"{{ [nothing] }}", "[Undefined]"},
        {"{{ [nothing] | tojson }}", NULL},
        {"{{ z.title() }}", "A\0B"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static told t;
        const bp_status status =
            tell(&t, rows[i].source, "{\"messages\": [], \"z\": \"a\\u0000b\"}");
        if (rows[i].text == NULL) {
            assert_int_equal(status, BP_ERR_DATA);
        } else {
            assert_int_equal(status, BP_OK);
            assert_memory_equal(jinja_fixture.text, rows[i].text, t.render.length);
            assert_true(t.render.length >= strlen(rows[i].text));
        }
    }
}

/* Values are compared as deep as JSON can be; what a template makes deeper is equal to nothing. */
/* verifies formats-14.5095 */
static void values_too_deep_are_equal_to_nothing(void **state)
{
    (void)state;
    static const char made[] = "{%% set n = namespace(x=[]) %%}{%% for i in range(%u) %%}"
                               "{%% set n.x = [n.x] %%}{%% endfor %%}{{ n.x == n.x }}";
    for (unsigned deep = 0; deep < 2; deep++) {
        static told t;
        char source[256];
        snprintf(source, sizeof source, made, deep == 0 ? 3u : 2u * BP_JINJA_DEPTH);
        assert_int_equal(tell(&t, source, MESSAGES), BP_OK);
        assert_true(wrote(&t, deep == 0 ? "True" : "False"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_begin_in_the_text_itself),
        cmocka_unit_test(spans_lie_in_the_text_itself),
        cmocka_unit_test(values_at_their_ends),
        cmocka_unit_test(values_too_deep_are_equal_to_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(jinja_fixture.room.memory);
    return failed;
}
