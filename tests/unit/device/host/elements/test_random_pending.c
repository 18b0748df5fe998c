/* SPDX-License-Identifier: MIT */
/* Random programs of copies that overlap in time, verified and run on the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device/host/host.h"
#include "tests/fixtures/plans/random_pending.h"

static bp_device_options options_of(uint64_t seed)
{
    return (bp_device_options){.threads = 1 + (uint32_t)(seed % 2)};
}

/* verifies program-6.0f88 */
static void the_verifier_knows_which_are_legal(void **state)
{
    (void)state;
    random_pending(&bp_device_host, 4000, 300, options_of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verifier_knows_which_are_legal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
