/* SPDX-License-Identifier: MIT */
/* LD_PRELOAD: of the calls that read what lies under FAULT_UNDER (opening, looking up, listing,
 * reading, sizes), counted from 1, the FAULT_AT-th fails with the error number FAULT_CODE, and with
 * FAULT_EVER all later ones. FAULT_FILE: only files of that name. FAULT_COUNT: a file that gets how
 * many there were. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 1024, LISTINGS = 16 };
static unsigned char ours[FILES]; /* descriptors of files that lie there */
static const DIR *listing[LISTINGS];
static unsigned long calls;

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

static int lies_there(const char *path)
{
    const char *under = getenv("FAULT_UNDER");
    const size_t n = under != NULL ? strlen(under) : 0;
    const char *file = getenv("FAULT_FILE"), *slash = strrchr(path, '/');
    return n > 0 && strncmp(path, under, n) == 0 && (path[n] == '/' || path[n] == '\0') &&
           (file == NULL || (slash != NULL && strcmp(slash + 1, file) == 0));
}

static int fails(int there)
{
    const char *at = getenv("FAULT_AT"), *code = getenv("FAULT_CODE");
    if (!there) {
        return 0;
    }
    const unsigned long number = ++calls, from = at != NULL ? strtoul(at, NULL, 10) : 0;
    const int hit = from > 0 && (getenv("FAULT_EVER") != NULL ? number >= from : number == from);
    errno = hit ? atoi(code != NULL ? code : "5") : errno;
    return hit;
}

__attribute__((destructor)) static void fault_count(void)
{
    const char *name = getenv("FAULT_COUNT");
    FILE *out = name != NULL ? REAL(FILE *, "fopen", const char *, const char *)(name, "w") : NULL;
    if (out != NULL) {
        fprintf(out, "%lu\n", calls);
        fclose(out);
    }
}

static void note(int fd, int there)
{
    if (fd >= 0 && fd < FILES) {
        ours[fd] = (unsigned char)there;
    }
}

static int is_ours(int fd)
{
    return fd >= 0 && fd < FILES && ours[fd];
}

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? (mode_t)va_arg(list, int) : 0;
    va_end(list);
    const int reads = lies_there(path) && (flags & O_CREAT) == 0;
    if (fails(reads)) {
        return -1;
    }
    const int fd = REAL(int, "open", const char *, int, ...)(path, flags, mode);
    note(fd, reads);
    return fd;
}

FILE *fopen(const char *path, const char *mode)
{
    const int reads = lies_there(path) && mode[0] == 'r';
    if (fails(reads)) {
        return NULL;
    }
    FILE *file = REAL(FILE *, "fopen", const char *, const char *)(path, mode);
    if (file != NULL) {
        note(fileno(file), reads);
    }
    return file;
}

ssize_t getline(char **line, size_t *room, FILE *file)
{
    if (fails(is_ours(fileno(file)))) {
        return -1;
    }
    return REAL(ssize_t, "getline", char **, size_t *, FILE *)(line, room, file);
}

ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
    return fails(is_ours(fd))
               ? -1
               : REAL(ssize_t, "pread", int, void *, size_t, off_t)(fd, to, bytes, at);
}

int fstat(int fd, struct stat *about)
{
    return fails(is_ours(fd)) ? -1 : REAL(int, "fstat", int, struct stat *)(fd, about);
}

#define LOOK(name)                                                                                 \
    int name(const char *path, struct stat *about)                                                 \
    {                                                                                              \
        return fails(lies_there(path))                                                             \
                   ? -1                                                                            \
                   : REAL(int, #name, const char *, struct stat *)(path, about);                   \
    }
LOOK(stat)
LOOK(lstat)

DIR *opendir(const char *path)
{
    const int reads = lies_there(path);
    if (fails(reads)) {
        return NULL;
    }
    DIR *directory = REAL(DIR *, "opendir", const char *)(path);
    for (int i = 0; reads && i < LISTINGS; i++) {
        if (listing[i] == NULL) {
            listing[i] = directory;
            break;
        }
    }
    return directory;
}

struct dirent *readdir(DIR *directory)
{
    int reads = 0;
    for (int i = 0; i < LISTINGS; i++) {
        reads = reads || listing[i] == directory;
    }
    return fails(reads) ? NULL : REAL(struct dirent *, "readdir", DIR *)(directory);
}

int closedir(DIR *directory)
{
    for (int i = 0; i < LISTINGS; i++) {
        listing[i] = listing[i] == directory ? NULL : listing[i];
    }
    return REAL(int, "closedir", DIR *)(directory);
}

int close(int fd)
{
    note(fd, 0);
    return REAL(int, "close", int)(fd);
}
