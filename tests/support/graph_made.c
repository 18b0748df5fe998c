/* SPDX-License-Identifier: MIT */
/* Graphs of a few ops over buffers of one size. */
#include "tests/support/graph_made.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static uint64_t workspace_of(const bp_device_options *options, bp_kernel kernel,
                             const void *scalars, const uint8_t *dtypes)
{
    (void)options;
    (void)dtypes;
    (void)scalars;
    return kernel == BP_KERNEL_matmul ? 512 : 0;
}

const bp_device made_device = {.name = "fake", .workspace = workspace_of};
const bp_device_options made_options = {.threads = 1};

static uint64_t memory[(1 << 16) / 8];
uint64_t made_scratch[(1 << 16) / 8];

made_graph *made_begin(void)
{
    static made_graph f;
    f = (made_graph){0};
    const bp_graph_limits limit = {24, 24, 96, 96, 1024};
    bp_arena_init(&f.arena, memory, sizeof memory);
    assert_int_equal(bp_graph_init(&f.graph, &limit, &f.arena, &f.error), BP_OK);
    bp_graph_begin(&f.graph, BP_PROGRAM_STEP);
    return &f;
}

bp_ref made_buffer(made_graph *f, const char *name, bp_scope scope, bp_dtype dtype)
{
    uint32_t index = 0;
    const bp_buffer prototype = {.class_of = BP_CLASS_TAPE,
                                 .scope = scope,
                                 .dtype = dtype,
                                 .rank = 1,
                                 .shape = {MADE_COUNT}};
    assert_int_equal(bp_graph_buffer(&f->graph, &prototype, name, &index), BP_OK);
    return (bp_ref){index, dtype, 0};
}

void made_op(made_graph *f, bp_kernel kernel, uint32_t tuples, const void *refs,
             const void *scalars)
{
    const bp_op prototype = {.kernel = kernel, .tuples = tuples};
    assert_int_equal(bp_graph_op(&f->graph, &prototype, refs, scalars), BP_OK);
}

void made_copy(made_graph *f, bp_ref y, bp_ref x, int64_t count)
{
    const bp_copy_operands operands = {.y = y, .x = x};
    const bp_copy_scalars scalars = {.count = count};
    made_op(f, BP_KERNEL_copy, 1, &operands, &scalars);
}

bp_status made_verify(made_graph *f)
{
    return bp_verify(&f->graph, &made_device, &made_options, made_scratch, sizeof made_scratch);
}

void made_refused(made_graph *f, const char *text)
{
    assert_int_equal(made_verify(f), BP_ERR_VERIFY);
    assert_non_null(strstr(f->error.text, text));
}

void made_matmul(made_graph *f, bp_ref c, bp_ref a, bp_ref work, int64_t ldc)
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
    made_op(f, BP_KERNEL_matmul, 1, &operands, &scalars);
}
