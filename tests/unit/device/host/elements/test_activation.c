/* SPDX-License-Identifier: MIT */
/* Activations and SwiGLU over numbers of every size: all forms give the bits of the portable one.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/ops/activation.h"
#include "device/host/isa_table.h"

#define STEP  16411 /* from one pattern of bits to the next: all signs and exponents */
#define COUNT (INT64_C(0xffffffff) / STEP + 1)

static float x[COUNT], other[COUNT], third[COUNT];

static void fill(void)
{
    for (int64_t i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)(i * STEP);
        memcpy(&x[i], &bits, sizeof bits);
        other[i] = (float)(i % 1001 - 500) * 0.01f;
        third[i] = (float)(i % 997 - 498) * 0.02f;
    }
}

/* Which NaN comes out is not promised. */
static void assert_same(const float *got, const float *right, const char *form)
{
    for (int64_t i = 0; i < COUNT; i++) {
        if (!(isnan(got[i]) && isnan(right[i])) && memcmp(&got[i], &right[i], sizeof *got) != 0) {
            fail_msg("%s: of %a comes %a, portable gives %a", form, (double)x[i], (double)got[i],
                     (double)right[i]);
        }
    }
}

static void run(uint32_t form, bp_kernel number, const void *scalars, void *const *pointers)
{
    const bp_host_kernel *kernels[BP_HOST_ELEMENTS][BP_KERNEL_COUNT];
    uint8_t dtypes[BP_OPERANDS_MAX] = {0}; /* BP_F32 */
    const bp_host_call call = {pointers, scalars, dtypes, NULL, NULL};
    assert_int_equal(BP_F32, 0);
    bp_host_isa_kernels(form, kernels);
    const bp_host_kernel *kernel = kernels[BP_F32][number];
    kernel->run(&call, 0, kernel->tasks(scalars), 0);
}

/* verifies device-1.6909 */
static void activations_give_equal_bits(void **state)
{
    static float right[2][COUNT], got[2][COUNT];
    (void)state;
    fill();
    for (uint32_t form = 1; form < BP_HOST_ISAS; form++) {
        for (int64_t kind = 0; bp_host_isa_runs(form) && kind < BP_ACTIVATION_COUNT; kind++) {
            const bp_activation_forward_scalars s = {COUNT, kind};
            const bp_activation_backward_scalars t = {COUNT, kind};
            for (uint32_t i = 0; i < 2; i++) {
                float(*to)[COUNT] = i == 0 ? right : got;
                const bp_activation_forward_pointers p = {.y = to[0], .x = x};
                const bp_activation_backward_pointers q = {.d_x = to[1], .d_y = other, .x = x};
                run(i * form, BP_KERNEL_activation_forward, &s, (void *const *)(const void *)&p);
                run(i * form, BP_KERNEL_activation_backward, &t, (void *const *)(const void *)&q);
            }
            assert_same(got[0], right[0], bp_host_isa_name(form));
            assert_same(got[1], right[1], bp_host_isa_name(form));
        }
    }
}

static void gate_gives_equal_bits(bp_gate kind)
{
    static float right[3][COUNT], got[3][COUNT];
    const bp_swiglu_forward_scalars s = {COUNT, kind, COUNT, COUNT};
    const bp_swiglu_backward_scalars t = {COUNT, kind, COUNT, COUNT};
    fill();
    for (uint32_t form = 1; form < BP_HOST_ISAS; form++) {
        for (uint32_t i = 0; bp_host_isa_runs(form) && i < 2; i++) {
            float(*to)[COUNT] = i == 0 ? right : got;
            const bp_swiglu_forward_pointers p = {.y = to[0], .gate = x, .up = other};
            const bp_swiglu_backward_pointers q = {
                .d_gate = to[1], .d_up = to[2], .d_y = third, .gate = x, .up = other};
            run(i * form, BP_KERNEL_swiglu_forward, &s, (void *const *)(const void *)&p);
            run(i * form, BP_KERNEL_swiglu_backward, &t, (void *const *)(const void *)&q);
        }
        for (int i = 0; bp_host_isa_runs(form) && i < 3; i++) {
            assert_same(got[i], right[i], bp_host_isa_name(form));
        }
    }
}

/* verifies device-1.6909 */
static void swiglu_gives_equal_bits(void **state)
{
    (void)state;
    for (int kind = 0; kind < BP_GATE_COUNT; kind++) {
        gate_gives_equal_bits((bp_gate)kind);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_give_equal_bits),
        cmocka_unit_test(swiglu_gives_equal_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
