/* SPDX-License-Identifier: MIT */
/* The offload tier as a file: O_DIRECT in pieces of 1 MiB, so that no page of it is in memory twice
 * and planned bytes are used bytes.
 *
 * The system wants address, offset and length of such a call to be whole pages. Where they are, a
 * copy goes straight to its place; what is left goes through a room of its way. The caller's hands,
 * which come with a few bytes here and there, have windows of the file. */
#define _GNU_SOURCE /* O_DIRECT */

#include "device/host/storage/tier_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "arena/text.h"
#include "core/base/digest.h"
#include "core/ir/address.h"
#include "core/ir/tier.h"

#define PAGE ((uint64_t)BP_OFFLOAD_ALIGNMENT)

/* Magic numbers of file systems whose files are memory (statfs(2)). */
#define TIER_TMPFS 0x01021994
#define TIER_RAMFS 0x858458f6

static const char where[] = "offload";

static bp_status tier_failed(const bp_tier_posix *tier, bp_error *error, int code)
{
    const char *text = code == ENOSPC || code == EDQUOT ? "no space is left on the device"
                       : code == EACCES || code == EROFS || code == EPERM
                           ? "the offload file may not be written"
                       : code == ENOENT || code == ENOTDIR ? "there is no such directory"
                       : code == EISDIR                    ? "is a directory"
                       : code == EWOULDBLOCK               ? "another run has this offload file"
                       : code == EFBIG                     ? "the file would be too large here"
                       : code == EIO                       ? "input/output error"
                       : code == ENODEV                    ? "the device is gone"
                       : code == ENAMETOOLONG              ? "path too long"
                       : code == ELOOP                     ? "too many symbolic links"
                       : code == EEXIST                    ? "a link is there that leads to no file"
                       : code == EMFILE || code == ENFILE  ? "too many open files"
                       : code == ENOMEM                    ? "the operating system has no memory"
                                        : "the operating system reported an error";
    return bp_error_set(error, BP_ERR_STORE, where, text, tier->path);
}

/* A digest of the page at `offset`, never 0. With the offset in it, a page that lies in another's
 * place has another one. */
static uint32_t tier_digest(uint64_t offset, const unsigned char *page)
{
    const uint64_t digest = bp_digest_of(page, PAGE, offset);
    const uint32_t folded = (uint32_t)(digest ^ digest >> 32);
    return folded != 0 ? folded : 1;
}

/* The pages are what was written there; NULL: a write of them failed, and nobody knows. */
static void tier_note(const bp_tier_posix *tier, uint64_t offset, const unsigned char *pages,
                      uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += PAGE) {
        tier->digests[(offset + at) / PAGE] =
            pages != NULL ? tier_digest(offset + at, pages + at) : 0;
    }
}

static bp_status tier_damaged(const bp_tier_posix *tier, uint64_t offset, bp_error *error)
{
    char word[BP_ERROR_WORD_MAX];
    bp_text text;
    bp_text_init(&text, NULL, NULL, word, sizeof word);
    bp_text_string(&text, "other bytes from ");
    bp_text_u64(&text, offset);
    bp_text_string(&text, " on");
    BP_TRY(bp_text_flush(&text));
    const bp_status status =
        bp_error_set(error, BP_ERR_STORE, where,
                     "a page of the offload file has changed since it was written", tier->path);
    bp_error_found(error, word, strlen(word));
    bp_error_right(error, "what was written there; --resume continues from the last checkpoint");
    return status;
}

/* Whether pages that were read are what was written there. What nobody has written yet is taken as
 * it is, and may not change from then on. */
static bp_status tier_compare(const bp_tier_posix *tier, uint64_t offset,
                              const unsigned char *pages, uint64_t bytes, bp_error *error)
{
    for (uint64_t at = 0; at < bytes; at += PAGE) {
        uint32_t *known = &tier->digests[(offset + at) / PAGE];
        const uint32_t digest = tier_digest(offset + at, pages + at);
        if (*known != 0 && *known != digest) {
            return tier_damaged(tier, offset + at, error);
        }
        *known = digest;
    }
    return BP_OK;
}

/* One run of whole pages. */
static bp_status tier_read_pages(const bp_tier_posix *tier, uint64_t offset, unsigned char *to,
                                 uint64_t bytes, bp_error *error)
{
    while (bytes > 0) {
        const uint64_t piece = bytes < BP_TIER_PIECE ? bytes : BP_TIER_PIECE;
        const ssize_t got = pread(tier->descriptor, to, (size_t)piece, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return tier_failed(tier, error, errno);
        }
        if (got == 0 || (uint64_t)got % PAGE != 0) {
            return bp_error_set(error, BP_ERR_STORE, where, "the offload file was cut off",
                                tier->path);
        }
        BP_TRY(tier_compare(tier, offset, to, (uint64_t)got, error));
        to += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return BP_OK;
}

static bp_status tier_put_pages(const bp_tier_posix *tier, uint64_t offset,
                                const unsigned char *from, uint64_t bytes, bp_error *error)
{
    while (bytes > 0) {
        const ssize_t put = pwrite(tier->descriptor, from, (size_t)bytes, (off_t)offset);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0 || (uint64_t)put % PAGE != 0) {
            return tier_failed(tier, error, put < 0 ? errno : ENOSPC);
        }
        from += put;
        offset += (uint64_t)put;
        bytes -= (uint64_t)put;
    }
    return BP_OK;
}

