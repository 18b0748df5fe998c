/* SPDX-License-Identifier: MIT */
/* Products in Hopper's own form (matmul_hopper.cu): the bits of the texts that every GPU runs, in
 * every transposition, with what follows the sums, with splits, at edges; under seeds and under the
 * sums of its tensor cores; and who makes which product. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/context.h"
#include "device/cuda/ptx_table.h"
#include "tests/support/instrument.h"
#include "tests/support/kernel_case.h"
#include "tests/support/kernel_random.h"

#define ARENA_BYTES (UINT64_C(24) << 20)
#define NO_BEFORE   (UINT32_C(1) << OPERAND(matmul, before))
#define NO_BIAS     (UINT32_C(1) << OPERAND(matmul, bias))
#define NO_RESIDUAL (UINT32_C(1) << OPERAND(matmul, residual))
#define NOTHING     (NO_BEFORE | NO_BIAS | NO_RESIDUAL)

static instrument driver;
static kernel_device cuda;

typedef struct product {
    bp_matmul_scalars scalars;
    uint32_t absent;
    bp_dtype dtype;
    bp_dtype c;
    const char *device;
} product;

/* m, n, k, lda, ldb, ldc, transpose_a, transpose_b, accumulate, gelu */
static const product products[] = {
    {{1030, 1000, 72, 72, 72, 1000, 0, 1, 0, 1}, 0, BP_BF16, BP_BF16, "sm_90"},
    {{900, 904, 80, 80, 904, 907, 0, 0, 0, 0}, NO_BEFORE, BP_F16, BP_F16, "sm_90"},
    {{1032, 776, 88, 1032, 776, 780, 1, 0, 1, 0}, NOTHING, BP_BF16, BP_F32, "sm_90"},
    {{897, 900, 80, 904, 80, 900, 1, 1, 0, 0}, NOTHING, BP_F16, BP_F32, "sm_90"},
    {{640, 634, 776, 776, 776, 640, 0, 1, 0, 0}, NOTHING, BP_F16, BP_F16, "sm_90"},
    {{897, 896, 80, 904, 80, 896, 1, 1, 0, 0}, NOTHING, BP_BF16, BP_BF16, "sm_90"},
    {{904, 890, 80, 904, 896, 890, 1, 0, 1, 0}, NOTHING, BP_F16, BP_F32, "sm_90"},
    {{897, 769, 96, 96, 776, 772, 0, 0, 0, 0}, NOTHING, BP_BF16, BP_F32, "sm_90:sums"},
};
#define PRODUCTS (sizeof products / sizeof products[0])

/* A number of a type: small, of either sign, with a full fraction. */
static uint32_t element(bp_dtype dtype, uint64_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + 97u;
    x = (x ^ x >> 15) * 2246822519u;
    const uint32_t sign = x >> 31, exponent = x >> 8 & 3, fraction = x >> 12;
    switch (dtype) {
    case BP_BF16:
        return sign << 15 | (124 + exponent) << 7 | (fraction & 0x7f);
    case BP_F16:
        return sign << 15 | (12 + exponent) << 10 | (fraction & 0x3ff);
    default:
        return sign << 31 | (124 + exponent) << 23 | (fraction & 0x7ffff) << 4;
    }
}

static void fill(kernel_case *c)
{
    for (uint32_t i = 0; i < OPERAND(matmul, work); i++) {
        unsigned char *at = kernel_case_at(c, 0, i);
        const size_t size = bp_dtype_bytes((bp_dtype)c->dtypes[i]);
        for (uint64_t e = 0; at != NULL && e < c->bytes[i] / size; e++) {
            const uint32_t bits = element((bp_dtype)c->dtypes[i], e + i * 7919);
            memcpy(at + e * size, &bits, size);
        }
    }
}

static void set_device(const char *name)
{
    assert_int_equal(driver.set("PTXVM_DEVICE", name), 0);
    kernel_device_open(&cuda, &bp_device_cuda, "plain", 1, ARENA_BYTES);
    cuda_context *context = cuda.context;
    context->target = bp_cuda_target_of(bp_cuda_target_find("sm_90a"), false);
}

static void close_device(void)
{
    kernel_device_close(&cuda);
    assert_int_equal(driver.set("PTXVM_DEVICE", ""), 0);
}

/* The family that makes a case's product. */
static uint32_t family_of(kernel_case *c)
{
    cuda_context *context = cuda.context;
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    const bp_linked_op op = {c->kernel, c->tuples, c->offsets, c->scalars, c->dtypes, 0};
    const uint32_t count = bp_cuda_plan_launches(&context->target, &op, launches);
    assert_true(count >= 1 && count <= 2);
    return bp_cuda_modules[launches[0].module].family;
}

static void refuse_hopper(bool refused)
{
    ((cuda_context *)cuda.context)->target.refused =
        refused ? UINT64_C(1) << BP_CUDA_MODULE_matmul_hopper : 0;
}

/* Workspaces as the target has them, which more splits need. */
static uint64_t hopper_workspace(const bp_device_options *options, bp_kernel kernel,
                                 const void *scalars, const uint8_t *dtypes)
{
    bp_device_options there = *options;
    there.target = "sm_90a";
    return bp_device_cuda.workspace(&there, kernel, scalars, dtypes);
}

