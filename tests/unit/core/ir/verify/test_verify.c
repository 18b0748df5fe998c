/* SPDX-License-Identifier: MIT */
/* The program verifier: legal programs pass, and each planted fault is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fixtures/plans/graph_made.h"

/* verifies program-9.2d98 */
static void test_a_legal_program_passes(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    made_copy(f, t, w, MADE_COUNT);
    made_copy(f, w, t, MADE_COUNT);
    assert_int_equal(made_verify(f), BP_OK);
    assert_int_equal(f->error.code, BP_OK);
}

/* verifies program-1.d199 */
static void test_reading_before_writing(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    made_copy(f, t, w, MADE_COUNT - 1);
    made_copy(f, w, t, MADE_COUNT);
    made_refused(f, "before it is written");
    assert_string_equal(f->error.name, "copy: x");
}

/* verifies program-9.2d98 */
static void test_writes_piece_by_piece_add_up(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    const uint64_t order[] = {3, 1, 0, 2, 5, 7, 6, 4};
    for (int i = 0; i < 8; i++) {
        bp_ref piece = t;
        piece.offset = order[i] * 8 * sizeof(float);
        made_copy(f, piece, w, 8);
    }
    made_copy(f, w, t, MADE_COUNT);
    assert_int_equal(made_verify(f), BP_OK);
}

/* verifies program-1.d199 */
static void test_writes_too_scattered_are_refused(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    for (uint64_t i = 0; i < 6; i++) {
        bp_ref piece = t;
        piece.offset = i * 32;
        made_copy(f, piece, w, 4);
    }
    t.offset = 4 * 32;
    made_copy(f, w, t, 4);
    made_refused(f, "before it is written");
}

/* verifies program-2.b754 */
/* verifies program-3.94c6 */
static void test_operand_rules(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    made_copy(f, t, w, MADE_COUNT + 1);
    made_refused(f, "reaches beyond");

    f = made_begin();
    w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    made_copy(f, w, w, MADE_COUNT);
    made_refused(f, "overlaps");

    f = made_begin();
    w = made_buffer(f, "w", BP_SCOPE_CONSTANT, BP_F32);
    t = made_buffer(f, "t", BP_SCOPE_PERSISTENT, BP_F32);
    made_copy(f, w, t, MADE_COUNT);
    made_refused(f, "constant");

    f = made_begin();
    w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    made_copy(f, BP_ABSENT, w, MADE_COUNT);
    made_refused(f, "absent");

    f = made_begin();
    w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_I32);
    made_copy(f, t, w, MADE_COUNT);
    made_refused(f, "element type");
}

/* verifies program-16.70f6 */
static void test_the_working_type_is_one(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_BF16);
    made_copy(f, t, w, MADE_COUNT);
    made_refused(f, "working type");
}

/* verifies program-2.b754 */
static void test_negative_and_huge_scalars(void **state)
{
    (void)state;
    const int64_t bad[] = {-1, INT64_MIN, INT64_MAX, (int64_t)1 << 62};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        made_graph *f = made_begin();
        bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
        made_copy(f, t, w, bad[i]);
        made_refused(f, "reaches beyond");
    }
}

/* verifies program-3.94c6 */
static void test_in_place_pairs(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    const bp_gelu_forward_scalars scalars = {.count = MADE_COUNT / 2};
    bp_gelu_forward_operands operands = {.y = w, .x = w};
    made_op(f, BP_KERNEL_gelu_forward, 1, &operands, &scalars);
    assert_int_equal(made_verify(f), BP_OK);
    operands.x.offset = 4; /* shifted by one element: no longer the same bytes */
    made_op(f, BP_KERNEL_gelu_forward, 1, &operands, &scalars);
    made_refused(f, "overlaps");
}

