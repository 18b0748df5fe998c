/* SPDX-License-Identifier: MIT */
/* Write beside in pieces, sync, rename. */
#include "tools/formats/stream_file.h"

#include "core/storage.h"
#include "tools/formats/replace.h"

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
    return status == BP_OK ? bp_replace_end(s->store, s->path, s->error) : status;
}

static bp_status copy_open(bp_store *store, bp_file file, const char *from, const char *to,
                           void *memory, size_t work, bp_error *error)
{
    uint64_t bytes;
    bp_stream_file stream;
    if (store->file_size(store, file, &bytes) != BP_OK) {
        return bp_storage_failed(error, store, "size", from);
    }
    BP_TRY(bp_stream_begin(&stream, store, to, error));
    bp_status status = BP_OK;
    for (uint64_t at = 0; status == BP_OK && at < bytes;) {
        size_t piece = bytes - at < work ? (size_t)(bytes - at) : work;
        if (store->read_at(store, file, at, memory, piece) != BP_OK) {
            status = bp_storage_failed(error, store, "read", from);
        } else {
            status = bp_stream_add(&stream, memory, piece);
        }
        at += piece;
    }
    return bp_stream_end(&stream, status);
}

bp_status bp_copy_file(bp_store *store, const char *from, const char *to, void *memory, size_t work,
                       bool *there, bp_error *error)
{
    bp_file file;
    bool exists = false;
    *there = store->exists(store, from, &exists) == BP_OK && exists;
    if (!*there) {
        return BP_OK;
    }
    if (store->open_read(store, from, &file) != BP_OK) {
        return bp_storage_failed(error, store, "open", from);
    }
    bp_status status = copy_open(store, file, from, to, memory, work, error);
    (void)store->close(store, file); /* it was only read */
    return status;
}