static void check_product(const product *p, uint32_t seeds)
{
    static const char *const all[] = {"0", "1", "2"};
    uint8_t dtypes[BP_OPERANDS_MAX];
    kernel_case c;
    memset(dtypes, (int)p->dtype, sizeof dtypes);
    dtypes[OPERAND(matmul, c)] = (uint8_t)p->c;
    set_device(p->device);
    bp_device device = bp_device_cuda;
    device.workspace = hopper_workspace;
    kernel_case_init_typed(&c, &device, BP_KERNEL_matmul, &p->scalars, 1, p->absent, dtypes);
    fill(&c);
    unsigned char *start = kernel_case_save(&c);
    refuse_hopper(true);
    assert_int_equal(family_of(&c), BP_CUDA_FAMILY_matmul);
    kernel_case_run(&c, &cuda);
    unsigned char *right = kernel_case_save(&c);
    refuse_hopper(false);
    assert_int_equal(family_of(&c), BP_CUDA_FAMILY_matmul_hopper);
    for (uint32_t i = 0; i < seeds; i++) {
        assert_int_equal(driver.set("PTXVM_SEED", all[i]), 0);
        kernel_case_restore(&c, start);
        kernel_case_run(&c, &cuda);
        assert_memory_equal(c.image, right, c.image_bytes);
    }
    assert_int_equal(driver.set("PTXVM_SEED", "0"), 0);
    free(start);
    free(right);
    kernel_case_free(&c);
    close_device();
}

static void products_have_the_same_bits(void **state)
{
    (void)state;
    const uint32_t count = getenv("BP_TEST_SHORT") != NULL ? 3 : PRODUCTS;
    for (uint32_t i = 0; i < count; i++) {
        check_product(&products[i], i == 2 ? 3 : 1);
    }
}

/* Which family makes a product of bf16 in an arena from `place` on, planned without a driver. */
static uint32_t planned(const bp_cuda_target *target, const bp_matmul_scalars *s, uint64_t place,
                        bp_dtype dtype)
{
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    uint64_t offsets[BP_OPERANDS_MAX];
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, (int)dtype, sizeof dtypes);
    for (uint32_t i = 0; i < BP_OPERANDS_MAX; i++) {
        offsets[i] = place + i * (UINT64_C(1) << 30);
    }
    const bp_linked_op op = {BP_KERNEL_matmul, 1, offsets, s, dtypes, 0};
    const uint32_t count = bp_cuda_plan_launches(target, &op, launches);
    assert_true(count >= 1 && count <= 2);
    const bp_cuda_launch *first = &launches[0];
    if (bp_cuda_modules[first->module].family == BP_CUDA_FAMILY_matmul_hopper) {
        assert_true(first->grid[0] * first->grid[1] <= 132 || first->grid[0] == 1);
        assert_int_equal(first->block[0], 384);
        assert_true(first->shared_bytes <= target->shared_limit);
    }
    return bp_cuda_modules[first->module].family;
}

/* Hopper's form: 16-bit elements on that target, enough tiles, operands that a tensor map can
 * describe. All else, and where the driver does not take its text, goes to the others. */
static void who_makes_which_product(void **state)
{
    (void)state;
    const uint32_t own = BP_CUDA_FAMILY_matmul_hopper, all = BP_CUDA_FAMILY_matmul;
    const bp_cuda_target plain = bp_cuda_target_of(bp_cuda_target_find("sm_80"), false);
    bp_cuda_target hopper = bp_cuda_target_of(bp_cuda_target_find("sm_90a"), false);
    /* GPT-2's first product of a block, forward, and its weight's gradient: three splits. */
    const bp_matmul_scalars forward = {8192, 2304, 768, 768, 768, 2304, 0, 1, 0, 0};
    const bp_matmul_scalars weight = {768, 768, 8192, 768, 768, 768, 1, 0, 1, 0};
    assert_int_equal(planned(&hopper, &forward, 0, BP_BF16), own);
    assert_int_equal(planned(&hopper, &weight, 0, BP_F16), own);
    assert_int_equal(planned(&plain, &forward, 0, BP_BF16), all);
    assert_int_equal(planned(&hopper, &forward, 0, BP_F32), all);
    assert_int_equal(planned(&hopper, &forward, 8, BP_BF16), all);
    bp_matmul_scalars other = forward;
    other.lda = 772; /* lines that begin at multiples of 8 bytes */
    assert_int_equal(planned(&hopper, &other, 0, BP_BF16), all);
    other = forward;
    other.m = 256;
    other.n = 2816; /* 44 tiles, too short to split */
    assert_int_equal(planned(&hopper, &other, 0, BP_BF16), own);
    other.n = 2816 - 128 * 2; /* 40: in three splits 120 */
    assert_int_equal(planned(&hopper, &other, 0, BP_BF16), own);
    other.k = 64;
    assert_int_equal(planned(&hopper, &other, 0, BP_BF16), all);
    const bp_matmul_scalars thin = {16384, 64, 64, 64, 64, 64, 0, 1, 0, 0};
    assert_int_equal(planned(&hopper, &thin, 0, BP_BF16), all); /* b has 8 KiB */
    const uint64_t more = bp_cuda_workspace(&hopper, BP_KERNEL_matmul, &weight);
    assert_true(more == UINT64_C(3) * 768 * 768 * 4);
    assert_true(bp_cuda_workspace(&plain, BP_KERNEL_matmul, &weight) == 0);
    hopper.refused = UINT64_C(1) << BP_CUDA_MODULE_matmul_hopper;
    assert_int_equal(planned(&hopper, &forward, 0, BP_BF16), all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_makes_which_product),
        cmocka_unit_test(products_have_the_same_bits),
    };
    if (!instrument_load(&driver)) {
        return 1;
    }
    if (driver.real) {
        print_message("skipped: it chooses the device\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
