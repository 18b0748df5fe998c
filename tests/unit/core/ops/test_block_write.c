/* SPDX-License-Identifier: MIT */
/* Blocks are made with ggml's bytes (tools/golden/blocks.py, blocks_k.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fixtures/golden.h"
#include "core/ops/block_write.h"

/* The types of a golden file, which holds floats and NAME.packed. */
static void require_bytes(const char *path, const char *const *names, size_t count)
{
    golden g;
    size_t bytes, right_bytes, kinds = 0;
    uint8_t made[BP_PACKED_ELEMENTS];
    golden_open(&g, path);
    float *floats = golden_tensor(&g, "floats", &bytes);
    for (uint64_t number = 0; number < 64; number++) {
        const bp_packed_type *type = bp_packed_of(number);
        char name[32];
        size_t which = 0;
        while (type != NULL && which < count && strcmp(names[which], type->name) != 0) {
            which++;
        }
        if (type == NULL || which == count) {
            continue;
        }
        snprintf(name, sizeof name, "%s.packed", type->name);
        unsigned char *right = golden_tensor(&g, name, &right_bytes);
        const size_t blocks = bytes / sizeof *floats / type->elements;
        assert_true(blocks * type->bytes == right_bytes);
        for (size_t i = 0; i < blocks; i++) {
            memset(made, 0xa5, sizeof made); /* nothing of what lay there is left */
            bp_block_writer_of(type)(floats + i * type->elements, made);
            assert_memory_equal(made, right + i * type->bytes, type->bytes);
        }
        free(right);
        kinds++;
    }
    assert_int_equal(kinds, count);
    free(floats);
    golden_close(&g);
}

/* verifies formats-9.0f24 */
static void small_blocks_are_those_of_the_package(void **state)
{
    static const char *const names[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4"};
    (void)state;
    require_bytes("tests/golden/blocks/blocks.safetensors", names, sizeof names / sizeof names[0]);
}

/* verifies formats-9.0f24 */
static void k_blocks_are_those_of_ggml(void **state)
{
    static const char *const names[] = {"Q4_K", "Q5_K", "Q6_K"};
    (void)state;
    require_bytes("tests/golden/blocks/written.safetensors", names, sizeof names / sizeof names[0]);
}

/* Nothing traps or leaves the block for values at the end of the range. */
static void extreme_values_have_blocks(void **state)
{
    static const float extremes[] = {65504.0f * 127, -65504.0f * 127, 1e-45f,
                                     -1e-38f,        65504.0f,        0.0f};
    (void)state;
    for (uint64_t number = 0; number < 64; number++) {
        const bp_packed_type *type = bp_packed_of(number);
        if (type == NULL || bp_block_writer_of(type) == NULL) {
            continue;
        }
        float values[BP_PACKED_ELEMENTS];
        uint8_t block[BP_PACKED_ELEMENTS + 1];
        for (int i = 0; i < BP_PACKED_ELEMENTS; i++) {
            values[i] = extremes[(i * 7 + i / 32) % 6];
        }
        block[type->bytes] = 0x5a;
        bp_block_writer_of(type)(values, block);
        assert_int_equal(block[type->bytes], 0x5a);
    }
    assert_null(bp_block_writer_of(bp_packed_of(10)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_blocks_are_those_of_the_package),
        cmocka_unit_test(k_blocks_are_those_of_ggml),
        cmocka_unit_test(extreme_values_have_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
