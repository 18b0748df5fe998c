/* SPDX-License-Identifier: MIT */
/* Plans with evaluations in the batch of training. */
#include "tools/bedplate/planning/eval_cost.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/bedplate/session/counted.h"

bp_status eval_cost_find(const bp_spec *spec, uint64_t arena_bytes, bool quiet, uint64_t *more,
                         bp_error *error)
{
    bp_spec other = *spec;
    uint64_t without = arena_bytes;
    *more = 0;
    if (!spec->evaluate || bp_spec_eval_batch(spec) <= spec->batch) {
        return BP_OK;
    }
    other.eval_batch = 0;
    BP_TRY(counted_arena(&other, &without, error));
    *more = arena_bytes > without ? arena_bytes - without : 0;
    if (*more > 0 && !quiet) {
        fprintf(stderr,
                "bedplate: --per-device-eval-batch-size: evaluations of %" PRIu32
                " sequences enlarge the arena by %" PRIu64 " bytes; with the batch of training, "
                "%" PRIu32 ", it has %" PRIu64 "\n",
                bp_spec_eval_batch(spec), *more, spec->batch, without);
    }
    return BP_OK;
}
