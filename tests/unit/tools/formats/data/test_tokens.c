/* SPDX-License-Identifier: MIT */
/* Token files: writing, reading, damage, faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data_tokens.h"
#include "tools/formats/data/data_documents.h"
#include "tools/formats/data/data_tokens_form.h"

static const char path[] = "a.tokens";

typedef struct fixture {
    memory_store memory;
    faulty_store faulty;
    unsigned char *buffer; /* of the writer, and for verifying */
    bp_error error;
    bp_tokens tokens;
} fixture;

static void fixture_begin(fixture *d)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    d->buffer = malloc(2 * BP_TOKENS_BUFFER);
}

static void fixture_end(fixture *d)
{
    bp_tokens_close(&d->tokens);
    bp_tokens_close(&d->tokens);
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
    free(d->buffer);
}

static bool there(fixture *d, const char *name)
{
    size_t size;
    return memory_store_bytes(&d->memory, name, &size) != NULL;
}

/* Writes `count` ids 3 i + seed, and so many examples of 10 tokens. */
static bp_status write_file(fixture *d, uint32_t width, uint32_t seed, uint32_t count,
                            uint64_t examples)
{
    bp_tokens_writer writer = {
        .store = &d->faulty.store, .path = path, .buffer = d->buffer, .error = &d->error};
    writer.head = (bp_tokens_head){.width = width, .tail = 1, .form = 2, .key = 77, .documents = 5};
    d->error = (bp_error){.code = BP_OK};
    bp_status status = bp_tokens_begin(&writer, examples + 3);
    for (uint32_t i = 0; i < count && status == BP_OK; i++) {
        uint32_t id = (3 * i + seed) & (width == 1 ? 0xffu : width == 2 ? 0xffffu : 0x7fffffffu);
        status = bp_tokens_put(&writer, &id, 1);
    }
    for (uint64_t i = 0; i < examples && status == BP_OK; i++) {
        const bp_example example = {.first = i, .count = 10, .prompt = i % 10, .label = 1000 + i};
        status = bp_tokens_put_example(&writer, &example);
    }
    if (status == BP_OK) {
        status = bp_tokens_end(&writer);
    }
    if (status != BP_OK) {
        bp_tokens_abandon(&writer);
        bp_tokens_abandon(&writer);
    }
    return status;
}

static bp_status open_file(fixture *d)
{
    d->error = (bp_error){.code = BP_OK};
    return bp_tokens_open(&d->tokens, &d->faulty.store, path, d->buffer, &d->error);
}

/* Examples of rows 1, 4 and 5 of the data. */
static bp_status write_gaps(fixture *d, uint64_t room)
{
    static const uint64_t rows[] = {1, 4, 5};
    bp_tokens_writer writer = {
        .store = &d->faulty.store, .path = path, .buffer = d->buffer, .error = &d->error};
    writer.head = (bp_tokens_head){.width = 1, .form = BP_FORM_LABELLED, .key = 77};
    d->error = (bp_error){.code = BP_OK};
    bp_status status = bp_tokens_begin(&writer, room);
    for (uint32_t i = 0; i < 3 && status == BP_OK; i++) {
        const bp_example example = {.first = i, .count = 1};
        status = bp_tokens_put(&writer, &i, 1);
        status = status == BP_OK ? bp_tokens_at_row(&writer, rows[i]) : status;
        status = status == BP_OK ? bp_tokens_put_example(&writer, &example) : status;
    }
    status = status == BP_OK ? bp_tokens_end(&writer) : status;
    if (status != BP_OK) {
        bp_tokens_abandon(&writer);
    }
    return status;
}

