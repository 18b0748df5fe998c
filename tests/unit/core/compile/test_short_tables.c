/* SPDX-License-Identifier: MIT */
/* Tables that are shorter than what a plan needs: for every family and every option, wherever the
 * row lies that has no room, the plan ends with BP_ERR_FIT, and with whole tables the same memory
 * serves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/run/runtime.h"
#include "tests/support/spec_case.h"

static bp_runtime runtime;

/* The lengths of one table that are tried: `most` of them, at other places for each case; all where
 * BP_TEST_LONG is set. */
static void short_of(const char *name, uint32_t *rows, uint32_t most, uint32_t number, void *memory)
{
    const bp_runtime counted = runtime;
    const uint32_t all = *rows;
    const uint32_t step = getenv("BP_TEST_LONG") != NULL || all < most ? 1 : all / most;
    const size_t at = (size_t)((const char *)rows - (const char *)&runtime);
    for (uint32_t length = number % step; length < all; length += step) {
        runtime = counted;
        *(uint32_t *)(void *)((char *)&runtime + at) = length;
        if (bp_runtime_plan_counted(&runtime, memory, counted.host_bytes) != BP_ERR_FIT) {
            fail_msg("%s: a table of %u rows of %u does", name, length, all);
        }
        assert_int_equal(runtime.error.code, BP_ERR_FIT);
    }
    runtime = counted;
}

static void every_row_may_be_missing(void **state)
{
    (void)state;
    const uint32_t most = getenv("BP_TEST_SHORT") != NULL ? 12 : 24;
    uint32_t cases = 0;
    for (uint32_t i = 0; i < spec_case_count(); i++) {
        char name[SPEC_CASE_NAME];
        bp_spec spec;
        if (!spec_case(i, &spec, name)) {
            continue;
        }
        spec.policy = (bp_policy){.kind = i % 2 == 0 ? BP_POLICY_NONE : BP_POLICY_FULL};
        const uint64_t scratch = bp_runtime_scratch(&spec);
        void *memory = malloc((size_t)scratch);
        assert_non_null(memory);
        assert_int_equal(bp_runtime_count(&runtime, &spec, memory, scratch), BP_OK);
        free(memory);
        memory = malloc((size_t)runtime.host_bytes);
        assert_non_null(memory);
        short_of(name, &runtime.rows.ops, 8 * most, 7 * i, memory);
        short_of(name, &runtime.rows.buffers, 3 * most, 5 * i, memory);
        short_of(name, &runtime.rows.refs, most, 3 * i, memory);
        short_of(name, &runtime.rows.scalars, most, i, memory);
        assert_int_equal(bp_runtime_plan_counted(&runtime, memory, runtime.host_bytes), BP_OK);
        free(memory);
        cases++;
    }
    assert_true(cases >= 130);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_may_be_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
