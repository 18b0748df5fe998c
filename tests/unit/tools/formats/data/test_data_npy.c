/* SPDX-License-Identifier: MIT */
/* numpy's arrays as rows of numbers: every type and version, labels beside, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/formats/numbers_fixture.h"
#include "tools/formats/data/data_npy.h"

typedef numbers_fixture fixture;

/* An array's bytes: numpy fills its head with spaces up to a multiple of 64. */
typedef struct array {
    unsigned char bytes[4096];
    size_t size;
} array;

/* 30 sizes of 1; numpy's most are 32. */
#define ONES "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"

static void array_begin(array *a, int version, const char *dict)
{
    const size_t start = version == 1 ? 10 : 12;
    size_t length = strlen(dict) + 1;
    length += (64 - (start + length) % 64) % 64;
    memset(a->bytes, ' ', start + length);
    memcpy(a->bytes, "\x93NUMPY", 6);
    a->bytes[6] = (unsigned char)version;
    a->bytes[7] = 0;
    memset(a->bytes + 8, 0, start - 8);
    a->bytes[8] = (unsigned char)(length % 256);
    a->bytes[9] = (unsigned char)(length / 256);
    memcpy(a->bytes + start, dict, strlen(dict));
    a->bytes[start + length - 1] = '\n';
    a->size = start + length;
}

static void array_add(array *a, const void *bytes, size_t size)
{
    memcpy(a->bytes + a->size, bytes, size);
    a->size += size;
}

static void put(fixture *d, const char *name, const array *a)
{
    memory_store_put(&d->memory, name, a->bytes, a->size);
}

static bp_status read_rows(fixture *d, const char *name, uint32_t inputs, bool bare)
{
    bp_tokens_close(&d->tokens);
    d->error = (bp_error){.code = BP_OK};
    d->files[0] = (bp_data_file){.path = name};
    assert_int_equal(bp_data_open(&d->data, &d->faulty.store, d->files, 1, BP_DATA_AUTO, &d->error),
                     BP_OK);
    assert_int_equal(d->data.format, BP_DATA_NPY);
    d->work = (bp_numbers){.data = &d->data,
                           .path = "rows.tokens",
                           .inputs = inputs,
                           .labels = bare ? BP_LABELS_BITS : BP_LABELS_CLASS,
                           .classes = bare ? 0 : 3,
                           .bare = bare,
                           .scratch = d->scratch,
                           .error = &d->error};
    const bp_status status = bp_numbers_open(&d->work, &d->tokens);
    bp_data_close(&d->data);
    return status;
}

static void has_row(fixture *d, uint64_t index, const float *right, uint32_t inputs, uint32_t label)
{
    bp_example example;
    int32_t bits[8];
    assert_int_equal(d->tokens.source.example(&d->tokens.source, index, &example), BP_OK);
    assert_int_equal(example.label, label);
    assert_int_equal(example.count, inputs);
    assert_int_equal(d->tokens.source.read(&d->tokens.source, example.first, inputs, bits), BP_OK);
    assert_memory_equal(bits, right, inputs * sizeof *right);
}

/* Two rows of two numbers of each type, as numpy writes its head. */
/* verifies formats-57.6b5b */
static void types_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *descr;
        unsigned char bytes[32]; /* 1, -2 (or 254), 3, 100 */
        size_t size;
        float right[4];
    } rows[] = {
        {"|u1", {1, 254, 3, 100}, 4, {1.0f / 255, 254.0f / 255, 3.0f / 255, 100.0f / 255}},
        {"|i1", {1, 254, 3, 100}, 4, {1, -2, 3, 100}},
        {"|b1", {1, 0, 1, 1}, 4, {1, 0, 1, 1}},
        {"<i2", {1, 0, 254, 255, 3, 0, 100, 0}, 8, {1, -2, 3, 100}},
        {">i2", {0, 1, 255, 254, 0, 3, 0, 100}, 8, {1, -2, 3, 100}},
        {"<u2", {1, 0, 254, 255, 3, 0, 100, 0}, 8, {1, 65534, 3, 100}},
        {"<i4", {1, 0, 0, 0, 254, 255, 255, 255, 3, 0, 0, 0, 100}, 16, {1, -2, 3, 100}},
        {"<f4", {0, 0, 128, 63, 0, 0, 0, 192, 0, 0, 64, 64, 0, 0, 200, 66}, 16, {1, -2, 3, 100}},
        {">f4", {63, 128, 0, 0, 192, 0, 0, 0, 64, 64, 0, 0, 66, 200, 0, 0}, 16, {1, -2, 3, 100}},
        {"<i8",
         {1,   0,   0,   0, 0, 0, 0, 0, 254, 255, 255, 255, 255,
          255, 255, 255, 3, 0, 0, 0, 0, 0,   0,   0,   100},
         32,
         {1, -2, 3, 100}},
        {"<f8",
         {0, 0, 0, 0, 0, 0, 240, 63, 0, 0, 0, 0, 0, 0, 0,  192,
          0, 0, 0, 0, 0, 0, 8,   64, 0, 0, 0, 0, 0, 0, 89, 64},
         32,
         {1, -2, 3, 100}},
    };
    fixture d;
    numbers_fixture_begin(&d);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        array a;
        char dict[96];
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 2), }",
                 rows[i].descr);
        array_begin(&a, 1 + (int)(i % 3), dict);
        array_add(&a, rows[i].bytes, rows[i].size);
        put(&d, "rows.npy", &a);
        if (read_rows(&d, "rows.npy", 2, true) != BP_OK) {
            fail_msg("%s: %s: %s", rows[i].descr, d.error.name, d.error.text);
        }
        assert_int_equal(d.work.rows, 2);
        has_row(&d, 0, rows[i].right, 2, 0);
        has_row(&d, 1, rows[i].right + 2, 2, 0);
    }
    numbers_fixture_end(&d);
}