/* What a workspace leaves behind may not be read, and none may lie on what stays. */
/* verifies program-1.d199 */
static void test_workspaces_leave_nothing(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref c = made_buffer(f, "c", BP_SCOPE_PROGRAM, BP_F32);
    bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F64);
    const bp_norm_partial_operands sums = {.partials = t, .x = w};
    const bp_norm_partial_scalars each = {.count = MADE_COUNT, .chunk = 1};
    const bp_step_decide_scalars decide = {.partials = MADE_COUNT};
    made_op(f, BP_KERNEL_norm_partial, 1, &sums, &each);
    bp_step_decide_operands decision = {.control = w, .result = w, .norms = BP_ABSENT, .sums = t};
    decision.result.offset = 128;
    decision.control.dtype = decision.result.dtype = BP_U8;
    made_op(f, BP_KERNEL_step_decide, 1, &decision, &decide);
    assert_int_equal(made_verify(f), BP_OK);
    made_matmul(f, c, w, t, 4);
    assert_int_equal(made_verify(f), BP_OK);
    made_op(f, BP_KERNEL_step_decide, 1, &decision, &decide);
    made_refused(f, "before it is written");

    f = made_begin();
    w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    c = made_buffer(f, "c", BP_SCOPE_PROGRAM, BP_F32);
    t = made_buffer(f, "t", BP_SCOPE_PERSISTENT, BP_F64);
    made_matmul(f, c, w, t, 4);
    made_refused(f, "where contents stay");
}

/* verifies program-16.70f6 */
static void test_workspaces(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref c = made_buffer(f, "c", BP_SCOPE_PROGRAM, BP_F32);
    bp_ref small = made_buffer(f, "small", BP_SCOPE_PROGRAM, BP_F32);
    bp_ref large = made_buffer(f, "large", BP_SCOPE_PROGRAM, BP_F64);
    made_matmul(f, c, w, large, 4);
    assert_int_equal(made_verify(f), BP_OK);
    made_matmul(f, c, w, small, 4);
    made_refused(f, "reaches beyond");

    f = made_begin();
    w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    c = made_buffer(f, "c", BP_SCOPE_PROGRAM, BP_F32);
    made_matmul(f, c, w, BP_ABSENT, 4);
    made_refused(f, "absent");

    f = made_begin();
    w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    c = made_buffer(f, "c", BP_SCOPE_PROGRAM, BP_F32);
    large = made_buffer(f, "large", BP_SCOPE_PROGRAM, BP_F64);
    made_matmul(f, c, w, large, 3); /* rows would overlap */
    made_refused(f, "reaches beyond");
}

/* verifies program-2.b754 */
static void test_list_ops_tuple_by_tuple(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref sums = made_buffer(f, "sums", BP_SCOPE_PROGRAM, BP_F64);
    bp_norm_partial_operands operands[2] = {{.partials = sums, .x = w}, {.partials = sums, .x = w}};
    operands[1].partials.offset = 16 * sizeof(double);
    bp_norm_partial_scalars scalars[2] = {{.count = MADE_COUNT, .chunk = 4},
                                          {.count = MADE_COUNT, .chunk = 4}};
    made_op(f, BP_KERNEL_norm_partial, 2, operands, scalars);
    assert_int_equal(made_verify(f), BP_OK);
    scalars[1].chunk = 0; /* division by zero saturates */
    made_op(f, BP_KERNEL_norm_partial, 2, operands, scalars);
    made_refused(f, "reaches beyond");
}