static bp_status tier_write_pages(const bp_tier_posix *tier, uint64_t offset,
                                  const unsigned char *from, uint64_t bytes, bp_error *error)
{
    for (uint64_t done = 0; done < bytes; done += BP_TIER_PIECE) {
        const uint64_t piece = bytes - done < BP_TIER_PIECE ? bytes - done : BP_TIER_PIECE;
        const bp_status status = tier_put_pages(tier, offset + done, from + done, piece, error);
        tier_note(tier, offset + done, status == BP_OK ? from + done : NULL, piece);
        BP_TRY(status);
    }
    return BP_OK;
}

/* A file that nobody can find any more is not what was asked for. */
static bp_status tier_look(const bp_tier_posix *tier, bp_error *error)
{
    struct stat information;
    if (fstat(tier->descriptor, &information) != 0) {
        return tier_failed(tier, error, errno);
    }
    if (information.st_nlink == 0 || (uint64_t)information.st_size < tier->bytes) {
        return bp_error_set(error, BP_ERR_STORE, where,
                            "the offload file was removed or cut off while it was used",
                            tier->path);
    }
    return BP_OK;
}

static bp_status window_flush(bp_tier_posix *tier, uint32_t i, bp_error *error)
{
    bp_tier_window *window = &tier->window[i];
    if (window->dirty) {
        const unsigned char *room = tier->room + 2 * BP_TIER_PIECE + i * BP_TIER_WINDOW;
        BP_TRY(tier_write_pages(tier, window->first, room, BP_TIER_WINDOW, error));
    }
    window->dirty = false;
    return BP_OK;
}

/* The window at `first`: one that is there, or the one least lately used. `fill`: with the file's
 * bytes. */
static bp_status window_take(bp_tier_posix *tier, uint64_t first, bool fill, uint32_t *taken,
                             bp_error *error)
{
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < BP_TIER_WINDOWS; i++) {
        if (tier->window[i].first == first) {
            tier->window[i].used = ++tier->uses;
            *taken = i;
            return BP_OK;
        }
        oldest = tier->window[i].used < tier->window[oldest].used ? i : oldest;
    }
    BP_TRY(window_flush(tier, oldest, error));
    tier->window[oldest] = (bp_tier_window){.first = UINT64_MAX};
    if (fill) {
        unsigned char *room = tier->room + 2 * BP_TIER_PIECE + oldest * BP_TIER_WINDOW;
        BP_TRY(tier_read_pages(tier, first, room, BP_TIER_WINDOW, error));
    }
    tier->window[oldest] = (bp_tier_window){.first = first, .used = ++tier->uses};
    *taken = oldest;
    return BP_OK;
}

/* The caller's hands: into memory, or from it. */
static bp_status tier_hand(bp_tier_posix *tier, uint64_t offset, void *to, const void *from,
                           uint64_t bytes, bp_error *error)
{
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t at = (offset + done) % BP_TIER_WINDOW, left = BP_TIER_WINDOW - at;
        const uint64_t piece = bytes - done < left ? bytes - done : left;
        const bool whole = from != NULL && piece == BP_TIER_WINDOW;
        uint32_t i = 0;
        BP_TRY(window_take(tier, offset + done - at, !whole, &i, error));
        unsigned char *room = tier->room + 2 * BP_TIER_PIECE + i * BP_TIER_WINDOW + at;
        if (from != NULL) {
            memcpy(room, (const char *)from + done, (size_t)piece);
            tier->window[i].dirty = true;
        } else {
            memcpy((char *)to + done, room, (size_t)piece);
        }
        done += piece;
    }
    return BP_OK;
}

static bool tier_aligned(const void *address)
{
    return (uintptr_t)address % PAGE == 0;
}

