/* SPDX-License-Identifier: MIT */
/* Products of e4m3 numbers on CUDA (matmul_fp8.cu): on a Hopper, simulated with the sums of its
 * tensor cores or there, the bits of the host, whose sums are the published model of these; in
 * every direction, type and order of work. On any other GPU there are none. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/context.h"
#include "device/cuda/ptx_table.h"
#include "device/cuda/query.h"
#include "device/host/host.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random.h"
#include "tests/fixtures/share.h"

#define ARENA_BYTES (UINT64_C(48) << 20)
#define SEEDS       share_of(24, 6, 4)
#define NOTHING                                                                                    \
    (UINT32_C(1) << OPERAND(matmul_fp8, before) | UINT32_C(1) << OPERAND(matmul_fp8, bias) |       \
     UINT32_C(1) << OPERAND(matmul_fp8, residual))

static instrument driver;
static kernel_device host, cuda;

static void set(const char *name, const char *value)
{
    assert_true(driver.real || driver.set(name, value) == 0);
}

static int open_devices(void **state)
{
    (void)state;
    set("PTXVM_DEVICE", "sm_90:sums");
    kernel_device_open(&host, &bp_device_host, "portable", 1, ARENA_BYTES);
    kernel_device_open(&cuda, &bp_device_cuda, "plain", 1, ARENA_BYTES);
    cuda_context *context = cuda.context;
    context->target = bp_cuda_target_of(bp_cuda_target_find("sm_90a"), false);
    return 0;
}

static int close_devices(void **state)
{
    (void)state;
    kernel_device_close(&cuda);
    kernel_device_close(&host);
    set("PTXVM_DEVICE", "");
    return driver.revive != NULL ? driver.revive() : 0;
}

/* The CUDA device with a Hopper's workspaces. */
static uint64_t hopper_workspace(const bp_device_options *options, bp_kernel kernel,
                                 const void *scalars, const uint8_t *dtypes)
{
    bp_device_options there = *options;
    there.target = "sm_90a";
    return bp_device_cuda.workspace(&there, kernel, scalars, dtypes);
}

static bp_device hopper(void)
{
    bp_device device = bp_device_cuda;
    device.workspace = hopper_workspace;
    return device;
}

static bool is_nan(const unsigned char *at, uint64_t i, bp_dtype dtype)
{
    return isnan(element_of(at, dtype, i));
}

/* Equal bits, or numbers that are none in both. */
static void compare(const kernel_case *got, const kernel_case *want, uint32_t operand)
{
    const bp_dtype dtype = (bp_dtype)want->dtypes[operand];
    const size_t size = bp_dtype_bytes(dtype);
    if (want->offsets[operand] == BP_OFFSET_ABSENT) {
        return;
    }
    const unsigned char *a = got->image + got->offsets[operand];
    const unsigned char *b = want->image + want->offsets[operand];
    for (uint64_t i = 0; i < want->bytes[operand] / size; i++) {
        if (memcmp(a + i * size, b + i * size, size) != 0 &&
            !(is_nan(a, i, dtype) && is_nan(b, i, dtype))) {
            const bp_matmul_fp8_scalars *s = (const void *)want->scalars;
            print_error("m %d n %d k %d: operand %u element %d is %.9g, the host's %.9g\n",
                        (int)s->m, (int)s->n, (int)s->k, operand, (int)i,
                        (double)element_of(a, dtype, i), (double)element_of(b, dtype, i));
            fail();
        }
    }
}

/* Runs both, the CUDA one also in other orders of blocks, warps and pieces that come. */
static void compare_runs(kernel_case *got, kernel_case *want, bool orders)
{
    static const char *const all[] = {"0", "1", "2"};
    unsigned char *start = kernel_case_save(got);
    kernel_case_run(want, &host);
    for (uint32_t i = 0; i < (driver.real ? 3u : orders ? long_or(3, 2) : 1u); i++) {
        set("PTXVM_SEED", all[i]);
        kernel_case_restore(got, start);
        kernel_case_run(got, &cuda);
        compare(got, want, OPERAND(matmul_fp8, c));
        compare(got, want, OPERAND(matmul_fp8, before));
    }
    set("PTXVM_SEED", "0");
    free(start);
    kernel_case_free(got);
    kernel_case_free(want);
}

