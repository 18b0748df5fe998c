/* SPDX-License-Identifier: MIT */
/* --tf32 on CUDA: a product is the host's product of operands rounded to TF32, up to the order of
 * its float sums; training stays near that in full fp32, and gives the same bits on every run. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/context.h"
#include "device/host/host.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/kernels/difference.h"
#include "tests/fixtures/kernels/kernel_case.h"
#include "tests/fixtures/kernels/kernel_random.h"
#include "tests/fixtures/model_fixture.h"
#include "tests/fixtures/share.h"

#define ARENA_BYTES (UINT64_C(48) << (getenv("BP_TEST_GPU") != NULL ? 22 : 20))
#define SEEDS       share_of(20, 7, 7)
#define ORDERED     4 /* of them also run in other orders */
#define TOKENS      400
#define STEPS       10

static instrument driver;
static kernel_device host, cuda;
static int32_t tokens[TOKENS];

/* To 10 bits of fraction, to nearest, ties away from zero. */
static float rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

static void round_operand(kernel_case *c, uint32_t operand)
{
    float *at = kernel_case_at(c, 0, operand);
    for (uint64_t i = 0; i < c->bytes[operand] / 4; i++) {
        at[i] = rounded(at[i]);
    }
}

/* The largest difference, as a share of the largest value. */
static double difference(const kernel_case *got, const kernel_case *want, uint32_t operand)
{
    const float *a = kernel_case_at((kernel_case *)(uintptr_t)got, 0, operand);
    const float *b = kernel_case_at((kernel_case *)(uintptr_t)want, 0, operand);
    double most = 0.0, largest = 1e-30;
    for (uint64_t i = 0; a != NULL && i < want->bytes[operand] / 4; i++) {
        double apart = fabs((double)a[i] - (double)b[i]);
        most = apart > most || isnan(apart) ? apart : most;
        largest = fabs((double)b[i]) > largest ? fabs((double)b[i]) : largest;
    }
    return most / largest;
}

static void run_in_other_orders(kernel_case *c, const unsigned char *start)
{
    static const char *const orders[] = {"1", "2", "3"};
    unsigned char *right = kernel_case_save(c);
    for (uint32_t i = 0; driver.set != NULL && i < long_or(3, 1); i++) {
        assert_int_equal(driver.set("PTXVM_SEED", orders[i]), 0);
        kernel_case_restore(c, start);
        kernel_case_run(c, &cuda);
        assert_true(kernel_case_same(c, right, "another order"));
    }
    assert_true(driver.set == NULL || driver.set("PTXVM_SEED", "0") == 0);
    free(right);
}

/* Compares a product with the host's of rounded operands. The bound is that of float sums in
 * another order: 4 roundings for each of up to 64 terms, which stay of the size of the result.
 * Against the host's in full the difference is larger, or the product would not be TF32. */
static void compare(kernel_case *want, kernel_case *got, bool ordered, double *full)
{
    const uint32_t c = OPERAND(matmul, c), before = OPERAND(matmul, before);
    const double bound = driver.real ? 0x1p-14 : 4.0 * 64.0 * 0x1p-24;
    unsigned char *start = kernel_case_save(want);
    kernel_case_run(want, &host);
    unsigned char *exact = kernel_case_save(want);
    kernel_case_restore(want, start);
    round_operand(want, OPERAND(matmul, a));
    round_operand(want, OPERAND(matmul, b));
    kernel_case_run(want, &host);
    free(start);
    start = kernel_case_save(got);
    kernel_case_run(got, &cuda);
    if (difference(got, want, c) > bound || difference(got, want, before) > bound) {
        const bp_matmul_scalars *s = (const void *)got->scalars;
        fail_msg("%lld x %lld x %lld: %g, %g", (long long)s->m, (long long)s->n, (long long)s->k,
                 difference(got, want, c), difference(got, want, before));
    }
    kernel_case_restore(want, exact);
    double apart = difference(got, want, c);
    *full = apart > *full ? apart : *full;
    if (ordered) {
        run_in_other_orders(got, start);
    }
    free(start);
    free(exact);
    kernel_case_free(want);
    kernel_case_free(got);
}

static void random_products(void **state)
{
    (void)state;
    double full = 0.0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kernel_case want, got;
        kernel_random_case(&want, &bp_device_host, BP_KERNEL_matmul, seed);
        kernel_random_case(&got, &bp_device_cuda, BP_KERNEL_matmul, seed);
        compare(&want, &got, seed <= ORDERED, &full);
    }
    assert_true(full > 1e-4 && full < 1e-2);
}

