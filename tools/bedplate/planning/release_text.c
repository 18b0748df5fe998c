/* SPDX-License-Identifier: MIT */
/* What the forms of gradient release (core/plan/spec.h) are called, and what they cost. */
#include "tools/bedplate/planning/release_text.h"

#include <string.h>

static const struct {
    const char *name;
    const char *mathematics;
} forms[] = {
    [BP_RELEASE_NONE] = {"none", "gradients of a whole step are kept until its update"},
    [BP_RELEASE_EXACT] = {"exact", "what the ordinary form computes"},
    [BP_RELEASE_PREVIOUS_NORM] = {"previous-norm",
                                  "clip factor min(1, max-grad-norm / (n + 1e-6)), n the gradient "
                                  "norm of the applied step before; the first step is not clipped"},
    [BP_RELEASE_ADAMA] = {"adama",
                          "m = beta1 m + (1 - beta1) sum g_i, v = beta2 v + (1 - beta2) sum g_i^2 "
                          "over the micro-batches' gradients g_i, where Adam has (sum g_i)^2"}};

enum { FORMS = sizeof forms / sizeof forms[0] };

bp_release release_find(const settings *set)
{
    size_t length = strcspn(set->gradient_release, "|");
    for (uint32_t i = 0; i < FORMS; i++) {
        const char *name = forms[i].name;
        if (strlen(name) == length && memcmp(name, set->gradient_release, length) == 0) {
            return (bp_release)i;
        }
    }
    return BP_RELEASE_NONE;
}

static uint32_t backward_passes(const bp_spec *spec)
{
    return spec->gradient_release == BP_RELEASE_EXACT && bp_spec_needs_norm(spec) ? 2 : 1;
}

static uint32_t moment_passes(const bp_spec *spec)
{
    return spec->gradient_release == BP_RELEASE_ADAMA ? spec->accumulation : 1;
}

/* What sums in 8 bits are. */
static const char sums[] =
    "full gradients added up in int8, 1.0625 bytes a parameter: groups of 32 with a bf16 scale, "
    "each "
    "sum rounded to a code beside it at random, so that its expected value is the sum";

const char *release_name(bp_release form)
{
    return forms[form].name;
}

void release_put(bp_text *text, const bp_spec *spec, const release_cost *cost)
{
    if (spec->gradient_int8) {
        bp_text_string(text, "gradients   ");
        bp_text_string(text, sums);
        bp_text_char(text, '\n');
    }
    if (spec->gradient_release == BP_RELEASE_NONE) {
        return;
    }
    bp_text_string(text, "release     ");
    bp_text_string(text, forms[spec->gradient_release].name);
    bp_text_string(text, ": ");
    bp_text_string(text, forms[spec->gradient_release].mathematics);
    bp_text_string(text, backward_passes(spec) == 2
                             ? "; backward passes of a micro-batch: 2 (the norm first)"
                             : "; backward passes of a micro-batch: 1");
    bp_text_string(text, ", of the optimizer's state in a step: ");
    bp_text_u64(text, moment_passes(spec));
    bp_text_char(text, '\n');
    if (cost->enlarges) {
        bp_text_string(text, "            it enlarges this arena: ");
        release_cost_put(text, cost);
        bp_text_char(text, '\n');
    }
}

void release_json(output *out, const bp_spec *spec, const release_cost *cost)
{
    json_open(out, "gradient_release");
    json_text(out, "form", forms[spec->gradient_release].name);
    json_text(out, "mathematics", forms[spec->gradient_release].mathematics);
    json_count(out, "backward_passes", backward_passes(spec));
    json_count(out, "moment_passes", moment_passes(spec));
    release_cost_json(out, cost);
    json_close(out);
    if (spec->gradient_int8) {
        json_text(out, "gradient_sums", sums);
    }
}
