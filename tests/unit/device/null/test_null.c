/* SPDX-License-Identifier: MIT */
/* Planning without kernels, on a device that counts; and a kernel that a device denies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/null/null.h"
#include "device/registry.h"
#include "tests/fixtures/bare_fixture.h"
#include "tests/fixtures/plans/plan_bytes.h"

static trial t;

static bp_status plan_on(const bp_device *device)
{
    bp_spec spec = bare_fixture_spec();
    void *host = NULL;
    spec.device = device;
    spec.device_options.variant = NULL; /* of all forms: the most workspace */
    const uint64_t bytes = plan_bytes(&spec);
    assert_int_equal(posix_memalign(&host, 64, bytes), 0);
    const bp_status status = bare_fixture_plan(&t, &spec, host, bytes);
    if (status != BP_OK) {
        free(host);
    }
    return status;
}

static void end_of(trial *run)
{
    void *host = run->plan.memory.memory;
    bp_runtime_close(&run->runtime);
    free(host);
}

/* verifies device-38.eb7d */
static void a_plan_needs_no_kernels_and_no_memory(void **state)
{
    (void)state;
    bp_outcome outcome;
    assert_int_equal(plan_on(bp_device_named("host", 4)->device), BP_OK);
    const bp_report with = t.plan.report;
    end_of(&t);
    assert_int_equal(plan_on(bp_device_named("null", 4)->device), BP_OK);
    const bp_report without = t.plan.report;
    assert_true(without.arena_bytes > 0 && without.arena_bytes <= with.arena_bytes);
    assert_true(without.class_most[BP_CLASS_WORKSPACE] < with.class_most[BP_CLASS_WORKSPACE]);
    assert_int_equal(without.state_bytes, with.state_bytes);
    assert_int_equal(without.parameters, with.parameters);
    assert_int_equal(bare_fixture_open(&t, NULL, without.arena_bytes), BP_OK);
    const bp_null_counts *counts = bp_null_counted(t.runtime.device);
    const uint64_t opened = counts->runs;
    assert_true(counts->linked[BP_KERNEL_matmul] > 20);
    assert_true(counts->linked[BP_KERNEL_adamw] > 0);
    assert_int_equal(counts->linked[BP_KERNEL_rmsnorm_forward], 0);
    assert_true(counts->uploaded_bytes > 0 || opened > 0);
    /* What it would have computed is nobody's result. */
    assert_int_equal(bp_runtime_step(&t.runtime, &t.feed, &outcome), BP_ERR_DEVICE);
    assert_non_null(strstr(t.runtime.error.text, "executes nothing"));
    assert_true(counts->runs > opened);
    assert_true(counts->ops > 20);
    end_of(&t);
}

static bool denies_attention(const bp_device_options *options, bp_kernel kernel,
                             const uint8_t *dtypes)
{
    (void)options;
    return kernel != BP_KERNEL_attention_forward || dtypes[0] != BP_F32;
}

/* verifies device-38.eb7d */
static void what_a_device_denies_is_named_by_the_plan(void **state)
{
    (void)state;
    bp_device some = *bp_device_named("null", 4)->device;
    some.supports = denies_attention;
    assert_int_equal(plan_on(&some), BP_ERR_DEVICE);
    assert_string_equal(t.plan.error.name, "null: attention_forward");
    assert_string_equal(t.plan.error.word, "F32");
    assert_false(t.plan.made);
}

/* verifies device-38.eb7d */
static void programs_are_checked_all_the_same(void **state)
{
    (void)state;
    const bp_device *null = bp_device_named("null", 4)->device;
    const bp_regions none = bp_regions_device(NULL, 0);
    bp_error error = {.code = BP_OK};
    bp_device_options options;
    bp_device_request request = {.which = "1"};
    assert_int_equal(bp_device_named("null", 4)->options(&request, &options, &error), BP_ERR_USAGE);
    request.which = "";
    assert_int_equal(bp_device_named("null", 4)->options(&request, &options, &error), BP_OK);
    void *context = calloc(1, null->context_bytes);
    assert_non_null(context);
    assert_int_equal(null->open(context, &options, &none, &error), BP_OK);
    const bp_linked_program empty = {NULL, 0};
    assert_int_equal(null->run(context, 0), BP_ERR_USAGE); /* not linked */
    assert_int_equal(null->link(context, BP_PROGRAMS_MAX, &empty, NULL, 0), BP_ERR_USAGE);
    assert_int_equal(null->link(context, 3, &empty, NULL, 0), BP_OK);
    assert_int_equal(null->seal(context), BP_OK);
    assert_int_equal(null->link(context, 4, &empty, NULL, 0), BP_ERR_SEALED);
    assert_int_equal(null->run(context, 3), BP_OK);
    assert_int_equal(null->run(context, BP_PROGRAMS_MAX), BP_ERR_USAGE);
    assert_int_equal(null->run_ops(context, 3, 0, 1), BP_ERR_USAGE);
    assert_int_equal(null->wait(context), BP_OK);
    assert_int_equal(bp_null_counted(context)->runs, 1);
    assert_int_equal(null->bytes_in_use(context), 0);
    assert_string_equal(null->variant(context), "null");
    null->close(context);
    free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_needs_no_kernels_and_no_memory),
        cmocka_unit_test(what_a_device_denies_is_named_by_the_plan),
        cmocka_unit_test(programs_are_checked_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
