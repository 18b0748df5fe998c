/* SPDX-License-Identifier: MIT */
/* Writing a safetensors file: layout first, then the data, and the header last. */
#include "core/base/safetensors.h"

#include <string.h>

#include "arena/json_write.h"
#include "core/base/digest.h"
#include "core/base/sort.h"
#include "core/base/storage.h"

/* The order of the format's own enum of element types; its writer puts the largest first. */
static const int dtype_order[BP_DTYPE_COUNT] = {
    [BP_BOOL] = 0, [BP_U8] = 1,   [BP_I8] = 2,   [BP_I16] = 3, [BP_U16] = 4,
    [BP_F16] = 5,  [BP_BF16] = 6, [BP_I32] = 7,  [BP_U32] = 8, [BP_F32] = 9,
    [BP_F64] = 10, [BP_I64] = 11, [BP_U64] = 12,
};

static int compare_canonical(const void *a, const void *b)
{
    const bp_tensor_entry *left = a;
    const bp_tensor_entry *right = b;
    int order = dtype_order[right->dtype] - dtype_order[left->dtype];
    return order != 0 ? order : strcmp(left->name, right->name);
}

static int compare_names(const void *a, const void *b)
{
    const bp_tensor_entry *left = a;
    const bp_tensor_entry *right = b;
    return strcmp(left->name, right->name);
}

static bp_status check_entry(bp_tensor_entry *entry, bp_error *error)
{
    static const char *const where = "bp_safetensors_layout";
    size_t length = strlen(entry->name);
    if (length == 0 || length >= BP_TENSOR_NAME_MAX) {
        return bp_error_set(error, BP_ERR_USAGE, where, "a tensor's name is empty or too long",
                            entry->name);
    }
    if (entry->rank > BP_TENSOR_RANK_MAX || bp_dtype_bytes(entry->dtype) == 0) {
        return bp_error_set(error, BP_ERR_USAGE, where, "a tensor's rank or dtype is out of range",
                            entry->name);
    }
    entry->bytes = bp_dtype_bytes(entry->dtype);
    for (uint32_t i = 0; i < entry->rank; i++) {
        entry->bytes = bp_size_mul(entry->bytes, entry->shape[i]);
    }
    return BP_OK;
}

/* A member of the metadata. */
static void safetensors_write_put(bp_json_writer *json, const char *prefix, const char *key,
                                  const char *value)
{
    char whole[BP_TENSOR_NAME_MAX + sizeof BP_SAFETENSORS_DIGEST]; /* the reader's limit */
    bp_text joined;
    bp_text_init(&joined, NULL, NULL, whole, sizeof whole);
    bp_text_string(&joined, prefix);
    bp_text_string(&joined, key);
    const bp_status fits = bp_text_flush(&joined);
    if (fits != BP_OK) {
        json->text->status = fits;
    }
    bp_json_put_text(json, whole, value);
}

static void put_metadata(bp_json_writer *json, const bp_safetensors_plan *plan)
{
    bp_json_put_open(json, "__metadata__", '{');
    safetensors_write_put(json, "", "format", "pt");
    for (size_t g = 0; g < plan->group_count; g++) {
        const bp_metadata_group *group = &plan->groups[g];
        for (size_t i = 0; i < group->pairs.count; i++) {
            safetensors_write_put(json, group->prefix, group->pairs.list[i].key,
                                  group->pairs.list[i].value);
        }
    }
    for (size_t i = 0; plan->digests && i < plan->entry_count; i++) {
        char digest[BP_DIGEST_TEXT];
        bp_digest_text(plan->entries[i].digest, digest);
        safetensors_write_put(json, BP_SAFETENSORS_DIGEST, plan->entries[i].name, digest);
    }
    bp_json_put_close(json);
}

