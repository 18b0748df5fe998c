/* SPDX-License-Identifier: MIT */
/* Plans with tables that are shorter than what they need. */
#include "tests/support/short_tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

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

bool short_tables_refused(const bp_spec *spec, const char *name, uint32_t number, uint32_t most)
{
    const uint64_t scratch = bp_runtime_scratch(spec);
    void *memory = malloc((size_t)scratch);
    assert_non_null(memory);
    const bp_status status = bp_runtime_count(&runtime, spec, memory, scratch);
    free(memory);
    if (status != BP_OK) {
        assert_int_equal(status, BP_ERR_USAGE);
        return false;
    }
    memory = malloc((size_t)runtime.host_bytes);
    assert_non_null(memory);
    short_of(name, &runtime.rows.ops, 8 * most, 7 * number, memory);
    short_of(name, &runtime.rows.buffers, 3 * most, 5 * number, memory);
    short_of(name, &runtime.rows.refs, most, 3 * number, memory);
    short_of(name, &runtime.rows.scalars, most, number, memory);
    if (bp_runtime_plan_counted(&runtime, memory, runtime.host_bytes) != BP_OK) {
        fail_msg("%s: %s %s", name, runtime.error.text, runtime.error.name);
    }
    free(memory);
    return true;
}
