/* SPDX-License-Identifier: MIT */
/* Planner instances as CSV: what is read, what is refused and on which line, what is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <string.h>

#include "arena/csv.h"

static char output[4096];

/* verifies arena-14.3b04 */
static void reads_columns_in_any_order(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "id,lower,upper,size\na,0,3,4\nb,3,9,5\n",
        "size,note,start,end,buffer\n4,x,0,2,a\n5,,3,8,b",
        "\xef\xbb\xbfupper , lower,size,buffer_id\r\n3,0,4,a\r\n\r\n 9 , 3,5, b\r\n\n",
        "begin,id,size,upper\n\n0,a,4,3\n3,b,5,9\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bp_csv csv;
        bp_csv_error error;
        bp_interval rows[2];
        assert_int_equal(bp_csv_open(&csv, texts[i], strlen(texts[i]), &error), BP_OK);
        assert_int_equal(csv.rows, 2);
        assert_int_equal(bp_csv_read(&csv, rows, &error), BP_OK);
        assert_int_equal(rows[0].size, 4);
        assert_int_equal(rows[0].lower, 0);
        assert_int_equal(rows[0].upper, 3);
        assert_int_equal(rows[1].size, 5);
        assert_int_equal(rows[1].lower, 3);
        assert_int_equal(rows[1].upper, 9);
    }
}

/* verifies arena-14.3b04 */
static void refuses_with_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t line;
        const char *column;
        const char *says;
    } bad[] = {
        {"", 0, "", "empty"},
        {"\n \n", 0, "", "empty"},
        {"id,lower,upper\n", 1, "size", "lacks"},
        {"\nlower,upper,size\n", 2, "id", "lacks"},
        {"id,lower,upper,size,begin\n", 1, "lower", "twice"},
        {"id,lower,upper,end,size\n", 1, "upper", "twice"},
        {"id,lower,upper,size,gaps\n", 1, "gaps", "not supported"},
        {"id,lower,upper,size,offset\n", 1, "offset", "not supported"},
        {"id,lower,upper,size\na,0,1,1\nb,0,1\n", 3, "", "fewer"},
        {"id,lower,upper,size\na,0,1,1,\n", 2, "", "more"},
        {"id,lower,upper,size\n ,0,1,1\n", 2, "id", "empty"},
        {"id,lower,upper,size\na,x,1,1\n", 2, "lower", "whole number"},
        {"id,lower,upper,size\na,0,-1,1\n", 2, "upper", "whole number"},
        {"id,lower,upper,size\na,0,1,\n", 2, "size", "missing"},
        {"id,lower,upper,size\na,0,4294967296,1\n", 2, "upper", "too large"},
        {"id,lower,end,size\na,0,4294967295,1\n", 2, "upper", "too large"},
        {"id,lower,upper,size\na,0,1,99999999999999999999999\n", 2, "size", "too large"},
        {"id,lower,upper,size\na,5,4,1\n", 2, "upper", "before it begins"},
        {"id,lower,upper,size\na,0,1,4611686018427387903\nb,0,1,1\n", 3, "size", "add up"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bp_csv csv;
        bp_csv_error error;
        bp_interval rows[2];
        bp_status status = bp_csv_open(&csv, bad[i].text, strlen(bad[i].text), &error);
        if (status == BP_OK) {
            assert_true(csv.rows <= 2);
            status = bp_csv_read(&csv, rows, &error);
        }
        assert_int_equal(status, BP_ERR_DATA);
        assert_int_equal(error.line, bad[i].line);
        assert_string_equal(error.column, bad[i].column);
        assert_non_null(strstr(error.text, bad[i].says));
    }
}

/* verifies arena-14.3b04 */
static void the_largest_numbers_are_read(void **state)
{
    (void)state;
    static const char text[] =
        "id,lower,upper,size\na,4294967294,4294967295,4611686018427387903\nb,7,7,0\n";
    bp_csv csv;
    bp_csv_error error;
    bp_interval rows[2];
    assert_int_equal(bp_csv_open(&csv, text, strlen(text), &error), BP_OK);
    assert_int_equal(bp_csv_read(&csv, rows, &error), BP_OK);
    assert_int_equal(rows[0].upper, UINT32_MAX);
    assert_int_equal(rows[0].size, ((uint64_t)1 << 62) - 1);
}

