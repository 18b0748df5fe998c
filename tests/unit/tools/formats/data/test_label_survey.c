/* SPDX-License-Identifier: MIT */
/* Classes that the labels of data name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data_documents.h"

typedef struct fixture {
    memory_store memory;
    bp_error error;
    bp_class_names names;
    bp_label_survey survey;
} fixture;

static void fixture_begin(fixture *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
    d->survey.names = &d->names;
}

/* Surveys "a.csv", then "b.csv" if there is such a text. */
static bp_status fixture_read(fixture *d, const char *first, const char *second, bp_labels labels)
{
    static uint64_t scratch[BP_LABEL_SURVEY_SCRATCH / 8];
    bp_data data;
    bp_data_file files[2] = {{.path = "a.csv"}, {.path = "b.csv"}};
    memory_store_put(&d->memory, "a.csv", first, strlen(first));
    memory_store_put(&d->memory, "b.csv", second != NULL ? second : "",
                     second != NULL ? strlen(second) : 0);
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(bp_data_open(&data, &d->memory.store, files, second != NULL ? 2 : 1,
                                  first[0] == '{' ? BP_DATA_JSONL : BP_DATA_AUTO, &d->error),
                     BP_OK);
    bp_status status = bp_label_survey_read(&d->survey, &data, labels, scratch);
    bp_data_close(&data);
    assert_int_equal(status, d->error.code);
    assert_int_equal(d->memory.open_files, 0);
    return status;
}

/* The names that were found, each with a bar behind it. */
static const char *fixture_names(const fixture *d)
{
    static char all[256];
    size_t at = 0;
    all[0] = '\0';
    for (uint32_t i = 0; i < d->names.count; i++) {
        at += (size_t)snprintf(all + at, sizeof all - at, "%s|", d->names.text + d->names.start[i]);
    }
    return all;
}

/* verifies formats-59.92c8 */
static void names_are_sorted_and_kept_once(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    assert_int_equal(fixture_read(&d, "label,text\nb,1\na,2\nb,3\nB,4\n\xc3\xa9,5\n\"a, b\",6\n",
                                  "text,label\nx,aa\ny,a\n", BP_LABELS_CLASS),
                     BP_OK);
    assert_string_equal(fixture_names(&d), "B|a|a, b|aa|b|\xc3\xa9|");
    assert_false(d.survey.numbers);
    /* Of names nobody sees whether they are a header: without one the first column is the label. */
    assert_int_equal(fixture_read(&d, "z,one\ny,two\n", NULL, BP_LABELS_CLASS), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "names no column that is known"));
    d.survey.reading.no_header = true;
    assert_int_equal(fixture_read(&d, "z,one\ny,two\n", NULL, BP_LABELS_CLASS), BP_OK);
    assert_string_equal(fixture_names(&d), "y|z|");
    d.survey.reading.label_column = "2";
    assert_int_equal(fixture_read(&d, "z,one\ny,two\n", NULL, BP_LABELS_CLASS), BP_OK);
    assert_string_equal(fixture_names(&d), "one|two|");
    d.survey.reading = (bp_data_reading){NULL, NULL, false, BP_LABEL_FORM_FOUND};
    assert_int_equal(fixture_read(&d,
                                  "{\"text\": \"t\", \"label\": [\"b\", \"a\"]}\n"
                                  "{\"text\": \"t\", \"label\": []}\n{\"text\": \"t\", "
                                  "\"label\": \"c\"}\n",
                                  NULL, BP_LABELS_BITS),
                     BP_OK);
    assert_string_equal(fixture_names(&d), "a|b|c|");
    assert_int_equal(fixture_read(&d, "label,text\nb a,1\n,2\nc,3\n", NULL, BP_LABELS_BITS), BP_OK);
    assert_string_equal(fixture_names(&d), "a|b|c|");
    memory_store_free(&d.memory);
}

/* verifies formats-59.92c8 */
static void numbers_have_no_names(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    static const char *const numbers[] = {"3", "-1", "1.5", "1024"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "label,text\n%s,1\nname,2\n\"\n", numbers[i]);
        assert_int_equal(fixture_read(&d, text, NULL, BP_LABELS_CLASS), BP_OK);
        assert_true(d.survey.numbers);
        assert_int_equal(d.names.count, 0);
    }
    assert_int_equal(fixture_read(&d, "label,text\n", NULL, BP_LABELS_CLASS), BP_OK);
    assert_false(d.survey.numbers);
    memory_store_free(&d.memory);
}

