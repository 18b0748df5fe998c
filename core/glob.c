/* SPDX-License-Identifier: MIT */
/* Matching with one point of return: only the last * ever needs to take more. */
#include "core/glob.h"

bool bp_glob_match(const char *glob, const char *name)
{
    const char *star = NULL; /* behind the last * met */
    const char *from = NULL; /* where the rest after it was tried from */
    while (*name != '\0') {
        if (*glob == '*') {
            star = ++glob;
            from = name;
        } else if (*glob == '?' || *glob == *name) {
            glob++;
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
