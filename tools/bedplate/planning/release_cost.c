/* SPDX-License-Identifier: MIT */
/* Plans with and without gradient release. */
#include <inttypes.h>
#include <stdio.h>

#include "tools/bedplate/planning/release_cost.h"

#include "tools/bedplate/session/dry_run.h"
#include "tools/bedplate/app/output.h"
#include "core/plan/parts.h"

bp_status release_cost_find(const bp_spec *spec, uint64_t arena_bytes, release_cost *cost,
                            bp_error *error)
{
    bp_spec other = *spec;
    *cost = (release_cost){.arena_bytes = arena_bytes};
    if (spec->optimizer == NULL || spec->gradient_release == BP_RELEASE_NONE) {
        return BP_OK;
    }
    other.gradient_release = BP_RELEASE_NONE;
    BP_TRY(dry_run_arena(&other, 0, &cost->without, error));
    cost->known = true;
    cost->enlarges = arena_bytes > cost->without;
    other.gradient_release = BP_RELEASE_PREVIOUS_NORM;
    if (spec->gradient_release == BP_RELEASE_EXACT && bp_spec_needs_norm(spec) &&
        bp_spec_check(&other, NULL) == BP_OK) {
        BP_TRY(dry_run_arena(&other, 0, &cost->previous, error));
    }
    return BP_OK;
}

void release_cost_put(bp_text *text, const release_cost *cost)
{
    bp_text_grouped(text, cost->arena_bytes - cost->without);
    bp_text_string(text, " bytes more than without it (");
    bp_text_grouped(text, cost->without);
    bp_text_string(text, " bytes");
    if (cost->previous != 0 && cost->previous < cost->arena_bytes) {
        bp_text_string(text, "; with --gradient-release previous-norm ");
        bp_text_grouped(text, cost->previous);
    }
    bp_text_char(text, ')');
}

void release_cost_json(output *out, const release_cost *cost)
{
    if (!cost->known) {
        return;
    }
    json_flag(out, "enlarges", cost->enlarges);
    json_count(out, "arena_bytes_without", cost->without);
    if (cost->previous != 0) {
        json_count(out, "arena_bytes_previous_norm", cost->previous);
    }
}

/* Plans with evaluations in the batch of training. */

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
    BP_TRY(dry_run_arena(&other, 0, &without, error));
    *more = arena_bytes > without ? arena_bytes - without : 0;
    if (*more > 0 && !quiet) {
        output_print(stderr,
                     "bedplate: --per-device-eval-batch-size: evaluations of %" PRIu32
                     " sequences enlarge the arena by %" PRIu64
                     " bytes; with the batch of training, "
                     "%" PRIu32 ", it has %" PRIu64 "\n",
                     bp_spec_eval_batch(spec), *more, spec->batch, without);
    }
    return BP_OK;
}

/* Plans with one lane. */

bp_status virtual_ranks_cost_find(const bp_spec *spec, uint64_t arena_bytes, uint64_t *more,
                                  bp_error *error)
{
    bp_spec other = *spec;
    uint64_t without = arena_bytes;
    *more = 0;
    if (spec->optimizer == NULL || bp_spec_leaves(spec) == 1 || bp_spec_sequence_ranks(spec) > 1) {
        return BP_OK;
    }
    other.virtual_ranks = 1;
    other.token_lanes = 1;
    other.ranks = 1;
    other.rank = 0;
    other.sharing = BP_SHARING_NONE;
    BP_TRY(dry_run_arena(&other, 0, &without, error));
    *more = arena_bytes > without ? arena_bytes - without : 0;
    return BP_OK;
}
