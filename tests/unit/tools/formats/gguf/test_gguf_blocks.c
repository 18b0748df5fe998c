/* SPDX-License-Identifier: MIT */
/* GGUF's packed types have the gguf package's floats, bit by bit (tools/golden/blocks.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/golden.h"
#include "tools/formats/gguf/gguf_blocks.h"

/* verifies formats-9.80e4 */
static void blocks_have_the_values_of_ggml(void **state)
{
    (void)state;
    golden g;
    size_t kinds = 0;
    golden_open(&g, "tests/golden/blocks/blocks.safetensors");
    for (uint64_t type = 0; type < 64; type++) {
        const bp_gguf_block *block = bp_gguf_block_of(type);
        if (block == NULL) {
            continue;
        }
        char name[32];
        size_t bytes, value_bytes;
        float values[BP_GGUF_BLOCK_MOST];
        snprintf(name, sizeof name, "%s.bytes", block->name);
        unsigned char *raw = golden_tensor(&g, name, &bytes);
        snprintf(name, sizeof name, "%s.values", block->name);
        float *right = golden_tensor(&g, name, &value_bytes);
        const size_t count = bytes / block->bytes;
        assert_int_equal(bytes % block->bytes, 0);
        assert_int_equal(value_bytes, count * block->elements * sizeof *right);
        assert_true(count >= 3);
        for (size_t i = 0; i < count; i++) {
            block->read(raw + i * block->bytes, values);
            assert_memory_equal(values, right + i * block->elements,
                                block->elements * sizeof *values);
        }
        free(right);
        free(raw);
        kinds++;
    }
    assert_int_equal(kinds, 10);
    assert_null(bp_gguf_block_of(UINT64_MAX));
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_the_values_of_ggml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
