/* SPDX-License-Identifier: MIT */
/* Every form's codes of NF4 are those that the portable functions give block by block. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/number/quantised.h"
#include "device/host/form_table.h"

enum { BLOCKS = 5, PACKED = BP_NF4_BLOCK / 2 };

typedef struct nf4_case {
    float values[BLOCKS * BP_NF4_BLOCK];
    float scales[BLOCKS];
    uint8_t codes[BLOCKS * PACKED];
} nf4_case;

/* One block after the other, and two codes to a byte. */
static void right_codes(nf4_case *c)
{
    for (uint32_t b = 0; b < BLOCKS; b++) {
        uint8_t apart[BP_NF4_BLOCK];
        c->scales[b] = bp_nf4_block(c->values + b * BP_NF4_BLOCK, BP_NF4_BLOCK, apart);
        for (uint32_t i = 0; i < PACKED; i++) {
            c->codes[b * PACKED + i] = (uint8_t)(apart[2 * i] * 16 + apart[2 * i + 1]);
        }
    }
}

static void compare_forms(nf4_case *c)
{
    right_codes(c);
    for (uint32_t form = 0; form < BP_HOST_FORMS_ALL; form++) {
        if (!bp_host_form_runs(form)) {
            continue;
        }
        float scales[BLOCKS];
        uint8_t codes[BLOCKS * PACKED];
        bp_host_form_codes(form)(c->values, BLOCKS, scales, codes);
        assert_memory_equal(scales, c->scales, sizeof scales);
        assert_memory_equal(codes, c->codes, sizeof codes);
        memset(scales, 0, sizeof scales);
        bp_host_form_codes(form)(c->values, BLOCKS, scales, NULL);
        assert_memory_equal(scales, c->scales, sizeof scales);
    }
}

/* The numbers that lie around every midpoint, in blocks whose scale is 1. */
/* verifies device-1.6909 */
static void codes_change_at_the_midpoints(void **state)
{
    (void)state;
    static nf4_case c;
    for (uint32_t k = 0; k < 15; k++) {
        const float middle = (bp_nf4[k] + bp_nf4[k + 1]) / 2.0f;
        float x = middle;
        for (uint32_t i = 0; i < BLOCKS * BP_NF4_BLOCK / 2; i++) {
            x = nextafterf(x, -2.0f);
        }
        for (uint32_t i = 0; i < BLOCKS * BP_NF4_BLOCK; i++) {
            c.values[i] = i % BP_NF4_BLOCK == k ? 1.0f : x;
            x = nextafterf(x, 2.0f);
        }
        compare_forms(&c);
    }
}

/* Blocks of all sizes of numbers, with zeros, infinities and NaN among them. */
/* verifies device-1.6909 */
static void any_block_has_the_same_codes(void **state)
{
    (void)state;
    static nf4_case c;
    uint32_t random = 1;
    for (uint32_t n = 0; n < 20000; n++) {
        const int size = (int)(n % 290) - 160;
        for (uint32_t i = 0; i < BLOCKS * BP_NF4_BLOCK; i++) {
            random = random * 1664525u + 1013904223u;
            const uint32_t kind = random >> 8 & 4095;
            c.values[i] = ldexpf((float)(int32_t)random * 0x1p-31f, size);
            c.values[i] = kind < 40 ? 0.0f : kind == 41 ? INFINITY : kind == 42 ? NAN : c.values[i];
        }
        if (n % 64 == 0) {
            memset(c.values, 0, sizeof c.values / 2);
        }
        compare_forms(&c);
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
