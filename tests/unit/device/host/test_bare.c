/* SPDX-License-Identifier: MIT */
/* The device with an application's own table of kernels: the plan and the bits of the host's
 * portable form, and a table that lacks a kernel refused by its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/devices.h"
#include "device/host/kernel.h"
#include "tests/support/plan_bytes.h"
#include "tests/support/trial.h"

#define KERNEL(name) extern const bp_host_kernel bp_host_##name;
#include "core/program/kernels.def"

static const bp_kernel_row everything[] = {
#define KERNEL(name) {#name, BP_F32, &bp_host_##name},
#include "core/program/kernels.def"
    {NULL, BP_F32, NULL}};

typedef struct found {
    uint64_t arena_bytes;
    uint64_t digest;
    double loss;
    bp_status status;
    bp_error error;
} found;

static found train(const bp_device *device, const bp_kernel_row *kernels, const char *variant)
{
    static trial t;
    bp_spec spec = trial_spec();
    found f = {0};
    void *host = NULL, *arena = NULL;
    spec.device = device;
    spec.device_options = (bp_device_options){.threads = 1, .variant = variant, .kernels = kernels};
    const uint64_t bytes = plan_bytes(&spec);
    assert_int_equal(posix_memalign(&host, 64, bytes), 0);
    assert_int_equal(trial_plan(&t, &spec, host, bytes), BP_OK);
    f.arena_bytes = t.runtime.report.arena_bytes;
    assert_int_equal(posix_memalign(&arena, BP_ARENA_ALIGNMENT, f.arena_bytes), 0);
    f.status = trial_open(&t, arena, f.arena_bytes);
    if (f.status == BP_OK) {
        assert_int_equal(trial_train(&t, &f.loss), BP_OK);
        assert_int_equal(trial_digest(&t, &f.digest), BP_OK);
    }
    f.error = t.runtime.error;
    bp_runtime_close(&t.runtime);
    free(arena);
    free(host);
    return f;
}

/* verifies device-15.df67 */
static void plan_and_bits_are_the_portable_forms(void **state)
{
    (void)state;
    const found host = train(&bp_device_host, NULL, "portable");
    const found bare = train(&bp_device_bare, everything, NULL);
    assert_int_equal(host.status, BP_OK);
    assert_int_equal(bare.status, BP_OK);
    assert_int_equal(host.arena_bytes, bare.arena_bytes);
    assert_int_equal(host.digest, bare.digest);
    assert_true(host.loss == bare.loss);
    /* The fast forms' panels are planned for whoever does not name the form. */
    assert_true(train(&bp_device_host, NULL, NULL).arena_bytes > bare.arena_bytes);
    assert_true(train(&bp_device_host, NULL, NULL).digest == bare.digest);
}

/* verifies device-15.df67 */
static void a_kernel_that_is_lacking_is_named(void **state)
{
    (void)state;
    bp_kernel_row rows[sizeof everything / sizeof everything[0]];
    memcpy(rows, everything, sizeof rows);
    for (size_t i = 0; rows[i].name != NULL; i++) {
        if (strcmp(rows[i].name, "adamw") == 0) {
            rows[i].element = BP_BF16; /* there, but in another type */
        }
    }
    const found lacking = train(&bp_device_bare, rows, NULL);
    assert_int_equal(lacking.status, BP_ERR_DEVICE);
    assert_string_equal(lacking.error.name, "adamw");
    assert_int_equal(train(&bp_device_bare, NULL, NULL).status, BP_ERR_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_and_bits_are_the_portable_forms),
        cmocka_unit_test(a_kernel_that_is_lacking_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
