/* SPDX-License-Identifier: MIT */
/* Reading safetensors: entries, metadata, scratch, failing stores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/formats/safetensors_fixture.h"

static void accepts(safetensors_fixture *d, const char *header, size_t data)
{
    if (safetensors_open_header(d, header, data) != BP_OK) {
        fail_msg("%s: %s: %s", header, d->error.name, d->error.text);
    }
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
}

/* verifies file-8.3d19 */
static void reads_every_part_of_an_entry(void **state)
{
    safetensors_fixture *d = *state;
    const char *header = "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                         "\"__metadata__\":{\"format\":\"pt\",\"a\":\"x\\u00e9\"},"
                         "\"a\":{\"data_offsets\":[24,26],\"shape\":[],\"dtype\":\"BF16\"}}  ";
    assert_int_equal(safetensors_open_header(d, header, 26), BP_OK);
    assert_int_equal(d->file.entry_count, 2);
    assert_int_equal(d->file.metadata_count, 2);
    assert_int_equal(d->file.data_bytes, 26);
    const bp_tensor_entry *b = bp_safetensors_find(&d->file, "b");
    assert_non_null(b);
    assert_string_equal(b->name, "b");
    assert_int_equal(b->dtype, BP_F32);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 3);
    assert_int_equal(b->offset, 0);
    assert_int_equal(b->bytes, 24);
    const bp_tensor_entry *a = bp_safetensors_find(&d->file, "a");
    assert_int_equal(a->rank, 0);
    assert_int_equal(a->offset, 24);
    assert_ptr_equal(a + 1, b); /* sorted by name */
    assert_null(bp_safetensors_find(&d->file, "ab"));
    assert_null(bp_safetensors_find(&d->file, "c"));
    assert_string_equal(bp_safetensors_metadata(&d->file, "a"), "x\xc3\xa9");
    assert_string_equal(bp_safetensors_metadata(&d->file, "format"), "pt");
    assert_null(bp_safetensors_metadata(&d->file, "b"));
    assert_null(bp_safetensors_metadata(&d->file, "z"));
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
}

/* verifies file-8.3d19 */
static void takes_unusual_but_valid_files(void **state)
{
    safetensors_fixture *d = *state;
    accepts(d, "{}", 0);
    accepts(d, "{ }   ", 0);
    accepts(d, "{\"__metadata__\":{}}", 0);
    /* Data at odd addresses: the format aligns nothing. */
    accepts(d,
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
            "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[1,9]}}",
            9);
    /* Tensors without elements, at a place where another one begins. */
    accepts(d,
            "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
            "\"b\":{\"dtype\":\"F64\",\"shape\":[0,5],\"data_offsets\":[0,0]},"
            "\"c\":{\"dtype\":\"F64\",\"shape\":[5,0],\"data_offsets\":[1,1]}}",
            1);
    accepts(d, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1);
}

/* verifies file-8.3d19 */
static void reads_metadata_values_of_any_length(void **state)
{
    safetensors_fixture *d = *state;
    enum { LONG = 5000 };
    char *header = malloc(LONG + 100);
    int used = sprintf(header, "{\"__metadata__\":{\"long\":\"");
    memset(header + used, 'v', LONG);
    strcpy(header + used + LONG, "\",\"z\":\"\"}}");
    assert_int_equal(safetensors_open_header(d, header, 0), BP_OK);
    const char *value = bp_safetensors_metadata(&d->file, "long");
    assert_int_equal(strlen(value), LONG);
    assert_int_equal(strspn(value, "v"), LONG);
    assert_string_equal(bp_safetensors_metadata(&d->file, "z"), "");
    assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
    free(header);
}

