/* SPDX-License-Identifier: MIT */
/* Rows of a table whose elements are packed in blocks. */
#include "core/base/dtype.h"
#include "core/ops/blocks.h"
#include "device/host/kernel.h"
#include "device/host/vector/half.h"

static uint64_t unpack_tasks(const void *scalars)
{
    const bp_unpack_rows_scalars *s = scalars;
    return (uint64_t)s->rows;
}

/* A task is a row. */
static void unpack_run(const bp_host_call *call, uint64_t first, uint64_t last, uint32_t worker)
{
    (void)worker;
    const bp_unpack_rows_scalars *s = call->scalars;
    const bp_unpack_rows_pointers *p = call->pointers;
    const bp_packed_type *block = bp_packed_of_form(s->form);
    const bp_dtype dtype = (bp_dtype)call->dtypes[0];
    const uint64_t width = (uint64_t)s->width;
    const int32_t *ids = p->ids;
    for (uint64_t row = first; row < last; row++) {
        for (uint64_t at = 0; at < width; at += block->elements) {
            float values[BP_PACKED_ELEMENTS];
            bp_packed_values(block, p->codes, (uint64_t)ids[row] * width + at, block->elements,
                             values);
            for (uint64_t i = 0; i < block->elements; i++) {
                bp_element_store(p->out, row * width + at + i, values[i], dtype);
            }
        }
    }
}

const bp_host_kernel bp_host_unpack_rows = {unpack_tasks, unpack_run, NULL};