/* Tuples of one op run side by side: none may read or write what another one writes. */
/* verifies program-3.94c6 */
static void test_tuples_stay_apart(void **state)
{
    (void)state;
    const struct {
        uint64_t first, second; /* where the two write, in f64 */
        bool reads_it;
        bool apart;
    } cases[] = {{0, 16, false, true},
                 {16, 0, false, true},
                 {0, 15, false, false},
                 {0, 0, false, false},
                 {0, 16, true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made_graph *f = made_begin();
        bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref sums = made_buffer(f, "sums", BP_SCOPE_PERSISTENT, BP_F64);
        bp_norm_partial_operands operands[2] = {{.partials = sums, .x = w},
                                                {.partials = sums, .x = w}};
        operands[0].partials.offset = cases[i].first * sizeof(double);
        operands[1].partials.offset = cases[i].second * sizeof(double);
        if (cases[i].reads_it) {
            operands[1].x = (bp_ref){sums.buffer, BP_F32, 0};
            operands[1].partials = (bp_ref){w.buffer, BP_F64, 0};
        }
        const bp_norm_partial_scalars scalars[2] = {{.count = MADE_COUNT, .chunk = 4},
                                                    {.count = MADE_COUNT, .chunk = 4}};
        made_op(f, BP_KERNEL_norm_partial, 2, operands, scalars);
        if (cases[i].apart) {
            assert_int_equal(made_verify(f), BP_OK);
        } else {
            made_refused(f, "another one writes");
        }
    }
}

/* A tuple without bytes touches nothing, wherever its operands are said to be. */
/* verifies program-3.94c6 */
static void test_empty_tuples_touch_nothing(void **state)
{
    (void)state;
    for (int64_t count = 0; count <= 4; count += 4) {
        made_graph *f = made_begin();
        bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref sums = made_buffer(f, "sums", BP_SCOPE_PERSISTENT, BP_F64);
        bp_norm_partial_operands operands[2] = {{.partials = sums, .x = w},
                                                {.partials = sums, .x = w}};
        const bp_norm_partial_scalars scalars[2] = {{.count = MADE_COUNT, .chunk = 4},
                                                    {.count = count, .chunk = 4}};
        operands[1].partials.offset = 64; /* in the middle of the first one's */
        made_op(f, BP_KERNEL_norm_partial, 2, operands, scalars);
        if (count == 0) {
            assert_int_equal(made_verify(f), BP_OK);
        } else {
            made_refused(f, "another one writes");
        }
    }
}

/* Which element types an operand may have is its row's word: the working ones, and for weights
 * codes of a byte beside them. */
/* verifies program-2.b754 */
static void test_every_element_type(void **state)
{
    (void)state;
    for (uint32_t dtype = 0; dtype < BP_DTYPE_COUNT; dtype++) {
        const bool working = dtype == BP_F32 || dtype == BP_BF16 || dtype == BP_F16;
        made_graph *f = made_begin();
        bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F64);
        w.dtype = (bp_dtype)dtype;
        const bp_gelu_forward_scalars gelu = {.count = MADE_COUNT / 8};
        const bp_gelu_forward_operands operands = {.y = w, .x = w};
        made_op(f, BP_KERNEL_gelu_forward, 1, &operands, &gelu);
        if (working) {
            assert_int_equal(made_verify(f), BP_OK);
        } else {
            made_refused(f, "element type");
            assert_string_equal(f->error.name, "gelu_forward: y");
        }
        f = made_begin();
        w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F64);
        const bp_adamw_scalars adamw = {.count = 0};
        const bp_ref g = {w.buffer, BP_F32, 0};
        const bp_adamw_operands update = {.weight = {w.buffer, (bp_dtype)dtype, 0},
                                          .state1 = g,
                                          .state2 = g,
                                          .gradient = g,
                                          .control = g,
                                          .step = g};
        made_op(f, BP_KERNEL_adamw, 1, &update, &adamw);
        assert_int_equal(made_verify(f), BP_ERR_VERIFY); /* for other reasons, if not for this */
        const bool typed = strstr(f->error.text, "element type") != NULL;
        assert_true(typed == !(working || dtype == BP_U8));
    }
}

/* verifies program-9.2d98 */
static void test_group_buffers_carry_over(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref g = made_buffer(f, "g", BP_SCOPE_GROUP, BP_F32);
    bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    bp_graph_begin(&f->graph, BP_PROGRAM_MICRO_FIRST);
    made_copy(f, g, w, MADE_COUNT);
    made_copy(f, t, w, MADE_COUNT);
    bp_graph_begin(&f->graph, BP_PROGRAM_UPDATE);
    made_copy(f, w, g, MADE_COUNT);
    assert_int_equal(made_verify(f), BP_OK);
    made_copy(f, w, t, MADE_COUNT); /* a program buffer does not */
    made_refused(f, "before it is written");
}

