/* SPDX-License-Identifier: MIT */
/* Writing GGUF: what has no room in a file, and a store that fails at any call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/gguf/gguf_read.h"
#include "tools/formats/gguf/gguf_write.h"

static memory_store memory;
static faulty_store faulty;
static bp_gguf_writer writer;
static bp_error error;

static void begin(void)
{
    memory_store_init(&memory);
    faulty_store_init(&faulty, &memory.store);
    error = (bp_error){.code = BP_OK};
}

static void end(void)
{
    assert_int_equal(memory.open_files, 0);
    memory_store_free(&memory);
}

/* verifies formats-10.4a5c */
static void names_and_ranks_without_room(void **state)
{
    (void)state;
    static const uint64_t shape[BP_GGUF_RANK_MAX + 1] = {1, 1, 1, 1, 1};
    static char long_name[BP_GGUF_NAME_MAX + 1], fitting[BP_GGUF_NAME_MAX];
    memset(long_name, 'n', BP_GGUF_NAME_MAX);
    memset(fitting, 'n', BP_GGUF_NAME_MAX - 1);
    const struct {
        const char *name;
        uint32_t rank;
        bp_status status;
    } rows[] = {{fitting, 1, BP_OK},
                {"t", BP_GGUF_RANK_MAX, BP_OK},
                {long_name, 1, BP_ERR_USAGE},
                {"t", 0, BP_ERR_USAGE},
                {"t", BP_GGUF_RANK_MAX + 1, BP_ERR_USAGE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const float zero = 0.0f;
        begin();
        assert_int_equal(bp_gguf_begin(&writer, &faulty.store, "g", &error), BP_OK);
        bp_gguf_put_tensor(&writer, rows[i].name, rows[i].rank, shape, BP_F32);
        bp_gguf_put_tensor(&writer, "u", rows[i].status == BP_OK ? 1 : 0, shape, BP_F32);
        if (rows[i].status == BP_OK) {
            assert_int_equal(bp_gguf_data(&writer), BP_OK);
            for (int k = 0; k < 2; k++) {
                assert_int_equal(bp_gguf_data_add(&writer, &zero, sizeof zero), BP_OK);
                assert_int_equal(bp_gguf_data_pad(&writer), BP_OK);
            }
        }
        assert_int_equal(bp_gguf_end(&writer), rows[i].status);
        if (rows[i].status != BP_OK) { /* the first of two is named */
            assert_string_equal(error.name, rows[i].name);
            assert_non_null(strstr(error.text, "no room for a tensor name or rank"));
        }
        end();
    }
}

static bp_status write_small(void)
{
    static const uint64_t shape[1] = {40000};
    static float zeros[40000];
    BP_TRY(bp_gguf_begin(&writer, &faulty.store, "g", &error));
    bp_gguf_put_string(&writer, "general.architecture", "llama", 5);
    bp_gguf_put_tensor(&writer, "t", 1, shape, BP_F32);
    bp_status status = bp_gguf_data(&writer);
    status = status == BP_OK ? bp_gguf_data_add(&writer, zeros, sizeof zeros) : status;
    status = status == BP_OK ? bp_gguf_data_pad(&writer) : status;
    const bp_status ended = bp_gguf_end(&writer);
    return status == BP_OK ? ended : status;
}

/* verifies formats-24.7573 */
static void each_failing_call_is_reported(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_OPEN_WRITE, FAULT_WRITE_AT, FAULT_SYNC, FAULT_CLOSE};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t reported = 0;
        for (size_t at = 1;; at++) {
            begin();
            faulty_store_arm(&faulty, kinds[k], at, false);
            const bp_status status = write_small();
            const bool failed = faulty.failures > 0;
            assert_int_equal(status, failed ? BP_ERR_STORE : BP_OK);
            end();
            if (!failed) {
                break;
            }
            reported++;
        }
        assert_true(reported > 0);
    }
}

/* What failed first is what is returned, whatever is wrong behind it. */
/* verifies formats-24.7573 */
static void the_first_failure_stays(void **state)
{
    (void)state;
    static const uint64_t shape[1] = {1};
    begin();
    assert_int_equal(bp_gguf_begin(&writer, &faulty.store, "g", &error), BP_OK);
    faulty_store_arm(&faulty, FAULT_WRITE_AT, 1, true);
    for (size_t i = 0; faulty.failures == 0; i++) {
        assert_true(i < 1000000);
        bp_gguf_put_string(&writer, "general.description", "some words", 10);
    }
    bp_gguf_put_tensor(&writer, "t", 0, shape, BP_F32);
    assert_int_equal(bp_gguf_end(&writer), BP_ERR_STORE);
    assert_int_equal(error.code, BP_ERR_STORE);
    end();
}

/* Reading what is no GGUF: an error may be of no interest, or there before. */
/* verifies formats-10.4a5c */
static void the_first_error_stays(void **state)
{
    (void)state;
    static uint64_t tables[64];
    bp_staging room = {tables, sizeof tables};
    bp_gguf_file file;
    begin();
    memory_store_put(&memory, "g", "GGUX", 4);
    assert_int_equal(bp_gguf_open(&file, &memory.store, "g", &room, NULL), BP_ERR_DATA);
    error = (bp_error){.code = BP_ERR_FIT, .text = "before"};
    assert_int_equal(bp_gguf_open(&file, &memory.store, "g", &room, &error), BP_ERR_DATA);
    assert_string_equal(error.text, "before");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_ranks_without_room),
        cmocka_unit_test(each_failing_call_is_reported),
        cmocka_unit_test(the_first_failure_stays),
        cmocka_unit_test(the_first_error_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
