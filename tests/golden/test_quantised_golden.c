/* SPDX-License-Identifier: MIT */
/* Codes and scales against what bitsandbytes makes of the same weights, byte for byte, and the
 * values of codes against its own (tools/golden/quantised.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/cascade.h"
#include "core/base/dtype.h"
#include "core/ops/quantised.h"
#include "tests/fixtures/golden.h"

enum { MATRICES = 6 };

static const uint64_t sides[MATRICES][2] = {{1, 1},    {3, 7},   {5, 64},
                                            {37, 100}, {64, 64}, {129, 130}};

typedef struct fixture {
    golden file;
    int index;
    uint64_t rows;
    uint64_t columns;
    uint64_t count;
    float *weight;
} fixture;

static void *take(const fixture *d, const char *name, size_t bytes)
{
    char full[32];
    size_t found = 0;
    snprintf(full, sizeof full, "%s.%d", name, d->index);
    void *data = golden_tensor(&d->file, full, &found);
    assert_int_equal(found, bytes);
    return data;
}

static void open_fixture(fixture *d, int index)
{
    golden_open(&d->file, "tests/golden/quantised.safetensors");
    d->index = index;
    d->rows = sides[index][0];
    d->columns = sides[index][1];
    d->count = d->rows * d->columns;
    uint16_t *half = take(d, "weight", d->count * 2);
    d->weight = malloc(d->count * sizeof *d->weight);
    for (uint64_t i = 0; i < d->count; i++) {
        d->weight[i] = bp_f32_from_f16(half[i]);
    }
    free(half);
}

static void close_fixture(fixture *d)
{
    free(d->weight);
    golden_close(&d->file);
}

static void equal(const void *found, const void *wanted, size_t bytes, const char *what, int index)
{
    if (memcmp(found, wanted, bytes) != 0) {
        fail_msg("matrix %d: %s differ", index, what);
    }
}

static void values_equal(const fixture *d, const bp_quantised_matrix *matrix, const char *name)
{
    float *wanted = take(d, name, d->count * sizeof *wanted);
    for (uint64_t i = 0; i < d->count; i++) {
        float value = bp_quantised_value(matrix, i);
        assert_memory_equal(&value, &wanted[i], sizeof value);
    }
    free(wanted);
}

static bool small(const fixture *d)
{
    return d->count < 4000;
}

/* verifies number-9.0099 */
static void nf4_is_that_of_bitsandbytes(void **state)
{
    (void)state;
    for (int index = 0; index < MATRICES; index++) {
        fixture d;
        open_fixture(&d, index);
        const uint64_t blocks = (d.count + 63) / 64, pairs = (d.count + 1) / 2;
        uint8_t *codes = calloc(pairs + 64, 1);
        float *scales = malloc(blocks * sizeof *scales);
        for (uint64_t b = 0; b < blocks; b++) {
            uint64_t left = d.count - 64 * b, some = left < 64 ? left : 64;
            scales[b] = bp_four_block(BP_QUANTISED_NF4, d.weight + 64 * b, some, codes + 32 * b);
            assert_true(scales[b] == bp_four_scale(BP_QUANTISED_NF4, d.weight + 64 * b, some));
        }
        uint8_t *wanted = take(&d, "codes", pairs);
        float *absmax = take(&d, "absmax", blocks * sizeof *absmax);
        equal(codes, wanted, pairs, "codes", index);
        equal(scales, absmax, blocks * sizeof *scales, "scales", index);
        const bp_quantised_matrix matrix = {BP_QUANTISED_NF4, d.columns, codes, scales, NULL};
        if (small(&d)) {
            values_equal(&d, &matrix, "value");
        }
        free(wanted);
        free(absmax);
        free(codes);
        free(scales);
        close_fixture(&d);
    }
}

