/* SPDX-License-Identifier: MIT */
/* A product and the low-rank product that is added to it: when they are done as one, and that the
 * bits are then those of the portable form, which never joins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/quantised.h"
#include "device/host/isa_table.h"
#include "device/host/host.h"
#include "device/host/fuse.h"
#include "tests/fixtures/kernels/kernel_case.h"

#define ARENA_BYTES (UINT64_C(24) << 20)
#define PLACE       (UINT64_C(2) << 20) /* of each operand its own part of the arena */

enum { X = 0, W, A, B, U, Y, RESIDUAL, BIAS, WORK }; /* the last has the rest */

/* y = x W^T + bias + residual; u = x A^T; u *= 2; y += u B^T, as an adapter emits them. */
typedef struct adapter_program {
    bp_matmul_scalars product, low_rank, add;
    bp_scale_scalars scale;
    uint64_t offsets[4][7];
    uint8_t dtypes[7];
    bp_linked_op ops[4];
    bp_linked_program program;
    bp_dtype type;
} adapter_program;

static const bp_device_options options = {.threads = CASE_THREADS};

static uint64_t workspace_of(const void *context, const bp_linked_op *op)
{
    (void)context;
    return bp_device_host.workspace(&options, op->kernel, op->scalars, op->dtypes);
}

static void set_op(adapter_program *p, uint32_t i, bp_kernel kernel, const void *scalars)
{
    p->ops[i] = (bp_linked_op){.kernel = kernel,
                               .tuples = 1,
                               .offsets = p->offsets[i],
                               .scalars = scalars,
                               .dtypes = p->dtypes,
                               .table = BP_OFFSET_ABSENT};
}

/* Operands in the order of kernels.def: c, before, a, b, bias, residual, work. */
static void set_product(adapter_program *p, uint32_t i, const bp_matmul_scalars *s, uint64_t c,
                        uint64_t a, uint64_t b)
{
    const uint64_t none = BP_OFFSET_ABSENT;
    const uint64_t offsets[7] = {c * PLACE, none, a * PLACE, b * PLACE, none, none, WORK * PLACE};
    memcpy(p->offsets[i], offsets, sizeof offsets);
    set_op(p, i, BP_KERNEL_matmul, s);
}

static void make_program(adapter_program *p, int64_t m, int64_t n, int64_t k, int64_t rank,
                         bp_dtype type)
{
    memset(p, 0, sizeof *p);
    memset(p->dtypes, (int)type, sizeof p->dtypes);
    p->type = type;
    p->product =
        (bp_matmul_scalars){.m = m, .n = n, .k = k, .lda = k, .ldb = k, .ldc = n, .transpose_b = 1};
    p->low_rank = (bp_matmul_scalars){
        .m = m, .n = rank, .k = k, .lda = k, .ldb = k, .ldc = rank, .transpose_b = 1};
    p->scale = (bp_scale_scalars){.count = m * rank, .factor = 2.0};
    p->add = (bp_matmul_scalars){.m = m,
                                 .n = n,
                                 .k = rank,
                                 .lda = rank,
                                 .ldb = rank,
                                 .ldc = n,
                                 .transpose_b = 1,
                                 .accumulate = 1};
    set_product(p, 0, &p->product, Y, X, W);
    p->offsets[0][4] = BIAS * PLACE;
    p->offsets[0][5] = RESIDUAL * PLACE;
    set_product(p, 1, &p->low_rank, U, X, A);
    p->offsets[2][0] = p->offsets[2][1] = U * PLACE;
    set_op(p, 2, BP_KERNEL_scale, &p->scale);
    set_product(p, 3, &p->add, Y, U, B);
    p->program = (bp_linked_program){p->ops, 4};
}

static bp_fusion join_of(const adapter_program *p)
{
    return bp_host_fuse(&p->program, 3, CASE_THREADS, workspace_of, NULL);
}