/* Lines that are empty, or spaces alone, are passed over; nothing in front of the text is looked
 * at. */
/* verifies arena-14.3b04 */
static void empty_lines_are_passed_over(void **state)
{
    (void)state;
    static const char text[] = " \n \r \nid,lower,upper,size\n\n   \na,1,2,3 \r\n";
    bp_csv csv;
    bp_csv_error error;
    bp_interval row;
    for (size_t skip = 1; skip < 6; skip += 4) {
        assert_int_equal(bp_csv_open(&csv, text + skip, strlen(text + skip), &error), BP_OK);
        assert_int_equal(csv.rows, 1);
        assert_int_equal(bp_csv_read(&csv, &row, &error), BP_OK);
        assert_int_equal(row.size, 3);
    }
}

/* verifies arena-16.77fb */
static void writes_the_rows_with_an_offset(void **state)
{
    (void)state;
    static const char text[] = "size,id,lower,upper\r\n4,a,0,3\r\n\r\n5, b ,3,9";
    bp_csv csv;
    bp_csv_error error;
    bp_interval rows[2];
    assert_int_equal(bp_csv_open(&csv, text, strlen(text), &error), BP_OK);
    assert_int_equal(bp_csv_read(&csv, rows, &error), BP_OK);
    rows[1].offset = 12;
    bp_text out;
    bp_text_init(&out, NULL, NULL, output, sizeof output);
    assert_int_equal(bp_csv_write(&csv, rows, &out), BP_OK);
    assert_string_equal(output, "size,id,lower,upper,offset\n4,a,0,3,0\n5, b ,3,9,12\n");
}

/* verifies arena-16.77fb */
static void writes_json(void **state)
{
    (void)state;
    static const char text[] =
        "id,lower,upper,size\n\"q\",0,3,4\nb,2,9,1\nc,2,3,0\nd,5,6,1\ne,0,2,3\n";
    bp_csv csv;
    bp_csv_error error;
    bp_interval rows[5];
    assert_int_equal(bp_csv_open(&csv, text, strlen(text), &error), BP_OK);
    assert_int_equal(bp_csv_read(&csv, rows, &error), BP_OK);
    rows[1].offset = 4;
    bp_layout_report report = {
        .bytes = 9, .lower_bound = 8, .waste = 1, .peak_time = 2, .nodes = 77, .method = "dive"};
    for (int good = 0; good < 2; good++) {
        report.optimal = report.fits = good != 0;
        bp_text out;
        bp_text_init(&out, NULL, NULL, output, sizeof output);
        assert_int_equal(bp_csv_json(&csv, rows, &report, &out), BP_OK);
        json_t *root = json_loads(output, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(root);
        assert_int_equal(json_integer_value(json_object_get(root, "arena_bytes")), 9);
        assert_int_equal(json_integer_value(json_object_get(root, "nodes")), 77);
        assert_int_equal(json_is_true(json_object_get(root, "optimal")), good);
        assert_int_equal(json_is_true(json_object_get(root, "fits")), good);
        json_t *list = json_object_get(root, "buffers");
        assert_int_equal(json_array_size(list), 5);
        for (size_t i = 0; i < 5; i++) {
            const json_t *buffer = json_array_get(list, i);
            assert_int_equal(json_integer_value(json_object_get(buffer, "lower")), rows[i].lower);
            assert_int_equal(json_integer_value(json_object_get(buffer, "upper")), rows[i].upper);
            assert_int_equal(json_integer_value(json_object_get(buffer, "size")), rows[i].size);
        }
        json_t *row = json_array_get(list, 0);
        assert_string_equal(json_string_value(json_object_get(row, "id")), "\"q\"");
        row = json_array_get(list, 1);
        assert_int_equal(json_integer_value(json_object_get(row, "offset")), 4);
        assert_int_equal(json_integer_value(json_object_get(row, "upper")), 9);
        list = json_object_get(root, "live_at_peak");
        assert_int_equal(json_array_size(list), 2);
        assert_string_equal(json_string_value(json_array_get(list, 1)), "b");
        json_decref(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_columns_in_any_order),
        cmocka_unit_test(refuses_with_line_and_column),
        cmocka_unit_test(the_largest_numbers_are_read),
        cmocka_unit_test(empty_lines_are_passed_over),
        cmocka_unit_test(writes_the_rows_with_an_offset),
        cmocka_unit_test(writes_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