/* Which rows of the data were left out is kept, and damage to that is seen. */
/* verifies formats-73.d382 */
static void rows_that_are_left_out_are_known(void **state)
{
    (void)state;
    static const uint64_t left[] = {0, 2, 3};
    fixture d;
    fixture_begin(&d);
    assert_int_equal(write_gaps(&d, 3), BP_ERR_INTERNAL);
    assert_int_equal(write_gaps(&d, 6), BP_OK);
    assert_int_equal(open_file(&d), BP_OK);
    assert_int_equal(d.tokens.head.left_out, 3);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t row;
        assert_int_equal(bp_tokens_left_out(&d.tokens, i, &row), BP_OK);
        assert_int_equal(row, left[i]);
    }
    const uint64_t at = d.tokens.head.start - 8 * 2;
    bp_tokens_close(&d.tokens);
    size_t size;
    unsigned char *bytes = malloc(BP_TOKENS_HEADER + 6 * BP_TOKENS_EXAMPLE + 3);
    const void *whole = memory_store_bytes(&d.memory, path, &size);
    assert_int_equal(size, BP_TOKENS_HEADER + 6 * BP_TOKENS_EXAMPLE + 3);
    memcpy(bytes, whole, size);
    bytes[at] ^= 1;
    memory_store_put(&d.memory, path, bytes, size);
    free(bytes);
    assert_int_equal(open_file(&d), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "its digest differs"));
    fixture_end(&d);
}

/* verifies formats-11.6e9f */
static void what_is_written_is_read(void **state)
{
    (void)state;
    enum { MANY = 70000, EXAMPLES = 5000 }; /* more than the buffers hold */
    static const uint32_t widths[] = {1, 2, 4};
    for (size_t w = 0; w < 3; w++) {
        fixture d;
        fixture_begin(&d);
        assert_int_equal(write_file(&d, widths[w], 9, MANY, EXAMPLES), BP_OK);
        assert_false(there(&d, "a.tokens.tmp"));
        assert_int_equal(open_file(&d), BP_OK);
        bp_source *source = &d.tokens.source;
        assert_int_equal(source->count, MANY);
        assert_int_equal(source->examples, EXAMPLES);
        assert_int_equal(d.tokens.head.key, 77);
        assert_int_equal(d.tokens.head.documents, 5);
        int32_t ids[100];
        assert_int_equal(source->read(source, MANY - 100, 100, ids), BP_OK);
        for (uint32_t i = 0; i < 100; i++) {
            uint32_t mask = widths[w] == 1 ? 0xff : widths[w] == 2 ? 0xffff : 0x7fffffff;
            assert_int_equal(ids[i], (3 * (MANY - 100 + i) + 9) & mask);
        }
        bp_example example;
        assert_int_equal(source->example(source, 4321, &example), BP_OK);
        assert_int_equal(example.first, 4321);
        assert_int_equal(example.count, 10);
        assert_int_equal(example.prompt, 1);
        assert_int_equal(example.label, 5321);
        assert_int_equal(example.tail, 1);
        assert_int_equal(source->read(source, MANY - 99, 100, ids), BP_ERR_INTERNAL);
        fixture_end(&d);
    }
}

/* verifies formats-11.6e9f */
static void a_damaged_file_is_refused(void **state)
{
    (void)state;
    fixture d;
    size_t size;
    fixture_begin(&d);
    assert_int_equal(write_file(&d, 2, 9, 100, 4), BP_OK);
    unsigned char *bytes = memory_store_bytes(&d.memory, path, &size);
    assert_int_equal(size, 128 + 7 * 32 + 200);
    for (size_t i = 0; i < size; i++) {
        bool room = i >= 128 + 4 * 32 && i < 128 + 7 * 32; /* for examples that did not come */
        bytes[i] ^= 0x10;
        assert_int_equal(open_file(&d), room ? BP_OK : BP_ERR_DATA);
        bp_tokens_close(&d.tokens);
        bytes[i] ^= 0x10;
    }
    unsigned char copy[600];
    memcpy(copy, bytes, size);
    for (size_t length = 0; length < size; length += 13) {
        memory_store_put(&d.memory, path, copy, length);
        assert_int_equal(open_file(&d), BP_ERR_DATA);
        assert_string_equal(d.error.name, path);
    }
    fixture_end(&d);
}

/* verifies formats-11.6e9f */
static void an_example_beyond_the_tokens_is_refused(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    assert_int_equal(write_file(&d, 2, 9, 100, 92), BP_OK); /* the last one begins at 91 */
    assert_int_equal(open_file(&d), BP_ERR_DATA);
    assert_int_equal(d.error.found, 91);
    fixture_end(&d);
}

