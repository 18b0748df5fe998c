/* SPDX-License-Identifier: MIT */
/* Opening a safetensors file, and reading its tensors in pieces. */
#include "core/base/safetensors_private.h"

#include <string.h>

#include "core/base/digest.h"
#include "core/base/sort.h"
#include "core/base/storage.h"

enum { TEXT_ROOM = 1024, CHUNK_ROOM = BP_SAFETENSORS_WORK - TEXT_ROOM, SCRATCH_ALIGN = 8 };

static bp_status safetensors_read_refuse(const bp_safetensors *file, const char *name,
                                         const char *text)
{
    return bp_error_set(file->error, BP_ERR_DATA, "safetensors", text, name);
}

/* Reads the header once through the work area. */
static bp_status scan_header(const bp_safetensors *file, bp_header_scan *scan, unsigned char *work)
{
    bp_storage_reader reader = {.store = file->store,
                                .file = file->file,
                                .path = file->path,
                                .offset = 8,
                                .end = file->data_at,
                                .buffer = work + TEXT_ROOM,
                                .capacity = CHUNK_ROOM,
                                .error = file->error};
    bp_json_source source = {bp_storage_fill, &reader, BP_SAFETENSORS_HEADER_MAX};
    /* Duplicates show after sorting, so the reader needs no key set. */
    bp_json_memory memory = {
        .text = (char *)work, .text_bytes = TEXT_ROOM, .keys = NULL, .max_depth = 4};
    scan->error = file->error;
    BP_TRY(bp_json_init(&scan->json, &source, &memory, file->error));
    return bp_header_read(scan);
}

/* The 8 bytes of the header's length, and the first byte of the header. */
static bp_status read_lengths(bp_safetensors *file)
{
    uint64_t bytes;
    if (file->store->file_size(file->store, file->file, &bytes) != BP_OK) {
        return bp_storage_failed(file->error, file->store, "size", file->path);
    }
    if (bytes < 9) {
        return bp_error_limit(file->error, BP_ERR_DATA, "safetensors",
                              "the file is too small for a header", NULL, bp_size_signed(bytes),
                              BP_LIMIT_LEAST, 9);
    }
    unsigned char head[9];
    if (file->store->read_at(file->store, file->file, 0, head, sizeof head) != BP_OK) {
        return bp_storage_failed(file->error, file->store, "read", file->path);
    }
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--) {
        header = header << 8 | head[i];
    }
    if (header > BP_SAFETENSORS_HEADER_MAX) {
        return safetensors_read_refuse(file, NULL, "the header is longer than 100,000,000 bytes");
    }
    if (header > bytes - 8) {
        return bp_error_limit(file->error, BP_ERR_DATA, "safetensors",
                              "the header reaches beyond the end of the file", NULL,
                              bp_size_signed(header), BP_LIMIT_MOST, bp_size_signed(bytes - 8));
    }
    if (head[8] != '{') {
        return safetensors_read_refuse(file, NULL, "the header does not begin with {");
    }
    file->data_at = 8 + header;
    file->data_bytes = bytes - 8 - header;
    return BP_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const bp_tensor_entry *left = a;
    const bp_tensor_entry *right = b;
    if (left->offset != right->offset) {
        return left->offset < right->offset ? -1 : 1;
    }
    /* An empty tensor may stand where another begins. */
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

static int compare_names(const void *a, const void *b)
{
    const bp_tensor_entry *left = a;
    const bp_tensor_entry *right = b;
    return strcmp(left->name, right->name);
}

static bp_status check_coverage(const bp_safetensors *file)
{
    bp_heap_sort(file->entries, file->entry_count, sizeof *file->entries, compare_offsets);
    uint64_t end = 0;
    for (size_t i = 0; i < file->entry_count; i++) {
        const bp_tensor_entry *entry = &file->entries[i];
        if (entry->offset != end) {
            return bp_error_numbers(file->error, BP_ERR_DATA, "safetensors",
                                    "a hole or an overlap in the data before this tensor",
                                    entry->name, bp_size_signed(entry->offset),
                                    bp_size_signed(end));
        }
        end += entry->bytes; /* no overflow: offset + bytes was an int64_t in the header */
    }
    if (end != file->data_bytes) {
        return bp_error_numbers(file->error, BP_ERR_DATA, "safetensors",
                                "the tensors do not cover the data", NULL,
                                bp_size_signed(file->data_bytes), bp_size_signed(end));
    }
    return BP_OK;
}

static bp_status check_names(const bp_safetensors *file)
{
    bp_heap_sort(file->entries, file->entry_count, sizeof *file->entries, compare_names);
    for (size_t i = 1; i < file->entry_count; i++) {
        if (strcmp(file->entries[i - 1].name, file->entries[i].name) == 0) {
            return safetensors_read_refuse(file, file->entries[i].name,
                                           "the tensor is there twice");
        }
    }
    bp_heap_sort(file->metadata, file->metadata_count, sizeof *file->metadata, bp_pair_compare);
    for (size_t i = 1; i < file->metadata_count; i++) {
        if (strcmp(file->metadata[i - 1].key, file->metadata[i].key) == 0) {
            return safetensors_read_refuse(file, file->metadata[i].key,
                                           "the metadata key is there twice");
        }
    }
    return BP_OK;
}

static bp_status too_small(bp_safetensors *file, size_t given, uint64_t needed)
{
    file->scratch_needed = (size_t)needed;
    return bp_error_limit(file->error, BP_ERR_FIT, "safetensors",
                          "the header needs more scratch memory, bytes", NULL,
                          bp_size_signed(given), BP_LIMIT_LEAST, bp_size_signed(needed));
}

/* Counts, gives the tables their places (entries, pairs, text), and fills them. The work area is at
 * the end, so that it is free again afterwards. */
