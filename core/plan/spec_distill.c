/* SPDX-License-Identifier: MIT */
/* What a spec says of a teacher. */
#include "core/plan/spec_distill.h"

#include "core/plan/input.h"

static const char where[] = "spec";

static bp_status distill_refuse(bp_error *error, const char *option, const char *text)
{
    return bp_error_set(error, BP_ERR_USAGE, where, text, option);
}

/* What only a student has. */
static bp_status check_student(const bp_spec *spec, bp_error *error)
{
    const bp_distill *d = &spec->distill;
    if (spec->smoothing > 0.0) {
        return distill_refuse(error, "label-smoothing-factor",
                              "the loss against a teacher has no smoothed labels");
    }
    if (!(d->alpha >= 0.0 && d->alpha <= 1.0)) {
        return distill_refuse(error, "distill-alpha",
                              "the teacher's part of the loss is from 0 to 1");
    }
    if (!(d->temperature >= 1e-3 && d->temperature <= 1e3)) {
        return distill_refuse(error, "distill-temperature",
                              "the temperature is from 0.001 to 1000");
    }
    return BP_OK;
}

bp_status bp_spec_check_distill(const bp_spec *spec, bp_error *error)
{
    const bp_distill *d = &spec->distill;
    const uint64_t words = spec->config.vocabulary;
    const uint32_t most = words < BP_DISTILL_MOST ? (uint32_t)words : BP_DISTILL_MOST;
    if (d->top_k == 0) {
        return BP_OK;
    }
    if (d->top_k > most) {
        return bp_error_limit(error, BP_ERR_USAGE, where, "a teacher's tokens at each place",
                              "distill-top-k", d->top_k, BP_LIMIT_MOST, most);
    }
    if (spec->config.task != BP_TASK_CAUSAL_LM || spec->preference.kind != BP_PREFERENCE_NONE ||
        (!d->teaches && !bp_input_declared(spec, BP_INPUT_TOPS))) {
        return distill_refuse(
            error, "distill",
            "a teacher is for training a language model that reads from left to right: gpt2, "
            "llama and their relatives");
    }
    return d->teaches ? BP_OK : check_student(spec, error);
}