/* Headers whose digest is right and whose numbers are not. */
/* verifies formats-11.6e9f */
static void headers_that_contradict_the_file(void **state)
{
    (void)state;
    enum { EXAMPLES = 4, IDS = 100 };
    fixture d;
    size_t size;
    fixture_begin(&d);
    assert_int_equal(write_file(&d, 4, 9, IDS, EXAMPLES), BP_OK);
    assert_int_equal(open_file(&d), BP_OK);
    const bp_tokens_head head = d.tokens.head;
    bp_tokens_close(&d.tokens);
    unsigned char *bytes = memory_store_bytes(&d.memory, path, &size);
    for (int i = 0; i < 8; i++) {
        bp_tokens_head other = head;
        other.width = i == 0 ? 3 : i == 1 ? 0 : i == 2 ? 2 : other.width;
        other.examples = i == 3 ? EXAMPLES + 4 : i == 4 ? UINT64_MAX / 16 : other.examples;
        other.tokens = i == 5 ? IDS + 1 : i == 6 ? UINT64_MAX / 2 : other.tokens;
        other.start = i == 7 ? UINT64_MAX : other.start;
        bp_tokens_head_write(&other, bytes);
        assert_int_equal(open_file(&d), BP_ERR_DATA);
        assert_string_equal(d.error.text, "the file's size differs from its header");
    }
    fixture_end(&d);
}

static void there_is_no_room_for_more_examples(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    bp_tokens_writer writer = {
        .store = &d.faulty.store, .path = path, .buffer = d.buffer, .error = &d.error};
    writer.head = (bp_tokens_head){.width = 1};
    const bp_example example = {.first = 0};
    assert_int_equal(bp_tokens_begin(&writer, 1), BP_OK);
    assert_int_equal(bp_tokens_put_example(&writer, &example), BP_OK);
    assert_int_equal(bp_tokens_put_example(&writer, &example), BP_ERR_INTERNAL);
    assert_int_equal(d.error.found, 2);
    assert_int_equal(d.error.wanted, 1);
    bp_tokens_abandon(&writer);
    char longest[BP_STORE_PATH_MAX];
    memset(longest, 'p', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    writer.path = longest;
    assert_int_equal(bp_tokens_begin(&writer, 1), BP_ERR_USAGE);
    bp_tokens_abandon(&writer);
    fixture_end(&d);
}

/* Files of more than the buffers hold: any write, and any read of verifying. */
/* verifies formats-24.7573 */
static void faults_in_the_middle(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d);
    bp_status status = BP_ERR_STORE;
    uint32_t call = 0;
    while (status == BP_ERR_STORE) {
        faulty_store_arm(&d.faulty, FAULT_WRITE_AT, ++call, false);
        status = write_file(&d, 2, 2, 70000, 5000);
        assert_int_equal(d.memory.open_files, 0);
    }
    assert_int_equal(status, BP_OK);
    assert_int_equal(call, 8); /* three of ids, three of examples, the header, and then none */
    status = BP_ERR_STORE;
    call = 0;
    while (status == BP_ERR_STORE) {
        faulty_store_arm(&d.faulty, FAULT_READ_AT, ++call, false);
        status = open_file(&d);
        assert_int_equal(d.memory.open_files, status == BP_OK);
    }
    assert_int_equal(status, BP_OK);
    assert_int_equal(call, 8);
    faulty_store_arm(&d.faulty, FAULT_READ_AT, 1, false);
    bp_example example;
    assert_int_equal(d.tokens.source.example(&d.tokens.source, 0, &example), BP_ERR_STORE);
    int32_t id;
    assert_int_equal(d.tokens.source.read(&d.tokens.source, 70001, 0, &id), BP_ERR_INTERNAL);
    fixture_end(&d);
}

