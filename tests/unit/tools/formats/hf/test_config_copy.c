/* SPDX-License-Identifier: MIT */
/* config.json with another element type; files copied and streamed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/hf/hf_config_copy.h"
#include "tools/formats/files/stream_file.h"

static uint64_t scratch[BP_CONFIG_COPY_SCRATCH / 8];

typedef struct sheet {
    char text[8192];
    size_t used;
    size_t fail_at; /* 0: never */
} sheet;

static bp_status keep(void *user, const char *text, size_t length)
{
    sheet *s = user;
    if (s->fail_at != 0 && s->used + length >= s->fail_at) {
        return BP_ERR_STORE;
    }
    assert_true(s->used + length < sizeof s->text);
    memcpy(s->text + s->used, text, length);
    s->used += length;
    s->text[s->used] = '\0';
    return BP_OK;
}

static bp_status copy(sheet *s, const char *json, size_t length)
{
    bp_json_span span = {json, length};
    const bp_json_source source = {bp_json_span_fill, &span, length};
    bp_error error = {.code = BP_OK};
    s->used = 0;
    return bp_hf_config_copy(&source, "bfloat16", scratch, keep, s, &error);
}

/* verifies formats-54.ef98 */
static void the_type_is_replaced_and_all_else_stays(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"{}", "{\n  \"torch_dtype\": \"bfloat16\"\n}\n"},
        {"{\"torch_dtype\": \"float32\"}", "{\n  \"torch_dtype\": \"bfloat16\"\n}\n"},
        {"{\"dtype\":null,\"a\":[ ]}", "{\n  \"dtype\": \"bfloat16\",\n  \"a\": []\n}\n"},
        {"{\"a\":{\"dtype\":1.50e-3,\"b\":[true,false,null,{}]},\"dtype\":{\"x\":[1]}}",
         "{\n  \"a\": {\n    \"dtype\": 1.50e-3,\n    \"b\": [\n      true,\n      false,\n"
         "      null,\n      {}\n    ]\n  },\n  \"dtype\": \"bfloat16\"\n}\n"},
        {"{\"\\u00e9\\n\":\"\\\"\\u0000\"}",
         "{\n  \"\xc3\xa9\\n\": \"\\\"\\u0000\",\n  \"torch_dtype\": \"bfloat16\"\n}\n"},
    };
    sheet s = {.used = 0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(copy(&s, cases[i].from, strlen(cases[i].from)), BP_OK);
        assert_string_equal(s.text, cases[i].to);
        char again[8192]; /* what was written is copied as it is */
        strcpy(again, s.text);
        assert_int_equal(copy(&s, again, strlen(again)), BP_OK);
        assert_string_equal(s.text, again);
    }
}

/* verifies formats-54.ef98 */
static void what_is_no_object_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "[]", "1", "{", "{\"a\":1,}", "{\"a\":1}x", "{\"a\":1,\"a\":2}"};
    sheet s = {.used = 0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(copy(&s, bad[i], strlen(bad[i])), BP_ERR_DATA);
    }
    size_t length = 300000;
    char *text = malloc(length);
    assert_non_null(text);
    memset(text, 'x', length);
    memcpy(text, "{\"a\":\"", 6);
    memcpy(text + length - 2, "\"}", 2);
    assert_int_equal(copy(&s, text, length), BP_ERR_DATA);
    free(text);
    s.fail_at = 1;
    assert_int_equal(copy(&s, "{}", 2), BP_ERR_STORE);
}

/* verifies formats-20.fa9a */
static void files_are_copied_whole_or_not_at_all(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_OPEN_READ,  FAULT_FILE_SIZE, FAULT_READ_AT,
                                       FAULT_OPEN_WRITE, FAULT_WRITE_AT,  FAULT_SYNC,
                                       FAULT_CLOSE,      FAULT_RENAME};
    memory_store memory;
    faulty_store faulty;
    char work[8];
    bool there;
    size_t size;
    memory_store_init(&memory);
    faulty_store_init(&faulty, &memory.store);
    assert_int_equal(bp_copy_file(&faulty.store, "a", "b", work, 8, &there, NULL), BP_OK);
    assert_false(there);
    memory_store_put(&memory, "a", "twenty-one characters", 21);
    assert_int_equal(bp_copy_file(&faulty.store, "a", "b", work, 8, &there, NULL), BP_OK);
    assert_true(there);
    assert_memory_equal(memory_store_bytes(&memory, "b", &size), "twenty-one characters", 21);
    assert_int_equal(size, 21);
    memory_store_put(&memory, "b", "old", 3);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        bp_error error = {.code = BP_OK};
        faulty_store_arm(&faulty, kinds[k], 1, false);
        assert_int_equal(bp_copy_file(&faulty.store, "a", "b", work, 8, &there, &error),
                         BP_ERR_STORE);
        assert_memory_equal(memory_store_bytes(&memory, "b", &size), "old", 3);
        assert_int_equal(memory.open_files, 0);
    }
    memory_store_put(&memory, "a", "", 0);
    assert_int_equal(bp_copy_file(&faulty.store, "a", "b", work, 8, &there, NULL), BP_OK);
    memory_store_bytes(&memory, "b", &size);
    assert_int_equal(size, 0);
    memory_store_free(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_type_is_replaced_and_all_else_stays),
        cmocka_unit_test(what_is_no_object_is_refused),
        cmocka_unit_test(files_are_copied_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
