/* SPDX-License-Identifier: MIT */
/* Writing record.jsonl. */
#include "tools/bedplate/record/record.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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
    memset(r->chain, 0, sizeof r->chain);
    if (length > 0 && (size_t)length < sizeof r->path) {
        r->fd = open(r->path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0666);
    }
    return r->fd >= 0 ? BP_OK : record_failed(r, "the record cannot be opened for writing", error);
}

bp_status record_create(record *r, const char *directory, bp_error *error)
{
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
                            "the record is not the one that the snapshot was saved with; moved "
                            "elsewhere, a new one begins at the snapshot",
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

/* What waits is written where it belongs, so that a part that went out earlier is harmless. */
static void record_write(record *r)
{
    if (r->fd < 0 || r->broken || r->waiting == 0) {
        return;
    }
    const off_t at = (off_t)(r->length - r->waiting);
    if (pwrite(r->fd, r->text, r->waiting, at) == (ssize_t)r->waiting) {
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
