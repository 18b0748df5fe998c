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
#include "tests/fixtures/plans/plan_bytes.h"
#include "tests/fixtures/bare_fixture.h"
#include "tests/fixtures/share.h"

#define KERNEL(name) extern const bp_host_kernel bp_host_##name;
#include "core/ops/kernels.def"

static const bp_kernel_row everything[] = {
#define KERNEL(name) {#name, BP_F32, &bp_host_##name},
#include "core/ops/kernels.def"
    {NULL, BP_F32, NULL}};

typedef struct found {
    uint64_t arena_bytes;
    uint64_t digest;
    double loss;
    bp_status status;
    bp_error error;
} found;

/* In an arena that begins `from` bytes behind a multiple of 256, and ends where the next byte would
 * be seen to be written. */
static found train_aligned(const bp_device *device, const bp_device_options *options, size_t from,
                           uint32_t steps)
{
    static trial t;
    static const unsigned char edge[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    bp_spec spec = bare_fixture_spec();
    found f = {0};
    void *host = NULL, *memory = NULL;
    spec.device = device;
    spec.device_options = *options;
    const uint64_t bytes = plan_bytes(&spec);
    assert_int_equal(posix_memalign(&host, 64, bytes), 0);
    f.status = bare_fixture_plan(&t, &spec, host, bytes);
    if (f.status != BP_OK) {
        f.error = t.plan.error;
        free(host);
        return f;
    }
    f.arena_bytes = t.plan.report.arena_bytes;
    assert_int_equal(
        posix_memalign(&memory, BP_ARENA_ALIGNMENT, from + f.arena_bytes + sizeof edge), 0);
    unsigned char *arena = (unsigned char *)memory + from;
    memcpy(arena + f.arena_bytes, edge, sizeof edge);
    f.status = bare_fixture_open(&t, arena, f.arena_bytes);
    if (f.status == BP_OK) {
        bp_outcome outcome = {.loss = 0.0};
        for (uint32_t i = 0; i < steps; i++) {
            assert_int_equal(bp_runtime_step(&t.runtime, &t.feed, &outcome), BP_OK);
        }
        f.loss = outcome.loss;
        assert_int_equal(bare_fixture_digest(&t, &f.digest), BP_OK);
    }
    assert_memory_equal(arena + f.arena_bytes, edge, sizeof edge);
    f.error = t.runtime.error;
    bp_runtime_close(&t.runtime);
    free(memory);
    free(host);
    return f;
}

static found train(const bp_device *device, const bp_kernel_row *kernels, const char *variant)
{
    return train_aligned(device,
                         &(bp_device_options){.threads = 1, .variant = variant, .kernels = kernels},
                         0, TRIAL_STEPS);
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
    assert_int_equal(lacking.arena_bytes, 0); /* found when planned */
    assert_string_equal(lacking.error.name, "host: adamw");
    assert_int_equal(train(&bp_device_bare, NULL, NULL).status, BP_ERR_DEVICE);
}

/* Buffers may lie closer together. */
/* verifies device-22.986d */
static void alignment_changes_places_and_no_bits(void **state)
{
    (void)state;
    static const uint32_t numbers[] = {256, 128, 64, 32};
    const uint32_t steps = share_of(TRIAL_STEPS, 2, 2);
    const found whole = train_aligned(
        &bp_device_host, &(bp_device_options){.threads = 1, .variant = "portable"}, 0, steps);
    uint64_t before = UINT64_MAX;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        bp_device_options options = {.threads = 1, .kernels = everything, .alignment = numbers[i]};
        const found bare = train_aligned(&bp_device_bare, &options, numbers[i], steps);
        assert_int_equal(bare.status, BP_OK);
        assert_int_equal(bare.digest, whole.digest);
        assert_true(bare.arena_bytes < before && bare.arena_bytes % numbers[i] == 0);
        before = bare.arena_bytes;
        const found off = train_aligned(&bp_device_bare, &options, numbers[i] / 2, steps);
        assert_int_equal(off.status, BP_ERR_USAGE);
        if (!long_form() && i % 2 == 0) {
            continue; /* the short form has half of them on the host */
        }
        options.variant = "portable";
        const found host = train_aligned(&bp_device_host, &options, numbers[i], steps);
        assert_int_equal(host.arena_bytes, bare.arena_bytes);
        assert_int_equal(host.digest, whole.digest);
        if (numbers[i] >= 64) {
            options.variant = NULL; /* the best form here */
            options.threads = 3;
            assert_int_equal(train_aligned(&bp_device_host, &options, numbers[i], steps).digest,
                             whole.digest);
        }
    }
}

/* verifies device-22.986d */
static void forms_say_what_they_take(void **state)
{
    (void)state;
    static const struct {
        const bp_device *device;
        const char *variant;
        uint32_t alignment;
        bool goes;
    } rows[] = {{&bp_device_host, "portable", 32, true}, {&bp_device_host, "neon", 32, true},
                {&bp_device_host, "avx2", 32, true},     {&bp_device_host, "avx512", 32, false},
                {&bp_device_host, "avx512", 64, true},   {&bp_device_host, "sve", 32, false},
                {&bp_device_host, NULL, 32, false},      {&bp_device_host, NULL, 64, true},
                {&bp_device_bare, NULL, 32, true},       {&bp_device_bare, NULL, 16, false},
                {&bp_device_bare, NULL, 96, false},      {&bp_device_bare, NULL, 512, false},
                {&bp_device_cuda, NULL, 128, false},     {&bp_device_cuda, NULL, 256, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bp_error error = {0};
        bp_spec spec = bare_fixture_spec();
        spec.device = rows[i].device;
        spec.device_options.variant = rows[i].variant;
        spec.device_options.alignment = rows[i].alignment;
        assert_int_equal(bp_spec_check(&spec, &error), rows[i].goes ? BP_OK : BP_ERR_USAGE);
        if (!rows[i].goes) {
            assert_string_equal(error.name, "alignment");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_and_bits_are_the_portable_forms),
        cmocka_unit_test(a_kernel_that_is_lacking_is_named),
        cmocka_unit_test(alignment_changes_places_and_no_bits),
        cmocka_unit_test(forms_say_what_they_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