static void put_entry(bp_json_writer *json, const bp_tensor_entry *entry)
{
    bp_json_put_open(json, entry->name, '{');
    bp_json_put_text(json, "dtype", bp_dtype_name(entry->dtype));
    bp_json_put_open(json, "shape", '[');
    for (uint32_t i = 0; i < entry->rank; i++) {
        bp_json_put_u64(json, NULL, entry->shape[i]);
    }
    bp_json_put_close(json);
    bp_json_put_open(json, "data_offsets", '[');
    bp_json_put_u64(json, NULL, entry->offset);
    bp_json_put_u64(json, NULL, entry->offset + entry->bytes);
    bp_json_put_close(json);
    bp_json_put_close(json);
}

/* The JSON and its padding with spaces to a multiple of 8. */
static bp_status put_header(bp_text *text, const bp_safetensors_plan *plan)
{
    bp_json_writer json;
    const uint64_t start = text->written;
    bp_json_put_begin(&json, text, BP_JSON_COMPACT);
    bp_json_put_open(&json, NULL, '{');
    put_metadata(&json, plan);
    for (size_t i = 0; i < plan->entry_count; i++) {
        put_entry(&json, &plan->entries[i]);
    }
    bp_json_put_close(&json);
    bp_text_repeat(text, ' ', (size_t)(-(text->written - start) % 8));
    return bp_text_flush(text);
}

static bp_status safetensors_write_forget(void *user, const char *text, size_t length)
{
    (void)user;
    (void)text;
    (void)length;
    return BP_OK;
}

bp_status bp_safetensors_layout(bp_safetensors_plan *plan, bp_error *error)
{
    static const char *const where = "bp_safetensors_layout";
    for (size_t i = 0; i < plan->entry_count; i++) {
        BP_TRY(check_entry(&plan->entries[i], error));
    }
    bp_heap_sort(plan->entries, plan->entry_count, sizeof *plan->entries, compare_names);
    for (size_t i = 1; i < plan->entry_count; i++) {
        if (strcmp(plan->entries[i - 1].name, plan->entries[i].name) == 0) {
            return bp_error_set(error, BP_ERR_USAGE, where, "two tensors have the same name",
                                plan->entries[i].name);
        }
    }
    bp_heap_sort(plan->entries, plan->entry_count, sizeof *plan->entries, compare_canonical);
    uint64_t end = 0;
    for (size_t i = 0; i < plan->entry_count; i++) {
        plan->entries[i].offset = end;
        end = bp_size_add(end, plan->entries[i].bytes);
    }
    if (end > INT64_MAX - BP_SAFETENSORS_HEADER_MAX - 8) {
        return bp_error_set(error, BP_ERR_OVERFLOW, where, "the tensors are too large for a file",
                            NULL);
    }
    char buffer[256];
    bp_text text;
    bp_text_init(&text, safetensors_write_forget, NULL, buffer, sizeof buffer);
    if (put_header(&text, plan) != BP_OK) {
        return bp_error_set(error, BP_ERR_USAGE, where, "a metadata key is too long", NULL);
    }
    plan->header_bytes = text.written;
    plan->data_bytes = end;
    plan->file_bytes = 8 + plan->header_bytes + end;
    if (plan->header_bytes > BP_SAFETENSORS_HEADER_MAX) {
        return bp_error_limit(error, BP_ERR_FIT, where, "the header is above the format's limit",
                              NULL, bp_size_signed(plan->header_bytes), BP_LIMIT_MOST,
                              (int64_t)BP_SAFETENSORS_HEADER_MAX);
    }
    return BP_OK;
}

bp_status bp_safetensors_begin(bp_safetensors_writer *writer, bp_store *store, const char *path,
                               const bp_safetensors_plan *plan, bp_error *error)
{
    *writer = (bp_safetensors_writer){.store = store, .path = path, .plan = plan, .error = error};
    if (plan->header_bytes == 0) {
        return bp_error_set(error, BP_ERR_USAGE, "bp_safetensors_begin", "the file has no layout",
                            path);
    }
    if (store->open_write(store, path, &writer->file) != BP_OK) {
        writer->file.handle = 0;
        return bp_storage_failed(error, store, "create", path);
    }
    return BP_OK;
}

