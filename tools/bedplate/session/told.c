/* SPDX-License-Identifier: MIT */
/* What is told of pairs of rows. */
#include "tools/bedplate/session/told.h"

#include <math.h>
#include <string.h>

static double mean_of(const told_sums *sums, uint32_t number, uint32_t side)
{
    const double count = sums->of[BP_TOLD_COUNT + side];
    return count > 0.0 ? sums->of[number + side] / count : (double)NAN;
}

static double reward_chosen(const told_sums *sums)
{
    return mean_of(sums, BP_TOLD_REWARD, 0);
}

static double reward_rejected(const told_sums *sums)
{
    return mean_of(sums, BP_TOLD_REWARD, 1);
}

static double margin(const told_sums *sums)
{
    return reward_chosen(sums) - reward_rejected(sums);
}

static double accuracy(const told_sums *sums)
{
    const bool pairs = sums->kind != BP_PREFERENCE_KTO;
    return pairs ? sums->of[BP_TOLD_RIGHT] / sums->of[BP_TOLD_COUNT] : (double)NAN;
}

static double logp_chosen(const told_sums *sums)
{
    return mean_of(sums, BP_TOLD_LOGP, 0);
}

static double logp_rejected(const told_sums *sums)
{
    return mean_of(sums, BP_TOLD_LOGP, 1);
}

static double chosen_loss(const told_sums *sums)
{
    return sums->chosen_losses ? sums->of[BP_TOLD_MORE] / sums->of[BP_TOLD_COUNT] : (double)NAN;
}

static double divergence(const told_sums *sums)
{
    const double rows = sums->of[BP_TOLD_COUNT] + sums->of[BP_TOLD_COUNT + 1];
    return sums->kind == BP_PREFERENCE_KTO ? sums->of[BP_TOLD_MORE] / rows : (double)NAN;
}

static const struct {
    const char *name;
    double (*of)(const told_sums *sums);
} numbers[] = {{"rewards/accuracies", accuracy},  {"rewards/margins", margin},
               {"rewards/chosen", reward_chosen}, {"rewards/rejected", reward_rejected},
               {"logps/chosen", logp_chosen},     {"logps/rejected", logp_rejected},
               {"nll_loss", chosen_loss},         {"kl", divergence}};

enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

void told_begin(told_sums *sums, const bp_spec *spec)
{
    *sums = (told_sums){.kind = spec->preference.kind, .chosen_losses = spec->preference.nll > 0.0};
}

void told_add(told_sums *sums, const float told[BP_TOLD_NUMBERS])
{
    for (uint32_t i = 0; i < BP_TOLD_NUMBERS; i++) {
        sums->of[i] += (double)told[i];
    }
}

void told_cut(told_sums *sums)
{
    memset(sums->of, 0, sizeof sums->of);
}

const char *told_name(uint32_t index)
{
    return index < NUMBERS ? numbers[index].name : NULL;
}

double told_value(const told_sums *sums, uint32_t index)
{
    return sums->kind != BP_PREFERENCE_NONE ? numbers[index].of(sums) : (double)NAN;
}

void told_json(const told_sums *sums, const char *prefix, output *out)
{
    char key[40];
    for (uint32_t i = 0; i < NUMBERS; i++) {
        const double value = told_value(sums, i);
        if (!isnan(value)) {
            snprintf(key, sizeof key, "%s%s", prefix, numbers[i].name);
            json_real(out, key, value, 9);
        }
    }
}

void told_text(const told_sums *sums, bp_text *text)
{
    for (uint32_t i = 0; i < NUMBERS; i++) {
        const double value = told_value(sums, i);
        if (!isnan(value)) {
            bp_text_string(text, ", ");
            bp_text_string(text, numbers[i].name);
            bp_text_char(text, ' ');
            bp_text_fixed(text, value, 4);
        }
    }
}