/* verifies device-26.48df */
static void random_calls_have_the_bits_of_the_host(void **state)
{
    (void)state;
    const bp_device device = hopper();
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const bp_dtype dtype = seed % 3 == 0 ? BP_F32 : seed % 3 == 1 ? BP_BF16 : BP_F16;
        kernel_case want, got;
        kernel_random_case_typed(&want, &bp_device_host, BP_KERNEL_matmul_fp8, dtype, seed);
        kernel_random_case_typed(&got, &device, BP_KERNEL_matmul_fp8, dtype, seed);
        compare_runs(&got, &want, seed <= 2);
    }
}

/* m, n, k, lda, ldb, ldc, transpose_a, transpose_b, accumulate, gelu: several tiles and lines
 * beyond a block's in each direction, ends inside a word, more slices than the ring has stages. */
static const bp_matmul_fp8_scalars shapes[] = {
    {259, 261, 790, 792, 790, 264, 0, 1, 0, 0},   {131, 258, 518, 131, 261, 258, 1, 0, 1, 0},
    {400, 130, 1030, 1032, 132, 132, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1, 1, 1, 0, 0},
    {132, 3, 1100, 132, 1101, 7, 1, 1, 1, 0},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

/* verifies device-26.48df */
static void large_shapes_have_the_bits_of_the_host(void **state)
{
    (void)state;
    const bp_device device = hopper();
    for (uint32_t i = 0; i < share_of(SHAPES, SHAPES, 2); i++) {
        kernel_case want, got;
        kernel_shaped_case(&want, &bp_device_host, BP_KERNEL_matmul_fp8, &shapes[i], NOTHING, i);
        kernel_shaped_case(&got, &device, BP_KERNEL_matmul_fp8, &shapes[i], NOTHING, i);
        compare_runs(&got, &want, i < 2);
    }
}

/* A row or a column that has an infinity or a NaN is NaN, and no other. */
static void rows_that_are_not_finite_are_nan(void **state)
{
    (void)state;
    const bp_device device = hopper();
    for (uint32_t i = 0; i < 2; i++) {
        const bp_matmul_fp8_scalars s = {.m = 5,
                                         .n = 6,
                                         .k = 70,
                                         .lda = i == 0 ? 70 : 5,
                                         .ldb = i == 0 ? 70 : 6,
                                         .ldc = 6,
                                         .transpose_a = i,
                                         .transpose_b = 1 - (int64_t)i};
        kernel_case want, got;
        kernel_shaped_case(&want, &bp_device_host, BP_KERNEL_matmul_fp8, &s, NOTHING, i);
        kernel_shaped_case(&got, &device, BP_KERNEL_matmul_fp8, &s, NOTHING, i);
        kernel_case *const both[] = {&want, &got};
        for (uint32_t e = 0; e < 2; e++) {
            float *a = kernel_case_at(both[e], 0, OPERAND(matmul_fp8, a));
            float *b = kernel_case_at(both[e], 0, OPERAND(matmul_fp8, b));
            a[i == 0 ? 2 * 70 + 5 : 5 * 5 + 2] = INFINITY;
            b[i == 0 ? 3 * 70 + 1 : 6 + 3] = NAN;
        }
        kernel_case_run(&want, &host);
        const float *c = kernel_case_at(&want, 0, OPERAND(matmul_fp8, c));
        for (uint32_t e = 0; e < 30; e++) {
            assert_true((isnan(c[e]) != 0) == (e / 6 == 2 || e % 6 == 3));
        }
        compare_runs(&got, &want, false);
    }
}

/* There are none but on Hopper, and none of sides that its tensor maps cannot describe. */
/* verifies device-26.48df */
static void who_makes_them(void **state)
{
    (void)state;
    bp_cuda_launch launches[BP_CUDA_LAUNCHES_MAX];
    uint64_t offsets[BP_OPERANDS_MAX] = {0};
    uint8_t dtypes[BP_OPERANDS_MAX];
    memset(dtypes, BP_BF16, sizeof dtypes);
    const bp_cuda_target plain = bp_cuda_target_of(bp_cuda_target_find("sm_80"), false);
    bp_cuda_target own = bp_cuda_target_of(bp_cuda_target_find("sm_90a"), false);
    bp_matmul_fp8_scalars s = {
        .m = 4096, .n = 1600, .k = 6400, .lda = 6400, .ldb = 1600, .ldc = 1600};
    bp_linked_op op = {BP_KERNEL_matmul_fp8, 1, offsets, &s, dtypes, 0};
    assert_int_equal(bp_cuda_plan_launches(&plain, &op, launches), BP_CUDA_UNSUPPORTED);
    assert_int_equal(bp_cuda_plan_launches(&own, &op, launches), 4); /* rows, columns in two */
    assert_int_equal(launches[3].grid[0], 132);
    assert_int_equal(bp_cuda_workspace(&plain, BP_KERNEL_matmul_fp8, &s), 0);
    /* codes, scales, and the largest magnitudes of 25 parts of columns */
    const uint64_t bytes = (UINT64_C(4096) + 1600) * 6400 + (4096 + 1600) * 4 + 25 * 1600 * 4;
    assert_int_equal(bp_cuda_workspace(&own, BP_KERNEL_matmul_fp8, &s), bytes);
    s.k = 1;
    assert_int_equal(bp_cuda_workspace(&own, BP_KERNEL_matmul_fp8, &s),
                     2 * 131072 + (4096 + 1600) * 4 + 1600 * 4);
    int64_t *const sides[] = {&s.m, &s.n, &s.k};
    for (uint32_t i = 0; i < 3; i++) {
        const int64_t before = *sides[i];
        *sides[i] = INT64_C(1) << 31;
        assert_int_equal(bp_cuda_plan_launches(&own, &op, launches), BP_CUDA_UNSUPPORTED);
        *sides[i] = before;
    }
    s.k = 0;
    assert_int_equal(bp_cuda_plan_launches(&own, &op, launches), BP_CUDA_UNSUPPORTED);
    s.k = 1;
    offsets[OPERAND(matmul_fp8, work)] = BP_OFFSET_ABSENT;
    assert_int_equal(bp_cuda_plan_launches(&own, &op, launches), BP_CUDA_UNSUPPORTED);
    offsets[OPERAND(matmul_fp8, work)] = 0;
    own.refused = UINT64_C(1) << BP_CUDA_MODULE_matmul_fp8;
    assert_int_equal(bp_cuda_plan_launches(&own, &op, launches), BP_CUDA_UNSUPPORTED);
    s.n = 0;
    assert_int_equal(bp_cuda_plan_launches(&own, &op, launches), 0);
}

/* Whether the real GPU runs this target's texts. */
static bool gpu_serves(void)
{
    bp_cuda_gpu gpu;
    bp_error error = {0};
    return bp_cuda_query(0, &gpu, &error) == BP_OK && gpu.target != NULL &&
           strcmp(gpu.target, "sm_90a") == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_makes_them),
        cmocka_unit_test_setup_teardown(rows_that_are_not_finite_are_nan, open_devices,
                                        close_devices),
        cmocka_unit_test_setup_teardown(large_shapes_have_the_bits_of_the_host, open_devices,
                                        close_devices),
        cmocka_unit_test_setup_teardown(random_calls_have_the_bits_of_the_host, open_devices,
                                        close_devices),
    };
    if (!fake_driver_load(&driver)) {
        return 1;
    }
    if (driver.real && !gpu_serves()) {
        print_message("skipped: the GPU is no Hopper\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
