/* SPDX-License-Identifier: MIT */
/* CIFAR-10's and MNIST's files as rows of numbers: pixels and labels, keys, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/store_faulty.h"
#include "tests/fixtures/store_memory.h"
#include "tools/formats/images/data_images.h"
#include "tools/formats/data/data_numbers.h"

#define CIFAR  3073
#define IMAGES "t-images-idx3-ubyte"
#define LABELS "t-labels-idx1-ubyte"

typedef struct fixture {
    memory_store memory;
    faulty_store faulty;
    uint64_t *scratch;
    bp_error error;
    bp_data data;
    bp_data_file file;
    bp_numbers work;
    bp_tokens tokens;
} fixture;

static void fixture_begin(fixture *d, const char *name, const void *bytes, size_t size)
{
    memset(d, 0, sizeof *d);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    d->scratch = malloc(BP_NUMBERS_SCRATCH);
    memory_store_put(&d->memory, name, bytes, size);
    d->file.path = name;
}

static void fixture_end(fixture *d)
{
    bp_tokens_close(&d->tokens);
    assert_int_equal(d->memory.open_files, 0);
    memory_store_free(&d->memory);
    free(d->scratch);
}

static bp_status read_images(fixture *d, bp_data_format format, uint32_t inputs)
{
    bp_tokens_close(&d->tokens);
    d->error = (bp_error){.code = BP_OK};
    d->file = (bp_data_file){.path = d->file.path};
    assert_int_equal(bp_data_open(&d->data, &d->faulty.store, &d->file, 1, format, &d->error),
                     BP_OK);
    d->work = (bp_numbers){.data = &d->data,
                           .path = "rows.tokens",
                           .inputs = inputs,
                           .labels = BP_LABELS_CLASS,
                           .classes = 3,
                           .scratch = d->scratch,
                           .error = &d->error};
    const bp_status status = bp_numbers_open(&d->work, &d->tokens);
    bp_data_close(&d->data);
    return status;
}

static void has_image(fixture *d, uint64_t index, uint32_t inputs, const uint8_t *pixels,
                      uint32_t label)
{
    bp_example example;
    int32_t *bits = malloc(inputs * sizeof *bits);
    assert_int_equal(d->tokens.source.example(&d->tokens.source, index, &example), BP_OK);
    assert_int_equal(example.label, label);
    assert_int_equal(example.count, inputs);
    assert_int_equal(d->tokens.source.read(&d->tokens.source, example.first, inputs, bits), BP_OK);
    for (uint32_t i = 0; i < inputs; i++) {
        float value;
        memcpy(&value, &bits[i], sizeof value);
        assert_true(value == (float)pixels[i] / 255.0f);
    }
    free(bits);
}

static void refused(fixture *d, bp_data_format format, uint32_t inputs, const char *name,
                    const char *text)
{
    if (read_images(d, format, inputs) != BP_ERR_DATA) {
        fail_msg("%s: %s", d->error.name, d->error.text);
    }
    if (strstr(d->error.name, name) == NULL || strstr(d->error.text, text) == NULL) {
        fail_msg("%s: %s", d->error.name, d->error.text);
    }
    assert_int_equal(d->memory.open_files, 0);
}

/* Channels come together, places in order. */
/* verifies formats-23.429b */
static void cifar_is_read(void **state)
{
    (void)state;
    static uint8_t file[2 * CIFAR], pixels[CIFAR - 1];
    fixture d;
    for (uint32_t i = 0; i < 2 * CIFAR; i++) {
        file[i] = (uint8_t)(i * 37 % 251);
    }
    file[0] = 2;
    file[CIFAR] = 1;
    fixture_begin(&d, "a.bin", file, sizeof file);
    assert_int_equal(read_images(&d, BP_DATA_CIFAR10, CIFAR - 1), BP_OK);
    assert_int_equal(d.work.rows, 2);
    for (uint32_t n = 0; n < 2; n++) {
        for (uint32_t y = 0; y < 32; y++) {
            for (uint32_t x = 0; x < 32; x++) {
                for (uint32_t c = 0; c < 3; c++) {
                    pixels[(y * 32 + x) * 3 + c] = file[n * CIFAR + 1 + (c * 32 + y) * 32 + x];
                }
            }
        }
        has_image(&d, n, CIFAR - 1, pixels, n == 0 ? 2 : 1);
    }
    assert_int_equal(read_images(&d, BP_DATA_CIFAR10, CIFAR - 1), BP_OK);
    assert_false(d.work.built);
    fixture_end(&d);
}

/* verifies formats-16.301b */
static void damaged_cifar_is_refused(void **state)
{
    (void)state;
    static uint8_t file[2 * CIFAR];
    fixture d;
    file[CIFAR] = 3;
    fixture_begin(&d, "a.bin", file, sizeof file);
    refused(&d, BP_DATA_CIFAR10, CIFAR - 1, "a.bin:2", "no class");
    refused(&d, BP_DATA_CIFAR10, 784, "a.bin", "32 x 32 x 3");
    fixture_end(&d);
    fixture_begin(&d, "a.bin", file, sizeof file - 1);
    refused(&d, BP_DATA_CIFAR10, CIFAR - 1, "a.bin", "no whole number of images");
    fixture_end(&d);
    fixture_begin(&d, "a.bin", file, 0);
    refused(&d, BP_DATA_CIFAR10, CIFAR - 1, "a.bin", "no whole number of images");
    fixture_end(&d);
}

static const uint8_t idx[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0,   2, 0, 0,
                              0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 255, 0, 9, 7};
static const uint8_t idx_labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 1};

