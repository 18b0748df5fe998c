/* SPDX-License-Identifier: MIT */
/* Every form's codes of 4 bits are those that the portable functions give block by block. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/quantised.h"
#include "device/host/isa_table.h"

enum { VALUES = BP_BLOCK_MOST, BLOCKS = VALUES / BP_BLOCK_LEAST };

typedef struct nf4_case {
    float values[VALUES];
    float scales[BLOCKS];
    uint8_t codes[VALUES / 2];
} nf4_case;

/* One block after the other. */
static uint64_t right_codes(nf4_case *c, int64_t form, uint64_t most)
{
    const uint64_t size = bp_quantised_block(form), blocks = VALUES / size;
    const uint64_t count = blocks < most ? blocks : most;
    for (uint64_t b = 0; b < count; b++) {
        c->scales[b] = bp_four_block(form, c->values + b * size, size, c->codes + b * (size / 2));
    }
    return count;
}

static void compare_forms(nf4_case *c, int64_t kind, uint64_t most)
{
    const uint64_t blocks = right_codes(c, kind, most);
    for (uint32_t form = 0; form < BP_HOST_ISAS_ALL; form++) {
        if (!bp_host_isa_runs(form)) {
            continue;
        }
        static float scales[BLOCKS];
        static uint8_t codes[VALUES / 2];
        bp_host_isa_codes(form)(kind, c->values, blocks, scales, codes);
        assert_memory_equal(scales, c->scales, blocks * sizeof *scales);
        assert_memory_equal(codes, c->codes, blocks * (bp_quantised_block(kind) / 2));
        memset(scales, 0, sizeof scales);
        bp_host_isa_codes(form)(kind, c->values, blocks, scales, NULL);
        assert_memory_equal(scales, c->scales, blocks * sizeof *scales);
    }
}

/* The numbers that lie around every midpoint, in blocks whose scale is 1. */
/* verifies device-1.6909 */
static void codes_change_at_the_midpoints(void **state)
{
    (void)state;
    static nf4_case c;
    for (uint32_t k = 0; k < 30; k++) {
        const int64_t form = k < 15 ? BP_QUANTISED_NF4 : BP_QUANTISED_FP4;
        float sorted[16];
        uint8_t order[16];
        bp_four_sorted(form, sorted, order);
        float x = (sorted[k % 15] + sorted[k % 15 + 1]) / 2.0f;
        for (uint32_t i = 0; i < 5 * BP_NF4_BLOCK / 2; i++) {
            x = nextafterf(x, -2.0f);
        }
        for (uint32_t i = 0; i < 5 * BP_NF4_BLOCK; i++) {
            c.values[i] = i % BP_NF4_BLOCK == k % 15 ? 1.0f : x;
            x = nextafterf(x, 2.0f);
        }
        compare_forms(&c, form, 5);
    }
}

/* Blocks of all sizes of numbers, with zeros, infinities and NaN among them. */
/* verifies device-1.6909 */
static void any_block_has_the_same_codes(void **state)
{
    (void)state;
    static nf4_case c;
    uint32_t random = 1;
    for (uint32_t n = 0; n < 8000; n++) {
        const int size = (int)(n % 290) - 160;
        const uint32_t blocks = n % 16;
        const bp_quantised kind = n % 3 == 0 ? BP_QUANTISED_FP4 : BP_QUANTISED_NF4;
        const bp_quantised form =
            blocks < 8 ? bp_quantised_with_block(kind, UINT64_C(32) << blocks) : kind;
        const uint64_t many =
            bp_quantised_block(form) * 3 < VALUES ? bp_quantised_block(form) * 3 : VALUES;
        for (uint32_t i = 0; i < many; i++) {
            random = random * 1664525u + 1013904223u;
            const uint32_t odd = random >> 8 & 4095;
            c.values[i] = ldexpf((float)(int32_t)random * 0x1p-31f, size);
            c.values[i] = odd < 40 ? 0.0f : odd == 41 ? INFINITY : odd == 42 ? NAN : c.values[i];
        }
        if (n % 64 == 0) {
            memset(c.values, 0, many / 2 * sizeof *c.values);
        }
        compare_forms(&c, form, 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_change_at_the_midpoints),
        cmocka_unit_test(any_block_has_the_same_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
