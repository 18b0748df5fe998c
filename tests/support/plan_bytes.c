/* SPDX-License-Identifier: MIT */
/* Counting in new memory. */
#include "tests/support/plan_bytes.h"

#include <stdlib.h>

uint64_t plan_bytes(const bp_spec *spec)
{
    const uint64_t scratch = bp_runtime_scratch(spec);
    void *memory = scratch != BP_SIZE_INVALID ? malloc((size_t)scratch) : NULL;
    bp_runtime *runtime = calloc(1, sizeof *runtime);
    uint64_t bytes = scratch;
    if (memory != NULL && runtime != NULL &&
        bp_runtime_count(runtime, spec, memory, scratch) == BP_OK) {
        bytes = runtime->host_bytes;
    }
    free(runtime);
    free(memory);
    return bytes;
}

uint64_t fit_bytes(const bp_fit_request *request)
{
    const uint64_t scratch = bp_fit_scratch(request);
    void *memory = scratch != BP_SIZE_INVALID ? malloc((size_t)scratch) : NULL;
    bp_error error = {0};
    uint64_t bytes = scratch;
    uint64_t needed = 0;
    if (memory != NULL && bp_fit_count(request, memory, scratch, &needed, &error) == BP_OK) {
        bytes = needed;
    }
    free(memory);
    return bytes;
}