/* The ways in which a head may be written. */
/* verifies formats-57.6b5b */
static void heads_are_read(void **state)
{
    (void)state;
    static const char *const dicts[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}",
        "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (1, 2), }",
        "{'shape': (1L, 2L), 'fortran_order': False, 'descr': '<f4' ,}",
        "{'shape':(1,2,),'fortran_order':False,'descr':'<f4'}",
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (" ONES "1,2)}"), /* 32 sizes */
    };
    static const unsigned char bytes[8] = {0, 0, 128, 63, 0, 0, 0, 192};
    static const float right[2] = {1, -2};
    fixture d;
    numbers_fixture_begin(&d);
    for (size_t i = 0; i < sizeof dicts / sizeof dicts[0]; i++) {
        array a;
        array_begin(&a, 1, dicts[i]);
        array_add(&a, bytes, sizeof bytes);
        put(&d, "rows.npy", &a);
        if (read_rows(&d, "rows.npy", 2, true) != BP_OK) {
            fail_msg("%s: %s: %s", dicts[i], d.error.name, d.error.text);
        }
        has_row(&d, 0, right, 2, 0);
    }
    numbers_fixture_end(&d);
}

static void put_labels(fixture *d, const char *name, const char *shape, const unsigned char *labels,
                       size_t count)
{
    array a;
    char dict[96];
    snprintf(dict, sizeof dict, "{'descr': '|u1', 'fortran_order': False, 'shape': (%s), }", shape);
    array_begin(&a, 1, dict);
    array_add(&a, labels, count);
    put(d, name, &a);
}

static const unsigned char pixels[8] = {0, 255, 51, 102, 153, 204, 1, 2};
static const unsigned char classes[2] = {2, 1};

/* Images of 2 x 2 x 1 with their labels beside; other labels are other data. */
/* verifies formats-57.6b5b */
static void labels_are_found(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"x_train.npy", "y_train.npy"},
                                           {"X.npy", "Y.npy"},
                                           {"images-t-images.npy", "images-t-labels.npy"}};
    static const unsigned char others[2] = {0, 1};
    static const float second[4] = {153.0f / 255.0f, 204.0f / 255.0f, 1.0f / 255.0f, 2.0f / 255.0f};
    for (size_t i = 0; i < 3; i++) {
        fixture d;
        numbers_fixture_begin(&d);
        put_labels(&d, names[i][0], "2, 2, 2, 1", pixels, 8);
        put_labels(&d, names[i][1], i == 0 ? "2," : "2, 1", classes, 2);
        assert_int_equal(read_rows(&d, names[i][0], 4, false), BP_OK);
        has_row(&d, 1, second, 4, 1);
        assert_int_equal(read_rows(&d, names[i][0], 4, false), BP_OK);
        assert_false(d.work.built);
        put_labels(&d, names[i][1], "2,", others, 2);
        assert_int_equal(read_rows(&d, names[i][0], 4, false), BP_OK);
        assert_true(d.work.built);
        numbers_fixture_end(&d);
    }
}

static void refused(fixture *d, const char *name, const char *what, const char *text)
{
    assert_int_equal(read_rows(d, name, 2, strcmp(name, "a.npy") == 0), BP_ERR_DATA);
    if (strstr(d->error.name, what) == NULL || strstr(d->error.text, text) == NULL) {
        fail_msg("%s: %s, and not %s: %s", d->error.name, d->error.text, what, text);
    }
    assert_int_equal(d->memory.open_files, 0);
}

