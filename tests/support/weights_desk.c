/* SPDX-License-Identifier: MIT */
/* The desk of weight files that tests share. */
#include "tests/support/weights_desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const int32_t tokens[60] = {1, 2, 3};

static void note(void *user, const bp_tensor_finding *finding)
{
    weights_desk *d = user;
    d->allowed += finding->allowed ? 1 : 0;
    assert_true(bp_tensor_fault_text(finding->fault)[0] != '\0');
    d->faults[finding->fault]++;
    snprintf(d->last, sizeof d->last, "%s", finding->tensor);
}

weights_desk *weights_desk_new(const bp_spec *spec)
{
    const bp_spec usual = rig_spec();
    weights_desk *d = calloc(1, sizeof *d);
    assert_non_null(d);
    rig_open(&d->r, spec != NULL ? spec : &usual, tokens, 60);
    memory_store_init(&d->memory);
    faulty_store_init(&d->faulty, &d->memory.store);
    d->scratch = malloc(WEIGHTS_DESK_SCRATCH);
    assert_non_null(d->scratch);
    d->place = (bp_hf_place){.store = &d->faulty.store,
                             .path = "m",
                             .scratch = {d->scratch, WEIGHTS_DESK_SCRATCH},
                             .watch = note,
                             .user = d,
                             .error = &d->error};
    return d;
}

void weights_desk_free(weights_desk *d)
{
    assert_int_equal(d->memory.open_files, 0);
    made_free(&d->made);
    rig_close(&d->r);
    memory_store_free(&d->memory);
    free(d->scratch);
    free(d);
}

void weights_desk_add(weights_desk *d, bp_dtype dtype, bool prefix)
{
    const bp_runtime *runtime = &d->r.runtime;
    for (uint32_t p = 0; p < runtime->emit.parameter_count; p++) {
        const bp_parameter *parameter = &runtime->emit.parameters[p];
        const bp_buffer *buffer = &runtime->graph.buffers[parameter->weight];
        const char *name = runtime->graph.names + buffer->name;
        if (parameter->base == BP_NO_PARAMETER) {
            made_add_values(&d->made, name + (prefix ? 0 : strlen("transformer.")), dtype,
                            buffer->rank, buffer->shape, p);
        }
    }
}

void weights_desk_put(weights_desk *d)
{
    made_write_digests(&d->made, 0, d->made.count, &d->memory.store, "m", d->digests);
}

bp_status weights_desk_load(weights_desk *d)
{
    memset(d->faults, 0, sizeof d->faults);
    d->error = (bp_error){.code = BP_OK};
    weights_desk_put(d);
    return bp_hf_weights_load(&d->r.runtime, &d->place);
}
