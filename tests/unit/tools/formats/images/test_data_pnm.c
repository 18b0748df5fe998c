/* SPDX-License-Identifier: MIT */
/* Lists of PPM and PGM images as rows of numbers: labels by number and by name, and what is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/formats/numbers_fixture.h"
#include "tools/formats/images/data_pnm.h"

#define TEXT(name, text) memory_store_put(&d.memory, (name), (text), sizeof(text) - 1)

typedef numbers_fixture fixture;

static const bp_class_names cats = {.count = 2, .used = 8, .start = {0, 4}, .text = "cat\0dog"};

/* Images of 1 x 2, with three numbers a place or one. */
static bp_status read_list(fixture *d, uint32_t channels)
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

static void has_row(fixture *d, uint64_t index, const uint8_t *right, uint32_t inputs,
                    uint32_t label)
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

/* verifies formats-51.a173 */
static void images_are_read(void **state)
{
    (void)state;
    fixture d;
    numbers_fixture_begin(&d);
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
    numbers_fixture_end(&d);
}

/* To the nearest of 255, halves to the even one, and what is above the largest as that. */
/* verifies formats-51.a173 */
static void numbers_to_another_largest_are_scaled(void **state)
{
    (void)state;
    static const struct {
        uint32_t most;
        uint32_t number[3];
        uint8_t right[6];
    } rows[] = {
        {100, {3, 50, 200}, {8, 128, 255, 8, 128, 255}}, /* 7.65, 127.5 */
        {2, {1, 0, 2}, {128, 0, 255, 128, 0, 255}},
        {6, {1, 2, 5}, {42, 85, 212, 42, 85, 212}}, /* 42.5, 212.5 */
        {256, {255, 256, 1}, {254, 255, 1, 254, 255, 1}},
        {1000, {128, 383, 1001}, {33, 98, 255, 33, 98, 255}},
        {65535, {128, 65279, 1000}, {0, 254, 4, 0, 254, 4}},
    };
    fixture d;
    numbers_fixture_begin(&d);
    TEXT("list.csv", "file_name,label\nwide.ppm,cat\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char image[64];
        size_t bytes = (size_t)snprintf(image, sizeof image, "P6 2 1 %u\n", rows[i].most);
        for (size_t k = 0; k < 6; k++) {
            const uint32_t number = rows[i].number[k % 3];
            if (rows[i].most > 255) {
                image[bytes++] = (char)(number >> 8);
            }
            image[bytes++] = (char)number;
        }
        memory_store_put(&d.memory, "wide.ppm", image, bytes);
        assert_int_equal(read_list(&d, 3), BP_OK);
        has_row(&d, 0, rows[i].right, 6, 0);
    }
    numbers_fixture_end(&d);
}

/* verifies formats-51.a173 */
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
                {"P6 2 1 65535\nabcdefabcde", "cut short"},
                {"P6 2 1 256\nabcdef", "cut short"},
                {"P6 2 1 0\nabcdef", "from 1 to 65535"},
                {"P6 2 1 65536\nabcdefabcdef", "from 1 to 65535"},
                {"P6 -2 1 255\nabcdef", "no number"},
                {"P6 2x1 255\nabcdef", "no number"},
                {"P6 99999999 1 255\nabcdef", "no number"},
                {"P6 \x01 2 1 255\nabcdef", "no number"},
                {"P7 2 1 255\nabcdef", "no PPM or PGM"},
                {"\x89XNG 2 1", "no PPM or PGM"},
                {"\x89PXG 2 1", "no PPM or PGM"},
                {"\x89PNX 2 1", "no PPM or PGM"},
                {"\xff\xd9\xff\xe0", "no PPM or PGM"},
                {"\xff\xd8\xfe\xe0", "no PPM or PGM"}};
    fixture d;
    numbers_fixture_begin(&d);
    TEXT("good.ppm", "P6 2 1 255\nabcdef");
    TEXT("list.csv", "file_name,label\ngood.ppm,cat\nbad.ppm,dog\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memory_store_put(&d.memory, "bad.ppm", rows[i].image, strlen(rows[i].image));
        assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
        if (strcmp(d.error.name, "list.csv:3: bad.ppm") != 0 ||
            strstr(d.error.text, rows[i].why) == NULL) {
            fail_msg("%s: %s, and not %s", d.error.name, d.error.text, rows[i].why);
        }
    }
    numbers_fixture_end(&d);
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
    fixture d;
    one_decoder one = {.table = {.read = one_read}};
    numbers_fixture_begin(&d);
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
    assert_string_equal(d.error.name, "list.csv:2: b.jpg");
    numbers_fixture_end(&d);
}

