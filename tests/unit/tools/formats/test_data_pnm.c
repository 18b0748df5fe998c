/* SPDX-License-Identifier: MIT */
/* Lists of PPM and PGM images as rows of numbers: labels by number and by name, and what is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/support/numbers_desk.h"

#define TEXT(name, text) memory_store_put(&d.memory, (name), (text), sizeof(text) - 1)

typedef numbers_desk desk;

static const bp_class_names cats = {.count = 2, .used = 8, .start = {0, 4}, .text = "cat\0dog"};

/* Images of 1 x 2, with three numbers a place or one. */
static bp_status read_list(desk *d, uint32_t channels)
{
    bp_tokens_close(&d->tokens);
    d->error = (bp_error){.code = BP_OK};
    d->files[0] = (bp_data_file){.path = "list.csv"};
    assert_int_equal(
        bp_data_open(&d->data, &d->faulty.store, d->files, 1, BP_DATA_FOLDER, &d->error), BP_OK);
    d->work = (bp_numbers){.data = &d->data,
                           .path = "rows.tokens",
                           .inputs = 2 * channels,
                           .size = {1, 2, channels},
                           .labels = BP_LABELS_CLASS,
                           .classes = 2,
                           .names = &cats,
                           .pictures = d->pictures,
                           .scratch = d->scratch,
                           .error = &d->error};
    const bp_status status = bp_numbers_open(&d->work, &d->tokens);
    bp_data_close(&d->data);
    assert_int_equal(d->memory.open_files, status == BP_OK ? 1 : 0);
    return status;
}

static void has_row(desk *d, uint64_t index, const uint8_t *right, uint32_t inputs, uint32_t label)
{
    bp_example example;
    int32_t bits[6];
    assert_int_equal(d->tokens.source.example(&d->tokens.source, index, &example), BP_OK);
    assert_int_equal(example.label, label);
    assert_int_equal(example.count, inputs);
    assert_int_equal(d->tokens.source.read(&d->tokens.source, example.first, inputs, bits), BP_OK);
    for (uint32_t i = 0; i < inputs; i++) {
        float value;
        memcpy(&value, &bits[i], sizeof value);
        assert_true(value == (float)right[i] / 255.0f);
    }
}

static void images_are_read(void **state)
{
    (void)state;
    desk d;
    numbers_desk_begin(&d);
    TEXT("a.ppm", "P6 2 1 255\nabcdef");
    TEXT("b.ppm", "P6\n# a comment\n2 # and one\n1\n255\n#bc\n f\n");
    TEXT("c.pgm", "P5\t2\r1 255 xy \n");
    TEXT("list.csv", "note,label,file_name\n,dog,a.ppm\n\"x, y\",cat,b.ppm\n");
    assert_int_equal(read_list(&d, 3), BP_OK);
    assert_int_equal(d.work.rows, 2);
    has_row(&d, 0, (const uint8_t *)"abcdef", 6, 1);
    has_row(&d, 1, (const uint8_t *)"#bc\n f", 6, 0);
    assert_int_equal(read_list(&d, 3), BP_OK);
    assert_false(d.work.built);
    TEXT("b.ppm", "P6 2 1 255\nABCDEF"); /* the list is the same, and its image another */
    assert_int_equal(read_list(&d, 3), BP_OK);
    assert_true(d.work.built);
    has_row(&d, 1, (const uint8_t *)"ABCDEF", 6, 0);
    TEXT("list.csv", "file_name,label\nc.pgm,dog\n");
    assert_int_equal(read_list(&d, 1), BP_OK);
    has_row(&d, 0, (const uint8_t *)"xy", 2, 1);
    numbers_desk_end(&d);
}

