/* SPDX-License-Identifier: MIT */
/* Dropout masks: plain form. */
#include "device/host/elements/mask.h"

#include <string.h>

bp_mask bp_mask_make(const void *step_block, uint64_t sample, int64_t site, double dropout)
{
    const bp_step_block *step = step_block;
    return (bp_mask){.seed = step->seed,
                     .step = step->step,
                     .sample = step->sample + (uint32_t)sample,
                     .site = (uint32_t)site,
                     .threshold = bp_dropout_threshold(dropout),
                     .factor = (float)(1.0 / (1.0 - dropout))};
}

void bp_noise_fill(const bp_mask *mask, float unit, uint64_t first, uint64_t count, float *out)
{
    const uint64_t key = bp_noise_key(mask->seed);
    uint64_t i = 0;
    while (i < count) {
        uint32_t words[4];
        const uint64_t element = first + i;
        bp_dropout_words(key, mask->step, mask->sample, mask->site, element / 4, words);
        for (uint64_t part = element % 4; part < 4 && i < count; part++) {
            int32_t word; /* of the same bits */
            memcpy(&word, &words[part], sizeof word);
            out[i++] = (float)word * unit;
        }
    }
}

void bp_mask_fill(const bp_mask *mask, uint64_t first, uint64_t count, float *out)
{
    uint64_t i = 0;
    while (i < count) {
        uint32_t words[4];
        uint64_t element = first + i;
        bp_dropout_words(mask->seed, mask->step, mask->sample, mask->site, element / 4, words);
        for (uint64_t part = element % 4; part < 4 && i < count; part++) {
            out[i++] = words[part] < mask->threshold ? 0.0f : mask->factor;
        }
    }
}