/* Both with a decoder that must not be asked: only what is a PNG or a JPEG is its. */
/* verifies formats-51.a173 */
static void heads_that_nearly_are_pictures(void **state)
{
    (void)state;
    static const char *const heads[] = {"\x89XNG..", "\x89PXG..", "\x89PNX..", "\xff\xd9\xff..",
                                        "\xff\xd8\xfe.."};
    one_decoder one = {.table = {.read = one_read}};
    fixture d;
    numbers_fixture_begin(&d);
    d.pictures = &one.table;
    TEXT("list.csv", "file_name,label\nbad.ppm,dog\n");
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        memory_store_put(&d.memory, "bad.ppm", heads[i], strlen(heads[i]));
        assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
        assert_non_null(strstr(d.error.text, "no PPM or PGM"));
        assert_int_equal(one.kind, BP_PICTURE_OTHER);
    }
    numbers_fixture_end(&d);
}

/* An image as a list of the path names it. */
typedef struct opened {
    fixture d;
    bp_data_reader list;
    bp_pnm pnm;
    one_decoder one;
    uint64_t memory[1 << 14];
} opened;

static unsigned char *opened_room(bp_pictures *pictures, uint64_t bytes)
{
    opened *o = (opened *)(void *)((char *)pictures - offsetof(opened, one));
    return bytes <= sizeof o->memory ? (unsigned char *)o->memory : NULL;
}

static opened *opened_begin(const char *list)
{
    opened *o = calloc(1, sizeof *o);
    assert_non_null(o);
    numbers_fixture_begin(&o->d);
    o->list = (bp_data_reader){.store = &o->d.memory.store, .path = list, .error = &o->d.error};
    o->one.table.room = opened_room;
    o->pnm.pictures = &o->one.table;
    return o;
}

static void opened_end(opened *o)
{
    bp_pnm_close(&o->pnm);
    numbers_fixture_end(&o->d);
    free(o);
}

static void put_grey(fixture *d, const char *name, const char *head, size_t pixels)
{
    const size_t length = strlen(head);
    char *bytes = malloc(length + pixels);
    assert_non_null(bytes);
    memcpy(bytes, head, length);
    for (size_t i = 0; i < pixels; i++) {
        bytes[length + i] = (char)(i * 7 % 256);
    }
    memory_store_put(&d->memory, name, bytes, length + pixels);
    free(bytes);
}

