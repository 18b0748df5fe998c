/* SPDX-License-Identifier: MIT */
/* Matching with one point of return: only the last * ever needs to take more. */
#include "core/base/glob.h"

#include <string.h>

/* Whether c is in the set that begins behind a '['; *end becomes what follows its ']', NULL when
 * there is none. A ']' that comes first is a member. */
static bool in_set(const char *set, char c, const char **end)
{
    bool not = *set == '!' || *set == '^';
    bool found = false;
    const char *at = not ? set + 1 : set;
    *end = NULL;
    do {
        if (*at == '\0') {
            return false;
        }
        bool range = at[1] == '-' && at[2] != ']' && at[2] != '\0';
        char last = range ? at[2] : at[0];
        found = found || (at[0] <= c && c <= last);
        at += range ? 3 : 1;
    } while (*at != ']');
    *end = at + 1;
    return found != not ;
}

/* Matches one character; the rest of the pattern, or NULL. */
static const char *match_one(const char *glob, char c)
{
    const char *end = NULL;
    if (*glob == '[') {
        bool in = in_set(glob + 1, c, &end);
        if (end != NULL) {
            return in ? end : NULL;
        }
    }
    return *glob == '?' || *glob == c ? glob + 1 : NULL;
}

/* Whether a part of the name between dots, and not its last one, is the module. */
static bool in_module(const char *module, const char *name)
{
    const size_t length = strlen(module);
    for (const char *at = name; at != NULL; at = strchr(at, '.')) {
        at += *at == '.' ? 1 : 0;
        if (strncmp(at, module, length) == 0 && at[length] == '.') {
            return true;
        }
    }
    return false;
}

bool bp_glob_match(const char *glob, const char *name)
{
    if (*glob == '@') {
        return in_module(glob + 1, name);
    }
    const char *star = NULL; /* behind the last * met */
    const char *from = NULL; /* where the rest after it was tried from */
    while (*name != '\0') {
        if (*glob == '*') {
            star = ++glob;
            from = name;
            continue;
        }
        const char *rest = *glob != '\0' ? match_one(glob, *name) : NULL;
        if (rest != NULL) {
            glob = rest;
            name++;
        } else if (star != NULL) {
            glob = star;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*glob == '*') {
        glob++;
    }
    return *glob == '\0';
}