/* verifies formats-24.7573 */
static void faults_of_the_store(void **state)
{
    (void)state;
    static const fault_kind writing[] = {FAULT_OPEN_WRITE, FAULT_WRITE_AT, FAULT_SYNC, FAULT_CLOSE,
                                         FAULT_RENAME};
    static const fault_kind reading[] = {FAULT_OPEN_READ, FAULT_FILE_SIZE, FAULT_READ_AT};
    fixture d;
    fixture_begin(&d);
    assert_int_equal(write_file(&d, 2, 1, 100, 4), BP_OK);
    for (size_t i = 0; i < sizeof writing / sizeof writing[0]; i++) {
        faulty_store_arm(&d.faulty, writing[i], 1, false);
        assert_int_equal(write_file(&d, 2, 2, 100, 4), BP_ERR_STORE);
        assert_int_equal(d.error.code, BP_ERR_STORE);
        assert_false(there(&d, "a.tokens.tmp"));
        assert_int_equal(d.memory.open_files, 0);
        int32_t first;
        assert_int_equal(open_file(&d), BP_OK);
        assert_int_equal(d.tokens.source.read(&d.tokens.source, 0, 1, &first), BP_OK);
        assert_int_equal(first, 1); /* the earlier file is as it was */
        bp_tokens_close(&d.tokens);
    }
    for (size_t i = 0; i < sizeof reading / sizeof reading[0]; i++) {
        faulty_store_arm(&d.faulty, reading[i], 1, false);
        assert_int_equal(open_file(&d), BP_ERR_STORE);
        assert_int_equal(d.memory.open_files, 0);
    }
    fixture_end(&d);
}

/* What a second text, a prompt or a shift says has to lie inside as well, and what is wrong in the
 * first of several pieces is what is said. */
/* verifies formats-11.6e9f */
static void parts_of_examples_lie_inside(void **state)
{
    (void)state;
    static const struct {
        uint32_t form, texts;
        bp_example example;
        bool good;
    } rows[] = {
        {BP_FORM_LABELLED, 1, {.first = 0, .count = 10, .prompt = 10}, true},
        {BP_FORM_LABELLED, 1, {.first = 0, .count = 10, .prompt = 11}, false},
        {BP_FORM_LABELLED, 2, {.first = 0, .count = 10, .prompt = 10}, true},
        {BP_FORM_LABELLED, 2, {.first = 0, .count = 10, .prompt = 11}, false}, /* the second text */
        {BP_FORM_TAGGED, 1, {.first = 80, .count = 10}, true},
        {BP_FORM_TAGGED, 1, {.first = 81, .count = 10}, false}, /* its labels */
        {BP_FORM_TAGGED, 1, {.first = 101}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture d;
        fixture_begin(&d);
        bp_tokens_writer writer = {
            .store = &d.faulty.store, .path = path, .buffer = d.buffer, .error = &d.error};
        writer.head = (bp_tokens_head){.width = 1, .form = rows[i].form, .texts = rows[i].texts};
        assert_int_equal(bp_tokens_begin(&writer, 1), BP_OK);
        for (uint32_t id = 0; id < 100; id++) {
            assert_int_equal(bp_tokens_put(&writer, &id, 1), BP_OK);
        }
        assert_int_equal(bp_tokens_put_example(&writer, &rows[i].example), BP_OK);
        assert_int_equal(bp_tokens_end(&writer), BP_OK);
        assert_int_equal(open_file(&d), rows[i].good ? BP_OK : BP_ERR_DATA);
        fixture_end(&d);
    }
    fixture d;
    fixture_begin(&d);
    assert_int_equal(write_file(&d, 2, 9, 100, 5000), BP_OK); /* 91 and all behind it are wrong */
    assert_int_equal(open_file(&d), BP_ERR_DATA);
    assert_int_equal(d.error.found, 91);
    fixture_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_are_left_out_are_known),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_damaged_file_is_refused),
        cmocka_unit_test(an_example_beyond_the_tokens_is_refused),
        cmocka_unit_test(headers_that_contradict_the_file),
        cmocka_unit_test(there_is_no_room_for_more_examples),
        cmocka_unit_test(faults_in_the_middle),
        cmocka_unit_test(faults_of_the_store),
        cmocka_unit_test(parts_of_examples_lie_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
