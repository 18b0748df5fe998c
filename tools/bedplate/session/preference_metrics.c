/* SPDX-License-Identifier: MIT */
/* Metrics of preferences. */
#include "tools/bedplate/session/preference_metrics.h"

#include <math.h>
#include <string.h>

static double mean_of(const preference_metrics *sums, uint32_t number, uint32_t side)
{
    const double count = sums->of[BP_METRIC_COUNT + side];
    return count > 0.0 ? sums->of[number + side] / count : (double)NAN;
}

static double reward_chosen(const preference_metrics *sums)
{
    return mean_of(sums, BP_METRIC_REWARD, 0);
}

static double reward_rejected(const preference_metrics *sums)
{
    return mean_of(sums, BP_METRIC_REWARD, 1);
}

static double margin(const preference_metrics *sums)
{
    return reward_chosen(sums) - reward_rejected(sums);
}

static double accuracy(const preference_metrics *sums)
{
    const bool pairs = sums->kind != BP_PREFERENCE_KTO;
    return pairs ? sums->of[BP_METRIC_RIGHT] / sums->of[BP_METRIC_COUNT] : (double)NAN;
}

static double logp_chosen(const preference_metrics *sums)
{
    return mean_of(sums, BP_METRIC_LOGP, 0);
}

static double logp_rejected(const preference_metrics *sums)
{
    return mean_of(sums, BP_METRIC_LOGP, 1);
}

static double chosen_loss(const preference_metrics *sums)
{
    return sums->chosen_losses ? sums->of[BP_METRIC_MORE] / sums->of[BP_METRIC_COUNT] : (double)NAN;
}

static double divergence(const preference_metrics *sums)
{
    const double rows = sums->of[BP_METRIC_COUNT] + sums->of[BP_METRIC_COUNT + 1];
    return sums->kind == BP_PREFERENCE_KTO ? sums->of[BP_METRIC_MORE] / rows : (double)NAN;
}

static const struct {
    const char *name;
    double (*of)(const preference_metrics *sums);
} numbers[] = {{"rewards/accuracies", accuracy},  {"rewards/margins", margin},
               {"rewards/chosen", reward_chosen}, {"rewards/rejected", reward_rejected},
               {"logps/chosen", logp_chosen},     {"logps/rejected", logp_rejected},
               {"nll_loss", chosen_loss},         {"kl", divergence}};

enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

void preference_metrics_begin(preference_metrics *sums, const bp_spec *spec)
{
    *sums = (preference_metrics){.kind = spec->preference.kind,
                                 .chosen_losses = spec->preference.nll > 0.0};
}

void preference_metrics_add(preference_metrics *sums, const float told[BP_METRIC_NUMBERS])
{
    for (uint32_t i = 0; i < BP_METRIC_NUMBERS; i++) {
        sums->of[i] += (double)told[i];
    }
}

void preference_metrics_cut(preference_metrics *sums)
{
    memset(sums->of, 0, sizeof sums->of);
}

const char *preference_metrics_name(uint32_t index)
{
    return index < NUMBERS ? numbers[index].name : NULL;
}

double preference_metrics_value(const preference_metrics *sums, uint32_t index)
{
    return sums->kind != BP_PREFERENCE_NONE ? numbers[index].of(sums) : (double)NAN;
}

void preference_metrics_json(const preference_metrics *sums, const char *prefix, output *out)
{
    char key[40];
    for (uint32_t i = 0; i < NUMBERS; i++) {
        const double value = preference_metrics_value(sums, i);
        if (!isnan(value)) {
            snprintf(key, sizeof key, "%s%s", prefix, numbers[i].name);
            json_real(out, key, value, 9);
        }
    }
}

void preference_metrics_text(const preference_metrics *sums, bp_text *text)
{
    for (uint32_t i = 0; i < NUMBERS; i++) {
        const double value = preference_metrics_value(sums, i);
        if (!isnan(value)) {
            bp_text_string(text, ", ");
            bp_text_string(text, numbers[i].name);
            bp_text_char(text, ' ');
            bp_text_fixed(text, value, 4);
        }
    }
}
