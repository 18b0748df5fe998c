/* SPDX-License-Identifier: MIT */
/* Random programs of copies that overlap in time, on CUDA: the bytes are right in every order that
 * streams and graphs allow, and what the verifier accepts the instrument has nothing against. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device/cuda/cuda.h"
#include "tests/fixtures/fake_driver.h"
#include "tests/fixtures/plans/random_pending.h"

static instrument on;

static bp_device_options options_of(uint64_t seed)
{
    const char digit[2] = {(char)('0' + seed / 2 % 8), '\0'};
    if (!on.real) {
        on.set("PTXVM_SEED", digit);
    }
    return (bp_device_options){.threads = 1, .variant = seed % 2 == 0 ? "graph" : "plain"};
}

/* verifies device-18.3d2e */
static void legal_programs_give_the_bytes(void **state)
{
    (void)state;
    random_pending(&bp_device_cuda, 4000, 200, options_of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal_programs_give_the_bytes),
    };
    if (!fake_driver_load(&on)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
