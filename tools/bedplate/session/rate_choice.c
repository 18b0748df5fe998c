/* SPDX-License-Identifier: MIT */
/* Schedules by name with their numbers, as transformers' get_scheduler takes them. */
#include "tools/bedplate/session/rate_choice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/number.h"
#include "optim/rate.h"
#include "tools/bedplate/app/options.h"
#include "tools/bedplate/app/output.h"

#define LR_END_DEFAULT 1e-7 /* transformers' for polynomial */

/* What a number of a schedule may be. */
typedef enum number_range {
    RANGE_POSITIVE,
    RANGE_WHOLE, /* from 1 on */
    RANGE_STEPS, /* the same, as a uint64_t */
    RANGE_RATE,  /* from 0 to below the peak */
    RANGE_SHARE  /* of the peak, below 1 */
} number_range;

typedef struct rate_number {
    const char *key;
    const char *schedule;
    number_range range;
    size_t offset; /* in bp_rate_options, of a double, or of a uint64_t for RANGE_STEPS */
} rate_number;

#define AT(member) offsetof(bp_rate_options, member)

static const rate_number numbers[] = {
    {"num_cycles", "cosine", RANGE_POSITIVE, AT(cycles)},
    {"min_lr", "cosine", RANGE_RATE, AT(minimum)},
    {"min_lr_rate", "cosine", RANGE_SHARE, AT(minimum)},
    {"num_cycles", "cosine_with_restarts", RANGE_WHOLE, AT(cycles)},
    {"power", "polynomial", RANGE_POSITIVE, AT(power)},
    {"lr_end", "polynomial", RANGE_RATE, AT(minimum)},
    {"timescale", "inverse_sqrt", RANGE_WHOLE, AT(timescale)},
    {"num_decay_steps", "warmup_stable_decay", RANGE_STEPS, AT(decay_steps)},
    {"min_lr_ratio", "warmup_stable_decay", RANGE_SHARE, AT(minimum)},
};

enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static const char *const range_words[] = {
    [RANGE_POSITIVE] = "a number above 0",
    [RANGE_WHOLE] = "a whole number of at least 1",
    [RANGE_STEPS] = "a whole number of at least 1",
    [RANGE_RATE] = "a rate from 0 to below --learning-rate",
    [RANGE_SHARE] = "a share of --learning-rate from 0 to below 1",
};

static bp_status rate_wrong(const char *text, const char *found, size_t length, const char *right)
{
    output_print(stderr, "bedplate: --lr-scheduler-kwargs: %s: found \"%.*s\", expected %s\n", text,
                 (int)length, found, right);
    return BP_ERR_USAGE;
}

/* No such key: says which ones the schedule has. */
static bp_status no_number(bp_rate rate, const char *key, size_t length)
{
    char right[128] = "";
    for (size_t i = 0; i < NUMBERS; i++) {
        if (bp_rate_find(numbers[i].schedule) == rate) {
            const size_t used = strlen(right);
            snprintf(right + used, sizeof right - used, "%s%s", used > 0 ? " or " : "",
                     numbers[i].key);
        }
    }
    return rate_wrong("the schedule has no such number", key, length,
                      right[0] != '\0' ? right : "nothing: this schedule has none");
}

static const rate_number *rate_number_find(bp_rate rate, const char *key, size_t length)
{
    for (size_t i = 0; i < NUMBERS; i++) {
        if (strlen(numbers[i].key) == length && memcmp(numbers[i].key, key, length) == 0 &&
            bp_rate_find(numbers[i].schedule) == rate) {
            return &numbers[i];
        }
    }
    return NULL;
}

static bool in_range(number_range range, double value, const bp_rate_options *options)
{
    switch (range) {
    case RANGE_WHOLE:
    case RANGE_STEPS:
        return value >= 1.0 && value <= 1e15 && floor(value) == value;
    case RANGE_RATE:
        return value >= 0.0 && value < options->learning_rate;
    case RANGE_SHARE:
        return value >= 0.0 && value < 1.0;
    default:
        return value > 0.0 && value <= 1e5;
    }
}