static bp_status tier_read(void *context, bp_tier_way way, uint64_t offset, void *to,
                           uint64_t bytes, bp_error *error)
{
    bp_tier_posix *tier = context;
    if (way == BP_TIER_HAND) {
        return tier_hand(tier, offset, to, NULL, bytes, error);
    }
    unsigned char *room = tier->room, *at = to;
    BP_TRY(tier_look(tier, error));
    tier->read_bytes += way == BP_TIER_READ ? bytes : 0;
    if (tier_aligned(to) && offset % PAGE == 0) {
        const uint64_t straight = bytes / PAGE * PAGE;
        BP_TRY(tier_read_pages(tier, offset, at, straight, error));
        at += straight;
        offset += straight;
        bytes -= straight;
    }
    while (bytes > 0) {
        const uint64_t before = offset % PAGE, most = BP_TIER_PIECE - before;
        const uint64_t piece = bytes < most ? bytes : most;
        BP_TRY(tier_read_pages(tier, offset - before, room, bp_size_align(before + piece, PAGE),
                               error));
        memcpy(at, room + before, (size_t)piece);
        at += piece;
        offset += piece;
        bytes -= piece;
    }
    return BP_OK;
}

/* The pages at the ends of what is written are read first where they hold more. What is offloaded
 * begins with a page, so only bytes that nobody has lie behind its end. */
static bp_status tier_write(void *context, bp_tier_way way, uint64_t offset, const void *from,
                            uint64_t bytes, bp_error *error)
{
    bp_tier_posix *tier = context;
    if (way == BP_TIER_HAND) {
        return tier_hand(tier, offset, NULL, from, bytes, error);
    }
    unsigned char *room = tier->room + BP_TIER_PIECE;
    const unsigned char *at = from;
    BP_TRY(tier_look(tier, error));
    while (bytes > 0) {
        const uint64_t before = offset % PAGE, most = BP_TIER_PIECE - before;
        const uint64_t piece = bytes < most ? bytes : most;
        const uint64_t pages = bp_size_align(before + piece, PAGE);
        if (before == 0 && tier_aligned(at) && piece == pages) {
            BP_TRY(tier_write_pages(tier, offset, at, piece, error));
        } else {
            if (before != 0 || piece != pages) {
                BP_TRY(tier_read_pages(tier, offset - before, room, PAGE, error));
                BP_TRY(tier_read_pages(tier, offset - before + pages - PAGE, room + pages - PAGE,
                                       PAGE, error));
            }
            memcpy(room + before, at, (size_t)piece);
            BP_TRY(tier_write_pages(tier, offset - before, room, pages, error));
        }
        at += piece;
        offset += piece;
        bytes -= piece;
    }
    return BP_OK;
}

static bp_status tier_resolve(void *context, bp_error *error)
{
    bp_tier_posix *tier = context;
    for (uint32_t i = 0; i < BP_TIER_WINDOWS; i++) {
        BP_TRY(window_flush(tier, i, error));
        tier->window[i].first = UINT64_MAX;
    }
    return BP_OK;
}

static bp_status tier_sync(void *context, bp_error *error)
{
    bp_tier_posix *tier = context;
    BP_TRY(tier_resolve(tier, error));
    BP_TRY(tier_look(tier, error));
    return fdatasync(tier->descriptor) == 0 ? BP_OK : tier_failed(tier, error, errno);
}

const bp_tier bp_tier_posix_table = {.name = "file",
                                     .read = tier_read,
                                     .write = tier_write,
                                     .resolve = tier_resolve,
                                     .sync = tier_sync};

static bp_status tier_refuse(const bp_tier_posix *tier, bp_error *error, const char *text)
{
    return bp_error_set(error, BP_ERR_USAGE, where, text, tier->path);
}

/* A file that the page cache holds has no tier below it. */
static bp_status tier_file_system(const bp_tier_posix *tier, bp_error *error)
{
    struct statfs information;
    if (fstatfs(tier->descriptor, &information) != 0) {
        return tier_failed(tier, error, errno);
    }
    const unsigned long kind = (unsigned long)information.f_type & 0xffffffffu;
    if (kind == TIER_TMPFS || kind == TIER_RAMFS) {
        return bp_error_mend(error, BP_ERR_USAGE, where,
                             "files of this file system are memory, so that nothing "
                             "is saved by offloading; take a disk's, or --offload-buffered",
                             tier->path, BP_MEND_BUFFERED);
    }
    return BP_OK;
}

/* What says that the file is one of these: the beginning of its last page. */
static const char tier_mark[] = "bedplate offload file\n";

/* Whose file it is. One that has bytes and no mark is somebody's, and stays as it is. */
static bp_status tier_ours(const bp_tier_posix *tier, uint64_t size, bool *marked, bp_error *error)
{
    unsigned char *page = tier->room;
    ssize_t got = 0;
    *marked = false;
    if (size == 0) {
        return BP_OK;
    }
    if (size % PAGE == 0) {
        got = pread(tier->descriptor, page, PAGE, (off_t)(size - PAGE));
        if (got < 0) {
            return tier_failed(tier, error, errno);
        }
    }
    *marked = (got == (ssize_t)PAGE && memcmp(page, tier_mark, sizeof tier_mark) == 0) ||
              (tier->earlier && size == tier->bytes);
    return *marked ? BP_OK
                   : tier_refuse(tier, error,
                                 "the file holds something that is not of this program's making; "
                                 "name one that is not there, or remove it");
}

