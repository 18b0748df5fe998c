/* SPDX-License-Identifier: MIT */
/* Values of options: from text, and back to it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/app/options.h"
#include "tools/bedplate/session/policy.h"
#include "tools/bedplate/app/output.h"

/* bedplate: ORIGIN: TEXT: found F, expected W */
static bp_status options_value_wrong(const char *origin, const char *text, const char *found,
                                     const char *right)
{
    const bool none = option_same_word(found, "none", 4) || option_same_word(found, "null", 4);
    output_print(stderr, "bedplate: %s: %s: found \"%s\", expected %s%s\n", origin, text, found,
                 right, none ? ", or leave the option out" : "");
    return BP_ERR_USAGE;
}

bool option_same_word(const char *value, const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char c = value[i] >= 'A' && value[i] <= 'Z' ? (char)(value[i] - 'A' + 'a') : value[i];
        char w = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] - 'A' + 'a') : word[i];
        c = c == '_' ? '-' : c;
        w = w == '_' ? '-' : w;
        if (c != w) {
            return false;
        }
    }
    return value[length] == '\0';
}

bool option_truth(const char *word, bool *truth)
{
    static const char *const words[] = {"true",  "yes", "on",  "y", "t", "1",
                                        "false", "no",  "off", "n", "f", "0"};
    const size_t count = sizeof words / sizeof words[0];
    for (size_t i = 0; i < count; i++) {
        if (option_same_word(word, words[i], strlen(words[i]))) {
            *truth = i < count / 2;
            return true;
        }
    }
    return false;
}

bool option_is_flag(const option *which)
{
    return which->kind == OPTION_FLAG || which->kind == OPTION_MAYBE ||
           which->kind == OPTION_TEXT_MAYBE || which->kind == OPTION_POLICY ||
           (which->kind == OPTION_CHOICE && strstr(which->choices, "true") != NULL);
}

static void *slot(settings *set, const option *which)
{
    return (char *)set + which->offset;
}

static const void *slot_of(const settings *set, const option *which)
{
    return (const char *)set + which->offset;
}

static void range_text(const option *which, char *text, size_t room)
{
    bp_text range;
    bp_text_init(&range, NULL, NULL, text, room);
    bp_text_general(&range, which->least, 15);
    if (which->most >= 1e18) {
        bp_text_string(&range, " or more");
    } else {
        bp_text_string(&range, " to ");
        bp_text_general(&range, which->most, 15);
    }
    bp_status fits = bp_text_flush(&range);
    (void)fits;
}

static bp_status out_of_range(const option *which, const char *value, const char *origin)
{
    char range[64];
    range_text(which, range, sizeof range);
    return options_value_wrong(origin, "the value is out of range", value, range);
}

static bp_status set_real(const option *which, settings *set, const char *value, const char *origin)
{
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end != '\0' || !isfinite(number)) {
        return options_value_wrong(origin, "the value is not a number", value,
                                   "a number such as 0.5 or 5e-5");
    }
    if (number < which->least || number > which->most) {
        return out_of_range(which, value, origin);
    }
    memcpy(slot(set, which), &number, sizeof number);
    return BP_OK;
}

/* A number of steps, or a share of all of them. */
static bp_status set_steps(const option *which, settings *set, const char *value,
                           const char *origin)
{
    char *end;
    double number = strtod(value, &end);
    const bool is = end != value && *end == '\0' && isfinite(number);
    const bool share = is && number > 0.0 && number < 1.0;
    if (!is || (!share && floor(number) != number)) {
        return options_value_wrong(origin, "the value is not a number of steps", value,
                                   "a whole number, or below 1 a share of all steps such as 0.1");
    }
    if (!share && (number < which->least || number > which->most)) {
        return out_of_range(which, value, origin);
    }
    memcpy(slot(set, which), &number, sizeof number);
    return BP_OK;
}

/* Whether a count may be left to a search. */
static bool option_takes_auto(const option *which)
{
    return which->choices != NULL && strstr(which->choices, "|auto") != NULL;
}

static bp_status set_count(const option *which, settings *set, const char *value,
                           const char *origin)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    const uint64_t automatic = OPTION_AUTO;
    if (option_takes_auto(which) && strcmp(value, "auto") == 0) {
        memcpy(slot(set, which), &automatic, sizeof automatic);
        return BP_OK;
    }
    if (end == value || *end != '\0') {
        return options_value_wrong(origin, "the value is not a whole number", value,
                                   option_takes_auto(which) ? "a number such as 8, or auto"
                                                            : "a number such as 8");
    }
    bool inside = errno == 0 && (double)number >= which->least && (double)number <= which->most;
    if (!inside) {
        return out_of_range(which, value, origin);
    }
    int64_t whole = number;
    memcpy(slot(set, which), &whole, sizeof whole);
    return BP_OK;
}

