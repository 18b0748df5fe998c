/* SPDX-License-Identifier: MIT */
/* Write beside in pieces, sync, rename. */
#include "tools/formats/files/stream_file.h"

#include "core/base/storage.h"
#include "tools/formats/files/replace.h"

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