/* Names are as seen from the list's folder, whole ones as they are. */
static void names_lead_to_files(void **state)
{
    (void)state;
    static const struct {
        const char *list, *name, *file; /* NULL: refused */
    } rows[] = {{"list.csv", "a.pgm", "a.pgm"},
                {"there/list.csv", "a.pgm", "there/a.pgm"},
                {"there/list.csv", "/a.pgm", "/a.pgm"},
                {"list.csv", "", NULL}};
    char name[600], path[BP_STORE_PATH_MAX + 3];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        opened *o = opened_begin(rows[i].list);
        const bp_status status = bp_pnm_open(&o->pnm, &o->list, rows[i].name, strlen(rows[i].name));
        if (rows[i].file == NULL) {
            assert_int_equal(status, BP_ERR_DATA);
            assert_non_null(strstr(o->d.error.text, "empty or too long"));
        } else {
            assert_int_equal(status, BP_ERR_DATA); /* there is none */
            assert_string_equal(o->pnm.path, rows[i].file);
        }
        opened_end(o);
    }
    memset(name, 'n', sizeof name);
    memset(path, 'p', sizeof path);
    path[sizeof path - 2] = '/';
    path[sizeof path - 1] = '\0';
    const struct {
        const char *list;
        size_t length;
    } refused[] = {{"there/list", BP_STORE_PATH_MAX - 6}, {path, 1}, {"list", BP_STORE_PATH_MAX}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        opened *o = opened_begin(refused[i].list);
        assert_int_equal(bp_pnm_open(&o->pnm, &o->list, name, refused[i].length), BP_ERR_DATA);
        assert_non_null(strstr(o->d.error.text, "empty or too long"));
        opened_end(o);
    }
    opened *o = opened_begin("list");
    assert_int_equal(bp_pnm_open(&o->pnm, &o->list, "a\0b", 3), BP_ERR_DATA);
    opened_end(o);
    o = opened_begin("there/list"); /* with its terminator the longest that fits */
    assert_int_equal(bp_pnm_open(&o->pnm, &o->list, name, BP_STORE_PATH_MAX - 7), BP_ERR_DATA);
    opened_end(o);
}

static bp_status says_there(bp_store *store, const char *path, bool *there)
{
    (void)store;
    (void)path;
    *there = true;
    return BP_OK;
}

static bp_status says_nothing(bp_store *store, const char *path, bool *there)
{
    (void)store;
    (void)path;
    *there = false;
    return BP_ERR_STORE;
}

/* What is there and cannot be opened is the medium's fault, not the list's. */
/* verifies formats-51.a173 */
static void files_that_do_not_open(void **state)
{
    (void)state;
    bp_status (*const says[])(bp_store *, const char *, bool *) = {says_there, says_nothing};
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++) {
        opened *o = opened_begin("list.csv");
        bp_store odd = *o->list.store;
        odd.exists = says[i];
        o->list.store = &odd;
        assert_int_equal(bp_pnm_open(&o->pnm, &o->list, "a.pgm", 5), BP_ERR_STORE);
        opened_end(o);
    }
}

/* verifies formats-51.a173 */
static void long_heads(void **state)
{
    (void)state;
    char text[BP_PNM_HEAD + 64];
    const size_t comments[] = {BP_PNM_HEAD - 16, BP_PNM_HEAD + 1};
    for (size_t i = 0; i < 2; i++) {
        opened *o = opened_begin("list");
        memset(text, 'c', sizeof text);
        memcpy(text, "P5 #", 4);
        text[comments[i]] = '\r'; /* ends a comment as a line feed does */
        memcpy(text + comments[i] + 1, "1 1 255\nx", 10);
        memory_store_put(&o->d.memory, "a.pgm", text, comments[i] + 10);
        assert_int_equal(bp_pnm_open(&o->pnm, &o->list, "a.pgm", 5), BP_OK);
        assert_int_equal(bp_pnm_begin(&o->pnm), i == 0 ? BP_OK : BP_ERR_DATA);
        assert_true(i == 0 || strstr(o->d.error.text, "no number") != NULL);
        opened_end(o);
    }
}

