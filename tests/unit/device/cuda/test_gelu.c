/* SPDX-License-Identifier: MIT */
/* GELU of bfloat16 numbers in the kernels' own form: every one of them, rounded, is the host's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/dtype.h"
#include "device/cuda/kernels/products/gelu_bfloat.h"

/* verifies device-23.1466 */
static void every_number_has_the_hosts_bits(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        const float x = bp_float_from_bits(i << 16);
        const uint32_t right = bp_bf16_even_from_f32(bp_gelu_inline(x));
        const uint32_t made = bp_bf16_even_from_f32(bp_gelu_bfloat_inline(x));
        const int numbers = (right & 0x7fff) <= 0x7f80;
        assert_true(numbers ? made == right : (made & 0x7fff) > 0x7f80);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_the_hosts_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