/* verifies device-27.e3dd */
static void joins_where_nothing_is_between(void **state)
{
    adapter_program p;
    (void)state;
    make_program(&p, 100, 96, 80, 8, BP_F32);
    bp_fusion join = join_of(&p);
    assert_int_equal(join.before, 3);
    assert_int_equal(join.work, WORK * PLACE);
    assert_int_equal(join.work_bytes, workspace_of(NULL, &p.ops[0]));
    assert_int_equal(join.low_rank, 0); /* too few rows for so many threads */
    assert_int_equal(bp_host_fuse(&p.program, 3, 1, workspace_of, NULL).low_rank, 2);
    assert_int_equal(bp_host_fuse(&p.program, 1, CASE_THREADS, workspace_of, NULL).before, 0);
}

/* verifies device-27.e3dd */
static void stays_apart_where_something_is(void **state)
{
    adapter_program p;
    (void)state;
    make_program(&p, 100, 96, 80, 8, BP_F32);
    p.offsets[2][0] = X * PLACE; /* the scale changes what the product reads */
    assert_int_equal(join_of(&p).before, 0);
    make_program(&p, 100, 96, 80, 8, BP_F32);
    p.offsets[1][2] = Y * PLACE; /* the squeeze reads what the product writes */
    assert_int_equal(join_of(&p).before, 0);
    make_program(&p, 100, 96, 80, 8, BP_F32);
    p.product.gelu = 1;
    assert_int_equal(join_of(&p).before, 0);
    make_program(&p, 100, 96, 80, BP_JOIN_RANK_MOST + 1, BP_F32);
    assert_int_equal(join_of(&p).before, 0);
    make_program(&p, 100, 96, 80, 8, BP_F32);
    p.offsets[0][0] = RESIDUAL * PLACE; /* another c */
    assert_int_equal(join_of(&p).before, 0);
    make_program(&p, 1, 96, 80, 8, BP_F32);
    assert_int_equal(join_of(&p).before, 0);
}

static uint32_t low_rank_of(const adapter_program *p)
{
    const bp_fusion join = bp_host_fuse(&p->program, 3, 1, workspace_of, NULL);
    assert_int_equal(join.before, 3);
    return join.low_rank;
}

/* u is made along only of all that the product reads, whole, and for what is added. */
/* verifies device-27.e3dd */
static void another_left_factor_is_made_apart(void **state)
{
    adapter_program p;
    (void)state;
    make_program(&p, 100, 96, 80, 8, BP_BF16);
    assert_int_equal(low_rank_of(&p), 0);
    make_program(&p, 100, 96, 80, 8, BP_F32);
    p.offsets[1][2] = RESIDUAL * PLACE; /* another x, as where dropout is between */
    assert_int_equal(low_rank_of(&p), 0);
    make_program(&p, 100, 96, 80, 8, BP_F32);
    p.low_rank.k = 79;
    assert_int_equal(low_rank_of(&p), 0);
    make_program(&p, 100, 96, 80, 8, BP_F32);
    p.low_rank.accumulate = 1;
    assert_int_equal(low_rank_of(&p), 0);
    make_program(&p, 100, 96, 80, 8, BP_F32);
    p.offsets[1][4] = BIAS * PLACE;
    assert_int_equal(low_rank_of(&p), 0);
    make_program(&p, 100, 96, 80, 8, BP_F32);
    p.scale.count = 99 * 8;
    assert_int_equal(low_rank_of(&p), 0);
    make_program(&p, 100, 96, 80, 8, BP_F32);
    p.offsets[2][1] = RESIDUAL * PLACE; /* not u times a factor */
    assert_int_equal(low_rank_of(&p), 0);
}

/* Programs in which one thing is otherwise: the two products stay apart, each for its own reason.
 */