/* Grey images of many sizes under a preprocessor_config.json: what is cut out, or why not. */
/* verifies formats-52.a562 */
static void images_are_prepared(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        size_t pixels;
        bp_image_prep prep;
        uint64_t height, width; /* 0: refused */
        const char *why;
    } rows[] = {
        {"P5 4 6 255 ", 24, {.given = 1}, 6, 4, ""},
        {"P5 4 6 255 ", 24, {.crop = {3, 2}}, 3, 2, ""},
        {"P5 4 6 255 ", 24, {.height = 6, .width = 9}, 6, 9, ""},
        {"P5 4 6 255 ", 24, {.height = 5, .width = 4}, 5, 4, ""},
        {"P5 4 6 255 ", 24, {.shortest = 8}, 12, 8, ""},
        {"P5 4 6 255 ", 24, {.crop = {7, 2}}, 0, 0, "smaller than"},
        {"P5 4 6 255 ", 24, {.crop = {3, 5}}, 0, 0, "smaller than"},
        {"P5 0 6 255 ", 0, {.shortest = 8}, 0, 0, "no places"},
        {"P5 4 0 255 ", 0, {.shortest = 8}, 0, 0, "no places"},
        {"P5 1 65537 255 ", 65537, {.height = 1, .width = 1}, 0, 0, "too large"},
        {"P5 65537 1 255 ", 65537, {.height = 1, .width = 1}, 0, 0, "too large"},
        {"P5 1 5 255 ", 5, {.shortest = 16384}, 0, 0, "too large"},
        {"P5 5 1 255 ", 5, {.shortest = 16384}, 0, 0, "too large"},
        {"P5 1 1 255 ", 1, {.height = 16384, .width = 16384}, 0, 0, "no memory"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        opened *o = opened_begin("list");
        bp_image_prep prep = rows[i].prep;
        uint8_t number = 0;
        prep.resample = BP_RESAMPLE_BILINEAR;
        put_grey(&o->d, "a.pgm", rows[i].head, rows[i].pixels);
        assert_int_equal(bp_pnm_open(&o->pnm, &o->list, "a.pgm", 5), BP_OK);
        assert_int_equal(bp_pnm_begin(&o->pnm), BP_OK);
        const bp_status status = bp_pnm_prepare(&o->pnm, &prep);
        if (rows[i].height == 0) {
            assert_int_equal(status,
                             i + 1 < sizeof rows / sizeof rows[0] ? BP_ERR_DATA : BP_ERR_FIT);
            assert_non_null(strstr(o->d.error.text, rows[i].why));
        } else {
            assert_int_equal(status, BP_OK);
            assert_int_equal(o->pnm.size[0], rows[i].height);
            assert_int_equal(o->pnm.size[1], rows[i].width);
            assert_int_equal(bp_pnm_number(&o->pnm, 0, &number), BP_OK);
            /* The second row's second place is the first of the cut from the middle. */
            assert_true(rows[i].prep.crop[0] == 0 || number == 5 * 7);
        }
        opened_end(o);
    }
}

/* verifies formats-16.301b */
static void bad_lists_are_refused(void **state)
{
    (void)state;
    fixture d;
    numbers_fixture_begin(&d);
    TEXT("a.ppm", "P6 2 1 255\nabcdef");
    TEXT("list.csv", "a.ppm,cat\n");
    assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "file_name"));
    TEXT("list.csv", "file_name,label\na.ppm,bird\n");
    assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
    assert_string_equal(d.error.name, "list.csv:2");
    TEXT("list.csv", "file_name,label\na.ppm\n");
    assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
    assert_int_equal(d.error.found, 1);
    TEXT("list.csv", "file_name,label\n,cat\n");
    assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "empty"));
    TEXT("list.csv", "file_name,label\nnone.ppm,cat\n");
    assert_int_equal(read_list(&d, 3), BP_ERR_DATA);
    numbers_fixture_end(&d);
}

static unsigned char *prepared_room(bp_pictures *pictures, uint64_t bytes)
{
    static uint64_t memory[4096];
    (void)pictures;
    return bytes <= sizeof memory ? (unsigned char *)memory : NULL;
}

