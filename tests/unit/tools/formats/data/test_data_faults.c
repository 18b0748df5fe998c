/* SPDX-License-Identifier: MIT */
/* Data larger than the windows and the buffers: whatever read or write fails, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/data/data_numbers.h"
#include "tools/formats/data/data_tokenise.h"

enum { WINDOW = 262144, ROOM = 3 * WINDOW };

typedef struct fixture {
    memory_store memory;
    faulty_store faulty;
    bp_error error;
    bp_data data;
    bp_data_file file;
    bp_tokens tokens;
    uint64_t *scratch;
    char *text; /* ROOM bytes */
    size_t length;
    bp_labels labels;
    uint32_t inputs; /* 0: documents, not numbers */
    uint64_t told;   /* bytes, by the watcher */
    uint32_t times;
} fixture;

static void fixture_begin(fixture *d, bp_labels labels, uint32_t inputs)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    d->scratch =
        malloc(BP_TOKENISE_SCRATCH > BP_NUMBERS_SCRATCH ? BP_TOKENISE_SCRATCH : BP_NUMBERS_SCRATCH);
    d->text = malloc(ROOM);
    d->labels = labels;
    d->inputs = inputs;
}

static void fixture_end(fixture *d)
{
    bp_tokens_close(&d->tokens);
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
    free(d->scratch);
    free(d->text);
}

/* Repeats `line` until there are `bytes` of text. */
static void fill_to(fixture *d, size_t bytes, const char *line)
{
    size_t length = strlen(line);
    while (d->length + length <= bytes) {
        memcpy(d->text + d->length, line, length);
        d->length += length;
    }
}

static void watch(void *user, uint64_t bytes, uint64_t of)
{
    fixture *d = user;
    assert_true(bytes > d->told && bytes <= of);
    d->told = bytes;
    d->times++;
}

static bp_status make(fixture *d)
{
    bp_tokens_close(&d->tokens);
    d->error = (bp_error){.code = BP_OK};
    d->told = 0;
    d->times = 0;
    bp_tokenise words = {.data = &d->data,
                         .path = "tokens",
                         .vocabulary = 256,
                         .end_token = d->labels == BP_LABELS_NEXT_TOKEN ? 0 : -1,
                         .labels = d->labels,
                         .classes = 3,
                         .scratch = d->scratch,
                         .watch = watch,
                         .user = d,
                         .error = &d->error};
    bp_numbers rows = {.data = &d->data,
                       .path = "tokens",
                       .inputs = d->inputs,
                       .labels = d->labels,
                       .classes = d->labels == BP_LABELS_CLASS ? 3 : 0,
                       .scratch = d->scratch,
                       .error = &d->error};
    return d->inputs > 0 ? bp_numbers_open(&rows, &d->tokens)
                         : bp_tokenise_open(&words, &d->tokens);
}

/* The file is made; then each call of the kind fails once, the others being well, and each time
 * nothing is left behind. */
static void survives(fixture *d, const char *name, fault_kind kind, uint32_t least)
{
    size_t size;
    memory_store_put(&d->memory, name, d->text, d->length);
    d->file = (bp_data_file){.path = name};
    faulty_store_arm(&d->faulty, kind, 0, false);
    assert_int_equal(bp_data_open(&d->data, &d->faulty.store, &d->file, 1, BP_DATA_AUTO, &d->error),
                     BP_OK);
    bp_status status = BP_ERR_STORE;
    uint32_t call = 0;
    while (status == BP_ERR_STORE) {
        memory_store_put(&d->memory, "tokens", "earlier", 7);
        faulty_store_arm(&d->faulty, kind, ++call, false);
        status = make(d);
        if (status == BP_ERR_STORE) {
            assert_int_equal(d->error.code, BP_ERR_STORE);
            assert_int_equal(d->memory.open_files, 1);
            assert_null(memory_store_bytes(&d->memory, "tokens.tmp", &size));
        }
    }
    if (status != BP_OK) {
        fail_msg("%s: %s", d->error.name, d->error.text);
    }
    assert_true(call > least);
    faulty_store_arm(&d->faulty, kind, 0, false);
    bp_data_close(&d->data);
}

/* verifies formats-24.7573 */
static void tables_of_numbers(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d, BP_LABELS_CLASS, 2);
    fill_to(&d, WINDOW + 5, "\n");
    fill_to(&d, d.length + 11, "x,label,y\r\n");
    fill_to(&d, 2 * WINDOW, "1.5,2,-7\n");
    fill_to(&d, 2 * WINDOW + 5000, "\r\n");
    fill_to(&d, ROOM - 5000, "2, 1 ,\"0.5\"\n");
    survives(&d, "a.csv", FAULT_READ_AT, 7);
    assert_true(d.tokens.source.examples > 40000);
    survives(&d, "a.csv", FAULT_WRITE_AT, 10);
    fixture_end(&d);
}

/* verifies formats-24.7573 */
static void bare_numbers(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d, BP_LABELS_BITS, 2);
    d.length = ROOM / 12 * 12;
    for (size_t i = 0; i < d.length / 4; i++) {
        const float value = (float)i * 0.5f;
        memcpy(d.text + 4 * i, &value, 4);
    }
    survives(&d, "a.f32", FAULT_READ_AT, 7);
    survives(&d, "a.f32", FAULT_WRITE_AT, 10);
    bp_example example;
    float label;
    assert_int_equal(d.tokens.source.example(&d.tokens.source, 1000, &example), BP_OK);
    const uint32_t bits = (uint32_t)example.label;
    memcpy(&label, &bits, 4);
    assert_true(label == 3002 * 0.5f);
    fixture_end(&d);
}

