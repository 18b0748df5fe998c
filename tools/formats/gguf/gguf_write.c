/* SPDX-License-Identifier: MIT */
/* The bytes of a GGUF file. */
#include "tools/formats/gguf/gguf_write.h"

#include <string.h>

#include "core/base/storage.h"

static const char where[] = "gguf";

static bp_status sink(void *user, const char *text, size_t length)
{
    bp_gguf_writer *w = user;
    if (w->store->write_at(w->store, w->file, w->at, text, length) != BP_OK) {
        return bp_storage_failed(w->error, w->store, "write", w->path);
    }
    w->at += length;
    return BP_OK;
}

static void put_u64(bp_gguf_writer *w, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        bp_text_char(&w->text, (char)(value >> (8 * i) & 0xff));
    }
}

static void put_bytes(bp_gguf_writer *w, const char *value, size_t length)
{
    put_u64(w, length, 8);
    bp_text_bytes(&w->text, value, length);
}

bp_status bp_gguf_begin(bp_gguf_writer *w, bp_store *store, const char *path, bp_error *error)
{
    *w = (bp_gguf_writer){.store = store, .path = path, .error = error};
    if (store->open_write(store, path, &w->file) != BP_OK) {
        return bp_storage_failed(error, store, "create", path);
    }
    bp_text_init(&w->text, sink, w, w->buffer, sizeof w->buffer);
    put_u64(w, BP_GGUF_MAGIC, 4);
    put_u64(w, BP_GGUF_VERSION, 4);
    put_u64(w, 0, 8); /* the counts: written at the end */
    put_u64(w, 0, 8);
    return BP_OK;
}

static void gguf_write_put_key(bp_gguf_writer *w, const char *key, bp_gguf_type type)
{
    put_bytes(w, key, strlen(key));
    put_u64(w, (uint64_t)type, 4);
    w->keys++;
}

void bp_gguf_put_u32(bp_gguf_writer *w, const char *key, uint32_t value)
{
    gguf_write_put_key(w, key, BP_GGUF_U32);
    put_u64(w, value, 4);
}

void bp_gguf_put_bool(bp_gguf_writer *w, const char *key, bool value)
{
    gguf_write_put_key(w, key, BP_GGUF_BOOL);
    put_u64(w, value ? 1 : 0, 1);
}

void bp_gguf_put_f32(bp_gguf_writer *w, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    gguf_write_put_key(w, key, BP_GGUF_F32);
    put_u64(w, bits, 4);
}

void bp_gguf_item_f32(bp_gguf_writer *w, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_u64(w, bits, 4);
}

void bp_gguf_put_string(bp_gguf_writer *w, const char *key, const char *value, size_t length)
{
    gguf_write_put_key(w, key, BP_GGUF_STRING);
    put_bytes(w, value, length);
}

void bp_gguf_put_array(bp_gguf_writer *w, const char *key, bp_gguf_type type, uint64_t count)
{
    gguf_write_put_key(w, key, BP_GGUF_ARRAY);
    put_u64(w, (uint64_t)type, 4);
    put_u64(w, count, 8);
}

void bp_gguf_item_string(bp_gguf_writer *w, const char *value, size_t length)
{
    put_bytes(w, value, length);
}

void bp_gguf_item_u8(bp_gguf_writer *w, uint8_t value)
{
    bp_text_char(&w->text, (char)value);
}

void bp_gguf_item_i32(bp_gguf_writer *w, int32_t value)
{
    put_u64(w, (uint32_t)value, 4);
}

static uint32_t tensor_type(bp_dtype dtype)
{
    return dtype == BP_F32   ? BP_GGUF_TENSOR_F32
           : dtype == BP_F16 ? BP_GGUF_TENSOR_F16
                             : BP_GGUF_TENSOR_BF16;
}

