/* SPDX-License-Identifier: MIT */
/* Frequencies of scaled rotary positions. */
#include "layers/nodes/rope_scaling.h"

#include <math.h>

#include "core/base/math.h"

#define TURN 6.283185307179586

/* The pair whose wave turns `turns` times over the original positions. */
static double yarn_pair(const bp_rope_scaling *s, double theta, uint64_t width, double turns)
{
    return (double)width * bp_log((double)s->original / (turns * TURN)) / (2.0 * bp_log(theta));
}

/* Frequencies below the ramp stay, those above are divided; between its ends they are mixed. */
static double yarn_share(const bp_rope_scaling *s, double theta, uint64_t width, uint64_t pair)
{
    double first = yarn_pair(s, theta, width, s->high), last = yarn_pair(s, theta, width, s->low);
    if (!s->even) {
        first = floor(first);
        last = ceil(last);
    }
    first = first > 0.0 ? first : 0.0;
    last = last < (double)width - 1.0 ? last : (double)width - 1.0;
    last += last == first ? 0.001 : 0.0;
    const double share = ((double)pair - first) / (last - first);
    return share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
}

double bp_rope_frequency(const bp_rope_scaling *s, double theta, const uint64_t width_pair[2],
                         float divisor)
{
    const uint64_t width = width_pair[0], pair = width_pair[1];
    if (s->kind == BP_ROPE_DYNAMIC && s->low > 0.0) {
        theta *= bp_pow(s->low, (double)width / ((double)width - 2.0));
    }
    const float power = (float)bp_pow(theta, 2.0 * (double)pair / (double)width);
    const double f = (double)(1.0f / power);
    switch (s->kind) {
    case BP_ROPE_LINEAR:
        return f / s->factor;
    case BP_ROPE_YARN: {
        const double share = yarn_share(s, theta, width, pair);
        return share * (f / s->factor) + (1.0 - share) * f;
    }
    case BP_ROPE_LONG:
        return (double)(1.0f / (divisor * power));
    default:
        return f;
    }
}

double bp_rope_magnitude(const bp_rope_scaling *s)
{
    if (s->magnitude > 0.0 || s->factor <= 1.0) {
        return s->magnitude > 0.0 ? s->magnitude : 1.0;
    }
    return s->kind == BP_ROPE_YARN   ? 0.1 * bp_log(s->factor) + 1.0
           : s->kind == BP_ROPE_LONG ? sqrt(1.0 + bp_log(s->factor) / bp_log((double)s->original))
                                     : 1.0;
}
