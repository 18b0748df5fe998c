/* SPDX-License-Identifier: MIT */
/* Files without a name. O_TMPFILE is Linux's own, hence the macro. */
#define _GNU_SOURCE
#include "tools/bedplate/app/temporary.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char temporary_open[] = "/proc/self/fd/";
static const char temporary_name[] = "bedplate-XXXXXX";
/* Of folders: what is removed later is known by it and by the names inside, for somebody else's
 * mktemp may call a folder bedplate-XXXXXX as well. */
static const char temporary_folder[] = "bedplate-tokens-XXXXXX";
static const char *const temporary_contents[] = {".tokens", ".packed"};

enum { TEMPORARY_YOUNG = 60 /* seconds: its maker may not have locked it yet */ };

bp_status temporary_make(const char *folder, char path[BP_STORE_PATH_MAX], bp_error *error)
{
    int file = -1;
    const bool paths = access(temporary_open, X_OK) == 0;
    const int length = snprintf(path, BP_STORE_PATH_MAX, "%s/%s", folder, temporary_name);
    if (paths) {
        file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    }
    if (file < 0 && length > 0 && length < BP_STORE_PATH_MAX) {
        file = mkstemp(path); /* not every file system has files without a name */
        if (file >= 0 && paths) {
            (void)unlink(path);
        }
    }
    if (file < 0) {
        return bp_error_set(error, BP_ERR_STORE, "temporary",
                            "a file for a while cannot be made there", folder);
    }
    if (paths) {
        (void)fcntl(file, F_SETFD, FD_CLOEXEC);
        snprintf(path, BP_STORE_PATH_MAX, "%s%d", temporary_open, file);
    } else {
        (void)close(file); /* nothing was written */
    }
    return BP_OK;
}

void temporary_end(const char *path)
{
    const size_t length = sizeof temporary_open - 1;
    if (strncmp(path, temporary_open, length) == 0) {
        (void)close((int)strtol(path + length, NULL, 10)); /* what others read of it was written */
    } else {
        (void)unlink(path);
    }
}

static bool temporary_is_ours(const char *name)
{
    bool ours = false;
    for (size_t i = 0; i < sizeof temporary_contents / sizeof temporary_contents[0]; i++) {
        ours = ours || strstr(name, temporary_contents[i]) != NULL;
    }
    return ours;
}

/* A folder that nobody holds any more: its files of tokens go, and itself if nothing else is in it.
 */
static void temporary_clean_one(int folder, const char *name)
{
    struct stat about;
    struct dirent *entry;
    const int at = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const bool left = at >= 0 && fstat(at, &about) == 0 && about.st_uid == geteuid() &&
                      (about.st_mode & 0777) == 0700 &&
                      about.st_mtim.tv_sec + TEMPORARY_YOUNG < time(NULL) &&
                      flock(at, LOCK_EX | LOCK_NB) == 0;
    DIR *list = left ? fdopendir(at) : NULL;
    if (list == NULL) {
        (void)(at >= 0 ? close(at) : 0);
        return;
    }
    while ((entry = readdir(list)) != NULL) {
        if (temporary_is_ours(entry->d_name)) {
            (void)unlinkat(at, entry->d_name, 0);
        }
    }
    (void)unlinkat(folder, name, AT_REMOVEDIR);
    (void)closedir(list);
}

static void temporary_clean(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (strncmp(entry->d_name, temporary_folder, sizeof "bedplate-tokens-" - 1) == 0 &&
            strlen(entry->d_name) == sizeof temporary_folder - 1) {
            temporary_clean_one(dirfd(list), entry->d_name);
        }
    }
    if (list != NULL) {
        (void)closedir(list);
    }
}

bp_status temporary_make_inside(const char *folder, const char *name, char path[BP_STORE_PATH_MAX],
                                bp_error *error)
{
    const int length = snprintf(path, BP_STORE_PATH_MAX, "%s/%s", folder, temporary_folder);
    temporary_clean(folder);
    if (length < 0 || (size_t)length + strlen(name) + 2 > BP_STORE_PATH_MAX ||
        mkdtemp(path) == NULL) {
        return bp_error_set(error, BP_ERR_STORE, "temporary",
                            "a folder for a while cannot be made there", folder);
    }
    const int held = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)(held >= 0 ? flock(held, LOCK_EX | LOCK_NB) : 0); /* it is held until the program ends */
    path[length] = '/';
    memcpy(path + length + 1, name, strlen(name) + 1);
    return BP_OK;
}

void temporary_end_inside(const char *path)
{
    char folder[BP_STORE_PATH_MAX];
    (void)unlink(path);
    const int length = snprintf(folder, sizeof folder, "%s", path);
    char *slash = length > 0 ? strrchr(folder, '/') : NULL;
    if (slash != NULL) {
        *slash = '\0';
        (void)rmdir(folder);
    }
}