/* A group may have one micro-batch only: the update reads nothing that only later ones write. */
/* verifies program-1.d199 */
static void test_later_micro_batches_may_not_come(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        made_graph *f = made_begin();
        bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref g = made_buffer(f, "g", BP_SCOPE_GROUP, BP_F32);
        bp_graph_begin(&f->graph, BP_PROGRAM_MICRO_FIRST);
        made_copy(f, g, w, first != 0 ? MADE_COUNT : MADE_COUNT / 2);
        bp_graph_begin(&f->graph, BP_PROGRAM_MICRO_NEXT);
        made_copy(f, g, w, MADE_COUNT);
        made_copy(f, w, g, MADE_COUNT);
        bp_graph_begin(&f->graph, BP_PROGRAM_UPDATE);
        made_copy(f, w, g, MADE_COUNT);
        if (first != 0) {
            assert_int_equal(made_verify(f), BP_OK);
        } else {
            made_refused(f, "before it is written");
        }
    }
}

/* What an earlier program wrote into a program's own buffer is stale, whatever still lies there. */
/* verifies program-1.d199 */
static void test_contents_of_earlier_programs(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    bp_ref w = made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = made_buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    made_copy(f, t, w, MADE_COUNT);
    assert_int_equal(made_verify(f), BP_OK);
    bp_graph_begin(&f->graph, BP_PROGRAM_EVAL);
    made_copy(f, w, t, MADE_COUNT);
    made_refused(f, "before it is written");
}

/* verifies compile-7.7394 */
/* verifies program-3.94c6 */
static void test_memory_too_small(void **state)
{
    (void)state;
    made_graph *f = made_begin();
    (void)made_buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    assert_int_equal(bp_verify(&f->graph, &made_device, &made_options, made_scratch, 1),
                     BP_ERR_FIT);
    f->error = (bp_error){0};
    const uint64_t bytes = bp_verify_scratch(&f->graph);
    assert_true(bytes <= sizeof made_scratch);
    assert_int_equal(bp_verify(&f->graph, &made_device, &made_options, made_scratch, bytes), BP_OK);
    assert_int_equal(bp_verify(&f->graph, &made_device, &made_options, made_scratch, bytes - 1),
                     BP_ERR_FIT);
    f->error = (bp_error){0};
    assert_int_equal(bp_verify_plan(&f->graph, 1 << 20, made_scratch, 1), BP_ERR_FIT);
    bp_report report;
    f->error = (bp_error){0};
    assert_int_equal(bp_report_plan(&f->graph, 0, made_scratch, 1, &report), BP_ERR_FIT);
}

static uint64_t memory[(1 << 16) / 8];