/* A preprocessor_config.json is another key, and other numbers; what says nothing is none. */
/* verifies formats-52.a562 */
static void a_preprocessor_changes_rows_and_key(void **state)
{
    (void)state;
    bp_image_prep prep = {.factor = 1.0 / 255.0};
    bp_pictures pictures = {.room = prepared_room};
    fixture d;
    numbers_fixture_begin(&d);
    d.pictures = &pictures;
    TEXT("a.pgm", "P5 2 1 255 xy");
    TEXT("list.csv", "file_name,label\na.pgm,1\n");
    assert_int_equal(read_list(&d, 1), BP_OK);
    for (uint32_t turn = 0; turn < 3; turn++) { /* none, one, and none again, made anew */
        const uint32_t given = turn % 2;
        bp_tokens_close(&d.tokens);
        d.files[0] = (bp_data_file){.path = "list.csv"};
        assert_int_equal(
            bp_data_open(&d.data, &d.faulty.store, d.files, 1, BP_DATA_FOLDER, &d.error), BP_OK);
        prep.given = given;
        prep.factor = turn == 0 ? prep.factor : 1.0;
        d.work.prep = &prep;
        assert_int_equal(bp_numbers_open(&d.work, &d.tokens), BP_OK);
        bp_data_close(&d.data);
        assert_int_equal(d.work.built, turn != 0);
        int32_t bits;
        float value;
        assert_int_equal(d.tokens.source.read(&d.tokens.source, 0, 1, &bits), BP_OK);
        memcpy(&value, &bits, sizeof value);
        assert_true(value == (given == 0 ? (float)'x' / 255.0f : (float)'x'));
    }
    numbers_fixture_end(&d);
}

/* verifies formats-16.301b */
static void lists_without_their_columns_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        bool bare;
        bp_status status;
    } cases[] = {
        {"file_name,label\na.pgm,1\n", false, BP_OK}, {"label\n1\n", false, BP_ERR_DATA},
        {"file_name\na.pgm\n", false, BP_ERR_DATA},   {"file_name\na.pgm\n", true, BP_OK},
        {"file_name,label\na.pgm,1\n", true, BP_OK},  {"label,x\n1,2\n", true, BP_ERR_DATA},
        {"file_name,label,", false, BP_ERR_DATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture d;
        numbers_fixture_begin(&d);
        TEXT("a.pgm", "P5 2 1 255 xy");
        memory_store_put(&d.memory, "list.csv", cases[i].list, strlen(cases[i].list));
        d.files[0] = (bp_data_file){.path = "list.csv"};
        assert_int_equal(
            bp_data_open(&d.data, &d.faulty.store, d.files, 1, BP_DATA_FOLDER, &d.error), BP_OK);
        d.work = (bp_numbers){.data = &d.data,
                              .path = "rows.tokens",
                              .inputs = 2,
                              .size = {1, 2, 1},
                              .labels = BP_LABELS_CLASS,
                              .classes = 2,
                              .bare = cases[i].bare,
                              .pictures = d.pictures,
                              .scratch = d.scratch,
                              .error = &d.error};
        d.error = (bp_error){.code = BP_OK};
        if (bp_numbers_open(&d.work, &d.tokens) != cases[i].status) {
            fail_msg("%zu: %s: %s", i, d.error.name, d.error.text);
        }
        uint32_t inputs;
        d.error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_numbers_inputs(&d.work, &inputs), BP_ERR_USAGE);
        assert_string_equal(d.error.text, "a file of bare numbers has no row length");
        bp_data_close(&d.data);
        numbers_fixture_end(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_read),
        cmocka_unit_test(numbers_to_another_largest_are_scaled),
        cmocka_unit_test(bad_images_are_refused),
        cmocka_unit_test(other_images_are_decoded),
        cmocka_unit_test(heads_that_nearly_are_pictures),
        cmocka_unit_test(names_lead_to_files),
        cmocka_unit_test(files_that_do_not_open),
        cmocka_unit_test(long_heads),
        cmocka_unit_test(images_are_prepared),
        cmocka_unit_test(bad_lists_are_refused),
        cmocka_unit_test(a_preprocessor_changes_rows_and_key),
        cmocka_unit_test(lists_without_their_columns_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