/* verifies formats-24.7573 */
static void texts_of_many_windows(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d, BP_LABELS_NEXT_TOKEN, 0);
    fill_to(&d, ROOM, "some text and more of it\n");
    survives(&d, "a.txt", FAULT_READ_AT, 6);
    assert_int_equal(d.tokens.source.count, d.length);
    assert_int_equal(d.times, 2); /* at the second window and at the third */
    survives(&d, "a.txt", FAULT_WRITE_AT, 10);
    fixture_end(&d);
}

/* verifies formats-24.7573 */
static void lines_of_many_windows(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d, BP_LABELS_NEXT_TOKEN, 0);
    fill_to(&d, 40000, "{\"text\": \"one\", \"other\": [1, 2]}\n");
    fill_to(&d, WINDOW + 40000, " ");
    fill_to(&d, WINDOW + 80000, "\n{\"other\": 2, \"text\": \"two\"}\n");
    fill_to(&d, d.length + 10, "{\"text\": \"");
    fill_to(&d, 2 * WINDOW + 90000, "long");
    fill_to(&d, d.length + 2, "\"}");
    survives(&d, "a.jsonl", FAULT_READ_AT, 8);
    survives(&d, "a.jsonl", FAULT_WRITE_AT, 4);
    fixture_end(&d);
    fixture_begin(&d, BP_LABELS_NEXT_TOKEN, 0);
    fill_to(&d, 13, "{\"completion\"");
    fill_to(&d, 15, ": ");
    fill_to(&d, 16, "\"");
    fill_to(&d, WINDOW + 999, "answer");
    fill_to(&d, d.length + 14, "\", \"prompt\": \"");
    fill_to(&d, 2 * WINDOW + 999, "question");
    fill_to(&d, d.length + 14, "\", \"x\": [1, {}");
    fill_to(&d, d.length + 2, "]}");
    survives(&d, "a.jsonl", FAULT_READ_AT, 8);
    bp_example example;
    assert_int_equal(d.tokens.source.example(&d.tokens.source, 0, &example), BP_OK);
    assert_true(example.prompt > 200000 && example.count > example.prompt + 200000);
    survives(&d, "a.jsonl", FAULT_WRITE_AT, 8);
    fixture_end(&d);
}

/* verifies formats-24.7573 */
static void labels_of_many_windows(void **state)
{
    (void)state;
    fixture d;
    fixture_begin(&d, BP_LABELS_CLASS, 0);
    fill_to(&d, WINDOW + 1, "\n");
    fill_to(&d, d.length + 11, "text,label\n");
    fill_to(&d, WINDOW + 40000, "\"a \"\"text\"\"\",2\n");
    fill_to(&d, 2 * WINDOW + 40000, "\n");
    fill_to(&d, d.length + 2, "\"x");
    fill_to(&d, ROOM - 100, "long");
    fill_to(&d, d.length + 4, "\",1\n");
    survives(&d, "a.csv", FAULT_READ_AT, 7);
    survives(&d, "a.csv", FAULT_WRITE_AT, 4);
    fixture_end(&d);
}

static bp_status count_inputs(fixture *d, const char *text, uint32_t *inputs)
{
    memory_store_put(&d->memory, "a.csv", text, strlen(text));
    d->error = (bp_error){.code = BP_OK};
    d->file = (bp_data_file){.path = "a.csv"};
    faulty_store_arm(&d->faulty, FAULT_READ_AT, 0, false);
    assert_int_equal(bp_data_open(&d->data, &d->faulty.store, &d->file, 1, BP_DATA_AUTO, &d->error),
                     BP_OK);
    bp_numbers work = {.data = &d->data, .scratch = d->scratch, .error = &d->error};
    return bp_numbers_inputs(&work, inputs);
}

/* verifies formats-24.7573 */
static void inputs_are_counted(void **state)
{
    (void)state;
    static const fault_kind kinds[] = {FAULT_FILE_SIZE, FAULT_READ_AT};
    fixture d;
    uint32_t inputs;
    fixture_begin(&d, BP_LABELS_CLASS, 2);
    assert_int_equal(count_inputs(&d, "a,b,c,label\n1,2,3,4\n", &inputs), BP_OK);
    assert_int_equal(inputs, 3);
    for (size_t i = 0; i < 2; i++) {
        bp_numbers work = {.data = &d.data, .scratch = d.scratch, .error = &d.error};
        faulty_store_arm(&d.faulty, kinds[i], 1, false);
        assert_int_equal(bp_numbers_inputs(&work, &inputs), BP_ERR_STORE);
        assert_int_equal(inputs, 0);
    }
    bp_data_close(&d.data);
    static const char *const bad[] = {"", "1\n2\n", "label\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(count_inputs(&d, bad[i], &inputs), BP_ERR_DATA);
        assert_string_equal(d.error.text, "a row has numbers and a label");
        assert_int_equal(d.error.found, i > 0);
        assert_int_equal(d.error.wanted, 2);
        bp_data_close(&d.data);
    }
    assert_int_equal(count_inputs(&d, "a,\"b\n", &inputs), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "no end"));
    bp_data_close(&d.data);
    assert_int_equal(count_inputs(&d, "target,c,target\n1,2,3\n", &inputs), BP_ERR_DATA);
    assert_non_null(strstr(d.error.text, "two columns"));
    bp_data_close(&d.data);
    fixture_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_numbers),      cmocka_unit_test(bare_numbers),
        cmocka_unit_test(texts_of_many_windows),  cmocka_unit_test(lines_of_many_windows),
        cmocka_unit_test(labels_of_many_windows), cmocka_unit_test(inputs_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
