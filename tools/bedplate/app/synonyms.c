/* SPDX-License-Identifier: MIT */
/* Names and values of other programs become ours. */
#include "tools/bedplate/app/synonyms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bedplate/app/output.h"

enum { POOL_BYTES = 16384 };

/* Values that were translated: settings point to them for the life of the program. */
static char pool[POOL_BYTES];
static size_t pool_used;

static const char *synonym_keep(const char *text, size_t length)
{
    if (length >= sizeof pool - pool_used) {
        return NULL;
    }
    char *kept = pool + pool_used;
    memcpy(kept, text, length);
    kept[length] = '\0';
    pool_used += length + 1;
    return kept;
}

static bool synonym_matches(const char *other, const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const char c = name[i] == '_' && i > 0 ? '-' : name[i];
        if (other[i] == '*' && other[i + 1] == '\0') {
            return true;
        }
        if (c != other[i]) {
            return false;
        }
    }
    return other[length] == '\0' || strcmp(other + length, "*") == 0;
}

bool synonym_applies(const synonym *row, unsigned commands)
{
    const option *which = row->name != NULL ? option_find(row->name, strlen(row->name)) : NULL;
    unsigned own = row->commands;
    if (own == 0) {
        own = which != NULL ? which->commands : ~0u;
    }
    return (own & commands) != 0;
}

const synonym *synonym_find(const char *name, size_t length, unsigned commands)
{
    const synonym *row;
    const bool own = option_find(name, length) != NULL;
    for (uint32_t i = 0; (row = synonym_at(i)) != NULL; i++) {
        const bool family = strchr(row->other, '*') != NULL;
        if (!(own && family) && synonym_matches(row->other, name, length) &&
            synonym_applies(row, commands)) {
            return row;
        }
    }
    return NULL;
}

/* Finds a value among THEIRS=OURS|..; *ours and *length are what it becomes. A `*` is any other. */
static bool synonym_look(const char *values, const char *value, const char **ours, size_t *length)
{
    for (const char *at = values; *at != '\0';) {
        const size_t whole = strcspn(at, "|");
        const size_t theirs = strcspn(at, "=|");
        if (theirs < whole && option_same_word(value, at, theirs)) {
            *ours = at + theirs + 1;
            *length = whole - theirs - 1;
            return true;
        }
        if (whole == 1 && *at == '*') {
            *ours = value;
            *length = strlen(value);
            return true;
        }
        at += whole;
        at += *at == '|' ? 1 : 0;
    }
    return false;
}

bool synonym_is_flag(const synonym *row)
{
    const char *at = row->values;
    while (at != NULL && strncmp(at, "true=", 5) != 0) {
        const char *bar = strchr(at, '|');
        at = bar != NULL ? bar + 1 : NULL;
    }
    return at != NULL;
}

/* A truth in other words, such as 1 or yes, where the values are true and false. */
static const char *synonym_truth(const synonym *row, const char *value)
{
    bool truth;
    return synonym_is_flag(row) && option_truth(value, &truth) ? (truth ? "true" : "false") : value;
}

/* A module becomes the pattern of its parameters. */
static bp_status synonym_module(const char *value, const char **ours)
{
    char glob[256];
    const int length = snprintf(glob, sizeof glob, "@%s", value);
    *ours = length > 0 && (size_t)length < sizeof glob ? synonym_keep(glob, (size_t)length) : NULL;
    return *ours != NULL ? BP_OK : BP_ERR_USAGE;
}

static bp_status synonym_percent(const char *value, const char *origin, const char **ours)
{
    char text[32];
    char *end;
    const double number = strtod(value, &end);
    if (end == value || *end != '\0' || !(number >= 0.0 && number <= 100.0)) {
        output_print(stderr, "bedplate: %s: not a percentage: found \"%s\", expected 0 to 100\n",
                     origin, value);
        return BP_ERR_USAGE;
    }
    const int length = snprintf(text, sizeof text, "%.15g", number / 100.0);
    *ours = synonym_keep(text, (size_t)length);
    return *ours != NULL ? BP_OK : BP_ERR_USAGE;
}

/* The words of a closed list of values that are taken, or all where each is only answered. */
static void synonym_expected(const char *values)
{
    const char *between = "";
    bool answered = true;
    for (const char *at = values; answered && at != NULL; at = strchr(at, '|')) {
        at += *at == '|' ? 1 : 0;
        const size_t theirs = strcspn(at, "=|");
        answered = at[theirs] == '=' && at[theirs + 1] == '!';
    }
    for (const char *at = values; *at != '\0';) {
        const size_t whole = strcspn(at, "|");
        const size_t theirs = strcspn(at, "=|");
        if (theirs + 1 < whole && (answered || at[theirs + 1] != '!')) {
            output_print(stderr, "%s%.*s", between, (int)theirs, at);
            between = ", ";
        }
        at += whole;
        at += *at == '|' ? 1 : 0;
    }
    output_print(stderr, "\n");
}

bp_status synonym_value(const synonym *row, const char *value, const char *origin,
                        const option **which, const char **ours)
{
    const char *found;
    size_t length;
    *which = option_find(row->name, strlen(row->name));
    *ours = value;
    if (row->values == NULL) {
        return BP_OK;
    }
    if (strcmp(row->values, SYNONYM_MODULES) == 0) {
        return synonym_module(value, ours);
    }
    if (strcmp(row->values, SYNONYM_PERCENT) == 0) {
        return synonym_percent(value, origin, ours);
    }
    if (!synonym_look(row->values, value, &found, &length) &&
        !synonym_look(row->values, synonym_truth(row, value), &found, &length)) {
        output_print(stderr, "bedplate: %s: no such value: found \"%s\", expected ", origin, value);
        synonym_expected(row->values);
        return BP_ERR_USAGE;
    }
    if (found[0] == '!') {
        output_print(stderr, "bedplate: %s: found \"%s\": %.*s\n", origin, value, (int)length - 1,
                     found + 1);
        return BP_ERR_USAGE;
    }
    if (length > 2 && found[0] == '-' && found[1] == '-') {
        *which = option_find(found + 2, length - 2);
        *ours = "true";
        return BP_OK;
    }
    *ours = found == value ? value : synonym_keep(found, length);
    return *ours != NULL ? BP_OK : BP_ERR_USAGE;
}
