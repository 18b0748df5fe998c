/* SPDX-License-Identifier: MIT */
/* LD_PRELOAD: the file DISK_FILE lies on a disk with faults. DISK_FAULT=direct: one that cannot be
 * opened with O_DIRECT; full: one without room; read or write: one that fails its DISK_AFTER-th
 * read or write from now, and those after it, with EIO. DISK_RATE: it moves so many bytes a second
 * each way. DISK_COUNT: a file that gets the bytes that were read and written, and the
 * calls of both. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { READS, WRITES, WAYS };
static int file = -1;
static unsigned long long calls[WAYS], bytes[WAYS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int fault(const char *name)
{
    const char *text = getenv("DISK_FAULT");
    return text != NULL && strcmp(text, name) == 0;
}

__attribute__((destructor)) static void count(void)
{
    const char *name = getenv("DISK_COUNT");
    FILE *out = name != NULL ? fopen(name, "w") : NULL;
    if (out != NULL) {
        fprintf(out, "%llu %llu %llu %llu\n", bytes[READS], bytes[WRITES], calls[READS],
                calls[WRITES]);
        fclose(out);
    }
}

/* Of a call of so many bytes, after it: whether it fails. */
static int moved(int fd, int way, size_t size)
{
    if (fd != file) {
        return 0;
    }
    pthread_mutex_lock(&mutex);
    const unsigned long long number = ++calls[way];
    bytes[way] += size;
    pthread_mutex_unlock(&mutex);
    const char *rate = getenv("DISK_RATE"), *after = getenv("DISK_AFTER");
    if (rate != NULL) {
        const double seconds = (double)size / atof(rate);
        const struct timespec rest = {(time_t)seconds,
                                      (long)((seconds - (double)(time_t)seconds) * 1e9)};
        nanosleep(&rest, NULL); /* no wait: so slow is this disk */
    }
    return fault(way == READS ? "read" : "write") && after != NULL &&
           number >= strtoull(after, NULL, 10);
}

static int opened(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode)
{
    const char *name = getenv("DISK_FILE");
    const int ours = name != NULL && strcmp(name, path) == 0;
    if (ours && (flags & O_DIRECT) != 0 && fault("direct")) {
        errno = EINVAL;
        return -1;
    }
    const int fd = real(path, flags, mode);
    file = ours && fd >= 0 ? fd : file;
    return fd;
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list list;                                                                              \
        va_start(list, flags);                                                                     \
        const mode_t mode = (flags & O_CREAT) != 0 ? (mode_t)va_arg(list, int) : 0;                \
        va_end(list);                                                                              \
        return opened((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name), path, flags,       \
                      mode);                                                                       \
    }
#define MOVE(name, way, pointer)                                                                   \
    ssize_t name(int fd, pointer data, size_t size, off_t at)                                      \
    {                                                                                              \
        ssize_t (*real)(int, pointer, size_t, off_t) =                                             \
            (ssize_t(*)(int, pointer, size_t, off_t))dlsym(RTLD_NEXT, #name);                      \
        if (moved(fd, way, size)) {                                                                \
            errno = EIO;                                                                           \
            return -1;                                                                             \
        }                                                                                          \
        return real(fd, data, size, at);                                                           \
    }
#define TAKE(name)                                                                                 \
    int name(int fd, off_t at, off_t length)                                                       \
    {                                                                                              \
        int (*real)(int, off_t, off_t) = (int (*)(int, off_t, off_t))dlsym(RTLD_NEXT, #name);      \
        return fd == file && fault("full") ? ENOSPC : real(fd, at, length);                        \
    }
OPEN(open)
MOVE(pread, READS, void *)
MOVE(pwrite, WRITES, const void *)
TAKE(posix_fallocate)
