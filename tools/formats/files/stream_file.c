/* SPDX-License-Identifier: MIT */
/* Write beside in pieces, sync, rename. */
#include <string.h>

#include "tools/formats/files/stream_file.h"

#include "core/base/storage.h"

bp_status bp_stream_begin(bp_stream_file *stream, bp_store *store, const char *path,
                          bp_error *error)
{
    *stream = (bp_stream_file){.store = store, .path = path, .error = error};
    BP_TRY(bp_replace_name(stream->name, path, error));
    if (store->open_write(store, stream->name, &stream->file) != BP_OK) {
        return bp_storage_failed(error, store, "create", stream->name);
    }
    return BP_OK;
}

bp_status bp_stream_add(void *user, const char *bytes, size_t length)
{
    bp_stream_file *s = user;
    if (s->store->write_at(s->store, s->file, s->at, bytes, length) != BP_OK) {
        return bp_storage_failed(s->error, s->store, "write", s->name);
    }
    s->at += length;
    return BP_OK;
}

bp_status bp_stream_end(bp_stream_file *s, bp_status status)
{
    if (status == BP_OK && s->store->sync(s->store, s->file) != BP_OK) {
        status = bp_storage_failed(s->error, s->store, "sync", s->name);
    }
    if (s->store->close(s->store, s->file) != BP_OK && status == BP_OK) {
        status = bp_storage_failed(s->error, s->store, "close", s->name);
    }
    if (status != BP_OK) {
        bp_replace_abandon(s->store, s->path);
        return status;
    }
    return bp_replace_end(s->store, s->path, s->error);
}

bp_status bp_copy_file(bp_store *store, const char *from, const char *to, void *memory, size_t work,
                       bool *there, bp_error *error)
{
    bool exists = false;
    *there = store->exists(store, from, &exists) == BP_OK && exists;
    return *there ? bp_replace_copy(store, from, to, memory, work, error) : BP_OK;
}

/* Write beside, sync, rename. */

static const char ending[] = ".tmp";

bp_status bp_replace_name(char name[BP_STORE_PATH_MAX], const char *path, bp_error *error)
{
    size_t length = strlen(path);
    if (length + sizeof ending > BP_STORE_PATH_MAX) {
        return bp_error_limit(error, BP_ERR_USAGE, "replace", "a path is too long", path,
                              (int64_t)length, BP_LIMIT_MOST,
                              BP_STORE_PATH_MAX - (int64_t)sizeof ending);
    }
    memcpy(name, path, length);
    memcpy(name + length, ending, sizeof ending);
    return BP_OK;
}

bp_status bp_replace_end(bp_store *store, const char *path, bp_error *error)
{
    char name[BP_STORE_PATH_MAX];
    BP_TRY(bp_replace_name(name, path, error));
    if (store->rename(store, name, path) != BP_OK) {
        bp_status status = bp_storage_failed(error, store, "rename", path);
        bp_replace_abandon(store, path);
        return status;
    }
    return BP_OK;
}

void bp_replace_abandon(bp_store *store, const char *path)
{
    char name[BP_STORE_PATH_MAX];
    if (bp_replace_name(name, path, NULL) == BP_OK) {
        (void)store->remove(store, name); /* the first failure is the one to report */
    }
}

/* Ends a writing of path.tmp that came to `status`. */
static bp_status end_or_abandon(bp_store *store, const char *path, bp_status status,
                                bp_error *error)
{
    if (status != BP_OK) {
        bp_replace_abandon(store, path);
        return status;
    }
    return bp_replace_end(store, path, error);
}

bp_status bp_replace_file(bp_store *store, const char *path, const void *bytes, size_t length,
                          bp_error *error)
{
    char name[BP_STORE_PATH_MAX];
    BP_TRY(bp_replace_name(name, path, error));
    bp_status status = bp_storage_write_file(store, name, bytes, length, error);
    return end_or_abandon(store, path, status, error);
}

/* Two open files, of which one becomes a copy of the other. */
typedef struct copy {
    bp_store *store;
    bp_file from;
    bp_file to;
    const char *from_name;
    const char *to_name;
    void *buffer;
    size_t capacity;
    bp_error *error;
} copy;

static bp_status copy_bytes(const copy *c)
{
    uint64_t size;
    if (c->store->file_size(c->store, c->from, &size) != BP_OK) {
        return bp_storage_failed(c->error, c->store, "size", c->from_name);
    }
    for (uint64_t offset = 0; offset < size;) {
        uint64_t left = size - offset;
        size_t n = left < c->capacity ? (size_t)left : c->capacity;
        if (c->store->read_at(c->store, c->from, offset, c->buffer, n) != BP_OK) {
            return bp_storage_failed(c->error, c->store, "read", c->from_name);
        }
        if (c->store->write_at(c->store, c->to, offset, c->buffer, n) != BP_OK) {
            return bp_storage_failed(c->error, c->store, "write", c->to_name);
        }
        offset += n;
    }
    if (c->store->sync(c->store, c->to) != BP_OK) {
        return bp_storage_failed(c->error, c->store, "sync", c->to_name);
    }
    return BP_OK;
}

static bp_status copy_to_new(copy *c)
{
    if (c->store->open_write(c->store, c->to_name, &c->to) != BP_OK) {
        return bp_storage_failed(c->error, c->store, "create", c->to_name);
    }
    bp_status status = copy_bytes(c);
    if (c->store->close(c->store, c->to) != BP_OK && status == BP_OK) {
        status = bp_storage_failed(c->error, c->store, "close", c->to_name);
    }
    return status;
}

bp_status bp_replace_copy(bp_store *store, const char *from, const char *path, void *buffer,
                          size_t capacity, bp_error *error)
{
    char name[BP_STORE_PATH_MAX];
    copy c = {.store = store,
              .from_name = from,
              .to_name = name,
              .buffer = buffer,
              .capacity = capacity,
              .error = error};
    BP_TRY(bp_replace_name(name, path, error));
    if (store->open_read(store, from, &c.from) != BP_OK) {
        return bp_storage_failed(error, store, "open", from);
    }
    bp_status status = copy_to_new(&c);
    /* Nothing was written to it: a failing close of a file that was read loses nothing. */
    (void)store->close(store, c.from);
    return end_or_abandon(store, path, status, error);
}
