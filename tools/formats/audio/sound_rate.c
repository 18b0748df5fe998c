/* SPDX-License-Identifier: MIT */
/* Sound of another rate. */
#include "tools/formats/audio/sound_rate.h"

#include <string.h>

#include "core/base/math.h"
#include "tools/formats/audio/log_mel.h"

#define PI 3.141592653589793238462643383279502884

static uint32_t sound_rate_common(uint32_t a, uint32_t b)
{
    while (b != 0) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* sin(pi x) / (pi x) */
static double sound_rate_sinc(double x)
{
    return x < 1e-9 && x > -1e-9 ? 1.0 : bp_sin(PI * x) / (PI * x);
}

bool bp_sound_rate_begin(bp_sound_rate *rate, uint32_t from)
{
    const uint32_t common = sound_rate_common(from, BP_MEL_RATE);
    const uint32_t up = BP_MEL_RATE / common, down = from / common;
    const double scale = up < down ? (double)up / down : 1.0; /* of the lower rate to `from` */
    const uint64_t reach = (uint64_t)(BP_SOUND_RATE_ZEROS / scale) + 1, taps = 2 * reach;
    if (reach > BP_SOUND_RATE_TAPS || taps * up > BP_SOUND_RATE_TAPS) {
        return false;
    }
    if (rate->from == from) {
        return true;
    }
    *rate = (bp_sound_rate){.from = from, .up = up, .down = down, .reach = (uint32_t)reach};
    for (uint32_t phase = 0; phase < up; phase++) {
        double *weight = rate->weight + phase * taps, sum = 0.0;
        for (uint64_t i = 0; i < taps; i++) {
            /* from the sample at or before the place to each of its neighbours */
            const double x = ((double)i - (double)(reach - 1) - (double)phase / up) * scale;
            const double inside = x / BP_SOUND_RATE_ZEROS;
            const bool counts = inside > -1.0 && inside < 1.0;
            weight[i] =
                counts ? sound_rate_sinc(x) * (0.5 + 0.5 * bp_cos(PI * inside)) * scale : 0.0;
            sum += weight[i];
        }
        for (uint64_t i = 0; i < taps; i++) {
            weight[i] /= sum; /* a level stays what it is */
        }
    }
    return true;
}

uint64_t bp_sound_rate_count(const bp_sound_rate *rate, uint64_t count)
{
    return bp_size_mul(count, rate->up) / rate->down +
           (bp_size_mul(count, rate->up) % rate->down != 0 ? 1 : 0);
}

float bp_sound_rate_at(const bp_sound_rate *rate, const float *x, uint64_t count, uint64_t index)
{
    const uint64_t place = index * rate->down, taps = 2 * (uint64_t)rate->reach;
    const uint64_t at = place / rate->up;
    const double *weight = rate->weight + place % rate->up * taps;
    double sum = 0.0;
    for (uint64_t i = 0; i < taps; i++) {
        const uint64_t behind = at + i + 1; /* number of the sample, plus reach */
        if (behind >= rate->reach && behind - rate->reach < count) {
            sum += weight[i] * (double)x[behind - rate->reach];
        }
    }
    return (float)sum;
}