/* verifies number-9.0099 */
static void nested_scales_are_those_of_bitsandbytes(void **state)
{
    (void)state;
    for (int index = 0; index < MATRICES; index++) {
        fixture d;
        open_fixture(&d, index);
        const uint64_t blocks = (d.count + 63) / 64, groups = (blocks + 255) / 256;
        float *absmax = take(&d, "absmax", blocks * sizeof *absmax);
        float *scales = take(&d, "scales", (1 + groups) * sizeof *scales);
        uint8_t *wanted = take(&d, "nested", blocks), *codes = take(&d, "codes", (d.count + 1) / 2);
        uint8_t *found = malloc(blocks);
        float *nested = malloc((BP_NESTED_SCALES + groups) * sizeof *nested);
        bp_cascade sum;
        bp_cascade_begin(&sum, blocks);
        for (uint64_t b = 0; b < blocks; b++) {
            bp_cascade_add(&sum, absmax[b]);
        }
        nested[0] = bp_cascade_mean(&sum);
        memcpy(nested + BP_NESTED_MAP, bp_nested_map, sizeof bp_nested_map);
        for (uint64_t g = 0; g < groups; g++) {
            uint64_t left = blocks - 256 * g;
            nested[BP_NESTED_SCALES + g] = bp_nested_block(
                absmax + 256 * g, left < 256 ? (uint32_t)left : 256, nested[0], found + 256 * g);
        }
        equal(nested, scales, sizeof *nested, "offsets", index);
        equal(nested + BP_NESTED_SCALES, scales + 1, groups * sizeof *nested, "scales", index);
        equal(found, wanted, blocks, "codes of scales", index);
        const bp_quantised_matrix matrix = {BP_QUANTISED_NF4_DOUBLE, d.columns, codes, found,
                                            nested};
        if (small(&d)) {
            values_equal(&d, &matrix, "double");
        }
        free(absmax);
        free(scales);
        free(wanted);
        free(codes);
        free(found);
        free(nested);
        close_fixture(&d);
    }
}

/* ---- Layers of many shapes, as digests (tools/golden/nested.py) ---- */

static uint32_t digest_of(uint32_t digest, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < count; i++) {
        digest = (digest ^ at[i]) * 0x01000193u;
    }
    return digest;
}

/* Element i of a layer. */
static float element_of(unsigned kind, uint64_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    const float x = (float)((z ^ z >> 31) >> 40) * 0x1p-23f - 1.0f;
    switch (kind) {
    case 1:
        return i / 64 % 3 == 0 ? 0.0f : x * x * x;
    case 2:
        return x > 0.0f ? 0.3f : -0.7f;
    case 3:
        return x * 0.0f;
    case 4:
        return x * 1e-20f * 1e-20f;
    default:
        return x * x * x;
    }
}

/* A layer's digests: of the codes, the scales' codes, the scales' scales, and, where there are
 * four, of the values that codes and scales stand for. The form is one of nested scales. */
static float quantise_layer(int64_t form, uint64_t count, unsigned kind, float *absmax,
                            uint32_t digests[4])
{
    const uint64_t size = bp_quantised_block(form), blocks = (count + size - 1) / size;
    static const float none[BP_NESTED_SCALES + 1];
    bp_cascade sum;
    bp_cascade_begin(&sum, blocks);
    for (uint64_t b = 0; b < blocks; b++) {
        float values[BP_BLOCK_MOST];
        uint8_t packed[BP_BLOCK_MOST / 2];
        const uint64_t some = count - size * b < size ? count - size * b : size;
        for (uint64_t i = 0; i < some; i++) {
            values[i] = element_of(kind, size * b + i);
        }
        absmax[b] = bp_four_block(form, values, some, packed);
        digests[0] = digest_of(digests[0], packed, (some + 1) / 2);
        bp_cascade_add(&sum, absmax[b]);
        const bp_quantised_matrix matrix = {form - 1, 1, packed, absmax + b, none};
        for (uint64_t i = 0; i < some; i++) {
            const float value = bp_quantised_value(&matrix, i);
            digests[3] = digest_of(digests[3], &value, sizeof value);
        }
    }
    const float offset = bp_cascade_mean(&sum);
    for (uint64_t b = 0; b < blocks; b += 256) {
        uint8_t codes[BP_NESTED_BLOCK];
        uint32_t some = blocks - b < 256 ? (uint32_t)(blocks - b) : 256;
        float scale = bp_nested_block(absmax + b, some, offset, codes);
        digests[1] = digest_of(digests[1], codes, some);
        digests[2] = digest_of(digests[2], &scale, sizeof scale);
    }
    return offset;
}

static void layer_is(int64_t form, const unsigned shape[3], unsigned offset, const unsigned *wanted,
                     size_t digests_count)
{
    uint32_t digests[4] = {0x811c9dc5u, 0x811c9dc5u, 0x811c9dc5u, 0x811c9dc5u}, bits;
    const uint64_t count = (uint64_t)shape[0] * shape[1];
    float *absmax = malloc((count + 31) / 32 * sizeof *absmax);
    float mean = quantise_layer(form, count, shape[2], absmax, digests);
    memcpy(&bits, &mean, sizeof bits);
    if (bits != offset || memcmp(digests, wanted, digests_count * sizeof *digests) != 0) {
        fail_msg("%u x %u, kind %u, form %d: offset %08x for %08x, codes %d, scales %d, nested %d",
                 shape[0], shape[1], shape[2], (int)form, bits, offset, digests[0] == wanted[0],
                 digests[1] == wanted[1], digests[2] == wanted[2]);
    }
    free(absmax);
}

