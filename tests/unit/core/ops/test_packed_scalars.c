/* SPDX-License-Identifier: MIT */
/* Attention over packed rows reads from left to right: scalars that say otherwise are no op. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/ops/kernel.h"

/* verifies program-8.d4d3 */
static void what_packed_rows_cannot_have(void **state)
{
    (void)state;
    const bp_kernel_info *forward = bp_kernel_describe(BP_KERNEL_attention_packed_forward);
    const bp_kernel_info *backward = bp_kernel_describe(BP_KERNEL_attention_packed_backward);
    for (uint32_t wrong = 0; wrong < 4; wrong++) {
        const int64_t heads = wrong == 2 ? 5 : 4, kv_heads = wrong == 1 ? 0 : 2;
        const int64_t causal = wrong == 3 ? 0 : 1;
        const bp_attention_packed_forward_scalars there = {.batch = 1,
                                                           .sequence = 8,
                                                           .heads = heads,
                                                           .kv_heads = kv_heads,
                                                           .head_width = 4,
                                                           .causal = causal,
                                                           .scale = 0.5};
        const bp_attention_packed_backward_scalars back = {.batch = 1,
                                                           .sequence = 8,
                                                           .heads = heads,
                                                           .kv_heads = kv_heads,
                                                           .head_width = 4,
                                                           .causal = causal,
                                                           .scale = 0.5};
        assert_true(forward->legal(&there) == (wrong == 0));
        assert_true(backward->legal(&back) == (wrong == 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_packed_rows_cannot_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