bool option_bytes(const char *text, double *bytes)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {
        {"", 1},
        {"B", 1},
        {"KB", 1e3},
        {"MB", 1e6},
        {"GB", 1e9},
        {"TB", 1e12},
        {"K", 1024},
        {"KiB", 1024},
        {"M", 1048576},
        {"MiB", 1048576},
        {"G", 1073741824},
        {"GiB", 1073741824},
        {"T", 1099511627776.0},
        {"TiB", 1099511627776.0},
    };
    char *end;
    double number = strtod(text, &end);
    const char *unit = end + (*end == ' ' && end[1] != '\0' ? 1 : 0);
    size_t i = 0;
    size_t count = sizeof units / sizeof units[0];
    while (i < count && !option_same_word(unit, units[i].unit, strlen(units[i].unit))) {
        i++;
    }
    const bool good = end != text && i < count && isfinite(number);
    *bytes = good ? number * units[i].factor : 0.0;
    return good;
}

static bp_status set_bytes(const option *which, settings *set, const char *value,
                           const char *origin)
{
    double bytes;
    if (!option_bytes(value, &bytes)) {
        return options_value_wrong(origin, "the value is not a size", value,
                                   "a size such as 4GiB, 512MB or 2e9");
    }
    if (bytes < 0 || bytes > which->most) {
        return out_of_range(which, value, origin);
    }
    uint64_t whole = (uint64_t)bytes;
    memcpy(slot(set, which), &whole, sizeof whole);
    return BP_OK;
}

/* Numbers with units, the larger ones first by habit: 11h30m. A number alone is seconds. */
static bp_status set_time(const option *which, settings *set, const char *value, const char *origin)
{
    static const char units[] = "smhd";
    static const double factors[] = {1, 60, 3600, 86400};
    double seconds = 0;
    bool good = *value != '\0';
    for (const char *at = value; good && *at != '\0';) {
        char *end;
        const double number = strtod(at, &end);
        const char *unit = *end != '\0' ? strchr(units, *end) : units;
        /* Behind a unit a number needs one of its own: 1h30 may mean two things. */
        const bool named = *end != '\0' || at == value;
        good = end != at && isfinite(number) && number >= 0 && unit != NULL && named;
        seconds += good ? number * factors[unit - units] : 0;
        at = *end != '\0' ? end + 1 : end;
    }
    if (!good) {
        return options_value_wrong(origin, "the value is not a time", value,
                                   "a time such as 90s, 45m or 11h30m");
    }
    if (seconds < which->least || seconds > which->most) {
        return out_of_range(which, value, origin);
    }
    memcpy(slot(set, which), &seconds, sizeof seconds);
    return BP_OK;
}

static bp_status set_flag(const option *which, settings *set, const char *value, const char *origin)
{
    bool yes = false;
    if (!option_truth(value, &yes)) {
        return options_value_wrong(origin, "the value is neither true nor false", value,
                                   "true or false");
    }
    if (!yes && which->offset == offsetof(settings, fp32)) {
        return options_value_wrong(origin, "fp32 is left by naming another precision", value,
                                   "--bf16 or --fp16");
    }
    memcpy(slot(set, which), &yes, sizeof yes);
    return BP_OK;
}

/* Finds `value` among words separated by '|', - and _ alike; returns the table's own word through a
 * pointer into `choices` and its length. */
static const char *choice_find(const char *choices, const char *value, size_t *length)
{
    for (const char *word = choices; *word != '\0';) {
        *length = strcspn(word, "|");
        size_t i = 0;
        while (i < *length && value[i] != '\0' &&
               (value[i] == word[i] || (value[i] == '-' && word[i] == '_') ||
                (value[i] == '_' && word[i] == '-'))) {
            i++;
        }
        if (i == *length && value[i] == '\0') {
            return word;
        }
        word += *length;
        word += *word == '|' ? 1 : 0;
    }
    return NULL;
}

static bp_status set_choice(const option *which, settings *set, const char *value,
                            const char *origin)
{
    size_t length;
    bool yes = false;
    if (choice_find(which->choices, value, &length) == NULL && option_is_flag(which) &&
        option_truth(value, &yes)) {
        value = yes ? "true" : "false";
    }
    if (choice_find(which->choices, value, &length) == NULL) {
        return options_value_wrong(origin, "no such value", value, which->choices);
    }
    memcpy(slot(set, which), &value, sizeof value);
    return BP_OK;
}

/* A choice that is a flag too; the value is one of its words as the table spells it, up to its '|'
 * or the end: option_put cuts it there. */
static bp_status set_maybe(const option *which, settings *set, const char *value,
                           const char *origin)
{
    size_t length;
    const char *word = choice_find(which->choices, value, &length);
    bool yes = false;
    if (word == NULL && option_truth(value, &yes)) {
        word = yes ? which->choices : strrchr(which->choices, '|') + 1;
    }
    if (word == NULL) {
        return options_value_wrong(origin, "no such value", value, which->choices);
    }
    memcpy(slot(set, which), &word, sizeof word);
    return BP_OK;
}

/* transformers' flag of the same name is true or false. */
static bp_status set_policy(const option *which, settings *set, const char *value,
                            const char *origin)
{
    bool yes = false;
    const char *policy = !option_truth(value, &yes) ? value : yes ? "full" : "none";
    policy_text read;
    const char *right = policy_read(policy, &read);
    if (right != NULL) {
        return options_value_wrong(origin, "no such checkpoint policy", value, right);
    }
    memcpy(slot(set, which), &policy, sizeof policy);
    return BP_OK;
}