/* Closes after a failure, whose status it returns. */
static bp_status abandon(bp_safetensors_writer *writer, bp_status status)
{
    bp_status closed = writer->store->close(writer->store, writer->file);
    (void)closed; /* what was written is thrown away */
    writer->file.handle = 0;
    return status;
}

static bp_status check_begun(const bp_safetensors_writer *writer)
{
    return writer->file.handle != 0 ? BP_OK
                                    : bp_error_set(writer->error, BP_ERR_USAGE, "safetensors",
                                                   "the file is not begun", writer->path);
}

static bp_status write_tensor(bp_safetensors_writer *writer, bp_tensor_entry *entry,
                              bp_staging staging, bp_tensor_payload payload, void *user)
{
    bp_store *store = writer->store;
    uint64_t start = 8 + writer->plan->header_bytes + entry->offset;
    bp_digest running;
    bp_digest_begin(&running, 0);
    for (uint64_t offset = 0; offset < entry->bytes;) {
        uint64_t left = entry->bytes - offset;
        size_t piece = left < staging.capacity ? (size_t)left : staging.capacity;
        BP_TRY(payload(user, entry, offset, staging.memory, piece));
        bp_digest_add(&running, staging.memory, piece);
        if (store->write_at(store, writer->file, start + offset, staging.memory, piece) != BP_OK) {
            return bp_storage_failed(writer->error, store, "write", writer->path);
        }
        offset += piece;
    }
    entry->digest = bp_digest_end(&running);
    return BP_OK;
}

bp_status bp_safetensors_write(bp_safetensors_writer *writer, bp_staging staging,
                               bp_tensor_payload payload, void *user)
{
    BP_TRY(check_begun(writer));
    for (size_t i = 0; i < writer->plan->entry_count; i++) {
        bp_tensor_entry *entry = &writer->plan->entries[i];
        bp_status status = write_tensor(writer, entry, staging, payload, user);
        if (status != BP_OK) {
            return abandon(writer, status);
        }
    }
    return BP_OK;
}

/* The sink of the header's text. */
typedef struct header_sink {
    bp_safetensors_writer *writer;
    uint64_t at;
} header_sink;

static bp_status write_header_text(void *user, const char *text, size_t length)
{
    header_sink *sink = user;
    bp_safetensors_writer *writer = sink->writer;
    bp_store *store = writer->store;
    if (store->write_at(store, writer->file, sink->at, text, length) != BP_OK) {
        return bp_storage_failed(writer->error, store, "write", writer->path);
    }
    sink->at += length;
    return BP_OK;
}

static bp_status write_header(bp_safetensors_writer *writer)
{
    char buffer[1024];
    header_sink sink = {writer, 0};
    bp_text text;
    bp_text_init(&text, write_header_text, &sink, buffer, sizeof buffer);
    for (int i = 0; i < 8; i++) {
        bp_text_char(&text, (char)(writer->plan->header_bytes >> (8 * i) & 0xff));
    }
    BP_TRY(put_header(&text, writer->plan));
    if (text.written != 8 + writer->plan->header_bytes) {
        return bp_error_set(writer->error, BP_ERR_INTERNAL, "bp_safetensors_end",
                            "metadata changed its length after the layout", writer->path);
    }
    bp_store *store = writer->store;
    if (store->sync(store, writer->file) != BP_OK) {
        return bp_storage_failed(writer->error, store, "sync", writer->path);
    }
    return BP_OK;
}

bp_status bp_safetensors_end(bp_safetensors_writer *writer)
{
    BP_TRY(check_begun(writer));
    bp_status status = write_header(writer);
    if (status != BP_OK) {
        return abandon(writer, status);
    }
    const bp_file open = writer->file;
    writer->file.handle = 0;
    if (writer->store->close(writer->store, open) != BP_OK) {
        return bp_storage_failed(writer->error, writer->store, "close", writer->path);
    }
    return BP_OK;
}