static bool set_apart(adapter_program *p, uint8_t other[7], uint32_t which)
{
    memset(other, BP_F32, 7);
    switch (which) {
    case 0:
        p->ops[3].tuples = 2;
        return true;
    case 1:
        p->add.k = 0;
        return true;
    case 2:
        p->add.transpose_a = 1;
        return true;
    case 3:
        p->add.accumulate = 0;
        return true;
    case 4:
        p->product.m = 99;
        return true;
    case 5:
        p->product.n = 95;
        return true;
    case 6:
        p->product.ldc = 97;
        return true;
    case 7:
        p->product.transpose_a = 1;
        return true;
    case 8:
        p->product.accumulate = 1;
        return true;
    case 9: /* c of another type, and then a */
    case 10:
        other[which == 9 ? 0 : 2] = BP_BF16;
        p->ops[0].dtypes = other;
        return true;
    case 11:
        p->ops[0].tuples = 2;
        return true;
    case 12:
        p->ops[1].tuples = 2;
        return true;
    case 13: /* another kernel makes c in between */
        p->offsets[2][0] = Y * PLACE;
        return true;
    case 14: /* something begins in between that ends later */
        p->ops[1].kernel = BP_KERNEL_copy_begin;
        return true;
    default:
        return false;
    }
}

/* verifies device-27.e3dd */
static void each_condition_keeps_products_apart(void **state)
{
    adapter_program p;
    uint8_t other[7];
    uint32_t which = 0;
    (void)state;
    make_program(&p, 100, 96, 80, 8, BP_F32);
    while (set_apart(&p, other, which)) {
        if (join_of(&p).before != 0) {
            fail_msg("change %u", which);
        }
        make_program(&p, 100, 96, 80, 8, BP_F32);
        which++;
    }
    assert_int_equal(which, 15);
    assert_int_equal(join_of(&p).before, 3);
}

/* The same of a product with codes. */
static bool set_codes_apart(bp_matmul_quantised_scalars *s, uint8_t dtypes[9], uint32_t which)
{
    int64_t *const numbers[] = {&s->m, &s->n, &s->ldc, &s->gelu};
    if (which < 4) {
        ++*numbers[which];
    } else if (which < 6) {
        dtypes[which == 4 ? 0 : 2] = BP_BF16;
    }
    return which < 6;
}

/* verifies device-27.e3dd */
static void each_condition_keeps_codes_apart(void **state)
{
    /* c, before, a, codes, scales, nested, bias, residual, work */
    const uint64_t none = BP_OFFSET_ABSENT;
    uint64_t offsets[9] = {Y * PLACE, none, X * PLACE, W * PLACE,   BIAS * PLACE,
                           none,      none, none,      WORK * PLACE};
    adapter_program p;
    bool changed = true;
    uint32_t which = 0;
    (void)state;
    while (changed) {
        uint8_t dtypes[9] = {BP_F32, BP_F32, BP_F32, BP_F32, BP_F32, BP_F32, BP_F32, BP_F32};
        bp_matmul_quantised_scalars s = {.m = 100,
                                         .n = 96,
                                         .k = 128,
                                         .lda = 128,
                                         .ldc = 96,
                                         .transpose_b = 1,
                                         .form = BP_QUANTISED_INT8};
        make_program(&p, 100, 96, 128, 8, BP_F32);
        set_op(&p, 0, BP_KERNEL_matmul_quantised, &s);
        changed = set_codes_apart(&s, dtypes, which++);
        p.ops[0].offsets = offsets;
        p.ops[0].dtypes = dtypes;
        assert_int_equal(join_of(&p).before, changed ? 0 : 3);
    }
    assert_int_equal(which, 7);
}

/* Right behind one another, and so far apart that nobody looks. */
/* verifies device-27.e3dd */
static void products_are_near_or_apart(void **state)
{
    adapter_program p;
    bp_linked_op ops[BP_FUSE_REACH + 3];
    (void)state;
    make_program(&p, 100, 96, 80, 8, BP_F32);
    p.ops[1] = p.ops[3];
    bp_fusion join = bp_host_fuse(&p.program, 1, 1, workspace_of, NULL);
    assert_int_equal(join.before, 1);
    assert_int_equal(join.low_rank, 0);
    make_program(&p, 100, 96, 80, 8, BP_F32);
    for (uint32_t between = BP_FUSE_REACH - 1; between <= BP_FUSE_REACH; between++) {
        for (uint32_t i = 1; i <= between; i++) {
            ops[i] = p.ops[2];
        }
        ops[0] = p.ops[0];
        ops[between + 1] = p.ops[3];
        const bp_linked_program far = {ops, between + 2};
        join = bp_host_fuse(&far, between + 1, 1, workspace_of, NULL);
        assert_int_equal(join.before, between < BP_FUSE_REACH ? BP_FUSE_REACH : 0);
    }
}

