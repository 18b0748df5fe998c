/* SPDX-License-Identifier: MIT */
/* The program verifier on operands that are rows at a pitch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fixtures/plans/graph_made.h"

/* rows of `width` columns at a pitch of 12, from column `first`. */
static void write_columns(made_graph *f, bp_ref to, bp_ref from, uint64_t first, int64_t width)
{
    const bp_matmul_scalars scalars = {
        .m = 4, .n = width, .k = 4, .lda = 4, .ldb = 4, .ldc = 12, .transpose_b = 1};
    bp_matmul_operands operands = {.c = to, .a = from, .b = from, .work = from};
    operands.c.offset = first * sizeof(float);
    operands.before = operands.bias = operands.residual = BP_ABSENT;
    operands.work = made_buffer(f, "work", BP_SCOPE_PROGRAM, BP_F64);
    made_op(f, BP_KERNEL_matmul, 1, &operands, &scalars);
}

static void turn(made_graph *f, bp_ref x, bp_ref table, uint64_t first, int64_t width)
{
    const bp_rotary_scalars scalars = {
        .rows = 4, .sequence = 4, .heads = 1, .width = width, .pitch = 12, .apart = width};
    bp_rotary_operands operands = {.x = x, .table = table};
    operands.x.offset = first * sizeof(float);
    made_op(f, BP_KERNEL_rotary, 1, &operands, &scalars);
}

/* Four of twelve columns are not twelve. */
/* verifies program-1.d199 */
static void test_columns_written_are_not_the_rows(void **state)
{
    (void)state;
    const uint64_t orders[3][3] = {{0, 4, 8}, {8, 0, 4}, {4, 8, 0}};
    for (int o = 0; o < 3; o++) {
        for (int written = 0; written <= 3; written++) {
            made_graph *f = made_begin();
            bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
            bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
            for (int i = 0; i < written; i++) {
                write_columns(f, t, w, orders[o][i], 4);
                turn(f, t, w, orders[o][i], 4);
            }
            assert_int_equal(made_verify(f), BP_OK);
            made_copy(f, w, t, 48);
            if (written < 3) {
                made_refused(f, "before it is written");
            } else {
                assert_int_equal(made_verify(f), BP_OK);
                turn(f, t, w, 2, 8);
                assert_int_equal(made_verify(f), BP_OK);
                made_copy(f, w, t, 49);
                made_refused(f, "before it is written");
            }
        }
    }
}

/* verifies program-1.d199 */
static void test_blocks_read_past_what_is_written(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    write_columns(f, t, w, 4, 4);
    turn(f, t, w, 4, 2);
    turn(f, t, w, 6, 2);
    assert_int_equal(made_verify(f), BP_OK);
    turn(f, t, w, 6, 4);
    made_refused(f, "before it is written");
}

/* Operands that interleave in one buffer share no byte; those that share a column do. */
/* verifies program-3.94c6 */
static void test_blocks_that_interleave(void **state)
{
    (void)state;
    for (uint64_t shift = 0; shift <= 4; shift += 2) {
        made_graph *f = made_begin();
        bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
        write_columns(f, t, w, 0, 12);
        const bp_matmul_scalars scalars = {
            .m = 4, .n = 4, .k = 4, .lda = 12, .ldb = 4, .ldc = 12, .transpose_b = 1};
        bp_matmul_operands operands = {.c = t, .a = t, .b = w};
        operands.c.offset = shift * sizeof(float);
        operands.before = operands.bias = operands.residual = BP_ABSENT;
        operands.work = made_buffer(f, "work", BP_SCOPE_PROGRAM, BP_F64);
        made_op(f, BP_KERNEL_matmul, 1, &operands, &scalars);
        if (shift < 4) {
            made_refused(f, "overlaps");
        } else {
            assert_int_equal(made_verify(f), BP_OK);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_written_are_not_the_rows),
        cmocka_unit_test(test_blocks_read_past_what_is_written),
        cmocka_unit_test(test_blocks_that_interleave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