/* verifies formats-23.429b */
static void idx_is_read(void **state)
{
    (void)state;
    uint8_t other[sizeof idx_labels];
    fixture d;
    fixture_begin(&d, IMAGES, idx, sizeof idx);
    memory_store_put(&d.memory, LABELS, idx_labels, sizeof idx_labels);
    assert_int_equal(read_images(&d, BP_DATA_AUTO, 4), BP_OK);
    assert_int_equal(d.work.rows, 3);
    has_image(&d, 0, 4, idx + 16, 2);
    has_image(&d, 2, 4, idx + 24, 1);
    memcpy(other, idx_labels, sizeof other);
    other[10] = 0; /* other labels are other rows */
    memory_store_put(&d.memory, LABELS, other, sizeof other);
    assert_int_equal(read_images(&d, BP_DATA_IDX, 4), BP_OK);
    assert_true(d.work.built);
    has_image(&d, 2, 4, idx + 24, 0);
    fixture_end(&d);
}

static void refuse_changed(size_t at, uint8_t value, size_t cut, const char *text)
{
    uint8_t file[sizeof idx];
    fixture d;
    memcpy(file, idx, sizeof idx);
    file[at] = value;
    fixture_begin(&d, IMAGES, file, sizeof file - cut);
    memory_store_put(&d.memory, LABELS, idx_labels, sizeof idx_labels);
    refused(&d, BP_DATA_IDX, 4, IMAGES, text);
    fixture_end(&d);
}

/* verifies formats-16.301b */
static void damaged_idx_is_refused(void **state)
{
    (void)state;
    uint8_t labels[sizeof idx_labels];
    fixture d;
    refuse_changed(0, 1, 0, "no IDX file");
    refuse_changed(1, 1, 0, "no IDX file");
    refuse_changed(2, 9, 0, "no IDX file");
    refuse_changed(3, 0, 0, "no IDX file");
    refuse_changed(3, 5, 0, "no IDX file");
    refuse_changed(0, 0, sizeof idx - 7, "no IDX file");
    refuse_changed(0, 0, sizeof idx - 3, "no IDX file");
    refuse_changed(0, 0, 1, "cut short");
    refuse_changed(4, 0xff, 0, "cut short");
    refuse_changed(3, 1, 9, "cut short");
    fixture_begin(&d, IMAGES, idx, sizeof idx);
    assert_int_equal(read_images(&d, BP_DATA_IDX, 4), BP_ERR_DATA); /* no labels */
    assert_int_equal(d.memory.open_files, 0);
    memory_store_put(&d.memory, LABELS, idx_labels, sizeof idx_labels);
    refused(&d, BP_DATA_IDX, 5, IMAGES, "another number of pixels");
    memory_store_put(&d.memory, LABELS, idx_labels, sizeof idx_labels - 1);
    refused(&d, BP_DATA_IDX, 4, LABELS, "cut short");
    memory_store_put(&d.memory, LABELS, idx, sizeof idx);
    refused(&d, BP_DATA_IDX, 4, LABELS, "another number of images");
    memcpy(labels, idx_labels, sizeof labels);
    labels[7] = 2;
    memory_store_put(&d.memory, LABELS, labels, sizeof labels - 1);
    refused(&d, BP_DATA_IDX, 4, LABELS, "another number of images");
    labels[7] = 3;
    labels[9] = 3;
    memory_store_put(&d.memory, LABELS, labels, sizeof labels);
    refused(&d, BP_DATA_IDX, 4, IMAGES ":2", "no class");
    fixture_end(&d);
    static const char *const others[] = {"digits-ubyte", "images-ubyte", "digits-idx3-ubyte"};
    for (size_t i = 0; i < 3; i++) {
        fixture_begin(&d, others[i], idx, sizeof idx);
        refused(&d, BP_DATA_IDX, 4, others[i], "labels are looked for");
        fixture_end(&d);
    }
    fixture_begin(&d, "t-images-idx4-ubyte", idx, sizeof idx);
    memory_store_put(&d.memory, LABELS, idx_labels, sizeof idx_labels);
    assert_int_equal(read_images(&d, BP_DATA_IDX, 4), BP_OK);
    fixture_end(&d);
    fixture_begin(&d, IMAGES, idx_labels, sizeof idx_labels); /* a list is no image */
    memory_store_put(&d.memory, LABELS, idx_labels, sizeof idx_labels);
    refused(&d, BP_DATA_IDX, 1, IMAGES, "another number of pixels");
    fixture_end(&d);
}

static void numbers_of_a_row_are_not_said(void **state)
{
    (void)state;
    uint32_t inputs = 1;
    fixture d;
    fixture_begin(&d, IMAGES, idx, sizeof idx);
    memory_store_put(&d.memory, LABELS, idx_labels, sizeof idx_labels);
    assert_int_equal(read_images(&d, BP_DATA_IDX, 4), BP_OK);
    assert_int_equal(bp_numbers_inputs(&d.work, &inputs), BP_ERR_USAGE);
    static const bp_data_format bare[] = {BP_DATA_F32, BP_DATA_NPY, BP_DATA_FOLDER};
    for (size_t i = 0; i < sizeof bare / sizeof bare[0]; i++) {
        d.data.format = bare[i];
        d.error = (bp_error){.code = BP_OK};
        assert_int_equal(bp_numbers_inputs(&d.work, &inputs), BP_ERR_USAGE);
    }
    fixture_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cifar_is_read), cmocka_unit_test(damaged_cifar_is_refused),
        cmocka_unit_test(idx_is_read), cmocka_unit_test(damaged_idx_is_refused),
        cmocka_unit_test(numbers_of_a_row_are_not_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