/* The same of the left factor: it is made by itself, and the products are still one. */
static bool set_unsqueezed(adapter_program *p, uint8_t other[7], uint32_t which)
{
    memset(other, BP_F32, 7);
    switch (which) {
    case 0: /* u of another type, and then x */
    case 1:
        other[which == 0 ? 0 : 2] = BP_BF16;
        p->ops[1].dtypes = other;
        return true;
    case 2: /* what was before is kept, a residual is added */
    case 3:
        p->offsets[1][which == 2 ? 1 : 5] = (which == 2 ? B : RESIDUAL) * PLACE;
        return true;
    case 4:
        p->low_rank.gelu = 1;
        return true;
    case 5:
        p->low_rank.m = 99;
        return true;
    case 6:
        p->low_rank.lda = 81;
        return true;
    case 7: /* two squeezes behind one another */
        p->ops[2] = p->ops[1];
        return true;
    case 8: /* where the product reads nothing */
        p->offsets[1][0] = B * PLACE;
        return true;
    case 9:
        p->low_rank.ldc = 9;
        return true;
    case 10:
        p->low_rank.n = 7;
        return true;
    case 11:
        p->offsets[2][0] = B * PLACE;
        return true;
    case 12: /* u has gaps */
        p->add.lda = p->low_rank.ldc = 9;
        return true;
    case 13: /* u is made by no product */
        p->ops[1] = p->ops[2];
        return true;
    case 14: /* of nothing */
        p->product.k = p->low_rank.k = 0;
        return true;
    default:
        return false;
    }
}

/* verifies device-27.e3dd */
static void each_condition_keeps_the_left_factor_apart(void **state)
{
    adapter_program p;
    uint8_t other[7];
    uint32_t which = 0;
    (void)state;
    make_program(&p, 100, 96, 80, 8, BP_F32);
    while (set_unsqueezed(&p, other, which)) {
        if (low_rank_of(&p) != 0) {
            fail_msg("change %u", which);
        }
        make_program(&p, 100, 96, 80, 8, BP_F32);
        which++;
    }
    assert_int_equal(which, 15);
    assert_int_equal(low_rank_of(&p), 2);
}

/* The squeeze's result may lie in the product's workspace, which was free by then. */
static void the_workspace_shrinks(void **state)
{
    adapter_program p;
    (void)state;
    make_program(&p, 1000, 96, 80, 8, BP_F32);
    const uint64_t bytes = workspace_of(NULL, &p.ops[0]), u = 1000 * 8 * sizeof(float);
    p.offsets[1][0] = p.offsets[2][0] = p.offsets[2][1] = p.offsets[3][2] = WORK * PLACE;
    bp_fusion join = join_of(&p);
    assert_int_equal(join.before, 3);
    assert_int_equal(join.work, WORK * PLACE + u);
    assert_int_equal(join.work_bytes, bytes - u);
    p.offsets[1][0] = p.offsets[2][0] = p.offsets[2][1] = p.offsets[3][2] =
        WORK * PLACE + bytes - u;
    join = join_of(&p);
    assert_int_equal(join.work, WORK * PLACE);
    assert_int_equal(join.work_bytes, bytes - u);
    make_program(&p, 24, 96, 80, 8, BP_F32); /* its workspace is small: what is left does not do */
    p.scale.count = 100000;
    p.offsets[2][0] = p.offsets[2][1] = WORK * PLACE;
    assert_int_equal(join_of(&p).before, 0);
}

