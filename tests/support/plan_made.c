/* SPDX-License-Identifier: MIT */
/* Counted, then planned. */
#include "tests/support/plan_made.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/support/plan_bytes.h"

void *plan_make(bp_runtime *runtime, const bp_spec *spec)
{
    const uint64_t bytes = plan_bytes(spec);
    assert_true(bytes != BP_SIZE_INVALID);
    void *memory = malloc((size_t)bytes);
    assert_non_null(memory);
    if (bp_runtime_plan(runtime, spec, memory, bytes) != BP_OK) {
        fail_msg("%s %s", runtime->error.text, runtime->error.name);
    }
    return memory;
}