/* Blanks, quotes and braces only make the text JSON: {"power": 2} is power=2. */
static const char *past_marks(const char *at)
{
    return at + strspn(at, " \t\"'{}");
}

/* One KEY=VALUE or "KEY": VALUE; *text moves behind it and its comma. */
static bp_status take_number(const char **text, bp_rate rate, bp_rate_options *options)
{
    const char *key = *text;
    const size_t length = strcspn(key, " \t\"'{}=:,");
    const char *at = past_marks(key + length);
    if (*at != '=' && *at != ':') {
        return rate_wrong("a key without a value", key, length, "KEY=VALUE,.. or {\"KEY\": VALUE}");
    }
    const char *value = past_marks(at + 1);
    const size_t size = strcspn(value, " \t\"'{},");
    const rate_number *row = rate_number_find(rate, key, length);
    bp_number number;
    if (row == NULL) {
        return no_number(rate, key, length);
    }
    if (bp_number_parse(value, size, &number) != BP_OK ||
        !in_range(row->range, number.real, options)) {
        return rate_wrong(row->key, value, size, range_words[row->range]);
    }
    number.real *= row->range == RANGE_SHARE ? options->learning_rate : 1.0;
    const uint64_t steps = (uint64_t)number.real;
    char *to = (char *)options + row->offset;
    if (row->range == RANGE_STEPS) {
        memcpy(to, &steps, sizeof steps);
    } else {
        memcpy(to, &number.real, sizeof number.real);
    }
    at = past_marks(value + size);
    at = past_marks(at + (*at == ',' ? 1 : 0));
    *text = at;
    return BP_OK;
}

/* transformers demands a least rate of this one, which is else cosine. */
static bp_status rate_least(const settings *set)
{
    static const char name[] = "cosine_with_min_lr";
    const char *numbers_given = set->rate_numbers != NULL ? set->rate_numbers : "";
    if (option_same_word(set->scheduler, name, sizeof name - 1) && !option_given(set, "min-lr") &&
        strstr(numbers_given, "min_lr") == NULL) {
        output_print(stderr,
                     "bedplate: --lr-scheduler-type: the least rate is missing: found \"%s\", "
                     "expected --min-lr F with it\n",
                     name);
        return BP_ERR_USAGE;
    }
    return BP_OK;
}

/* The schedule's own numbers; the rest of the options is there. */
static bp_status take_numbers(const settings *set, bp_rate rate, bp_rate_options *options)
{
    BP_TRY(rate_least(set));
    if (rate == bp_rate_polynomial && !option_given(set, "min-lr")) {
        options->minimum = LR_END_DEFAULT;
    }
    const char *at = past_marks(set->rate_numbers != NULL ? set->rate_numbers : "");
    while (*at != '\0') {
        BP_TRY(take_number(&at, rate, options));
    }
    if (rate == bp_rate_polynomial && !(options->minimum < options->learning_rate)) {
        output_print(
            stderr,
            "bedplate: --learning-rate: too low for where a polynomial schedule ends: found "
            "%g, expected more than %g\n",
            options->learning_rate, options->minimum);
        return BP_ERR_USAGE;
    }
    return BP_OK;
}

bp_status rate_check(const settings *set)
{
    bp_rate_options options = {.learning_rate = set->learning_rate, .minimum = set->minimum_rate};
    return take_numbers(set, bp_rate_find(set->scheduler), &options);
}

/* --warmup-steps where it is not 0, else --warmup-ratio: as transformers has it. */
static uint64_t warmup_steps(const settings *set, uint64_t total)
{
    if (set->warmup >= 1.0) {
        return (uint64_t)set->warmup;
    }
    return (uint64_t)ceil((set->warmup > 0.0 ? set->warmup : set->warmup_ratio) * (double)total);
}

bp_status rate_fill(const settings *set, uint64_t total, bp_spec *spec)
{
    spec->rate = bp_rate_find(set->scheduler);
    spec->rate_options = (bp_rate_options){.learning_rate = set->learning_rate,
                                           .minimum = set->minimum_rate,
                                           .warmup_steps = warmup_steps(set, total),
                                           .total_steps = total};
    return take_numbers(set, spec->rate, &spec->rate_options);
}