static bp_status read_tables(bp_safetensors *file, unsigned char *scratch, size_t bytes)
{
    size_t skew = (size_t)(-(uintptr_t)scratch % SCRATCH_ALIGN);
    if (bytes < skew + BP_SAFETENSORS_WORK) {
        return too_small(file, bytes, SCRATCH_ALIGN + BP_SAFETENSORS_WORK);
    }
    bp_header_scan count = {.filling = false};
    BP_TRY(scan_header(file, &count, scratch + skew));
    uint64_t entry_bytes = (uint64_t)count.entries * sizeof(bp_tensor_entry);
    uint64_t pair_bytes = (uint64_t)count.pairs * sizeof(bp_pair);
    uint64_t used = skew + entry_bytes + pair_bytes + count.text;
    if (used + BP_SAFETENSORS_WORK > bytes) {
        return too_small(file, bytes, used - skew + SCRATCH_ALIGN + BP_SAFETENSORS_WORK);
    }
    file->scratch_used = (size_t)used;
    file->scratch_needed = (size_t)used + BP_SAFETENSORS_WORK;
    bp_header_scan fill = {.filling = true,
                           .entry_table = (void *)(scratch + skew),
                           .pair_table = (void *)(scratch + skew + entry_bytes),
                           .text_room = (char *)scratch + (used - count.text),
                           .entry_most = count.entries,
                           .pair_most = count.pairs,
                           .text_most = count.text};
    BP_TRY(scan_header(file, &fill, scratch + used));
    file->entries = fill.entry_table;
    file->entry_count = fill.entries;
    file->metadata = fill.pair_table;
    file->metadata_count = fill.pairs;
    BP_TRY(check_coverage(file));
    return check_names(file);
}

bp_status bp_safetensors_open(bp_safetensors *file, bp_store *store, const char *path,
                              void *scratch, size_t scratch_bytes, bp_error *error)
{
    bp_error inner = {.code = BP_OK};
    *file = (bp_safetensors){.store = store, .path = path, .error = &inner};
    if (store->open_read(store, path, &file->file) != BP_OK) {
        *file = (bp_safetensors){.error = error};
        return bp_storage_failed(error, store, "open", path);
    }
    bp_status status = read_lengths(file);
    if (status == BP_OK) {
        status = read_tables(file, scratch, scratch_bytes);
    }
    file->error = error;
    if (status == BP_OK) {
        return BP_OK;
    }
    if (status != BP_ERR_STORE) {
        bp_error_prefix(&inner, path);
    }
    if (error != NULL && error->code == BP_OK) {
        *error = inner;
    }
    bp_status closed = store->close(store, file->file);
    (void)closed; /* the file was only read, and the first error is the one to report */
    *file = (bp_safetensors){.error = error, .scratch_needed = file->scratch_needed};
    return status;
}

static bp_status check_open(const bp_safetensors *file)
{
    return file->file.handle != 0 ? BP_OK
                                  : bp_error_set(file->error, BP_ERR_USAGE, "safetensors",
                                                 "the file is not open", file->path);
}

bp_status bp_safetensors_close(bp_safetensors *file)
{
    BP_TRY(check_open(file));
    const bp_file open = file->file;
    file->file.handle = 0;
    file->entry_count = 0; /* the scratch is the caller's again */
    file->metadata_count = 0;
    if (file->store->close(file->store, open) != BP_OK) {
        return bp_storage_failed(file->error, file->store, "close", file->path);
    }
    return BP_OK;
}

const bp_tensor_entry *bp_safetensors_find(const bp_safetensors *file, const char *name)
{
    size_t low = 0;
    size_t high = file->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(file->entries[middle].name, name);
        if (order == 0) {
            return &file->entries[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

const char *bp_safetensors_metadata(const bp_safetensors *file, const char *key)
{
    size_t low = 0;
    size_t high = file->metadata_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(file->metadata[middle].key, key);
        if (order == 0) {
            return file->metadata[middle].value;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

bp_status bp_safetensors_read(const bp_safetensors *file, const bp_tensor_entry *entry,
                              uint64_t offset, void *to, size_t bytes)
{
    BP_TRY(check_open(file));
    if (offset > entry->bytes || bytes > entry->bytes - offset) {
        return bp_error_limit(file->error, BP_ERR_USAGE, "bp_safetensors_read",
                              "the range is not inside the tensor", entry->name,
                              bp_size_signed(bp_size_add(offset, bytes)), BP_LIMIT_MOST,
                              bp_size_signed(entry->bytes));
    }
    uint64_t at = file->data_at + entry->offset + offset;
    if (file->store->read_at(file->store, file->file, at, to, bytes) != BP_OK) {
        return bp_storage_failed(file->error, file->store, "read", file->path);
    }
    return BP_OK;
}

bp_status bp_safetensors_stream(const bp_safetensors *file, const bp_tensor_entry *entry,
                                bp_staging staging, bp_tensor_sink sink, void *user,
                                uint64_t *digest)
{
    bp_digest running;
    BP_TRY(check_open(file));
    bp_digest_begin(&running, 0);
    for (uint64_t offset = 0; offset < entry->bytes;) {
        uint64_t left = entry->bytes - offset;
        size_t piece = left < staging.capacity ? (size_t)left : staging.capacity;
        BP_TRY(bp_safetensors_read(file, entry, offset, staging.memory, piece));
        bp_digest_add(&running, staging.memory, piece);
        if (sink != NULL) {
            BP_TRY(sink(user, entry, offset, staging.memory, piece));
        }
        offset += piece;
    }
    if (digest != NULL) {
        *digest = bp_digest_end(&running);
    }
    return BP_OK;
}