/* A tensor of ggml's type number, of blocks of so many elements and bytes. */
static void gguf_write_put_tensor(bp_gguf_writer *w, const char *name, uint32_t rank,
                                  const uint64_t *shape, const bp_packed_type *type)
{
    size_t length = strlen(name);
    uint64_t elements = 1;
    bool fits = length < BP_GGUF_NAME_MAX && rank >= 1 && rank <= BP_GGUF_RANK_MAX;
    if (!fits && w->text.status == BP_OK) {
        w->text.status = bp_error_set(w->error, BP_ERR_USAGE, where,
                                      "GGUF has no room for a tensor name or rank like this", name);
    }
    put_bytes(w, name, length);
    put_u64(w, rank, 4);
    for (uint32_t i = rank; i > 0; i--) {
        put_u64(w, shape[i - 1], 8);
        elements = bp_size_mul(elements, shape[i - 1]);
    }
    put_u64(w, type->type, 4);
    put_u64(w, w->offset, 8);
    const uint64_t bytes = bp_packed_bytes(type, elements);
    w->offset = bp_size_add(w->offset, bp_size_align(bytes, BP_GGUF_ALIGNMENT));
    w->tensors++;
}

void bp_gguf_put_tensor(bp_gguf_writer *w, const char *name, uint32_t rank, const uint64_t *shape,
                        bp_dtype dtype)
{
    const bp_packed_type plain = {
        .type = tensor_type(dtype), .elements = 1, .bytes = (uint32_t)bp_dtype_bytes(dtype)};
    gguf_write_put_tensor(w, name, rank, shape, &plain);
}

void bp_gguf_put_packed(bp_gguf_writer *w, const char *name, uint32_t rank, const uint64_t *shape,
                        const bp_packed_type *type)
{
    gguf_write_put_tensor(w, name, rank, shape, type);
}

static bp_status pad(bp_gguf_writer *w)
{
    static const char zeros[BP_GGUF_ALIGNMENT] = {0};
    size_t over = (size_t)(w->at % BP_GGUF_ALIGNMENT);
    return over == 0 ? BP_OK : sink(w, zeros, BP_GGUF_ALIGNMENT - over);
}

bp_status bp_gguf_data(bp_gguf_writer *w)
{
    bp_status status = bp_text_flush(&w->text);
    if (status == BP_OK) {
        status = pad(w);
    }
    w->text.status = status;
    return status;
}

bp_status bp_gguf_data_add(bp_gguf_writer *w, const void *bytes, size_t length)
{
    if (w->text.status == BP_OK) {
        w->text.status = sink(w, bytes, length);
    }
    return w->text.status;
}

bp_status bp_gguf_data_pad(bp_gguf_writer *w)
{
    if (w->text.status == BP_OK) {
        w->text.status = pad(w);
    }
    return w->text.status;
}

void bp_gguf_abandon(bp_gguf_writer *w)
{
    (void)w->store->close(w->store, w->file); /* what was written is thrown away */
}

bp_status bp_gguf_end(bp_gguf_writer *w)
{
    unsigned char counts[16];
    bp_store *store = w->store;
    bp_status status = w->text.status;
    for (int i = 0; i < 8; i++) {
        counts[i] = (unsigned char)(w->tensors >> (8 * i) & 0xff);
        counts[8 + i] = (unsigned char)(w->keys >> (8 * i) & 0xff);
    }
    if (status == BP_OK && store->write_at(store, w->file, 8, counts, sizeof counts) != BP_OK) {
        status = bp_storage_failed(w->error, store, "write", w->path);
    }
    if (status == BP_OK && store->sync(store, w->file) != BP_OK) {
        status = bp_storage_failed(w->error, store, "sync", w->path);
    }
    if (status != BP_OK) {
        bp_gguf_abandon(w);
        return status;
    }
    if (store->close(store, w->file) != BP_OK) {
        return bp_storage_failed(w->error, store, "close", w->path);
    }
    return BP_OK;
}