static const char *const bad_dicts[] = {
    "",
    "{}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)",
    "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2), }",
    "{'descr': '<f4', 'fortran_order': False, }",
    "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), 'more': 1}",
    "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': '<c8', 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': '<i16', 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': '<i3', 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 2), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), } x",
    "{'descr': '<f4', 'shape': (1, 2), }",
    "{'descr' '<f4', 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': 'f44', 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': '<f4x, 'fortran_order': False, 'shape': (1, 2), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1:2), }",
    ("{'descr': '<f4', 'fortran_order': False, 'shape': (" ONES "1,1,2), }"), /* 33 sizes */
    "{                                        'descr': '<f", /* to the head's last byte */
};

/* verifies formats-57.6b5b */
static void bad_heads_are_refused(void **state)
{
    (void)state;
    array a;
    fixture d;
    numbers_fixture_begin(&d);
    for (size_t i = 0; i < sizeof bad_dicts / sizeof bad_dicts[0]; i++) {
        array_begin(&a, 1, bad_dicts[i]);
        array_add(&a, pixels, 8);
        put(&d, "a.npy", &a);
        refused(&d, "a.npy", "a.npy", "plain numbers");
    }
    /* A NUL where the order of bytes stands; digits up to the head's last byte. */
    array_begin(&a, 1, "{'descr': '?f4', 'fortran_order': False, 'shape': (1, 2), }");
    *(unsigned char *)memchr(a.bytes, '?', a.size) = '\0';
    array_add(&a, pixels, 8);
    put(&d, "a.npy", &a);
    refused(&d, "a.npy", "a.npy", "plain numbers");
    array_begin(&a, 1, "{                                         'shape': (1");
    a.bytes[a.size - 1] = '2';
    array_add(&a, pixels, 8);
    put(&d, "a.npy", &a);
    refused(&d, "a.npy", "a.npy", "plain numbers");
    array_begin(&a, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }");
    array_add(&a, pixels, 7);
    put(&d, "a.npy", &a);
    refused(&d, "a.npy", "a.npy", "cut short");
    a.bytes[9] = 4; /* 1024 and more */
    put(&d, "a.npy", &a);
    refused(&d, "a.npy", "a.npy", "longer than");
    a.bytes[9] = 1;
    put(&d, "a.npy", &a);
    refused(&d, "a.npy", "a.npy", "inside its head");
    static const struct {
        size_t at;
        unsigned char byte;
    } first[] = {{6, 4}, {6, 0}, {7, 1}, {0, 'N'}};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        const unsigned char was = a.bytes[first[i].at];
        a.bytes[first[i].at] = first[i].byte;
        put(&d, "a.npy", &a);
        refused(&d, "a.npy", "a.npy", "versions 1 to 3");
        a.bytes[first[i].at] = was;
    }
    a.size = 11;
    put(&d, "a.npy", &a);
    refused(&d, "a.npy", "a.npy", "too short");
    numbers_fixture_end(&d);
}

/* verifies formats-57.6b5b */
static void bad_rows_are_refused(void **state)
{
    (void)state;
    static const unsigned char nan[8] = {0, 0, 128, 63, 0, 0, 192, 127};
    static const unsigned char wrong[2] = {2, 3};
    array a;
    fixture d;
    numbers_fixture_begin(&d);
    array_begin(&a, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }");
    array_add(&a, nan, 8);
    put(&d, "a.npy", &a);
    refused(&d, "a.npy", "a.npy:1", "not finite");
    put_labels(&d, "a.npy", "2, 4", pixels, 8);
    refused(&d, "a.npy", "a.npy", "another number of numbers");
    put_labels(&d, "x.npy", "2, 2", pixels, 4);
    put_labels(&d, "y.npy", "2,", wrong, 2);
    refused(&d, "x.npy", "x.npy:2", "no class");
    put_labels(&d, "y.npy", "1,", wrong, 1);
    refused(&d, "x.npy", "y.npy", "another number of rows");
    put_labels(&d, "y.npy", "2, 2", pixels, 4);
    refused(&d, "x.npy", "y.npy", "another number of rows");
    put_labels(&d, "b.npy", "2, 2", pixels, 4);
    refused(&d, "b.npy", "b.npy", "labels are looked for");
    put_labels(&d, "max.npy", "2, 2", pixels, 4);
    assert_int_equal(read_rows(&d, "max.npy", 2, false), BP_ERR_DATA);
    numbers_fixture_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_read), cmocka_unit_test(heads_are_read),
        cmocka_unit_test(labels_are_found), cmocka_unit_test(bad_heads_are_refused),
        cmocka_unit_test(bad_rows_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
