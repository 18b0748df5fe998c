/* SPDX-License-Identifier: MIT */
/* Learning-rate schedules. */
#include "optim/rate.h"

#include <math.h>

#include "core/base/math.h"

#define PI                3.14159265358979323846
#define TIMESCALE_DEFAULT 10000.0

/* A part of the way from 0 to 1; 1 from `steps` on. */
static double part(uint64_t step, uint64_t steps)
{
    return step < steps ? (double)step / (double)steps : 1.0;
}

static double between(double minimum, double peak, double factor)
{
    return minimum + (peak - minimum) * factor;
}

/* How much of the decay, which runs from warmup_steps to total_steps, is over at a step that is not
 * in the warm-up. */
static double decay_part(const bp_rate_options *options, uint64_t step)
{
    const uint64_t warmup = options->warmup_steps;
    const uint64_t steps = options->total_steps > warmup ? options->total_steps - warmup : 0;
    return part(step - warmup, steps);
}

static double half_cosine(double progress)
{
    return 0.5 * (1.0 + bp_cos(PI * progress));
}

static double rate_or(double given, double usual)
{
    return given > 0.0 ? given : usual;
}

double bp_rate_constant(const bp_rate_options *options, uint64_t step)
{
    return options->learning_rate * part(step, options->warmup_steps);
}

double bp_rate_linear(const bp_rate_options *options, uint64_t step)
{
    if (step < options->warmup_steps) {
        return bp_rate_constant(options, step);
    }
    return between(options->minimum, options->learning_rate, 1.0 - decay_part(options, step));
}

double bp_rate_cosine(const bp_rate_options *options, uint64_t step)
{
    if (step < options->warmup_steps) {
        return bp_rate_constant(options, step);
    }
    const double halves = 2.0 * rate_or(options->cycles, 0.5);
    return between(options->minimum, options->learning_rate,
                   half_cosine(halves * decay_part(options, step)));
}

double bp_rate_cosine_with_restarts(const bp_rate_options *options, uint64_t step)
{
    if (step < options->warmup_steps) {
        return bp_rate_constant(options, step);
    }
    const double progress = decay_part(options, step);
    const double way = rate_or(options->cycles, 1.0) * progress;
    return between(options->minimum, options->learning_rate,
                   progress < 1.0 ? half_cosine(way - floor(way)) : 0.0);
}

double bp_rate_polynomial(const bp_rate_options *options, uint64_t step)
{
    if (step < options->warmup_steps) {
        return bp_rate_constant(options, step);
    }
    const double left = 1.0 - decay_part(options, step);
    return between(options->minimum, options->learning_rate,
                   left > 0.0 ? bp_pow(left, rate_or(options->power, 1.0)) : 0.0);
}

double bp_rate_inverse_sqrt(const bp_rate_options *options, uint64_t step)
{
    const uint64_t warmup = options->warmup_steps;
    if (step < warmup) {
        return bp_rate_constant(options, step);
    }
    const double scale =
        rate_or(options->timescale, warmup > 0 ? (double)warmup : TIMESCALE_DEFAULT);
    return options->learning_rate / sqrt(((double)(step - warmup) + scale) / scale);
}

double bp_rate_warmup_stable_decay(const bp_rate_options *options, uint64_t step)
{
    if (step < options->warmup_steps) {
        return between(options->minimum, options->learning_rate, part(step, options->warmup_steps));
    }
    const uint64_t decay =
        options->decay_steps != 0 ? options->decay_steps : options->total_steps / 10;
    const uint64_t start = options->total_steps > decay ? options->total_steps - decay : 0;
    if (step < start) {
        return options->learning_rate;
    }
    /* A warm-up that reaches into the last phase pushes it back: decay begins where warm-up ends.
     */
    const uint64_t first = start > options->warmup_steps ? start : options->warmup_steps;
    return between(options->minimum, options->learning_rate,
                   half_cosine(part(step - first, decay)));
}

static const struct {
    const char *name;
    bp_rate rate;
} schedules[] = {{"constant", bp_rate_constant},
                 {"constant_with_warmup", bp_rate_constant},
                 {"linear", bp_rate_linear},
                 {"cosine", bp_rate_cosine},
                 {"cosine_with_min_lr", bp_rate_cosine},
                 {"cosine_with_restarts", bp_rate_cosine_with_restarts},
                 {"polynomial", bp_rate_polynomial},
                 {"inverse_sqrt", bp_rate_inverse_sqrt},
                 {"warmup_stable_decay", bp_rate_warmup_stable_decay}};

#define SCHEDULE_COUNT (sizeof(schedules) / sizeof(schedules[0]))

static bool rate_same_name(const char *known, const char *name)
{
    size_t i = 0;
    while (known[i] != '\0' && known[i] == (name[i] == '-' ? '_' : name[i])) {
        i++;
    }
    return known[i] == name[i];
}

bp_rate bp_rate_find(const char *name)
{
    for (size_t i = 0; i < SCHEDULE_COUNT; i++) {
        if (rate_same_name(schedules[i].name, name)) {
            return schedules[i].rate;
        }
    }
    return NULL;
}

const char *bp_rate_name(uint32_t index)
{
    return index < SCHEDULE_COUNT ? schedules[index].name : NULL;
}
