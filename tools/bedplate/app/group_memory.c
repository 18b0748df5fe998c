/* SPDX-License-Identifier: MIT */
/* Both versions of control groups. */
#include "tools/bedplate/app/group_memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define GROUP_PATH_MAX 4096
#define GROUP_NO_LIMIT ((uint64_t)1 << 62) /* what the first version says without a limit */

/* What a version calls its files. */
typedef struct group_names {
    const char *place, *limit, *usage;
    const char *files[2]; /* of memory.stat */
} group_names;

static const group_names first = {"/memory",
                                  "memory.limit_in_bytes",
                                  "memory.usage_in_bytes",
                                  {"total_inactive_file", "total_active_file"}};
static const group_names second = {
    "", "memory.max", "memory.current", {"inactive_file", "active_file"}};

static FILE *group_open(const char *folder, const char *name)
{
    char path[2 * GROUP_PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path ? fopen(path, "r") : NULL;
}

/* False where there is no such file, or a word ("max"). */
static bool group_number(const char *folder, const char *name, uint64_t *value)
{
    FILE *file = group_open(folder, name);
    const bool is = file != NULL && fscanf(file, "%" SCNu64, value) == 1;
    if (file != NULL) {
        fclose(file);
    }
    return is;
}

/* Pages of files are given up before anybody is ended. */
static uint64_t group_files(const char *folder, const group_names *names)
{
    FILE *file = group_open(folder, "memory.stat");
    char key[64];
    uint64_t value, sum = 0;
    while (file != NULL && fscanf(file, "%63s %" SCNu64, key, &value) == 2) {
        const bool counts = strcmp(key, names->files[0]) == 0 || strcmp(key, names->files[1]) == 0;
        sum += counts ? value : 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return sum;
}

/* The kernel counts pages anew for memory.stat, so that is read only where it decides. */
static uint64_t group_left(const char *folder, const group_names *names, uint64_t enough)
{
    uint64_t limit, usage;
    if (!group_number(folder, names->limit, &limit) || limit >= GROUP_NO_LIMIT ||
        !group_number(folder, names->usage, &usage)) {
        return UINT64_MAX;
    }
    uint64_t left = limit > usage ? limit - usage : 0;
    if (left < enough) {
        const uint64_t files = group_files(folder, names);
        usage -= files < usage ? files : usage;
        left = limit > usage ? limit - usage : 0;
    }
    return left;
}

/* A group and those around it; in a container that sees its own part of the tree alone, the last of
 * these. */
static uint64_t group_least(const char *root, const group_names *names, char *group,
                            uint64_t enough)
{
    char folder[GROUP_PATH_MAX];
    uint64_t least = UINT64_MAX;
    for (;;) {
        const int length = snprintf(folder, sizeof folder, "%s%s%s", root, names->place, group);
        const uint64_t left = length > 0 && (size_t)length < sizeof folder
                                  ? group_left(folder, names, enough)
                                  : UINT64_MAX;
        char *end = strrchr(group, '/');
        least = left < least ? left : least;
        if (end == NULL) {
            return least;
        }
        *end = '\0';
    }
}

/* Whether a list of controllers, with commas, has that of memory. */
static bool group_counts(const char *list)
{
    static const char word[] = "memory";
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        const size_t length = strcspn(at, ",");
        if (length == sizeof word - 1 && memcmp(at, word, length) == 0) {
            return true;
        }
    }
    return false;
}

uint64_t group_memory_available(const char *groups, const char *root, uint64_t enough)
{
    FILE *file = fopen(groups, "r");
    char line[GROUP_PATH_MAX];
    uint64_t least = UINT64_MAX;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *list = strchr(line, ':');
        char *group = list != NULL ? strchr(list + 1, ':') : NULL;
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        list++;
        if (list[0] != '\0' && !group_counts(list)) {
            continue;
        }
        const uint64_t left = group_least(root, list[0] == '\0' ? &second : &first, group, enough);
        least = left < least ? left : least;
    }
    if (file != NULL) {
        fclose(file);
    }
    return least;
}