/* verifies formats-59.92c8 */
static void what_cannot_be_classes_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *place, *words;
    } cases[] = {
        {"label,text\na,1\n2,2\n", "a.csv:3", "those before it are names"},
        {"label,text\n,1\n", "a.csv:2", "empty"},
        {"{\"text\": \"t\", \"label\": \"a\\u0000b\"}", "a.csv:1", "NUL"},
        {"{\"text\": \"t\", \"label\": null}", "a.csv:1", "neither a number nor"},
    };
    fixture d;
    fixture_begin(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(fixture_read(&d, cases[i].text, NULL, BP_LABELS_CLASS), BP_ERR_DATA);
        assert_non_null(strstr(d.error.name, cases[i].place));
        assert_non_null(strstr(d.error.text, cases[i].words));
    }
    char *many = malloc(40000);
    size_t at = (size_t)sprintf(many, "label,text\n");
    for (int i = 0; i <= BP_CLASS_NAMES_MAX; i++) {
        at += (size_t)sprintf(many + at, "n%d,t\n", i);
        bool fits = i < BP_CLASS_NAMES_MAX;
        if (i >= BP_CLASS_NAMES_MAX - 1) {
            assert_int_equal(fixture_read(&d, many, NULL, BP_LABELS_CLASS),
                             fits ? BP_OK : BP_ERR_DATA);
        }
    }
    assert_string_equal(d.error.name, "a.csv:1026");
    free(many);
    memory_store_free(&d.memory);
}

/* Names are few enough, and too long together; and an error that was there before stays. */
/* verifies formats-59.92c8 */
static void names_have_a_bound_together(void **state)
{
    (void)state;
    static uint64_t scratch[BP_LABEL_SURVEY_SCRATCH / 8];
    static char many[20000];
    fixture d;
    fixture_begin(&d);
    size_t at = (size_t)sprintf(many, "label,text\n");
    for (int i = 0; i < 200; i++) {
        at += (size_t)sprintf(many + at, "n%059d,t\n", i);
    }
    assert_int_equal(fixture_read(&d, many, NULL, BP_LABELS_CLASS), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "more names of labels"));
    assert_int_equal(d.names.count, BP_CLASS_NAMES_TEXT / 61);
    for (int known = 0; known < 2; known++) {
        bp_data data;
        bp_data_file file = {.path = "a.csv"};
        bp_error before = {.code = BP_ERR_FIT, .text = "before"};
        assert_int_equal(bp_data_open(&data, &d.memory.store, &file, 1, BP_DATA_AUTO, &d.error),
                         BP_OK);
        data.error = known != 0 ? &before : NULL;
        assert_int_equal(bp_label_survey_read(&d.survey, &data, BP_LABELS_CLASS, scratch),
                         BP_ERR_DATA);
        assert_string_equal(before.text, "before");
        bp_data_close(&data);
    }
    memory_store_free(&d.memory);
}

/* Lists as Python and numpy print them: repr of ["it's \"x\"", "New York"] and the like. */
/* verifies formats-59.92c8 */
static void printed_lists_have_their_members(void **state)
{
    (void)state;
    static const struct {
        const char *label, *names; /* NULL: it is refused */
    } cases[] = {
        {"[New York, x]", "New York|x|"},
        {"[ New York , x ]", "New York|x|"},
        {"['New York', 'x, y']", "New York|x, y|"},
        {"['New York' 'x']", "New York|x|"},
        {"['New York'\n 'x']", "New York|x|"},
        {"['it\\'s \"\"x\"\"', 'y']", "it's \"x\"|y|"},
        {"['a\\\\', 'b']", "a\\|b|"},
        {"['a\\n', 'b']", "a\\n|b|"},
        {"[\"\"it's\"\", it's]", "it's|"},
        {"[a b]", "a|b|"},
        {"['a'b, c]", NULL},
        {"['a' 'b', c]", NULL},
        {"['a''b']", NULL},
        {"['a, b]", NULL},
        {"[a,, b]", NULL},
        {"['', b]", NULL},
    };
    fixture d;
    fixture_begin(&d);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "label,text\n\"%s\",1\n", cases[i].label);
        const bp_status status = fixture_read(&d, text, NULL, BP_LABELS_BITS);
        if (status != (cases[i].names != NULL ? BP_OK : BP_ERR_DATA) ||
            (status == BP_OK && strcmp(fixture_names(&d), cases[i].names) != 0)) {
            fail_msg("%s: %d %s: %s", text, (int)status, d.error.text, fixture_names(&d));
        }
    }
    memory_store_free(&d.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_sorted_and_kept_once),
        cmocka_unit_test(numbers_have_no_names),
        cmocka_unit_test(what_cannot_be_classes_is_refused),
        cmocka_unit_test(names_have_a_bound_together),
        cmocka_unit_test(printed_lists_have_their_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
