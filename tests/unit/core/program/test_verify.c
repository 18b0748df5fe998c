/* SPDX-License-Identifier: MIT */
/* The program verifier: legal programs pass, and each planted fault is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/program/report.h"
#include "core/program/verify.h"

#define COUNT 64 /* elements of every buffer here */

static uint64_t workspace_of(const bp_device_options *options, bp_kernel kernel,
                             const void *scalars, const uint8_t *dtypes)
{
    (void)options;
    (void)dtypes;
    (void)scalars;
    return kernel == BP_KERNEL_matmul ? 512 : 0;
}

static const bp_device device = {.name = "fake", .workspace = workspace_of};
static const bp_device_options options = {.threads = 1};

static uint64_t memory[(1 << 16) / 8];
static uint64_t scratch[(1 << 16) / 8];

typedef struct fixture {
    bp_graph graph;
    bp_arena arena;
    bp_error error;
} fixture;

static fixture *begin(void)
{
    static fixture f;
    f = (fixture){0};
    const bp_graph_limits limit = {24, 24, 96, 96, 1024};
    bp_arena_init(&f.arena, memory, sizeof memory);
    assert_int_equal(bp_graph_init(&f.graph, &limit, &f.arena, &f.error), BP_OK);
    bp_graph_begin(&f.graph, BP_PROGRAM_STEP);
    return &f;
}

static bp_ref buffer(fixture *f, const char *name, bp_scope scope, bp_dtype dtype)
{
    uint32_t index = 0;
    const bp_buffer prototype = {
        .class_of = BP_CLASS_TAPE, .scope = scope, .dtype = dtype, .rank = 1, .shape = {COUNT}};
    assert_int_equal(bp_graph_buffer(&f->graph, &prototype, name, &index), BP_OK);
    return (bp_ref){index, dtype, 0};
}

static void op(fixture *f, bp_kernel kernel, uint32_t tuples, const void *refs, const void *scalars)
{
    const bp_op prototype = {.kernel = kernel, .tuples = tuples};
    assert_int_equal(bp_graph_op(&f->graph, &prototype, refs, scalars), BP_OK);
}

static void copy(fixture *f, bp_ref y, bp_ref x, int64_t count)
{
    const bp_copy_operands operands = {.y = y, .x = x};
    const bp_copy_scalars scalars = {.count = count};
    op(f, BP_KERNEL_copy, 1, &operands, &scalars);
}

static bp_status verify(fixture *f)
{
    return bp_verify(&f->graph, &device, &options, scratch, sizeof scratch);
}

static void refused(fixture *f, const char *text)
{
    assert_int_equal(verify(f), BP_ERR_VERIFY);
    assert_non_null(strstr(f->error.text, text));
}

static void test_a_legal_program_passes(void **state)
{
    (void)state;
    fixture *f = begin();
    bp_ref w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    copy(f, t, w, COUNT);
    copy(f, w, t, COUNT);
    assert_int_equal(verify(f), BP_OK);
    assert_int_equal(f->error.code, BP_OK);
}

static void test_reading_before_writing(void **state)
{
    (void)state;
    fixture *f = begin();
    bp_ref w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    copy(f, t, w, COUNT - 1);
    copy(f, w, t, COUNT);
    refused(f, "before it is written");
    assert_string_equal(f->error.name, "copy: x");
}

static void test_writes_piece_by_piece_add_up(void **state)
{
    (void)state;
    fixture *f = begin();
    bp_ref w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    const uint64_t order[] = {3, 1, 0, 2, 5, 7, 6, 4};
    for (int i = 0; i < 8; i++) {
        bp_ref piece = t;
        piece.offset = order[i] * 8 * sizeof(float);
        copy(f, piece, w, 8);
    }
    copy(f, w, t, COUNT);
    assert_int_equal(verify(f), BP_OK);
}

static void test_writes_too_scattered_are_refused(void **state)
{
    (void)state;
    fixture *f = begin();
    bp_ref w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    for (uint64_t i = 0; i < 6; i++) {
        bp_ref piece = t;
        piece.offset = i * 32;
        copy(f, piece, w, 4);
    }
    t.offset = 4 * 32;
    copy(f, w, t, 4);
    refused(f, "before it is written");
}

static void test_operand_rules(void **state)
{
    (void)state;
    fixture *f = begin();
    bp_ref w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    copy(f, t, w, COUNT + 1);
    refused(f, "reaches beyond");

    f = begin();
    w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    copy(f, w, w, COUNT);
    refused(f, "overlaps");

    f = begin();
    w = buffer(f, "w", BP_SCOPE_CONSTANT, BP_F32);
    t = buffer(f, "t", BP_SCOPE_PERSISTENT, BP_F32);
    copy(f, w, t, COUNT);
    refused(f, "constant");

    f = begin();
    w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    copy(f, BP_ABSENT, w, COUNT);
    refused(f, "absent");

    f = begin();
    w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    t = buffer(f, "t", BP_SCOPE_PROGRAM, BP_I32);
    copy(f, t, w, COUNT);
    refused(f, "element type");
}

