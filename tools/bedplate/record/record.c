/* SPDX-License-Identifier: MIT */
/* Writing record.jsonl. */
#include "tools/bedplate/record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/bedplate/record/record_read.h"

static const char where[] = "record";

static bp_status record_failed(const record *r, const char *text, bp_error *error)
{
    return bp_error_set(error, BP_ERR_STORE, where, text, r->path);
}

static bp_status record_open(record *r, const char *directory, int flags, bp_error *error)
{
    const int length = snprintf(r->path, sizeof r->path, "%s/%s", directory, RECORD_NAME);
    r->fd = -1;
    r->length = 0;
    r->evaluated = UINT64_MAX;
    r->waiting = 0;
    r->errors = 0;
    r->broken = false;
    r->said = NULL;
    memset(r->chain, 0, sizeof r->chain);
    if (length > 0 && (size_t)length < sizeof r->path) {
        r->fd = open(r->path, O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND | flags, 0666);
    }
    return r->fd >= 0 ? BP_OK : record_failed(r, "the record cannot be opened for writing", error);
}

bp_status record_create(record *r, const char *directory, bp_error *error)
{
    char path[sizeof r->path];
    const int length = snprintf(path, sizeof path, "%s/%s", directory, RECORD_NAME);
    if (length > 0 && (size_t)length < sizeof path) {
        (void)unlink(path); /* a new file: by a link, the old one may be somebody else's as well */
    }
    return record_open(r, directory, O_TRUNC, error);
}

bp_status record_continue(record *r, const char *directory, uint64_t length,
                          const unsigned char chain[BP_SHA256_BYTES], bp_error *error)
{
    record_walk walk;
    BP_TRY(record_open(r, directory, 0, error));
    BP_TRY(record_walk_begin(&walk, r->path, error));
    bp_status status = BP_OK;
    bool more = true;
    while (status == BP_OK && more && walk.offset < length) {
        status = record_walk_next(&walk, &more, error);
        if (status == BP_OK && more && walk.kind == RECORD_EVAL) {
            r->evaluated = walk.step;
        }
    }
    const bool same = walk.offset == length && memcmp(walk.chain, chain, BP_SHA256_BYTES) == 0;
    record_walk_end(&walk);
    BP_TRY(status);
    if (!same) {
        return bp_error_set(error, BP_ERR_DATA, where,
                            "the record is not the one that the checkpoint was saved with; moved "
                            "elsewhere, a new one begins at the checkpoint",
                            r->path);
    }
    if (ftruncate(r->fd, (off_t)length) != 0) {
        return record_failed(r, "the record cannot be cut", error);
    }
    r->length = length;
    memcpy(r->chain, chain, BP_SHA256_BYTES);
    return BP_OK;
}

void record_link(unsigned char chain[BP_SHA256_BYTES], const char *line, size_t length)
{
    bp_sha256 sha;
    bp_sha256_begin(&sha);
    bp_sha256_add(&sha, chain, BP_SHA256_BYTES);
    bp_sha256_add(&sha, line, length);
    bp_sha256_end(&sha, chain);
}

json_line *record_begin(record *r, const char *kind, uint64_t step)
{
    r->began = r->waiting;
    line_begin(&r->line, r->text + r->began, sizeof r->text - r->began);
    line_count(&r->line, kind, step);
    return &r->line;
}

/* Whether the file ends where the next line begins. What is behind that, a part of a line that went
 * out earlier, is cut off; what is missing somebody else has cut off. */
static bool record_ends(record *r)
{
    struct stat about;
    const off_t at = (off_t)(r->length - r->waiting);
    if (fstat(r->fd, &about) != 0) {
        return false;
    }
    if (about.st_size < at) {
        r->broken = true;
        r->said = "somebody cut the record while the run wrote it: nothing more is written there, "
                  "and checkpoints are saved without a record";
    }
    return about.st_size == at || (about.st_size > at && ftruncate(r->fd, at) == 0);
}

static void record_write(record *r)
{
    if (r->fd < 0 || r->broken || r->waiting == 0) {
        return;
    }
    if (record_ends(r) && write(r->fd, r->text, r->waiting) == (ssize_t)r->waiting) {
        r->waiting = 0;
    } else {
        r->errors++;
    }
}

void record_end(record *r)
{
    char text[BP_SHA256_TEXT];
    size_t length;
    const size_t bytes = (size_t)r->line.text.written;
    if (r->fd < 0 || r->broken) {
        return;
    }
    if (bp_text_flush(&r->line.text) == BP_OK) {
        record_link(r->chain, r->text + r->began, bytes);
        bp_sha256_text(r->chain, text);
        line_text(&r->line, "chain", text);
    }
    if (line_end(&r->line, &length) != BP_OK) {
        r->broken = true;
        r->errors++;
        return;
    }
    r->waiting = r->began + length;
    r->length += length;
    record_write(r);
}

static bool record_is_elsewhere(const record *r)
{
    struct stat own, there;
    if (fstat(r->fd, &own) != 0) {
        return false;
    }
    return stat(r->path, &there) != 0 ? errno == ENOENT
                                      : own.st_ino != there.st_ino || own.st_dev != there.st_dev;
}

/* Everything that was written, to another file. */
static bool record_write_again(const record *r, int to)
{
    char piece[4096];
    const uint64_t length = r->length - r->waiting;
    for (uint64_t at = 0; at < length;) {
        const size_t some = length - at < sizeof piece ? (size_t)(length - at) : sizeof piece;
        const ssize_t got = pread(r->fd, piece, some, (off_t)at);
        if (got <= 0 || write(to, piece, (size_t)got) != got) {
            return false;
        }
        at += (uint64_t)got;
    }
    return true;
}

void record_reopen(record *r)
{
    if (r->fd < 0 || r->broken || !record_is_elsewhere(r)) {
        return;
    }
    const int to = open(r->path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (to >= 0 && record_write_again(r, to)) {
        (void)close(r->fd); /* who moved it has it */
        r->fd = to;
        r->said = "the record was moved or removed: all of it is written here again";
        return;
    }
    r->errors++;
    r->said = "the record was moved or removed, and cannot be written here again: writing "
              "continues in the moved file";
    if (to >= 0) {
        (void)close(to);
        (void)unlink(r->path);
    }
}

bool record_sync(record *r)
{
    if (r->fd < 0 || r->broken) {
        return false;
    }
    record_write(r);
    if (r->waiting > 0 || fsync(r->fd) != 0) {
        r->errors++;
        return false;
    }
    return true;
}

void record_close(record *r)
{
    if (r->fd >= 0) {
        record_write(r);
        (void)close(r->fd); /* what must be there was synced */
    }
    r->fd = -1;
}
