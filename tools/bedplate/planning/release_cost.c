/* SPDX-License-Identifier: MIT */
/* Plans with and without gradient release. */
#include "tools/bedplate/planning/release_cost.h"

#include "tools/bedplate/session/counted.h"

bp_status release_cost_find(const bp_spec *spec, uint64_t arena_bytes, release_cost *cost,
                            bp_error *error)
{
    bp_spec other = *spec;
    *cost = (release_cost){.arena_bytes = arena_bytes};
    if (spec->optimizer == NULL || spec->gradient_release == BP_RELEASE_NONE) {
        return BP_OK;
    }
    other.gradient_release = BP_RELEASE_NONE;
    BP_TRY(counted_arena(&other, &cost->without, error));
    cost->known = true;
    cost->enlarges = arena_bytes > cost->without;
    other.gradient_release = BP_RELEASE_PREVIOUS_NORM;
    if (spec->gradient_release == BP_RELEASE_EXACT && bp_spec_needs_norm(spec) &&
        bp_spec_check(&other, NULL) == BP_OK) {
        BP_TRY(counted_arena(&other, &cost->previous, error));
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
