/* SPDX-License-Identifier: MIT */
/* What ops cost, against the same sums by hand: products of all kinds, operands that are there,
 * copies, and calls of a fabric. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/ir/cost.h"

static bp_ref refs[2 * BP_OPERANDS_MAX];
static bp_scalar scalars[3 * BP_SCALARS_MAX];

/* An op of `tuples` tuples with these scalars in each, and no operand but those set in refs. */
static bp_cost cost_of(bp_kernel kernel, const void *of, size_t bytes, uint32_t tuples)
{
    const bp_graph graph = {.refs = refs, .scalars = scalars};
    const bp_op op = {.kernel = kernel, .tuples = tuples};
    assert_true(bytes == bp_kernel_describe(kernel)->scalar_count * sizeof(bp_scalar));
    for (uint32_t t = 0; t <= tuples; t++) { /* one more, which is not the op's */
        memcpy((char *)scalars + t * bytes, of, bytes);
    }
    return bp_cost_op(&graph, &op);
}

#define COST(name, tuples, ...)                                                                    \
    cost_of(BP_KERNEL_##name, &(bp_##name##_scalars){__VA_ARGS__}, sizeof(bp_##name##_scalars),    \
            tuples)

/* verifies program-10.8294 */
static void test_strips(void **state)
{
    (void)state;
    /* Rows 4 .. 7 of 8: half of 8 x 8 pairs less half of 4 x 4, of one head; a window of 2 keys. */
    assert_true(COST(attention_strip_forward, 1, .batch = 1, .sequence = 8, .first = 4, .rows = 4,
                     .head_width = 4)
                    .flops == 4.0 * 24.0 * 4.0);
    assert_true(COST(attention_strip_backward, 1, .batch = 1, .sequence = 8, .first = 4, .rows = 4,
                     .head_width = 4, .window = 2)
                    .flops == 10.0 * 8.0 * 4.0);
}

/* verifies program-10.8294 */
static void test_products(void **state)
{
    (void)state;
    assert_true(COST(matmul, 1, .m = 3, .n = 5, .k = 7).flops == 210.0);
    assert_true(COST(matmul_fp8, 1, .m = 3, .n = 5, .k = 7).flops == 210.0);
    assert_true(COST(matmul_quantised, 1, .m = 3, .n = 5, .k = 7, .form = 1).flops == 210.0);
    assert_true(COST(gelu_forward, 1, .count = 9).flops == 0.0);
    /* 2 of 2 products of 8 x 8 pairs of width 4 in 3 heads of 2 samples; half of it is masked. */
    const double all = 2.0 * 2.0 * 64.0 * 2.0 * 3.0 * 4.0;
    assert_true(COST(attention_forward, 1, .batch = 2, .sequence = 8, .heads = 3, .kv_heads = 1,
                     .head_width = 4)
                    .flops == all);
    assert_true(COST(attention_forward, 1, .batch = 2, .sequence = 8, .heads = 3, .kv_heads = 1,
                     .head_width = 4, .causal = 1)
                    .flops == all / 2.0);
    assert_true(COST(attention_packed_forward, 1, .batch = 2, .sequence = 8, .heads = 3,
                     .kv_heads = 1, .head_width = 4)
                    .flops == all);
    assert_true(COST(attention_biased_forward, 1, .batch = 2, .sequence = 8, .heads = 3,
                     .kv_heads = 1, .head_width = 4)
                    .flops == all);
    assert_true(COST(attention_biased_backward, 1, .batch = 2, .sequence = 8, .heads = 3,
                     .kv_heads = 1, .head_width = 4)
                    .flops == 2.5 * all);
    assert_true(COST(attention_backward_over, 1, .batch = 2, .sequence = 8, .heads = 3,
                     .kv_heads = 1, .head_width = 4)
                    .flops == 2.5 * all);
    assert_true(COST(attention_cross_forward, 1, .batch = 2, .sequence = 4, .keys = 16, .heads = 3,
                     .head_width = 4)
                    .flops == all);
    assert_true(COST(attention_cross_backward, 1, .batch = 2, .sequence = 4, .keys = 16, .heads = 3,
                     .head_width = 4)
                    .flops == 2.5 * all);
    assert_true(COST(attention_disentangled_forward, 1, .batch = 2, .sequence = 8, .heads = 3,
                     .head_width = 4)
                    .flops == 2.0 * all);
    assert_true(COST(attention_disentangled_backward, 1, .batch = 2, .sequence = 8, .heads = 3,
                     .head_width = 4)
                    .flops == 5.5 * all);
    assert_true(COST(attention_backward, 1, .batch = 2, .sequence = 8, .heads = 3, .kv_heads = 1,
                     .head_width = 4)
                    .flops == 2.5 * all);
    assert_true(COST(attention_packed_backward, 1, .batch = 2, .sequence = 8, .heads = 3,
                     .kv_heads = 1, .head_width = 4)
                    .flops == 2.5 * all);
    /* Of 8 positions each looks at 2 behind it, or at 3 around it, in place of 8. */
    assert_true(COST(attention_forward, 1, .batch = 2, .sequence = 8, .heads = 3, .kv_heads = 1,
                     .head_width = 4, .causal = 1, .window = 2)
                    .flops == all * 2.0 / 8.0);
    assert_true(COST(attention_forward, 1, .batch = 2, .sequence = 8, .heads = 3, .kv_heads = 1,
                     .head_width = 4, .window = 2)
                    .flops == all * 3.0 / 8.0);
    assert_true(COST(attention_forward, 1, .batch = 2, .sequence = 8, .heads = 3, .kv_heads = 1,
                     .head_width = 4, .causal = 1, .window = 1) /* itself alone */
                    .flops == all / 8.0);
    assert_true(COST(attention_forward, 1, .batch = 2, .sequence = 8, .heads = 3, .kv_heads = 1,
                     .head_width = 4, .window = 100)
                    .flops == all);
}

