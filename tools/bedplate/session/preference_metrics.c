/* SPDX-License-Identifier: MIT */
/* Sums of what losses over pairs count. */
#include "tools/bedplate/session/preference_metrics.h"

#include "core/plan/model.h"

#include <string.h>

void preference_metrics_begin(preference_metrics *sums, const bp_spec *spec)
{
    const bool balances = spec->model->balance != NULL && spec->model->balance(spec) > 0;
    *sums =
        (preference_metrics){.kind = spec->preference.kind,
                             .balances = balances && spec->preference.kind == BP_PREFERENCE_NONE &&
                                         bp_spec_virtual_ranks(spec) == 1,
                             .chosen_losses = spec->preference.nll > 0.0};
}

void preference_metrics_add(preference_metrics *sums, const float told[BP_METRIC_NUMBERS])
{
    for (uint32_t i = 0; i < BP_METRIC_NUMBERS; i++) {
        sums->of[i] += (double)told[i];
    }
    sums->steps++;
}

void preference_metrics_cut(preference_metrics *sums)
{
    memset(sums->of, 0, sizeof sums->of);
    sums->steps = 0;
}
