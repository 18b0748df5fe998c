/* SPDX-License-Identifier: MIT */
/* Rows of numbers: CSV and raw float32, as examples whose tokens are bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/columns.h"
#include "tests/fixtures/formats/numbers_fixture.h"

typedef numbers_fixture fixture;

static void fixture_put(fixture *d, const char *name, const void *bytes, size_t size)
{
    memory_store_put(&d->memory, name, bytes, size);
    d->files[d->count++].path = name;
}

static void open_data(fixture *d)
{
    d->error = (bp_error){.code = BP_OK};
    assert_int_equal(
        bp_data_open(&d->data, &d->faulty.store, d->files, d->count, BP_DATA_AUTO, &d->error),
        BP_OK);
}

static bp_status numbers(fixture *d, uint32_t inputs, bp_labels labels)
{
    bp_tokens_close(&d->tokens);
    open_data(d);
    d->work = (bp_numbers){.data = &d->data,
                           .path = "rows.tokens",
                           .inputs = inputs,
                           .labels = labels,
                           .classes = 3,
                           .bare = d->bare,
                           .scratch = d->scratch,
                           .error = &d->error};
    if (labels == BP_LABELS_BITS) {
        d->work.classes = 0;
    }
    bp_status status = bp_numbers_open(&d->work, &d->tokens);
    bp_data_close(&d->data);
    return status;
}

/* Row `index` as the feed stages it. */
static void has_row(fixture *d, uint64_t index, const float *inputs, uint32_t count, uint32_t label)
{
    int32_t scratch[BP_FEED_SCRATCH(8)];
    int32_t ids[8];
    int32_t labels[8];
    int32_t lengths[1];
    bp_group group = columns_of(count, ids, labels, lengths, NULL);
    bp_feed feed = {.source = &d->tokens.source,
                    .sequence = count,
                    .batch = 1,
                    .group = 1,
                    .kind = d->work.labels,
                    .classes = d->work.classes};
    assert_int_equal(bp_feed_init(&feed, &d->error), BP_OK);
    assert_int_equal(bp_feed_stage(&feed, index, &group, scratch), BP_OK);
    assert_memory_equal(ids, inputs, count * sizeof *inputs);
    assert_int_equal((uint32_t)labels[0], label);
    assert_int_equal(lengths[0], count);
    assert_int_equal(group.valid, 1);
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* verifies formats-23.429b */
static void csv_rows(void **state)
{
    (void)state;
    static const char named[] = "x,label,\"y\"\r\n1.5,2, -3e2\r\n\r\n0, 1 ,\"0.25\"\n";
    static const char bare[] = "\n4,5,0\n";
    static const float rows[3][2] = {{1.5f, -300.0f}, {0.0f, 0.25f}, {4.0f, 5.0f}};
    fixture d;
    numbers_fixture_begin(&d);
    fixture_put(&d, "a.csv", named, sizeof named - 1);
    fixture_put(&d, "b.csv", bare, sizeof bare - 1);
    assert_int_equal(numbers(&d, 2, BP_LABELS_CLASS), BP_OK);
    assert_int_equal(d.work.rows, 3);
    assert_true(d.work.built);
    has_row(&d, 0, rows[0], 2, 2);
    has_row(&d, 1, rows[1], 2, 1);
    has_row(&d, 2, rows[2], 2, 0);
    assert_int_equal(numbers(&d, 2, BP_LABELS_CLASS), BP_OK);
    assert_false(d.work.built);
    assert_int_equal(numbers(&d, 2, BP_LABELS_BITS), BP_OK);
    assert_true(d.work.built);
    has_row(&d, 0, rows[0], 2, bits_of(2.0f));
    uint32_t inputs;
    open_data(&d);
    assert_int_equal(bp_numbers_inputs(&d.work, &inputs), BP_OK);
    bp_data_close(&d.data);
    assert_int_equal(inputs, 2);
    numbers_fixture_end(&d);
    numbers_fixture_begin(&d);
    fixture_put(&d, "a.tsv", "1\t2\t-0.5\n", 9);
    assert_int_equal(numbers(&d, 2, BP_LABELS_BITS), BP_OK);
    has_row(&d, 0, (const float[]){1.0f, 2.0f}, 2, bits_of(-0.5f));
    numbers_fixture_end(&d);
}

/* verifies formats-23.429b */
static void float_rows(void **state)
{
    (void)state;
    enum { ROWS = 30000, INPUTS = 3 }; /* more than a window, whose size is no multiple of a row */
    float *rows = malloc(ROWS * (INPUTS + 1) * sizeof *rows);
    for (int i = 0; i < ROWS * (INPUTS + 1); i++) {
        rows[i] = i % (INPUTS + 1) == INPUTS ? (float)(i / 4 % 3) : (float)i * 0.5f;
    }
    fixture d;
    numbers_fixture_begin(&d);
    fixture_put(&d, "a.f32", rows, ROWS * (INPUTS + 1) * sizeof *rows);
    assert_int_equal(numbers(&d, INPUTS, BP_LABELS_CLASS), BP_OK);
    assert_int_equal(d.work.rows, ROWS);
    has_row(&d, 0, rows, INPUTS, 0);
    has_row(&d, 20001, rows + 20001 * 4, INPUTS, 0);
    has_row(&d, ROWS - 1, rows + (ROWS - 1) * 4, INPUTS, 2);
    uint32_t inputs;
    open_data(&d);
    assert_int_equal(bp_numbers_inputs(&d.work, &inputs), BP_ERR_USAGE);
    bp_data_close(&d.data);
    numbers_fixture_end(&d);
    free(rows);
}

/* Rows that are nothing but their numbers: a column that is called a label is left out. */
/* verifies formats-23.429b */
static void bare_rows(void **state)
{
    (void)state;
    static const char named[] = "x,label,y\n1.5,odd,-3e2\n";
    static const char plain[] = "0,0.25\n4,5\n";
    static const char wide[] = "1,2,3\n";
    static const float rows[3][2] = {{1.5f, -300.0f}, {0.0f, 0.25f}, {4.0f, 5.0f}};
    fixture d;
    numbers_fixture_begin(&d);
    d.bare = true;
    fixture_put(&d, "a.csv", named, sizeof named - 1);
    fixture_put(&d, "b.csv", plain, sizeof plain - 1);
    assert_int_equal(numbers(&d, 2, BP_LABELS_BITS), BP_OK);
    assert_int_equal(d.work.rows, 3);
    for (uint64_t i = 0; i < 3; i++) {
        has_row(&d, i, rows[i], 2, 0);
    }
    d.count = 0;
    fixture_put(&d, "a.f32", rows, sizeof rows);
    assert_int_equal(numbers(&d, 2, BP_LABELS_BITS), BP_OK);
    assert_int_equal(d.work.rows, 3);
    has_row(&d, 2, rows[2], 2, 0);
    d.count = 0;
    fixture_put(&d, "c.csv", wide, sizeof wide - 1);
    assert_int_equal(numbers(&d, 2, BP_LABELS_BITS), BP_ERR_DATA);
    assert_int_equal(d.error.found, 3);
    numbers_fixture_end(&d);
}

static void refuses(const char *name, const void *bytes, size_t size, bp_labels labels,
                    const char *place, const char *why)
{
    fixture d;
    numbers_fixture_begin(&d);
    fixture_put(&d, name, bytes, size);
    assert_int_equal(numbers(&d, 2, labels), BP_ERR_DATA);
    if (strcmp(d.error.name, place) != 0 || strstr(d.error.text, why) == NULL) {
        fail_msg("%s: %s", d.error.name, d.error.text);
    }
    size_t left;
    assert_null(memory_store_bytes(&d.memory, "rows.tokens.tmp", &left));
    numbers_fixture_end(&d);
}

static void refuses_text(const char *text, const char *place, const char *why)
{
    refuses("a.csv", text, strlen(text), BP_LABELS_CLASS, place, why);
}

/* verifies formats-16.301b */
static void bad_rows_are_refused(void **state)
{
    (void)state;
    refuses_text("", "a.csv", "no row");
    refuses_text("x,y,label\n\n", "a.csv", "no row");
    refuses_text("1,2,0\n1,2\n", "a.csv:2", "fields");
    refuses_text("1,2,0\n1,2,0,1\n", "a.csv:2", "fields");
    refuses_text("1,2,0\n1,two,0\n", "a.csv:2", "not a number");
    refuses_text("1,two,0\n", "a.csv:1", "not a number"); /* no names: two are numbers */
    refuses_text("1,2,0\n1,,0\n", "a.csv:2", "not a number");
    refuses_text("1,2,0\n1,nan,0\n", "a.csv:2", "not a number");
    refuses_text("1,2,0\n1,1e39,0\n", "a.csv:2", "finite");
    refuses_text("1,2,0\n1,1e999,0\n", "a.csv:2", "number");
    refuses_text("1,2,0\n1,2,3\n", "a.csv:2", "no class");
    refuses_text("1,2,0\n1,2,-1\n", "a.csv:2", "no class");
    refuses_text("1,2,0\n1,2,0.5\n", "a.csv:2", "whole number");
    char wide[200];
    memset(wide, '1', sizeof wide);
    memcpy(wide + 190, ",2,0\n", 6);
    refuses_text(wide, "a.csv:1", "not a number");
    static const float inf = (float)(1e300 * 1e300);
    const float rows[2][3] = {{1.0f, 2.0f, 0.0f}, {1.0f, inf, 0.0f}};
    refuses("a.f32", rows, sizeof rows, BP_LABELS_CLASS, "a.f32:2", "not finite");
    refuses("a.f32", rows, 13, BP_LABELS_CLASS, "a.f32", "whole number of rows");
    const float labels[3][3] = {{1, 1, 0.5f}, {1, 1, 3}, {1, 1, -1}};
    for (size_t i = 0; i < 3; i++) {
        refuses("a.f32", labels[i], sizeof labels[i], BP_LABELS_CLASS, "a.f32:1", "no class");
    }
    const float last[3] = {1, 1, inf};
    refuses("a.f32", last, sizeof last, BP_LABELS_BITS, "a.f32:1", "not finite");
}

/* verifies formats-24.7573 */
static void storage_that_fails_is_said_so(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_FILE_SIZE, FAULT_READ_AT, FAULT_OPEN_WRITE,
                                       FAULT_WRITE_AT,  FAULT_SYNC,    FAULT_CLOSE,
                                       FAULT_RENAME};
    fixture d;
    numbers_fixture_begin(&d);
    fixture_put(&d, "a.csv", "1,2,0\n", 6);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        open_data(&d);
        d.work = (bp_numbers){.data = &d.data,
                              .path = "rows.tokens",
                              .inputs = 2,
                              .classes = 3,
                              .labels = BP_LABELS_CLASS,
                              .scratch = d.scratch,
                              .error = &d.error};
        faulty_store_arm(&d.faulty, kinds[i], 1, false);
        assert_int_equal(bp_numbers_open(&d.work, &d.tokens), BP_ERR_STORE);
        bp_data_close(&d.data);
        assert_int_equal(d.memory.open_files, 0);
    }
    numbers_fixture_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_rows),
        cmocka_unit_test(float_rows),
        cmocka_unit_test(bare_rows),
        cmocka_unit_test(bad_rows_are_refused),
        cmocka_unit_test(storage_that_fails_is_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
