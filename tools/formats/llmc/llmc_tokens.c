/* SPDX-License-Identifier: MIT */
/* Token files as llm.c reads them. */
#include "tools/formats/llmc/llmc_tokens.h"

#include <string.h>

#include "core/base/storage.h"
#include "tools/formats/files/stream_file.h"

#define HEADER_BYTES 1024
#define MAGIC_16     20240520u
#define MAGIC_32     20240801u
#define CHUNK        8192 /* tokens at a time */

static const char where[] = "llm.c tokens";

/* The scratch. */
typedef struct room {
    int32_t ids[CHUNK];
    unsigned char bytes[4 * CHUNK];
} room;

/* Fails to compile when the scratch is too small. */
typedef char scratch_suffices[sizeof(room) <= BP_LLMC_SCRATCH ? 1 : -1];

typedef struct writing {
    bp_store *store;
    bp_file file;
    const char *name;
    bp_source *source;
    uint32_t vocabulary;
    uint32_t width;
    room *room;
    bp_error *error;
} writing;

uint32_t bp_llmc_width(uint32_t vocabulary)
{
    return vocabulary <= 65536 ? 2 : 4;
}

static void llmc_tokens_put(unsigned char *to, uint32_t value, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++) {
        to[i] = (unsigned char)(value >> (8 * i));
    }
}

static bp_status write_at(const writing *w, uint64_t offset, size_t bytes)
{
    if (w->store->write_at(w->store, w->file, offset, w->room->bytes, bytes) != BP_OK) {
        return bp_storage_failed(w->error, w->store, "write", w->name);
    }
    return BP_OK;
}

static bp_status write_header(const writing *w)
{
    unsigned char *header = w->room->bytes;
    memset(header, 0, HEADER_BYTES);
    llmc_tokens_put(header, w->width == 2 ? MAGIC_16 : MAGIC_32, 4);
    llmc_tokens_put(header + 4, w->width == 2 ? 1 : 7, 4);
    llmc_tokens_put(header + 8, (uint32_t)w->source->count, 4);
    return write_at(w, 0, HEADER_BYTES);
}

static bp_status write_chunk(const writing *w, uint64_t first, uint32_t count)
{
    room *r = w->room;
    BP_TRY(w->source->read(w->source, first, count, r->ids));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = (uint32_t)r->ids[i];
        if (id >= w->vocabulary) {
            return bp_error_numbers(w->error, BP_ERR_DATA, where,
                                    "a token id is not below the vocabulary", w->source->name,
                                    r->ids[i], w->vocabulary);
        }
        llmc_tokens_put(r->bytes + (size_t)i * w->width, id, w->width);
    }
    return write_at(w, HEADER_BYTES + first * w->width, (size_t)count * w->width);
}

static bp_status llmc_tokens_write_all(const writing *w)
{
    BP_TRY(write_header(w));
    for (uint64_t first = 0; first < w->source->count; first += CHUNK) {
        uint64_t left = w->source->count - first;
        BP_TRY(write_chunk(w, first, left < CHUNK ? (uint32_t)left : CHUNK));
    }
    if (w->store->sync(w->store, w->file) != BP_OK) {
        return bp_storage_failed(w->error, w->store, "sync", w->name);
    }
    return BP_OK;
}

bp_status bp_llmc_write_tokens(bp_store *store, const char *path, bp_source *source,
                               uint32_t vocabulary, void *scratch, bp_error *error)
{
    char name[BP_STORE_PATH_MAX];
    writing w = {.store = store,
                 .name = name,
                 .source = source,
                 .vocabulary = vocabulary,
                 .width = bp_llmc_width(vocabulary),
                 .room = scratch,
                 .error = error};
    if (source->count == 0 || source->count > BP_LLMC_TOKENS_MAX) {
        return bp_error_numbers(error, BP_ERR_DATA, where,
                                "a token file holds 1 to 2,147,483,647 tokens", source->name,
                                bp_size_signed(source->count), BP_LLMC_TOKENS_MAX);
    }
    BP_TRY(bp_replace_name(name, path, error));
    if (store->open_write(store, name, &w.file) != BP_OK) {
        return bp_storage_failed(error, store, "create", name);
    }
    bp_status status = llmc_tokens_write_all(&w);
    if (store->close(store, w.file) != BP_OK && status == BP_OK) {
        status = bp_storage_failed(error, store, "close", name);
    }
    if (status != BP_OK) {
        /* What is left of it is of no use; if it stays, the next run writes over it. */
        (void)store->remove(store, name);
        return status;
    }
    return bp_replace_end(store, path, error);
}
