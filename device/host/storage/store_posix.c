/* SPDX-License-Identifier: MIT */
/* bp_store over open, pread, pwrite, fsync, rename and their kin. */
#include "device/host/storage/store_posix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* rename */
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The most bytes of one system call; Linux itself stops a little below 2 GiB. */
enum { PIECE_MAX = 1 << 30 };

typedef struct reason_row {
    int code;
    const char *reason;
} reason_row;

static const reason_row reasons[] = {
    {ENOENT, "no such file or directory"},
    {EACCES, "permission denied"},
    {EPERM, "operation not permitted"},
    {ENOSPC, "no space left on the device"},
    {EDQUOT, "disk quota exceeded"},
    {EFBIG, "file too large"},
    {EIO, "input/output error"},
    {EROFS, "read-only file system"},
    {ENOTDIR, "a part of the path is not a directory"},
    {EISDIR, "is a directory"},
    {EEXIST, "something of that name is there"},
    {ENOTEMPTY, "directory not empty"},
    {ENAMETOOLONG, "path too long"},
    {EMFILE, "too many open files"},
    {ENFILE, "too many open files in the system"},
    {EXDEV, "not on the same file system"},
    {ELOOP, "too many symbolic links"},
    {EBADF, "bad file handle"},
    {EINVAL, "invalid argument"},
};

static bp_status failed(bp_store *store, int code)
{
    store->code = code;
    store->reason = "the operating system reported an error";
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].code == code) {
            store->reason = reasons[i].reason;
        }
    }
    return BP_ERR_STORE;
}

static bp_status failed_because(bp_store *store, const char *reason)
{
    store->code = 0;
    store->reason = reason;
    return BP_ERR_STORE;
}

/* The status of a call that returned -1 on failure. */
static bp_status outcome(bp_store *store, int result)
{
    return result < 0 ? failed(store, errno) : BP_OK;
}

/* The path as the system sees it. */
typedef struct full_path {
    char text[2 * BP_STORE_PATH_MAX + 1];
} full_path;

static bp_status store_posix_resolve(bp_store *store, const char *path, full_path *full)
{
    const bp_store_posix *posix = store->context;
    size_t root = path[0] == '/' ? 0 : strlen(posix->root);
    size_t length = strlen(path);
    if (length >= BP_STORE_PATH_MAX) {
        return failed(store, ENAMETOOLONG);
    }
    memcpy(full->text, posix->root, root);
    if (root > 0) {
        full->text[root++] = '/';
    }
    memcpy(full->text + root, path, length + 1);
    if (full->text[0] == '\0') {
        memcpy(full->text, ".", 2); /* the root itself, when that is the working directory */
    }
    return BP_OK;
}

static int descriptor_of(bp_file file)
{
    return (int)(file.handle - 1);
}

