/* SPDX-License-Identifier: MIT */
/* Packed types have the gguf package's floats, bit by bit (tools/golden/blocks.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/ops/kernel.h"
#include "core/ops/quantised.h"
#include "tests/fixtures/golden.h"

/* A type's blocks and what they stand for. */
typedef struct packed_case {
    const bp_packed_type *type;
    unsigned char *bytes;
    float *values;
    uint64_t count; /* elements */
} packed_case;

static bool case_open(golden *g, uint64_t number, packed_case *c)
{
    char name[32];
    size_t bytes, value_bytes;
    *c = (packed_case){.type = bp_packed_of(number)};
    if (c->type == NULL) {
        return false;
    }
    snprintf(name, sizeof name, "%s.bytes", c->type->name);
    c->bytes = golden_tensor(g, name, &bytes);
    snprintf(name, sizeof name, "%s.values", c->type->name);
    c->values = golden_tensor(g, name, &value_bytes);
    const uint64_t blocks = bytes / c->type->bytes;
    c->count = blocks * c->type->elements;
    assert_int_equal(bytes % c->type->bytes, 0);
    assert_int_equal(value_bytes, c->count * sizeof(float));
    assert_true(blocks >= 3);
    return true;
}

static void case_close(packed_case *c)
{
    free(c->values);
    free(c->bytes);
}

/* verifies formats-9.0f24 */
static void blocks_have_the_values_of_ggml(void **state)
{
    (void)state;
    golden g;
    packed_case c;
    size_t kinds = 0;
    float values[3 * BP_PACKED_ELEMENTS];
    golden_open(&g, "tests/golden/blocks/blocks.safetensors");
    for (uint64_t type = 0; type < 64; type++) {
        if (!case_open(&g, type, &c)) {
            continue;
        }
        assert_true(c.count <= 3 * BP_PACKED_ELEMENTS);
        for (uint64_t first = 0; first < c.count; first += first < 70 ? 1 : 37) {
            const uint64_t left = c.count - first, some = left < 77 ? left : 77;
            bp_packed_values(c.type, c.bytes, first, some, values);
            assert_memory_equal(values, c.values + first, some * sizeof *values);
        }
        bp_packed_values(c.type, c.bytes, 0, c.count, values);
        assert_memory_equal(values, c.values, c.count * sizeof *values);
        case_close(&c);
        kinds++;
    }
    assert_int_equal(kinds, 12);
    assert_null(bp_packed_of(UINT64_MAX));
    golden_close(&g);
}

/* A packed matrix is a form of frozen weights without scales of its own, in whole blocks. */
/* verifies formats-9.0f24 */
static void forms_of_frozen_weights(void **state)
{
    (void)state;
    golden g;
    packed_case c;
    golden_open(&g, "tests/golden/blocks/blocks.safetensors");
    for (uint64_t type = 0; type < 64; type++) {
        const int64_t form = BP_QUANTISED_BLOCKS + (int64_t)type;
        assert_int_equal(bp_quantised_valid(form), bp_packed_of(type) != NULL);
        if (!case_open(&g, type, &c)) {
            continue;
        }
        const bp_quantised_matrix matrix = {form, c.count / 3, c.bytes, NULL, NULL};
        assert_string_equal(bp_quantised_name((bp_quantised)form), c.type->name);
        assert_int_equal(bp_quantised_codes(c.count, form),
                         c.count / c.type->elements * c.type->bytes);
        assert_int_equal(bp_quantised_scales(3, c.count, form), 0);
        assert_int_equal(bp_quantised_nested(c.count, form), 0);
        assert_int_equal(bp_quantised_passes((bp_quantised)form), 1);
        assert_false(bp_quantised_four(form) || bp_quantised_nests(form));
        assert_true(bp_quantised_row(c.type->elements, form));
        assert_false(bp_quantised_row(c.type->elements + 16, form));
        for (uint64_t i = 0; i < c.count; i += 11) {
            const float value = bp_quantised_value(&matrix, i);
            assert_memory_equal(&value, &c.values[i], sizeof value);
        }
        case_close(&c);
    }
    golden_close(&g);
}

/* Products of rows that are no whole blocks are no op. */
/* verifies program-8.d4d3 */
static void rows_are_whole_blocks(void **state)
{
    (void)state;
    const bp_kernel_info *product = bp_kernel_describe(BP_KERNEL_matmul_quantised);
    const bp_kernel_info *norms = bp_kernel_describe(BP_KERNEL_weight_norms);
    for (int64_t turn = 0; turn < 2; turn++) {
        for (int64_t width = 224; width <= 256; width += 16) {
            const bp_matmul_quantised_scalars s = {.m = 2,
                                                   .n = turn != 0 ? 3 : width,
                                                   .k = turn != 0 ? width : 3,
                                                   .lda = 512,
                                                   .ldc = 512,
                                                   .transpose_b = turn,
                                                   .form = BP_QUANTISED_BLOCKS + 8};
            bp_matmul_quantised_scalars large = s;
            large.form = BP_QUANTISED_BLOCKS + 14;
            assert_int_equal(product->legal(&s), width % 32 == 0);
            assert_int_equal(product->legal(&large), width == 256);
            const bp_weight_norms_scalars n = {.rows = 3,
                                               .columns = width,
                                               .rank = 1,
                                               .form = BP_QUANTISED_BLOCKS + 12,
                                               .factor = 1.0};
            assert_int_equal(norms->legal(&n), width == 256);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_the_values_of_ggml),
        cmocka_unit_test(forms_of_frozen_weights),
        cmocka_unit_test(rows_are_whole_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
