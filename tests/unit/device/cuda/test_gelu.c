/* SPDX-License-Identifier: MIT */
/* GELU of bfloat16 numbers in the kernels' own form: every one of them, rounded, is the host's. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/dtype.h"

/* What the GPU's approximations may be in error by: more than its manual allows. */
static double power_error, reciprocal_error;

static float approximate(double exact, double error)
{
    const float y = (float)(exact * (1.0 + error));
    return fabsf(y) < 0x1p-126f ? 0.0f : y; /* as .ftz has it */
}

static float bp_gelu_power(float u)
{
    return approximate(exp2((double)u), power_error);
}

static float bp_gelu_reciprocal(float d)
{
    return approximate(1.0 / (double)d, reciprocal_error);
}

#include "device/cuda/kernels/products/gelu_bfloat.h"

static void check_all(float least)
{
    for (uint32_t i = 0; i < 65536; i++) {
        const float x = bp_float_from_bits(i << 16);
        const uint32_t right = bp_bf16_even_from_f32(bp_gelu_inline(x));
        const uint32_t made = bp_bf16_even_from_f32(bp_gelu_bfloat_inline(x));
        const int numbers = (right & 0x7fff) <= 0x7f80;
        if (!(fabsf(x) < least)) {
            assert_true(numbers ? made == right : (made & 0x7fff) > 0x7f80);
        }
    }
}

/* verifies device-23.1466 */
static void every_number_has_the_hosts_bits(void **state)
{
    (void)state;
    power_error = reciprocal_error = 0.0;
    check_all(0.0f);
}

/* verifies device-23.1466 */
static void no_error_of_the_gpu_changes_a_normal_result(void **state)
{
    (void)state;
    for (int i = -1; i <= 1; i++) {
        for (int j = -1; j <= 1; j++) {
            power_error = i * 0x1p-21;
            reciprocal_error = j * 0x1p-21;
            check_all(0x1p-125f);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_the_hosts_bits),
        cmocka_unit_test(no_error_of_the_gpu_changes_a_normal_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