/* Runs the program in a form, and again in the form of that turn, and copies y, and u behind it. */
static void run_program(const adapter_program *p, const char *form, uint32_t threads, uint32_t turn,
                        unsigned char *y, const size_t bytes[2])
{
    const uint64_t link = bp_device_host.link_bytes(4, 28, 40);
    kernel_device on;
    static float floats[BIAS + 1][PLACE / sizeof(float) / 4]; /* the same in each run */
    static bool filled;
    void *memory = malloc(link);
    assert_non_null(memory);
    kernel_device_open(&on, &bp_device_host, form, threads, ARENA_BYTES);
    for (uint32_t i = X; i <= BIAS; i++) {
        if (!filled) {
            fill_normal(floats[i], PLACE / sizeof(float) / 4, i + 1, i == A || i == B ? 0.1 : 1.0);
        }
        store_elements(on.arena + i * PLACE, p->type, floats[i], PLACE / sizeof(float) / 4);
    }
    filled = true;
    assert_int_equal(bp_device_host.link(on.context, 0, &p->program, memory, link), BP_OK);
    assert_int_equal(bp_device_host.seal(on.context), BP_OK);
    for (uint32_t i = 0; i < 2; i++) { /* once more: nothing of the first run counts */
        const bp_device_move elsewhere = {.form = i == 0 ? 0 : turn};
        bp_device_host.move(on.context, &elsewhere);
        assert_int_equal(bp_device_host.run(on.context, 0), BP_OK);
    }
    memcpy(y, on.arena + Y * PLACE, bytes[0]);
    memcpy(y + bytes[0], on.arena + U * PLACE, bytes[1]);
    kernel_device_close(&on);
    free(memory);
}

/* verifies device-1.6909 */
static void joined_products_give_equal_bits(void **state)
{
    static const int64_t shapes[][4] = {{100, 96, 80, 8},  {33, 200, 513, 4},  {7, 130, 64, 16},
                                        {60, 50, 1100, 1}, {2, 48, 24, 64},    {129, 385, 40, 9},
                                        {601, 20, 800, 8}, {590, 410, 40, 50}, {579, 98, 60, 3}};
    static const bp_dtype types[] = {BP_F32, BP_BF16, BP_F16};
    static unsigned char right[PLACE], got[PLACE];
    (void)state;
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0] * 3; i++) {
        const int64_t *s = shapes[i / 3];
        adapter_program p;
        make_program(&p, s[0], s[1], s[2], s[3], types[i % 3]);
        if (s[0] % 3 == 0) { /* as backward squeezes: A is (k, r) */
            p.low_rank.transpose_b = 0;
            p.low_rank.ldb = s[3];
        }
        assert_int_equal(join_of(&p).before, 3);
        assert_int_equal(bp_host_fuse(&p.program, 3, 3, workspace_of, NULL).low_rank,
                         s[0] >= 576 && i % 3 == 0 ? 2 : 0);
        const size_t width = bp_dtype_bytes(types[i % 3]);
        const size_t bytes[2] = {(size_t)(s[0] * s[1]) * width, (size_t)(s[0] * s[3]) * width};
        run_program(&p, "portable", 1, 0, right, bytes);
        for (uint32_t form = 1; form < BP_HOST_ISAS; form++) {
            for (uint32_t threads = 1; bp_host_isa_runs(form) && threads < 4; threads += 2) {
                const uint32_t turn = threads == 1 ? 2 : i / 3 % 2;
                run_program(&p, bp_host_isa_name(form), threads, turn, got, bytes);
                assert_memory_equal(got, right, bytes[0] + bytes[1]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins_where_nothing_is_between),
        cmocka_unit_test(stays_apart_where_something_is),
        cmocka_unit_test(another_left_factor_is_made_apart),
        cmocka_unit_test(each_condition_keeps_products_apart),
        cmocka_unit_test(each_condition_keeps_codes_apart),
        cmocka_unit_test(products_are_near_or_apart),
        cmocka_unit_test(each_condition_keeps_the_left_factor_apart),
        cmocka_unit_test(the_workspace_shrinks),
        cmocka_unit_test(joined_products_give_equal_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