static int open_again(const char *path, int flags)
{
    int descriptor;
    do {
        descriptor = open(path, flags, 0666);
    } while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

static bp_status open_file(bp_store *store, const char *path, int flags, bp_file *file)
{
    full_path full;
    BP_TRY(store_posix_resolve(store, path, &full));
    /* Without O_NONBLOCK opening a pipe would wait for its other end. */
    int descriptor = open_again(full.text, flags | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        return failed(store, errno);
    }
    struct stat information;
    bp_status status = outcome(store, fstat(descriptor, &information));
    if (status == BP_OK && !S_ISREG(information.st_mode)) {
        status = failed_because(store, "not a regular file");
    }
    if (status != BP_OK) {
        (void)close(descriptor); /* nothing was written */
        return status;
    }
    file->handle = (uint64_t)descriptor + 1;
    return BP_OK;
}

static bp_status posix_open_read(bp_store *store, const char *path, bp_file *file)
{
    return open_file(store, path, O_RDONLY, file);
}

/* A file anew: what has the name by now may be linked to something else, which must not be written
 * into, so the name is taken off it. */
static bp_status posix_open_write(bp_store *store, const char *path, bp_file *file)
{
    full_path full;
    struct stat information;
    BP_TRY(store_posix_resolve(store, path, &full));
    if (strncmp(full.text, "/proc/self/fd/", 14) == 0) { /* a file without a name that is open */
        return open_file(store, path, O_WRONLY | O_TRUNC, file);
    }
    if (lstat(full.text, &information) == 0) {
        const bool plain = S_ISREG(information.st_mode) || S_ISLNK(information.st_mode);
        if (!plain) {
            return S_ISDIR(information.st_mode) ? failed(store, EISDIR)
                                                : failed_because(store, "not a regular file");
        }
        BP_TRY(outcome(store, unlink(full.text)));
    }
    return open_file(store, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, file);
}

static bp_status posix_open_update(bp_store *store, const char *path, bp_file *file)
{
    return open_file(store, path, O_WRONLY, file);
}

static bp_status posix_file_size(bp_store *store, bp_file file, uint64_t *bytes)
{
    struct stat information;
    BP_TRY(outcome(store, fstat(descriptor_of(file), &information)));
    *bytes = (uint64_t)information.st_size;
    return BP_OK;
}

static bp_status posix_read_at(bp_store *store, bp_file file, uint64_t offset, void *to,
                               size_t bytes)
{
    unsigned char *at = to;
    while (bytes > 0) {
        size_t piece = bytes < PIECE_MAX ? bytes : PIECE_MAX;
        ssize_t got = pread(descriptor_of(file), at, piece, (off_t)offset);
        if (got == 0) {
            return failed_because(store, "the file ends too early");
        }
        if (got < 0) {
            if (errno != EINTR) {
                return failed(store, errno);
            }
            continue;
        }
        at += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return BP_OK;
}

static bp_status posix_write_at(bp_store *store, bp_file file, uint64_t offset, const void *from,
                                size_t bytes)
{
    const unsigned char *at = from;
    while (bytes > 0) {
        size_t piece = bytes < PIECE_MAX ? bytes : PIECE_MAX;
        ssize_t put = pwrite(descriptor_of(file), at, piece, (off_t)offset);
        if (put == 0) {
            return failed_because(store, "the file takes no more bytes");
        }
        if (put < 0) {
            if (errno != EINTR) {
                return failed(store, errno);
            }
            continue;
        }
        at += put;
        offset += (uint64_t)put;
        bytes -= (size_t)put;
    }
    return BP_OK;
}

static bp_status posix_sync(bp_store *store, bp_file file)
{
    return outcome(store, fsync(descriptor_of(file)));
}

static bp_status store_posix_close(bp_store *store, bp_file file)
{
    /* On Linux the descriptor is gone even after EINTR, so it is never closed twice. */
    return outcome(store, close(descriptor_of(file)));
}

static bp_status posix_rename(bp_store *store, const char *from, const char *to)
{
    full_path old_path;
    full_path new_path;
    BP_TRY(store_posix_resolve(store, from, &old_path));
    BP_TRY(store_posix_resolve(store, to, &new_path));
    return outcome(store, rename(old_path.text, new_path.text));
}

static bp_status posix_remove(bp_store *store, const char *path)
{
    full_path full;
    BP_TRY(store_posix_resolve(store, path, &full));
    return outcome(store, unlink(full.text));
}

static bp_status posix_make_directory(bp_store *store, const char *path)
{
    full_path full;
    BP_TRY(store_posix_resolve(store, path, &full));
    if (mkdir(full.text, 0777) == 0) {
        return BP_OK;
    }
    if (errno != EEXIST) {
        return failed(store, errno);
    }
    struct stat information;
    BP_TRY(outcome(store, stat(full.text, &information)));
    return S_ISDIR(information.st_mode) ? BP_OK : failed(store, ENOTDIR);
}

static bp_status posix_remove_directory(bp_store *store, const char *path)
{
    full_path full;
    BP_TRY(store_posix_resolve(store, path, &full));
    return outcome(store, rmdir(full.text));
}

static bp_status posix_remove_link(bp_store *store, const char *path, bool *was)
{
    full_path full;
    struct stat information;
    BP_TRY(store_posix_resolve(store, path, &full));
    *was = lstat(full.text, &information) == 0 && S_ISLNK(information.st_mode);
    return *was ? outcome(store, unlink(full.text)) : BP_OK;
}

static bp_status posix_sync_directory(bp_store *store, const char *path)
{
    full_path full;
    BP_TRY(store_posix_resolve(store, path, &full));
    int descriptor = open_again(full.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) {
        return failed(store, errno);
    }
    bp_status status = outcome(store, fsync(descriptor));
    /* EINVAL: a file system that has no such operation and writes directories at once. */
    if (status != BP_OK && store->code == EINVAL) {
        status = BP_OK;
    }
    (void)close(descriptor); /* nothing was written through it */
    return status;
}

static bp_status list_entries(bp_store *store, DIR *directory,
                              bp_status (*each)(void *user, const char *name), void *user)
{
    for (;;) {
        errno = 0; /* the end and a failure look alike but for this */
        const struct dirent *entry = readdir(directory);
        if (entry == NULL) {
            return errno == 0 ? BP_OK : failed(store, errno);
        }
        bool self = strcmp(entry->d_name, ".") == 0;
        if (self || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        BP_TRY(each(user, entry->d_name));
    }
}

static bp_status posix_list(bp_store *store, const char *path,
                            bp_status (*each)(void *user, const char *name), void *user)
{
    full_path full;
    BP_TRY(store_posix_resolve(store, path, &full));
    DIR *directory = opendir(full.text);
    if (directory == NULL) {
        return failed(store, errno);
    }
    bp_status status = list_entries(store, directory, each, user);
    (void)closedir(directory); /* nothing was written */
    return status;
}

static bp_status posix_free_bytes(bp_store *store, const char *path, uint64_t *bytes)
{
    full_path full;
    BP_TRY(store_posix_resolve(store, path, &full));
    struct statvfs information;
    BP_TRY(outcome(store, statvfs(full.text, &information)));
    *bytes = bp_size_mul(information.f_bavail, information.f_frsize);
    return BP_OK;
}

static bp_status posix_exists(bp_store *store, const char *path, bool *there)
{
    full_path full;
    BP_TRY(store_posix_resolve(store, path, &full));
    struct stat information;
    *there = lstat(full.text, &information) == 0;
    if (*there || errno == ENOENT || errno == ENOTDIR) {
        return BP_OK;
    }
    return failed(store, errno);
}

bp_status bp_store_posix_init(bp_store_posix *posix, const char *root)
{
    size_t length = strlen(root);
    if (length >= sizeof posix->root) {
        return BP_ERR_USAGE;
    }
    memcpy(posix->root, root, length + 1);
    posix->store = (bp_store){.context = posix,
                              .open_read = posix_open_read,
                              .open_write = posix_open_write,
                              .file_size = posix_file_size,
                              .read_at = posix_read_at,
                              .write_at = posix_write_at,
                              .sync = posix_sync,
                              .close = store_posix_close,
                              .rename = posix_rename,
                              .remove = posix_remove,
                              .make_directory = posix_make_directory,
                              .remove_directory = posix_remove_directory,
                              .sync_directory = posix_sync_directory,
                              .list = posix_list,
                              .free_bytes = posix_free_bytes,
                              .exists = posix_exists,
                              .open_update = posix_open_update,
                              .remove_link = posix_remove_link};
    return BP_OK;
}