/* verifies program-10.8294 */
static void test_operands(void **state)
{
    (void)state;
    memset(refs, 0, sizeof refs);
    assert_true(COST(gelu_forward, 1, .count = 9).bytes == 0.0);
    refs[0] = (bp_ref){.buffer = 1, .dtype = BP_F32};
    assert_true(COST(gelu_forward, 1, .count = 9).bytes == 36.0);
    refs[1] = (bp_ref){.buffer = 1, .dtype = BP_BF16};
    assert_true(COST(gelu_forward, 1, .count = 9).bytes == 54.0);
    refs[2] = refs[3] = refs[0]; /* of a second tuple */
    assert_true(COST(gelu_forward, 2, .count = 9).bytes == 54.0 + 72.0);
    memset(refs, 0, sizeof refs);
}

/* verifies program-10.8294 */
static void test_pending(void **state)
{
    (void)state;
    const bp_cost copy = COST(copy_begin, 1, .rows = 3, .width = 5, .to_pitch = 5, .from_pitch = 5);
    assert_true(copy.copy_bytes == 15.0 && copy.fabric_bytes == 0.0 && copy.bytes == 0.0);
    assert_true(COST(broadcast_begin, 1, .ranks = 1, .bytes = 10).fabric_bytes == 0.0);
    assert_true(COST(broadcast_begin, 1, .ranks = 2, .bytes = 10).fabric_bytes == 10.0);
    assert_true(COST(broadcast_begin, 1, .ranks = 5, .bytes = 10).fabric_bytes == 10.0);
    const bp_cost gather = COST(all_gather_begin, 1, .ranks = 4, .bytes = 10);
    assert_true(gather.fabric_bytes == 30.0 && gather.copy_bytes == 0.0);
    const bp_cost wait = COST(copy_wait, 1, .rows = 3, .width = 5, .to_pitch = 5, .from_pitch = 5);
    assert_true(wait.copy_bytes == 0.0 && wait.fabric_bytes == 0.0 && wait.bytes == 0.0);
}

/* verifies program-10.8294 */
static void test_seconds(void **state)
{
    (void)state;
    const bp_rates rates = {2.0, 4.0};
    assert_true(bp_cost_seconds((bp_cost){.flops = 6.0, .bytes = 4.0}, &rates) == 3.0);
    assert_true(bp_cost_seconds((bp_cost){.flops = 6.0, .bytes = 40.0}, &rates) == 10.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products), cmocka_unit_test(test_strips),
        cmocka_unit_test(test_operands), cmocka_unit_test(test_pending),
        cmocka_unit_test(test_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