/* The mark comes before the bytes that it stands behind: who is killed between leaves a file that
 * is known again. */
static bp_status tier_grow(const bp_tier_posix *tier, uint64_t size, bool marked, bp_error *error)
{
    if (!marked || size < tier->bytes + PAGE) {
        memset(tier->room, 0, PAGE);
        memcpy(tier->room, tier_mark, sizeof tier_mark);
        BP_TRY(tier_put_pages(tier, tier->bytes, tier->room, PAGE, error));
        if (fsync(tier->descriptor) != 0) {
            return tier_failed(tier, error, errno);
        }
    }
    int refused = EINTR;
    while (refused == EINTR) {
        refused = posix_fallocate(tier->descriptor, 0, (off_t)tier->bytes);
    }
    return refused == 0 ? BP_OK : tier_failed(tier, error, refused);
}

static uint64_t tier_digest_bytes(uint64_t bytes)
{
    return bytes / PAGE * sizeof(uint32_t);
}

static bp_status tier_take(bp_tier_posix *tier, bool buffered, bp_error *error)
{
    struct stat information;
    bool marked;
    if (fstat(tier->descriptor, &information) != 0) {
        return tier_failed(tier, error, errno);
    }
    if (!S_ISREG(information.st_mode)) {
        return bp_error_set(error, BP_ERR_STORE, where, "not a regular file", tier->path);
    }
    if (!buffered) {
        BP_TRY(tier_file_system(tier, error));
    }
    if (flock(tier->descriptor, LOCK_EX | LOCK_NB) != 0) {
        return tier_failed(tier, error, errno);
    }
    const uint64_t size = (uint64_t)information.st_size;
    BP_TRY(tier_ours(tier, size, &marked, error));
    BP_TRY(tier_grow(tier, size, marked, error));
    tier->digests = (uint32_t *)(void *)(tier->room + BP_TIER_ROOM);
    memset(tier->digests, 0, (size_t)tier_digest_bytes(tier->bytes));
    return BP_OK;
}

/* A file that is there, or a new one, which nobody else has put there meanwhile. */
static int tier_descriptor(const char *path, bool buffered)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NONBLOCK | (buffered ? 0 : O_DIRECT);
    const int there = open(path, flags);
    return there >= 0 || errno != ENOENT ? there : open(path, flags | O_CREAT | O_EXCL, 0600);
}

uint64_t bp_tier_posix_memory(uint64_t bytes)
{
    const uint64_t whole = bp_size_align(bytes, BP_TIER_WINDOW);
    return whole == BP_SIZE_INVALID
               ? whole
               : bp_size_add(BP_TIER_ROOM, bp_size_align(tier_digest_bytes(whole), PAGE));
}

static bp_status tier_open(bp_tier_posix *tier, bool buffered, bp_error *error)
{
    for (uint32_t i = 0; i < BP_TIER_WINDOWS; i++) {
        tier->window[i].first = UINT64_MAX;
    }
    if (bp_size_add(tier->bytes, PAGE) == BP_SIZE_INVALID) {
        return tier_failed(tier, error, EFBIG);
    }
    tier->descriptor = tier_descriptor(tier->path, buffered);
    if (tier->descriptor < 0 && errno == EINVAL) {
        return tier_refuse(tier, error,
                           "this file system cannot read and write past the page cache (O_DIRECT); "
                           "take another, or --offload-buffered");
    }
    if (tier->descriptor < 0) {
        return tier_failed(tier, error, errno);
    }
    tier->open = true;
    const bp_status status = tier_take(tier, buffered, error);
    if (status != BP_OK) {
        bp_tier_posix_close(tier);
    }
    return status;
}

bp_status bp_tier_posix_open(bp_tier_posix *tier, const char *path, uint64_t bytes, bool buffered,
                             void *room, bp_error *error)
{
    *tier =
        (bp_tier_posix){.bytes = bp_size_align(bytes, BP_TIER_WINDOW), .room = room, .path = path};
    return tier_open(tier, buffered, error);
}

bp_status bp_tier_posix_reopen(bp_tier_posix *tier, const char *path, uint64_t bytes, bool buffered,
                               void *room, bp_error *error)
{
    *tier = (bp_tier_posix){
        .bytes = bp_size_align(bytes, BP_TIER_WINDOW), .room = room, .path = path, .earlier = true};
    return tier_open(tier, buffered, error);
}

void bp_tier_posix_close(bp_tier_posix *tier)
{
    if (tier->open) {
        (void)close(tier->descriptor); /* what has to last was asked for by name */
    }
    tier->open = false;
}