static bp_status set_paths(const option *which, settings *set, const char *value,
                           const char *origin)
{
    path_list *list = slot(set, which);
    if (list->count == SETTINGS_PATHS_MAX) {
        return options_value_wrong(origin, "the option is given too often", value,
                                   "at most 1024 times");
    }
    list->item[list->count++] = value;
    return BP_OK;
}

bp_status option_set(const option *which, settings *set, const char *value, const char *origin)
{
    switch (which->kind) {
    case OPTION_TIME:
        return set_time(which, set, value, origin);
    case OPTION_FLAG:
        return set_flag(which, set, value, origin);
    case OPTION_COUNT:
    case OPTION_SIGNED:
        return set_count(which, set, value, origin);
    case OPTION_BYTES:
        return set_bytes(which, set, value, origin);
    case OPTION_REAL:
        return set_real(which, set, value, origin);
    case OPTION_STEPS:
        return set_steps(which, set, value, origin);
    case OPTION_CHOICE:
        return set_choice(which, set, value, origin);
    case OPTION_MAYBE:
        return set_maybe(which, set, value, origin);
    case OPTION_POLICY:
        return set_policy(which, set, value, origin);
    case OPTION_PATHS:
    case OPTION_LIST:
        return set_paths(which, set, value, origin);
    default:
        memcpy(slot(set, which), &value, sizeof value);
        return BP_OK;
    }
}

void options_resolve_resume(settings *set)
{
    const char *from = set->resume_from;
    set->resume_auto = strncmp(set->resume_word, "auto", 4) == 0;
    set->resume = strncmp(set->resume_word, "false", 5) != 0;
    if (from == NULL || option_same_word(from, "false", 5)) {
        set->resume_from = NULL;
        return;
    }
    set->resume = true;
    set->resume_from = option_same_word(from, "true", 4) ? NULL : from;
}

void options_defaults(settings *set)
{
    memset(set, 0, sizeof *set);
    const option *which;
    for (uint32_t i = 0; (which = option_at(i)) != NULL; i++) {
        if (which->fallback != NULL &&
            option_set(which, set, which->fallback, "default") != BP_OK) {
            abort(); /* the table contradicts itself */
        }
    }
}

void option_put(bp_text *text, const option *which, const settings *set)
{
    const void *at = slot_of(set, which);
    bool flag;
    int64_t whole;
    double real;
    const char *string;
    const path_list *list;
    switch (which->kind) {
    case OPTION_FLAG:
        memcpy(&flag, at, sizeof flag);
        bp_text_string(text, flag ? "true" : "false");
        break;
    case OPTION_COUNT:
    case OPTION_SIGNED:
    case OPTION_BYTES:
        memcpy(&whole, at, sizeof whole);
        if ((uint64_t)whole == OPTION_AUTO && option_takes_auto(which)) {
            bp_text_string(text, "auto");
        } else {
            bp_text_i64(text, whole);
        }
        break;
    case OPTION_TIME:
    case OPTION_STEPS:
    case OPTION_REAL:
        memcpy(&real, at, sizeof real);
        bp_text_general(text, real, 15);
        break;
    case OPTION_MAYBE:
        memcpy(&string, at, sizeof string);
        bp_text_bytes(text, string, strcspn(string, "|"));
        break;
    case OPTION_PATHS:
        break;
    case OPTION_LIST:
        list = at;
        for (uint32_t i = 0; i < list->count; i++) {
            bp_text_string(text, i > 0 ? "; " : "");
            bp_text_string(text, list->item[i]);
        }
        break;
    default:
        memcpy(&string, at, sizeof string);
        bp_text_string(text, string != NULL ? string : "");
        break;
    }
}

static bool same_value(const option *which, const void *one, const void *other)
{
    const char *texts[2];
    switch (which->kind) {
    case OPTION_FLAG:
        return memcmp(one, other, sizeof(bool)) == 0;
    case OPTION_COUNT:
    case OPTION_SIGNED:
    case OPTION_BYTES:
    case OPTION_STEPS:
    case OPTION_REAL:
    case OPTION_TIME:
        return memcmp(one, other, sizeof(uint64_t)) == 0;
    case OPTION_PATHS:
    case OPTION_LIST:
        return ((const path_list *)one)->count == 0;
    default:
        memcpy(&texts[0], one, sizeof texts[0]);
        memcpy(&texts[1], other, sizeof texts[1]);
        return strcmp(texts[0] != NULL ? texts[0] : "", texts[1] != NULL ? texts[1] : "") == 0;
    }
}

bool option_said(const settings *set, const char *name)
{
    static settings usual;
    const option *which = option_find(name, strlen(name));
    if (which->fallback != NULL && option_set(which, &usual, which->fallback, "default") != BP_OK) {
        return true;
    }
    return option_given(set, name) &&
           !same_value(which, slot_of(set, which), slot_of(&usual, which));
}
