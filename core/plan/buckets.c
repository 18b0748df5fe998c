/* SPDX-License-Identifier: MIT */
/* When shorter sequences give the same bits, and their specs. */
#include "core/plan/buckets.h"

/* Whether a gradient of 16 bits is added up chunk by chunk: it is rounded after each. */
static bool rounds_chunks(const bp_spec *spec)
{
    const uint64_t rows = (uint64_t)spec->batch * spec->sequence;
    return spec->optimizer != NULL && spec->gradient != BP_F32 &&
           !bp_task_scores_samples(spec->config.task) && spec->loss_rows < rows;
}

const char *bp_length_buckets_refused(const bp_spec *spec)
{
    if (!spec->model->pads) {
        return "this model reads its samples by pieces of time, or as numbers";
    }
    if (spec->config.task == BP_TASK_ANSWERS) {
        return "answers are looked for in all of a row, padding included";
    }
    if (!spec->device->sums_by_row) {
        return "this device adds up rows in groups, which padding is part of";
    }
    if (spec->optimizer != NULL && spec->products == BP_PRODUCT_FP8) {
        return "products in fp8 add up rows in groups, which padding is part of";
    }
    if (rounds_chunks(spec) && spec->loss_rows % spec->sequence != 0) {
        return "chunks of the loss do not end where samples do, and 16-bit gradients are rounded "
               "after each (see --loss-chunk-rows)";
    }
    return NULL;
}

bp_spec bp_length_buckets_spec(const bp_spec *spec, uint32_t sequence)
{
    bp_spec shorter = *spec;
    const uint64_t rows = (uint64_t)spec->batch * sequence;
    const uint64_t padded = (uint64_t)spec->batch * spec->sequence;
    shorter.sequence = sequence;
    shorter.length_count = 0;
    if (spec->loss_rows >= padded) {
        shorter.loss_rows = (uint32_t)rows;
    } else if (spec->loss_rows % spec->sequence == 0) {
        shorter.loss_rows = spec->loss_rows / spec->sequence * sequence;
    } else {
        const uint64_t chunks = bp_size_ceil_div(padded, spec->loss_rows);
        shorter.loss_rows = (uint32_t)bp_size_ceil_div(rows, chunks);
    }
    return shorter;
}
