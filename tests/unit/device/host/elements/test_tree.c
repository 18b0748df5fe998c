/* SPDX-License-Identifier: MIT */
/* Sums over lanes and over pieces of ranks, against the tree written as a recursion by halves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/ir/step.h"
#include "device/host/host.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define AT(c, kernel, name) kernel_case_at((c), 0, OPERAND(kernel, name))

#define MOST 1024

/* The sum of x[first], x[first + pitch], .. as a tree of two halves. */
static float tree(const float *x, size_t pitch, uint32_t count)
{
    return count == 1 ? x[0]
                      : tree(x, pitch, count / 2) + tree(x + count / 2 * pitch, pitch, count / 2);
}

/* verifies ranks-2.466d */
static void pieces_are_a_tree_on(kernel_device *on)
{
    for (uint32_t pieces = 1; pieces <= MOST; pieces *= 2) {
        const int64_t count = pieces < 64 ? 5003 : 301;
        bp_tree_sum_scalars s = {count, pieces};
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_tree_sum, &s, 1, 0);
        float *x = AT(&c, tree_sum, x);
        fill_normal(x, (size_t)count * pieces, pieces, 1.0);
        kernel_case_run(&c, on);
        const float *y = AT(&c, tree_sum, y);
        bool chained = true; /* a plain chain gives other bits somewhere */
        for (int64_t i = 0; i < count; i++) {
            float chain = 0.0f;
            for (uint32_t k = 0; k < pieces; k++) {
                chain += x[k * (size_t)count + (size_t)i];
            }
            assert_true(y[i] == tree(x + i, (size_t)count, pieces));
            chained = chained && y[i] == chain;
        }
        assert_true(chained == (pieces <= 2));
        kernel_case_free(&c);
    }
}
/* verifies ranks-2.466d */
TEST_ON_HOST(pieces_are_a_tree)

static void losses_are_a_tree_on(kernel_device *on)
{
    bp_loss_tree_scalars s = {8};
    kernel_case c;
    kernel_case_init(&c, on->device, BP_KERNEL_loss_tree, &s, 1, 0);
    bp_result_block *blocks = AT(&c, loss_tree, blocks);
    memset(blocks, 0, 8 * sizeof *blocks);
    for (int i = 0; i < 8; i++) {
        blocks[i] = (bp_result_block){.loss_sum = 1.0 / (3 + i * i), .norm = 7.0f};
    }
    double l[8];
    for (int i = 0; i < 8; i++) {
        l[i] = blocks[i].loss_sum;
    }
    kernel_case_run(&c, on);
    const bp_result_block *result = AT(&c, loss_tree, result);
    assert_true(result->loss_sum ==
                ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7])));
    assert_true(result->norm == 0.0f);
    kernel_case_free(&c);
}
/* verifies ranks-2.466d */
TEST_ON_HOST(losses_are_a_tree)

/* verifies ranks-2.466d */
static void leaves_are_widened_and_added_on(kernel_device *on)
{
    for (uint32_t adds = 0; adds < 2; adds++) {
        bp_tree_add_scalars s = {4097, 63};
        const uint32_t absent = adds != 0 ? 0 : 1u << OPERAND(tree_add, z);
        kernel_case c;
        kernel_case_init(&c, on->device, BP_KERNEL_tree_add, &s, 1, absent);
        float *x = AT(&c, tree_add, x), *z = AT(&c, tree_add, z);
        fill_normal(x, 4097, 1, 1.0);
        if (adds != 0) {
            fill_normal(z, 4160, 2, 1.0);
        }
        kernel_case_run(&c, on);
        const float *y = AT(&c, tree_add, y);
        for (int i = 0; i < 4160; i++) {
            const float leaf = i < 4097 ? x[i] : 0.0f;
            assert_true(y[i] == (adds != 0 ? leaf + z[i] : leaf));
        }
        kernel_case_free(&c);
    }
}
/* verifies ranks-2.466d */
TEST_ON_HOST(leaves_are_widened_and_added)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_a_tree),
        cmocka_unit_test(losses_are_a_tree),
        cmocka_unit_test(leaves_are_widened_and_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