static void bad_images_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *image, *why;
    } rows[] = {{"", "no PPM or PGM"},
                {"P6", "too early"},
                {"P3 2 1 255\nabcdef", "no PPM or PGM"},
                {"\x89PNG\r\n", "no PPM or PGM"},
                {"P6 2 1 255\nabcde", "cut short"},
                {"P6 2 1 255\nabcdefg", "cut short"},
                {"P6 1 2 255\nabcdef", "another height"},
                {"P5 2 1 255\nab", "another height"},
                {"P6 2 1 65535\nabcdefabcdef", "to 255"},
                {"P6 -2 1 255\nabcdef", "no number"},
                {"P6 2x1 255\nabcdef", "no number"},
                {"P6 99999999 1 255\nabcdef", "no number"}};
    desk d;
    numbers_desk_begin(&d);
    TEXT("good.ppm", "P6 2 1 255\nabcdef");
    TEXT("list.csv", "file_name,label\ngood.ppm,cat\nbad.ppm,dog\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memory_store_put(&d.memory, "bad.ppm", rows[i].image, strlen(rows[i].image));
        assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
        if (strcmp(d.error.name, "list.csv: line 3: bad.ppm") != 0 ||
            strstr(d.error.text, rows[i].why) == NULL) {
            fail_msg("%s: %s, and not %s", d.error.name, d.error.text, rows[i].why);
        }
    }
    numbers_desk_end(&d);
}

/* A decoder that knows one image of 1 x 2, and refuses it where its file is short. */
typedef struct one_decoder {
    bp_pictures table;
    bp_picture_kind kind;
    uint64_t channels;
} one_decoder;

static bp_status one_read(bp_pictures *pictures, bp_picture_kind kind, bp_data_reader *file,
                          uint64_t channels, const unsigned char **pixels, uint64_t size[3])
{
    one_decoder *one = (one_decoder *)pictures;
    one->kind = kind;
    one->channels = channels;
    *pixels = (const unsigned char *)"uvwxyz";
    memcpy(size, ((uint64_t[3]){1, 2, 3}), 3 * sizeof *size);
    return file->size > 4
               ? BP_OK
               : bp_error_set(file->error, BP_ERR_DATA, "test", "it is short", file->path);
}

/* verifies formats-51.a173 */
static void other_images_are_decoded(void **state)
{
    (void)state;
    desk d;
    one_decoder one = {.table = {.read = one_read}};
    numbers_desk_begin(&d);
    d.pictures = &one.table;
    TEXT("a.png", "\x89PNG..");
    TEXT("b.jpg", "\xff\xd8\xff..");
    TEXT("c.ppm", "P6 2 1 255\nabcdef");
    TEXT("list.csv", "file_name,label\na.png,dog\nc.ppm,cat\n");
    assert_int_equal(read_list(&d, 3), BP_OK);
    assert_int_equal(one.kind, BP_PICTURE_PNG);
    assert_int_equal(one.channels, 3);
    has_row(&d, 0, (const uint8_t *)"uvwxyz", 6, 1);
    has_row(&d, 1, (const uint8_t *)"abcdef", 6, 0);
    TEXT("list.csv", "file_name,label\nb.jpg,dog\n");
    assert_int_equal(read_list(&d, 3), BP_OK);
    assert_int_equal(one.kind, BP_PICTURE_JPEG);
    assert_int_equal(read_list(&d, 1), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "another height"));
    TEXT("b.jpg", "\xff\xd8\xff!");
    assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
    assert_string_equal(d.error.name, "list.csv: line 2: b.jpg");
    numbers_desk_end(&d);
}

static void bad_lists_are_refused(void **state)
{
    (void)state;
    desk d;
    numbers_desk_begin(&d);
    TEXT("a.ppm", "P6 2 1 255\nabcdef");
    TEXT("list.csv", "a.ppm,cat\n");
    assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "file_name"));
    TEXT("list.csv", "file_name,label\na.ppm,bird\n");
    assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
    assert_string_equal(d.error.name, "list.csv: line 2");
    TEXT("list.csv", "file_name,label\na.ppm\n");
    assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
    assert_int_equal(d.error.found, 1);
    TEXT("list.csv", "file_name,label\n,cat\n");
    assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "empty"));
    TEXT("list.csv", "file_name,label\nnone.ppm,cat\n");
    assert_int_equal(read_list(&d, 3), BP_ERR_STORE);
    numbers_desk_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_read), cmocka_unit_test(bad_images_are_refused),
        cmocka_unit_test(other_images_are_decoded), cmocka_unit_test(bad_lists_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
