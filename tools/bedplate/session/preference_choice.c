/* SPDX-License-Identifier: MIT */
/* Losses over pairs of rows, as options ask for them. */
#include "tools/bedplate/session/preference_choice.h"

#include <string.h>

#include "tools/bedplate/models/model_table.h"
#include "tools/bedplate/app/options.h"
#include "tools/formats/data/data_chat.h"

#define RATE 1e-6 /* DPOConfig's, and the others' */

void preference_resolve(settings *set)
{
    if (set->task != NULL && model_preference(set->task) != BP_PREFERENCE_NONE &&
        !option_given(set, "learning-rate")) {
        set->learning_rate = RATE;
    }
}

static bp_preference_kind kind_of(const settings *set)
{
    const bp_preference_kind kind = model_preference(set->task);
    if (kind != BP_PREFERENCE_SIGMOID) {
        return kind;
    }
    return strcmp(set->loss_type, "hinge") == 0 ? BP_PREFERENCE_HINGE
           : strcmp(set->loss_type, "ipo") == 0 ? BP_PREFERENCE_IPO
                                                : kind;
}

bp_status preference_fill(const settings *set, bp_spec *spec, bp_error *error)
{
    const bp_preference_kind kind = kind_of(set);
    const bool smooths = kind == BP_PREFERENCE_SIGMOID || kind == BP_PREFERENCE_SIMPO;
    if (kind == BP_PREFERENCE_NONE) {
        return BP_OK;
    }
    spec->preference = (bp_preference){.kind = kind,
                                       .beta = set->beta,
                                       .smoothing = smooths ? set->pair_smoothing : 0.0,
                                       .gamma = set->simpo_gamma,
                                       .nll = kind == BP_PREFERENCE_ORPO    ? 1.0
                                              : kind == BP_PREFERENCE_SIMPO ? set->cpo_alpha
                                                                            : 0.0,
                                       .desirable = set->desirable,
                                       .undesirable = set->undesirable};
    const bool few = set->batch<2, many = set->batch> BP_DATA_PAIRS_BLOCK;
    if (kind == BP_PREFERENCE_KTO && (few || many)) {
        return bp_error_limit(error, BP_ERR_USAGE, "preferences",
                              "kto compares the rows of a batch with each other",
                              "--per-device-train-batch-size", (int64_t)set->batch,
                              few ? BP_LIMIT_LEAST : BP_LIMIT_MOST, few ? 2 : BP_DATA_PAIRS_BLOCK);
    }
    return BP_OK;
}

uint32_t preference_rows(const bp_spec *spec)
{
    return spec->preference.kind != BP_PREFERENCE_NONE ? 2 : 1;
}

bool preference_refers(const bp_spec *spec)
{
    const bp_preference_kind kind = spec->preference.kind;
    return kind != BP_PREFERENCE_NONE && kind != BP_PREFERENCE_ORPO && kind != BP_PREFERENCE_SIMPO;
}
