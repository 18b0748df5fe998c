/* SPDX-License-Identifier: MIT */
/* LD_PRELOAD of the soak test: the clock on the wall is off by SOAK_CLOCK seconds and jumps by that
 * much again every few seconds, storage takes SOAK_SLOW milliseconds longer to sync, and while the
 * file SOAK_READONLY is there nothing can be written, as when the kernel finds a file system
 * damaged and makes it read-only under the feet of who has files open: mount(8) refuses to do that.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

typedef int (*clock_call)(clockid_t, struct timespec *);
typedef int (*sync_call)(int);
typedef int (*open_call)(const char *, int, mode_t);
typedef int (*path_call)(const char *);
typedef int (*mkdir_call)(const char *, mode_t);
typedef int (*rename_call)(const char *, const char *);
typedef ssize_t (*write_call)(int, const void *, size_t);
typedef ssize_t (*pwrite_call)(int, const void *, size_t, off_t);
typedef int (*cut_call)(int, off_t);

static long trouble_number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : 0;
}

static void *trouble_real(void **real, const char *name)
{
    if (*real == NULL) {
        *real = dlsym(RTLD_NEXT, name);
    }
    return *real;
}

/* The streams of the process are no part of the disk. */
static int trouble_readonly(int file)
{
    const char *flag = getenv("SOAK_READONLY");
    const int kept = errno;
    const int is = file > 2 && flag != NULL && access(flag, F_OK) == 0;
    errno = is ? EROFS : kept;
    return is;
}

int open(const char *path, int flags, ...)
{
    static void *real;
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0 && trouble_readonly(3)) {
        return -1;
    }
    return ((open_call)trouble_real(&real, "open"))(path, flags, mode);
}

int mkdir(const char *path, mode_t mode)
{
    static void *real;
    return trouble_readonly(3) ? -1 : ((mkdir_call)trouble_real(&real, "mkdir"))(path, mode);
}

int rmdir(const char *path)
{
    static void *real;
    return trouble_readonly(3) ? -1 : ((path_call)trouble_real(&real, "rmdir"))(path);
}

int unlink(const char *path)
{
    static void *real;
    return trouble_readonly(3) ? -1 : ((path_call)trouble_real(&real, "unlink"))(path);
}

int rename(const char *from, const char *to)
{
    static void *real;
    return trouble_readonly(3) ? -1 : ((rename_call)trouble_real(&real, "rename"))(from, to);
}

ssize_t write(int file, const void *bytes, size_t count)
{
    static void *real;
    return trouble_readonly(file) ? -1
                                  : ((write_call)trouble_real(&real, "write"))(file, bytes, count);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at)
{
    static void *real;
    return trouble_readonly(file)
               ? -1
               : ((pwrite_call)trouble_real(&real, "pwrite"))(file, bytes, count, at);
}

int ftruncate(int file, off_t length)
{
    static void *real;
    return trouble_readonly(file) ? -1 : ((cut_call)trouble_real(&real, "ftruncate"))(file, length);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static clock_call real;
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    }
    const int result = real(clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) {
        now->tv_sec += trouble_number("SOAK_CLOCK") * (1 + now->tv_sec / 3 % 2);
    }
    return result;
}

time_t time(time_t *to)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to != NULL) {
        *to = now.tv_sec;
    }
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

int fsync(int file)
{
    static sync_call real;
    const struct timespec pause = {0, trouble_number("SOAK_SLOW") % 1000 * 1000000};
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    }
    nanosleep(&pause, NULL); /* no wait: so slow is this storage */
    return trouble_readonly(file) ? -1 : real(file);
}