static const char good[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                           "\"__metadata__\":{\"k\":\"v\"}}";

/* verifies file-8.3d19 */
static void needs_no_more_scratch_than_it_says(void **state)
{
    safetensors_fixture *d = *state;
    safetensors_put(d, sizeof good - 1, good, sizeof good - 1, 4);
    assert_int_equal(safetensors_open(d, 100), BP_ERR_FIT);
    assert_int_equal(safetensors_open(d, 2 + (size_t)d->error.wanted), BP_ERR_FIT);
    size_t needed = (size_t)d->error.wanted;
    for (size_t skew = 0; skew < 16; skew++) {
        bp_error error = {.code = BP_OK};
        assert_int_equal(
            bp_safetensors_open(&d->file, &d->faulty.store, "f", d->scratch + skew, needed, &error),
            BP_OK);
        assert_true(d->file.scratch_needed <= needed);
        assert_string_equal(bp_safetensors_metadata(&d->file, "k"), "v");
        assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
        /* What it used there is enough there, and a byte less is not. */
        const size_t exact = d->file.scratch_needed;
        assert_int_equal(
            bp_safetensors_open(&d->file, &d->faulty.store, "f", d->scratch + skew, exact, &error),
            BP_OK);
        assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
        assert_int_equal(bp_safetensors_open(&d->file, &d->faulty.store, "f", d->scratch + skew,
                                             exact - 1, &error),
                         BP_ERR_FIT);
    }
}

/* Each of several values is found by its key, whatever their number. */
/* verifies file-8.3d19 */
static void finds_every_value(void **state)
{
    safetensors_fixture *d = *state;
    for (size_t count = 1; count <= 9; count++) {
        char header[256] = "{\"__metadata__\":{", key[2] = "a", value[2] = "A";
        for (size_t i = 0; i < count; i++) {
            (void)snprintf(header + strlen(header), sizeof header - strlen(header),
                           "%s\"%c\":\"%c\"", i > 0 ? "," : "", (char)('a' + (int)i),
                           (char)('A' + (int)i));
        }
        strcat(header, "}}");
        assert_int_equal(safetensors_open_header(d, header, 0), BP_OK);
        for (size_t i = 0; i < count; i++, key[0]++, value[0]++) {
            assert_string_equal(bp_safetensors_metadata(&d->file, key), value);
        }
        assert_null(bp_safetensors_metadata(&d->file, key));
        assert_null(bp_safetensors_metadata(&d->file, "A"));
        assert_int_equal(bp_safetensors_close(&d->file), BP_OK);
    }
}

/* verifies error-1.c4b2 */
static void keeps_an_earlier_error(void **state)
{
    safetensors_fixture *d = *state;
    safetensors_put(d, 2, "[]", 2, 0);
    bp_error error = {.code = BP_OK};
    bp_status first = bp_error_set(&error, BP_ERR_USAGE, "here", "first", NULL);
    assert_int_equal(first, BP_ERR_USAGE);
    assert_int_equal(
        bp_safetensors_open(&d->file, &d->faulty.store, "f", d->scratch, SCRATCH, &error),
        BP_ERR_DATA);
    assert_string_equal(error.text, "first");
    assert_int_equal(
        bp_safetensors_open(&d->file, &d->faulty.store, "f", d->scratch, SCRATCH, NULL),
        BP_ERR_DATA);
}

/* verifies file-7.181b */
static void store_failures_while_reading_are_reported(void **state)
{
    safetensors_fixture *d = *state;
    safetensors_put(d, sizeof good - 1, good, sizeof good - 1, 4);
    faulty_store_arm(&d->faulty, FAULT_OPEN_READ, 1, false);
    assert_int_equal(safetensors_open(d, SCRATCH), BP_ERR_STORE);
    assert_string_equal(d->error.name, "f (open)");
    faulty_store_arm(&d->faulty, FAULT_FILE_SIZE, 1, false);
    assert_int_equal(safetensors_open(d, SCRATCH), BP_ERR_STORE);
    assert_string_equal(d->error.name, "f (size)");
    for (size_t n = 1; n <= 3; n++) {
        faulty_store_arm(&d->faulty, FAULT_READ_AT, n, false);
        assert_int_equal(safetensors_open(d, SCRATCH), BP_ERR_STORE);
        assert_string_equal(d->error.name, "f (read)");
        assert_string_equal(d->error.text, "made to fail");
    }
    faulty_store_arm(&d->faulty, FAULT_READ_AT, 4, false);
    assert_int_equal(safetensors_open(d, SCRATCH), BP_OK);
    unsigned char back[4];
    uint64_t digest;
    bp_staging staging = {back, 3};
    assert_int_equal(bp_safetensors_stream(&d->file, d->file.entries, staging, NULL, NULL, &digest),
                     BP_ERR_STORE);
    assert_int_equal(bp_safetensors_read(&d->file, d->file.entries, 0, back, 5), BP_ERR_USAGE);
    assert_int_equal(bp_safetensors_read(&d->file, d->file.entries, 5, back, 0), BP_ERR_USAGE);
    assert_int_equal(bp_safetensors_read(&d->file, d->file.entries, 4, back, 0), BP_OK);
    faulty_store_arm(&d->faulty, FAULT_CLOSE, 1, false);
    assert_int_equal(bp_safetensors_close(&d->file), BP_ERR_STORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_every_part_of_an_entry, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(takes_unusual_but_valid_files, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(reads_metadata_values_of_any_length, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(needs_no_more_scratch_than_it_says, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(finds_every_value, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(keeps_an_earlier_error, safetensors_set_up,
                                        safetensors_tear_down),
        cmocka_unit_test_setup_teardown(store_failures_while_reading_are_reported,
                                        safetensors_set_up, safetensors_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
