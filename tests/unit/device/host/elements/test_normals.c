/* SPDX-License-Identifier: MIT */
/* Normal variates of each form of the host are those of core/base/random.h one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/random.h"
#include "device/host/isa_table.h"

#define MOST 203

/* From every kind of first number on, as far as some blocks and a rest; counters of more than 32
 * bits too. */
/* verifies device-31.2bb6 */
static void forms_have_the_same_normals(void **state)
{
    static const uint64_t firsts[] = {0,
                                      1,
                                      30,
                                      31,
                                      32,
                                      12345,
                                      (UINT64_C(1) << 33) - 17,
                                      (UINT64_C(1) << 33) - 16,
                                      (UINT64_C(1) << 50) + 3};
    static const uint64_t counts[] = {0, 1, 2, 31, 32, 33, 64, MOST};
    (void)state;
    for (uint32_t form = 0; form < BP_HOST_ISAS; form++) {
        for (size_t i = 0; i < 9 * 8 && bp_host_isa_runs(form); i++) {
            const uint64_t first = firsts[i / 8], count = counts[i % 8];
            const uint64_t seed = UINT64_C(0xfedcba9876543210) + i;
            const uint32_t stream = i % 3 == 0 ? UINT32_MAX : (uint32_t)i;
            float got[MOST + 1];
            memset(got, 0x5a, sizeof got);
            bp_host_isa_normals(form)(seed, stream, first, count, 0.02, got);
            for (uint64_t k = 0; k < count; k++) {
                const float right = (float)(0.02 * bp_random_normal(seed, stream, first + k));
                assert_memory_equal(&got[k], &right, sizeof right);
            }
            const uint32_t kept = 0x5a5a5a5a;
            assert_memory_equal(&got[count], &kept, sizeof kept);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms_have_the_same_normals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