/* verifies number-9.0099 */
static void double_quantisation_is_that_of_bitsandbytes(void **state)
{
    (void)state;
    unsigned shape[3], offset, wanted[3], layers = 0;
    FILE *file = fopen("tests/golden/nested.txt", "r");
    assert_non_null(file);
    while (fscanf(file, "%u %u %u %x %x %x %x", &shape[0], &shape[1], &shape[2], &offset,
                  &wanted[0], &wanted[1], &wanted[2]) == 7) {
        layer_is(BP_QUANTISED_NF4_DOUBLE, shape, offset, wanted, 3);
        layers++;
    }
    fclose(file);
    assert_true(layers > 100);
}

/* FP4, and NF4 with blocks of 32 to 4096 elements (tools/golden/fourbit.py). */
/* verifies number-16.706c */
static void all_blocks_are_those_of_bitsandbytes(void **state)
{
    (void)state;
    unsigned shape[3], offset, wanted[4], block, layers = 0;
    char kind[4];
    FILE *file = fopen("tests/golden/fourbit.txt", "r");
    assert_non_null(file);
    while (fscanf(file, "%3s %u %u %u %u %x %x %x %x %x", kind, &block, &shape[0], &shape[1],
                  &shape[2], &offset, &wanted[0], &wanted[1], &wanted[2], &wanted[3]) == 10) {
        const bp_quantised form = bp_quantised_with_block(
            strcmp(kind, "fp4") == 0 ? BP_QUANTISED_FP4_DOUBLE : BP_QUANTISED_NF4_DOUBLE, block);
        assert_int_not_equal(form, BP_QUANTISED_NONE);
        layer_is(form, shape, offset, wanted, 4);
        layers++;
    }
    fclose(file);
    assert_int_equal(layers, 96);
    assert_int_equal(bp_quantised_with_block(BP_QUANTISED_NF4, 96), BP_QUANTISED_NONE);
    assert_int_equal(bp_quantised_with_block(BP_QUANTISED_INT8, 64), BP_QUANTISED_NONE);
}

/* verifies number-9.0099 */
static void int8_is_that_of_bitsandbytes(void **state)
{
    (void)state;
    for (int index = 0; index < MATRICES; index++) {
        fixture d;
        open_fixture(&d, index);
        int8_t *codes = malloc(d.count), *wanted = take(&d, "int8", d.count);
        float *rows = take(&d, "rows", d.rows * sizeof *rows);
        for (uint64_t row = 0; row < d.rows; row++) {
            const float *from = d.weight + row * d.columns;
            assert_true(bp_quantised_largest(from, d.columns, 0.0f) == rows[row]);
            for (uint64_t i = 0; i < d.columns; i++) {
                codes[row * d.columns + i] = bp_int8_code(from[i], rows[row]);
            }
            uint8_t *again = malloc(d.columns);
            bp_int8_codes(from, d.columns, rows[row], again);
            assert_memory_equal(again, codes + row * d.columns, d.columns);
            free(again);
        }
        equal(codes, wanted, d.count, "codes in 8 bits", index);
        const bp_quantised_matrix matrix = {BP_QUANTISED_INT8, d.columns, (const uint8_t *)codes,
                                            rows, NULL};
        if (small(&d)) {
            values_equal(&d, &matrix, "back");
        }
        free(codes);
        free(wanted);
        free(rows);
        close_fixture(&d);
    }
}

/* verifies number-9.0099 */
static void the_map_is_that_of_bitsandbytes(void **state)
{
    (void)state;
    fixture d;
    open_fixture(&d, 0);
    float *map = take(&d, "map", sizeof bp_nested_map);
    assert_memory_equal(map, bp_nested_map, sizeof bp_nested_map);
    free(map);
    close_fixture(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_is_that_of_bitsandbytes),
        cmocka_unit_test(nf4_is_that_of_bitsandbytes),
        cmocka_unit_test(nested_scales_are_those_of_bitsandbytes),
        cmocka_unit_test(double_quantisation_is_that_of_bitsandbytes),
        cmocka_unit_test(all_blocks_are_those_of_bitsandbytes),
        cmocka_unit_test(int8_is_that_of_bitsandbytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