static void test_the_working_type_is_one(void **state)
{
    (void)state;
    fixture *f = begin();
    bp_ref w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref t = buffer(f, "t", BP_SCOPE_PROGRAM, BP_BF16);
    copy(f, t, w, COUNT);
    refused(f, "working type");
}

static void test_negative_and_huge_scalars(void **state)
{
    (void)state;
    const int64_t bad[] = {-1, INT64_MIN, INT64_MAX, (int64_t)1 << 62};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fixture *f = begin();
        bp_ref w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
        bp_ref t = buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
        copy(f, t, w, bad[i]);
        refused(f, "reaches beyond");
    }
}

static void test_in_place_pairs(void **state)
{
    (void)state;
    fixture *f = begin();
    bp_ref w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    const bp_gelu_forward_scalars scalars = {.count = COUNT / 2};
    bp_gelu_forward_operands operands = {.y = w, .x = w};
    op(f, BP_KERNEL_gelu_forward, 1, &operands, &scalars);
    assert_int_equal(verify(f), BP_OK);
    operands.x.offset = 4; /* shifted by one element: no longer the same bytes */
    op(f, BP_KERNEL_gelu_forward, 1, &operands, &scalars);
    refused(f, "overlaps");
}

static void matmul(fixture *f, bp_ref c, bp_ref a, bp_ref work, int64_t ldc)
{
    const bp_matmul_operands operands = {.c = c,
                                         .before = BP_ABSENT,
                                         .a = a,
                                         .b = a,
                                         .bias = BP_ABSENT,
                                         .residual = BP_ABSENT,
                                         .work = work};
    const bp_matmul_scalars scalars = {
        .m = 4, .n = 4, .k = 4, .lda = 4, .ldb = 4, .ldc = ldc, .transpose_b = 1};
    op(f, BP_KERNEL_matmul, 1, &operands, &scalars);
}

static void test_workspaces(void **state)
{
    (void)state;
    fixture *f = begin();
    bp_ref w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref c = buffer(f, "c", BP_SCOPE_PROGRAM, BP_F32);
    bp_ref small = buffer(f, "small", BP_SCOPE_PROGRAM, BP_F32);
    bp_ref large = buffer(f, "large", BP_SCOPE_PROGRAM, BP_F64);
    matmul(f, c, w, large, 4);
    assert_int_equal(verify(f), BP_OK);
    matmul(f, c, w, small, 4);
    refused(f, "reaches beyond");

    f = begin();
    w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    c = buffer(f, "c", BP_SCOPE_PROGRAM, BP_F32);
    matmul(f, c, w, BP_ABSENT, 4);
    refused(f, "absent");

    f = begin();
    w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    c = buffer(f, "c", BP_SCOPE_PROGRAM, BP_F32);
    large = buffer(f, "large", BP_SCOPE_PROGRAM, BP_F64);
    matmul(f, c, w, large, 3); /* rows would overlap */
    refused(f, "reaches beyond");
}

static void test_list_ops_tuple_by_tuple(void **state)
{
    (void)state;
    fixture *f = begin();
    bp_ref w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref sums = buffer(f, "sums", BP_SCOPE_PROGRAM, BP_F64);
    bp_norm_partial_operands operands[2] = {{.partials = sums, .x = w}, {.partials = sums, .x = w}};
    operands[1].partials.offset = 16 * sizeof(double);
    bp_norm_partial_scalars scalars[2] = {{.count = COUNT, .chunk = 4},
                                          {.count = COUNT, .chunk = 4}};
    op(f, BP_KERNEL_norm_partial, 2, operands, scalars);
    assert_int_equal(verify(f), BP_OK);
    scalars[1].chunk = 0; /* division by zero saturates */
    op(f, BP_KERNEL_norm_partial, 2, operands, scalars);
    refused(f, "reaches beyond");
}

static void test_group_buffers_carry_over(void **state)
{
    (void)state;
    fixture *f = begin();
    bp_ref w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref g = buffer(f, "g", BP_SCOPE_GROUP, BP_F32);
    bp_ref t = buffer(f, "t", BP_SCOPE_PROGRAM, BP_F32);
    bp_graph_begin(&f->graph, BP_PROGRAM_MICRO_FIRST);
    copy(f, g, w, COUNT);
    copy(f, t, w, COUNT);
    bp_graph_begin(&f->graph, BP_PROGRAM_UPDATE);
    copy(f, w, g, COUNT);
    assert_int_equal(verify(f), BP_OK);
    copy(f, w, t, COUNT); /* a program buffer does not */
    refused(f, "before it is written");
}

