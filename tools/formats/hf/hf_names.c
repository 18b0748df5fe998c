/* SPDX-License-Identifier: MIT */
/* Matching without recursion: one star at most, so one loop over its lengths is enough. */
#include "tools/formats/hf/hf_names.h"

#include <string.h>

typedef struct span {
    const char *at;
    size_t length;
} span;

/* What the wildcards of a pattern stood for. */
typedef struct capture {
    span digits[BP_NAME_DIGITS_MAX];
    size_t digit_count;
    span star;
} capture;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Matches the pattern up to its star or end; *name moves past what was matched. */
static const char *match_plain(const char *pattern, const char **name, capture *found)
{
    while (*pattern != '\0' && *pattern != '*') {
        if (*pattern == '#') {
            const char *first = *name;
            while (is_digit(**name)) {
                ++*name;
            }
            if (*name == first || found->digit_count == BP_NAME_DIGITS_MAX) {
                return NULL;
            }
            found->digits[found->digit_count++] = (span){first, (size_t)(*name - first)};
        } else if (*pattern != **name) {
            return NULL;
        } else {
            ++*name;
        }
        pattern++;
    }
    return pattern;
}

static bool match(const char *pattern, const char *name, capture *found)
{
    *found = (capture){.digit_count = 0};
    pattern = match_plain(pattern, &name, found);
    if (pattern == NULL) {
        return false;
    }
    if (*pattern == '\0') {
        return *name == '\0';
    }
    const capture before = *found;
    size_t left = strlen(name);
    for (size_t length = 0; length <= left; length++) {
        const char *rest = name + length;
        *found = before;
        found->star = (span){name, length};
        const char *end = match_plain(pattern + 1, &rest, found);
        if (end != NULL && *end == '\0' && *rest == '\0') {
            return true;
        }
    }
    return false;
}

bool bp_name_matches(const char *pattern, const char *name)
{
    capture found;
    return match(pattern, name, &found);
}

bool bp_name_rewrite(const char *from, const char *to, const char *name, char *out, size_t room)
{
    capture found;
    size_t used = 0;
    size_t digits = 0;
    if (!match(from, name, &found)) {
        return false;
    }
    for (; *to != '\0'; to++) {
        span piece = {to, 1};
        if (*to == '#' && digits < found.digit_count) {
            piece = found.digits[digits++];
        } else if (*to == '*' && found.star.at != NULL) {
            piece = found.star;
        }
        if (piece.length >= room - used) {
            return false;
        }
        memcpy(out + used, piece.at, piece.length);
        used += piece.length;
    }
    out[used] = '\0';
    return true;
}
