/* SPDX-License-Identifier: MIT */
/* Sound of another rate at 16000 samples a second: sums of samples times a sinc below half of the
 * lower rate, under a Hann window of BP_SOUND_RATE_ZEROS of its zeros on each side. */
#ifndef BP_FORMATS_SOUND_RATE_H
#define BP_FORMATS_SOUND_RATE_H

#include "arena/base.h"

#define BP_SOUND_RATE_ZEROS 24
#define BP_SOUND_RATE_TAPS  131072 /* weights of a rate, of all its phases */

/* The weights of a rate. */
typedef struct bp_sound_rate {
    uint32_t from; /* samples a second; 0: none yet */
    uint32_t up;   /* `up` samples are made of `down` */
    uint32_t down;
    uint32_t reach; /* samples that count on each side */
    double weight[BP_SOUND_RATE_TAPS];
} bp_sound_rate;

/* Makes the weights of a rate. false: they are more than BP_SOUND_RATE_TAPS. */
bool bp_sound_rate_begin(bp_sound_rate *rate, uint32_t from);

/* Samples that are made of `count`. */
uint64_t bp_sound_rate_count(const bp_sound_rate *rate, uint64_t count);

/* Sample number `index` of those made of x, `count` samples; beyond its ends there is silence. */
float bp_sound_rate_at(const bp_sound_rate *rate, const float *x, uint64_t count, uint64_t index);

#endif