static void test_memory_too_small(void **state)
{
    (void)state;
    fixture *f = begin();
    (void)buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    assert_int_equal(bp_verify(&f->graph, &device, &options, scratch, 1), BP_ERR_FIT);
    f->error = (bp_error){0};
    assert_int_equal(bp_verify_plan(&f->graph, 1 << 20, scratch, 1), BP_ERR_FIT);
    bp_report report;
    f->error = (bp_error){0};
    assert_int_equal(bp_report_plan(&f->graph, 0, scratch, 1, &report), BP_ERR_FIT);
}

static void test_plan_is_checked(void **state)
{
    (void)state;
    fixture *f = begin();
    bp_report report;
    bp_ref w = buffer(f, "w", BP_SCOPE_PERSISTENT, BP_F32);
    bp_ref a = buffer(f, "a", BP_SCOPE_PROGRAM, BP_F32);
    bp_ref b = buffer(f, "b", BP_SCOPE_PROGRAM, BP_F32);
    bp_ref c = buffer(f, "c", BP_SCOPE_PROGRAM, BP_F32);
    copy(f, a, w, COUNT);
    copy(f, b, a, COUNT);
    copy(f, c, b, COUNT);
    copy(f, w, c, COUNT);
    bp_graph_lifetimes(&f->graph);
    assert_int_equal(bp_report_plan(&f->graph, 0, scratch, sizeof scratch, &report), BP_OK);
    assert_int_equal(report.arena_bytes, 3 * 256);
    assert_int_equal(report.lower_bound_bytes, 3 * 256);
    assert_int_equal(report.class_most[BP_CLASS_TAPE], 3 * 256);
    assert_true(report.optimal);
    assert_int_equal(report.state_bytes, COUNT * sizeof(float));
    assert_int_equal(bp_verify_plan(&f->graph, report.arena_bytes, scratch, sizeof scratch), BP_OK);

    uint64_t place = f->graph.buffers[b.buffer].offset;
    f->graph.buffers[b.buffer].offset = f->graph.buffers[a.buffer].offset;
    assert_int_equal(bp_verify_plan(&f->graph, report.arena_bytes, scratch, sizeof scratch),
                     BP_ERR_VERIFY);
    assert_non_null(strstr(f->error.text, "overlap"));
    f->error = (bp_error){0};
    f->graph.buffers[b.buffer].offset = place + 4;
    assert_int_equal(bp_verify_plan(&f->graph, report.arena_bytes, scratch, sizeof scratch),
                     BP_ERR_VERIFY);
    f->error = (bp_error){0};
    f->graph.buffers[b.buffer].offset = report.arena_bytes;
    assert_int_equal(bp_verify_plan(&f->graph, report.arena_bytes, scratch, sizeof scratch),
                     BP_ERR_VERIFY);
    assert_non_null(strstr(f->error.text, "outside"));
}

static void test_full_tables(void **state)
{
    (void)state;
    bp_error error = {0};
    bp_graph graph;
    bp_arena arena;
    uint32_t index = 0;
    const bp_graph_limits limit = {1, 1, 3, 2, 8};
    for (size_t size = 0; size < bp_graph_bytes(&limit) - 16; size += 16) {
        bp_arena_init(&arena, memory, size);
        error = (bp_error){0};
        assert_int_equal(bp_graph_init(&graph, &limit, &arena, &error), BP_ERR_FIT);
    }
    bp_arena_init(&arena, memory, (size_t)bp_graph_bytes(&limit));
    error = (bp_error){0};
    assert_int_equal(bp_graph_init(&graph, &limit, &arena, &error), BP_OK);
    bp_graph_begin(&graph, BP_PROGRAM_STEP);
    bp_buffer prototype = {.dtype = BP_F32, .rank = 2, .shape = {1, 1}};
    assert_int_equal(bp_graph_buffer(&graph, &prototype, "long name", &index), BP_ERR_FIT);
    assert_string_equal(error.name, "names");
    prototype.shape[0] = (uint64_t)1 << 62;
    assert_int_equal(bp_graph_buffer(&graph, &prototype, "a", &index), BP_ERR_OVERFLOW);
    prototype.shape[0] = 1;
    assert_int_equal(bp_graph_buffer(&graph, &prototype, "a", &index), BP_OK);
    assert_int_equal(bp_graph_buffer(&graph, &prototype, "b", &index), BP_ERR_FIT);

    const bp_ref refs[4] = {{0, BP_F32, 0}};
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
    assert_string_equal(bp_graph_name(&graph, 0), "a");
    assert_string_equal(bp_graph_name(&graph, BP_NO_BUFFER), "-");
}

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
        cmocka_unit_test(test_group_buffers_carry_over),
        cmocka_unit_test(test_memory_too_small),
        cmocka_unit_test(test_plan_is_checked),
        cmocka_unit_test(test_full_tables),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
