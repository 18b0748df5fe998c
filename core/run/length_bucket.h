/* SPDX-License-Identifier: MIT */
/* Length buckets inside a runtime (core/plan/buckets.h): what it has of each beside the plan. */
#ifndef BP_CORE_LENGTH_BUCKET_H
#define BP_CORE_LENGTH_BUCKET_H

#include "core/plan/buckets.h"

struct bp_runtime;

/* Links them in the plan's memory, and then to the device, which is open. */
bp_status bp_length_bucket_link(struct bp_runtime *runtime) BP_MUST_CHECK;
bp_status bp_length_bucket_open(struct bp_runtime *runtime) BP_MUST_CHECK;

/* What the runtime has of a length. */
bp_length_run *bp_length_bucket_run(const struct bp_runtime *runtime,
                                    const bp_length_bucket *bucket);

/* The device's number of a length's program. */
uint32_t bp_length_bucket_program(const struct bp_runtime *runtime, const bp_length_bucket *bucket,
                                  bp_program_kind program);

#endif