#define NO_BEFORE   (UINT32_C(1) << OPERAND(matmul, before))
#define NO_BIAS     (UINT32_C(1) << OPERAND(matmul, bias))
#define NO_RESIDUAL (UINT32_C(1) << OPERAND(matmul, residual))
#define NOTHING     (NO_BEFORE | NO_BIAS | NO_RESIDUAL)

/* Large tiles in every transposition, aligned and not; splits and what follows them. */
static void large_and_split_products(void **state)
{
    (void)state;
    static const struct {
        uint32_t absent;
        bp_matmul_scalars scalars;
    } shapes[] = {
        {0, {1025, 1290, 9, 12, 1292, 1292, 0, 0, 0, 1}},
        {NOTHING, {1030, 1281, 35, 1032, 37, 1281, 1, 1, 1, 0}},
        {0, {64, 68, 600, 600, 72, 72, 0, 0, 0, 1}},
        {NOTHING, {67, 61, 517, 67, 61, 61, 1, 0, 1, 0}},
        {NOTHING, {130, 66, 40, 40, 40, 68, 0, 1, 0, 0}},
        {NOTHING, {65, 127, 33, 68, 36, 128, 1, 1, 0, 0}},
    };
    double full = 0.0;
    for (uint32_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        kernel_case want, got;
        kernel_shaped_case(&want, &bp_device_host, BP_KERNEL_matmul, &shapes[i].scalars,
                           shapes[i].absent, i);
        kernel_shaped_case(&got, &bp_device_cuda, BP_KERNEL_matmul, &shapes[i].scalars,
                           shapes[i].absent, i);
        compare(&want, &got, false, &full);
    }
}

static int open_devices(void **state)
{
    (void)state;
    kernel_device_open(&host, &bp_device_host, NULL, 1, ARENA_BYTES);
    kernel_device_open(&cuda, &bp_device_cuda, "plain", 1, ARENA_BYTES);
    ((cuda_context *)cuda.context)->target.tf32 = true;
    return 0;
}

static int close_devices(void **state)
{
    static char text[2048];
    (void)state;
    kernel_device_close(&cuda);
    kernel_device_close(&host);
    if (driver.report != NULL && driver.report(text, sizeof text) > 0) {
        print_error("%s\n", text);
    }
    return driver.revive != NULL ? driver.revive() : 0;
}

typedef struct course {
    double loss[STEPS];
    uint64_t digest;
} course;

static course train(bool tf32)
{
    model_fixture r;
    course c = {.digest = 0};
    bp_spec spec = model_fixture_spec();
    spec.device = &bp_device_cuda;
    spec.device_options = (bp_device_options){.threads = 1, .tf32 = tf32};
    spec.optimizer_options.max_grad_norm = 1.0;
    model_fixture_open(&r, &spec, tokens, TOKENS);
    assert_string_equal(bp_device_cuda.variant(r.runtime.device),
                        tf32 ? "cuda sm_80 tf32" : "cuda sm_80");
    for (uint32_t i = 0; i < STEPS; i++) {
        c.loss[i] = model_fixture_step(&r).loss;
    }
    c.digest = model_fixture_digest(&r);
    model_fixture_close(&r);
    return c;
}

/* Products of operands with 10 bits of fraction: between bf16 (7) and fp32 (23), within the bound
 * that bf16 has. */
static void training_stays_near_full_precision(void **state)
{
    (void)state;
    const course full = train(false), fast = train(true), again = train(true);
    for (uint32_t i = 0; i < STEPS; i++) {
        assert_true(fabs(fast.loss[i] - full.loss[i]) <= 2e-3 * full.loss[i]);
    }
    assert_true(fast.loss[STEPS - 1] < fast.loss[0]);
    assert_true(fast.digest != full.digest);
    assert_memory_equal(fast.loss, again.loss, sizeof fast.loss);
    assert_true(fast.digest == again.digest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_products, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(large_and_split_products, open_devices, close_devices),
        cmocka_unit_test(training_stays_near_full_precision),
    };
    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = i % 3 == 0 ? (i * 7 + i / 5) % 37 : (i * i) % 37;
    }
    if (!fake_driver_load(&driver)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