/* verifies compile-21.c84d */
static void test_full_tables(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_graph graph;
    bp_arena arena;
    uint32_t index = 0;
    const bp_graph_limits limit = {1 + 1, 1, 3, 2, 8};
    for (size_t size = 0; size < bp_graph_bytes(&limit) - 16; size += 16) {
        bp_arena_init(&arena, memory, size);
        error = (bp_error){0};
        assert_int_equal(bp_graph_init(&graph, &limit, &arena, &error), BP_ERR_FIT);
    }
    bp_arena_init(&arena, memory, sizeof memory);
    error = (bp_error){0};
    assert_int_equal(bp_graph_init(&graph, &(bp_graph_limits){.ops = 1}, &arena, &error),
                     BP_ERR_FIT);
    assert_string_equal(error.name, "buffers");
    bp_arena_init(&arena, memory, (size_t)bp_graph_bytes(&limit));
    error = (bp_error){0};
    assert_int_equal(bp_graph_init(&graph, &limit, &arena, &error), BP_OK);
    bp_graph_begin(&graph, BP_PROGRAM_STEP);
    bp_buffer prototype = {.dtype = BP_F32, .rank = 2, .shape = {1, 1}};
    assert_int_equal(bp_graph_buffer(&graph, &prototype, "long name", &index), BP_ERR_FIT);
    assert_string_equal(error.name, "names");
    prototype.shape[0] = (uint64_t)1 << 62;
    assert_int_equal(bp_graph_buffer(&graph, &prototype, "a", &index), BP_ERR_OVERFLOW);
    prototype.part.whole = 64; /* a part of such a one is no better */
    error = (bp_error){0};
    assert_int_equal(bp_graph_buffer(&graph, &prototype, "a", &index), BP_ERR_OVERFLOW);
    prototype.part.whole = 0;
    error = (bp_error){0};
    prototype.shape[0] = 1;
    assert_int_equal(bp_graph_buffer(&graph, &prototype, "a", &index), BP_OK);
    assert_int_equal(bp_graph_buffer(&graph, &prototype, "b", &index), BP_ERR_FIT);

    const bp_ref refs[4] = {{1, BP_F32, 0}};
    const bp_copy_scalars scalars[4] = {{1}};
    bp_op two = {.kernel = BP_KERNEL_copy, .tuples = 2};
    error = (bp_error){0};
    assert_int_equal(bp_graph_op(&graph, &two, refs, scalars), BP_ERR_FIT);
    assert_string_equal(error.name, "refs");
    bp_op wide = {.kernel = BP_KERNEL_gelu_forward, .tuples = 1};
    graph.used.scalars = 2;
    error = (bp_error){0};
    assert_int_equal(bp_graph_op(&graph, &wide, refs, scalars), BP_ERR_FIT);
    assert_string_equal(error.name, "scalars");
    graph.used.scalars = 0;
    assert_int_equal(bp_graph_op(&graph, &wide, refs, scalars), BP_OK);
    error = (bp_error){0};
    assert_int_equal(bp_graph_op(&graph, &wide, refs, scalars), BP_ERR_FIT);
    assert_string_equal(error.name, "ops");
    assert_string_equal(bp_graph_name(&graph, index), "a");
    assert_string_equal(bp_graph_name(&graph, BP_NO_BUFFER), "-");
}

/* verifies program-15.274c */
static void test_words(void **state)
{
    (void)state;
    assert_string_equal(bp_class_name(BP_CLASS_CHECKPOINT), "checkpoint");
    assert_string_equal(bp_scope_name(BP_SCOPE_CARRIED), "carried");
    assert_string_equal(bp_program_name(BP_PROGRAM_MICRO_NEXT), "micro-next");
    assert_string_equal(bp_kernel_describe(BP_KERNEL_matmul)->name, "matmul");
    assert_int_equal(bp_operand_element_bytes(BP_TYPE_ANY, BP_BF16), 2);
    assert_int_equal(bp_operand_element_bytes(BP_TYPE_F64, BP_F32), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_legal_program_passes),
        cmocka_unit_test(test_reading_before_writing),
        cmocka_unit_test(test_writes_piece_by_piece_add_up),
        cmocka_unit_test(test_writes_too_scattered_are_refused),
        cmocka_unit_test(test_the_working_type_is_one),
        cmocka_unit_test(test_operand_rules),
        cmocka_unit_test(test_negative_and_huge_scalars),
        cmocka_unit_test(test_in_place_pairs),
        cmocka_unit_test(test_workspaces),
        cmocka_unit_test(test_list_ops_tuple_by_tuple),
        cmocka_unit_test(test_tuples_stay_apart),
        cmocka_unit_test(test_empty_tuples_touch_nothing),
        cmocka_unit_test(test_every_element_type),
        cmocka_unit_test(test_group_buffers_carry_over),
        cmocka_unit_test(test_memory_too_small),
        cmocka_unit_test(test_workspaces_leave_nothing),
        cmocka_unit_test(test_later_micro_batches_may_not_come),
        cmocka_unit_test(test_contents_of_earlier_programs),
        cmocka_unit_test(test_full_tables),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
