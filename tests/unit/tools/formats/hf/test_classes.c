/* SPDX-License-Identifier: MIT */
/* id2label: names in order are kept, anything else leaves numbers only; what is written is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/families/transformer.h"
#include "tests/fixtures/config.h"
#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/hf/hf_config.h"
#include "tools/formats/family/family.h"

static uint64_t scratch[BP_CLASS_NAMES_SCRATCH / 8];
static bp_class_names names;

static bp_status read_text(const char *json)
{
    memory_store memory;
    bp_error error = {.code = BP_OK};
    memory_store_init(&memory);
    memory_store_put(&memory, "config.json", json, strlen(json));
    bp_status status = bp_class_names_read(&memory.store, "config.json", scratch, &names, &error);
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
    return status;
}

static uint32_t class_of(const char *name)
{
    uint32_t number = 1000;
    return bp_class_names_find(&names, name, strlen(name), &number) ? number : 1000;
}

/* verifies formats-27.f2cc */
static void test_names_are_found(void **state)
{
    (void)state;
    assert_int_equal(
        read_text("{\"a\": [1, {\"id2label\": 3}], \"id2label\": {\"0\": \"bad\", \"1\": "
                  "\"\", \"2\": \"so \\u00fc\"}, \"b\": 1}"),
        BP_OK);
    assert_int_equal(names.count, 3);
    assert_int_equal(class_of("bad"), 0);
    assert_int_equal(class_of(""), 1);
    assert_int_equal(class_of("so \xc3\xbc"), 2);
    assert_int_equal(class_of("ba"), 1000);
    assert_int_equal(class_of("badd"), 1000);
    uint32_t number;
    assert_false(bp_class_names_find(NULL, "bad", 3, &number));
}

static void test_anything_else_is_no_names(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "{}",
        "{\"id2label\": null}",
        "{\"id2label\": [\"a\"]}",
        "{\"id2label\": {\"1\": \"a\", \"0\": \"b\"}}",
        "{\"id2label\": {\"x\": \"a\"}}",
        "{\"id2label\": {\"0.0\": \"a\"}}",
        "{\"id2label\": {\"0\": 1}}",
        "{\"id2label\": {\"0\": \"a\\u0000b\"}}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(read_text(cases[i]), BP_OK);
        assert_int_equal(names.count, 0);
    }
    assert_int_equal(read_text("{\"id2label\": {\"0\": \"a\", \"1\""), BP_ERR_DATA);
    assert_int_equal(read_text("{\"a\": [}"), BP_ERR_DATA);
    assert_int_equal(read_text(""), BP_ERR_DATA);
}

/* One class more, or one byte more, than are kept. */
static void test_the_limits(void **state)
{
    (void)state;
    static char json[65536];
    for (size_t most = BP_CLASS_NAMES_MAX; most <= BP_CLASS_NAMES_MAX + 1; most++) {
        int at = snprintf(json, sizeof json, "{\"id2label\": {");
        for (size_t i = 0; i < most; i++) {
            at += snprintf(json + at, sizeof json - (size_t)at, "%s\"%zu\": \"c%zu\"",
                           i > 0 ? "," : "", i, i);
        }
        (void)snprintf(json + at, sizeof json - (size_t)at, "}}");
        assert_int_equal(read_text(json), BP_OK);
        assert_int_equal(names.count, most == BP_CLASS_NAMES_MAX ? most : 0);
    }
    for (int more = 0; more < 2; more++) {
        (void)snprintf(json, sizeof json, "{\"id2label\": {\"0\": \"%0*d\"}}",
                       BP_CLASS_NAMES_TEXT - 1 + more, 0);
        assert_int_equal(read_text(json), BP_OK);
        assert_int_equal(names.count, more == 0 ? 1 : 0);
    }
}

/* verifies formats-2.1f4a */
static void test_what_is_written_is_read(void **state)
{
    (void)state;
    static char json[BP_HF_CONFIG_TEXT + 1];
    static bp_class_names given;
    bp_model_config config =
        config_with((bp_model_config){.family = &bp_family_bert,
                                      .task = BP_TASK_CLASSES,
                                      .classes = 2,
                                      .vocabulary = 9,
                                      .positions = 8},
                    OWN(bp_transformer, .heads = 1, .width = 8, .layers = 1, .inner = 8));
    size_t length;
    assert_int_equal(read_text("{\"id2label\": {\"0\": \"\\\"q\\\"\", \"1\": \"\\n\"}}"), BP_OK);
    given = names;
    assert_int_equal(bp_hf_config_text(&config, &given, json, &length), BP_OK);
    json[length] = '\0';
    assert_int_equal(read_text(json), BP_OK);
    assert_int_equal(names.count, 2);
    assert_int_equal(class_of("\"q\""), 0);
    assert_int_equal(class_of("\n"), 1);
    config.classes = 3; /* other classes than those that have names */
    assert_int_equal(bp_hf_config_text(&config, &given, json, &length), BP_OK);
    json[length] = '\0';
    assert_int_equal(read_text(json), BP_OK);
    assert_int_equal(class_of("LABEL_2"), 2);
}

/* Every call of the store fails once. */
/* verifies formats-24.7573 */
static void test_storage_failures(void **state)
{
    (void)state;
    memory_store memory;
    static const char json[] = "{\"id2label\": {\"0\": \"a\"}}";
    memory_store_init(&memory);
    memory_store_put(&memory, "config.json", json, sizeof json - 1);
    static const fault_kind kinds[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT,
                                       FAULT_CLOSE};
    for (size_t i = 0; i < 4; i++) {
        faulty_store faulty;
        bp_error error = {.code = BP_OK};
        faulty_store_init(&faulty, &memory.store);
        faulty_store_arm(&faulty, kinds[i], 1, false);
        bp_status status =
            bp_class_names_read(&faulty.store, "config.json", scratch, &names, &error);
        /* A failing close of a file that was read loses nothing. */
        assert_int_equal(status, kinds[i] != FAULT_CLOSE ? BP_ERR_STORE : BP_OK);
        assert_int_equal(error.code, status);
    }
    memory_store_free(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_found),  cmocka_unit_test(test_anything_else_is_no_names),
        cmocka_unit_test(test_the_limits),       cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_storage_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
