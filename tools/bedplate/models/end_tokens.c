/* SPDX-License-Identifier: MIT */
/* eos_token_id of generation_config.json and config.json. */
#include "tools/bedplate/models/end_tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "arena/json_write.h"
#include "core/base/json.h"
#include "core/base/storage.h"
#include "tools/formats/files/stream_file.h"
#include "tools/formats/hf/hf_config_copy.h"

enum { FILE_BYTES = 65536, TEXT_BYTES = 4096 };

static bp_status take_end(bp_json *json, end_tokens *ends, const bp_json_event *event)
{
    if (event->kind != BP_JSON_NUMBER || !event->integer || event->i64 < 0) {
        return bp_json_refuse(json, "eos_token_id is no token id, and no list of them");
    }
    if (ends->count == END_TOKENS_MAX) {
        return bp_json_refuse(json, "eos_token_id names more than 64 tokens");
    }
    ends->id[ends->count++] = event->i64;
    return BP_OK;
}

static bp_status take_ends(bp_json *json, end_tokens *ends)
{
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    ends->given = true;
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return take_end(json, ends, &event);
    }
    BP_TRY(bp_json_next(json, &event));
    while (event.kind != BP_JSON_ARRAY_END) {
        BP_TRY(take_end(json, ends, &event));
        BP_TRY(bp_json_next(json, &event));
    }
    return BP_OK;
}

static bp_status read_members(bp_json *json, end_tokens *ends)
{
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(json, "the document is no object");
    }
    BP_TRY(bp_json_next(json, &event));
    while (event.kind == BP_JSON_KEY) {
        if (strcmp(event.text, "eos_token_id") == 0) {
            ends->count = 0; /* of a key that comes twice the last counts */
            BP_TRY(take_ends(json, ends));
        } else {
            BP_TRY(bp_json_skip(json));
        }
        BP_TRY(bp_json_next(json, &event));
    }
    return bp_json_next(json, &event);
}

static bp_status end_tokens_document(bp_storage_reader *reader, end_tokens *ends)
{
    static char text[TEXT_BYTES];
    bp_json json;
    const bp_json_source source = {bp_storage_fill, reader, reader->end};
    const bp_json_memory memory = {
        .text = text, .text_bytes = sizeof text, .max_depth = BP_JSON_DEPTH_MAX};
    BP_TRY(bp_json_init(&json, &source, &memory, reader->error));
    bp_status status = read_members(&json, ends);
    if (status == BP_ERR_DATA) {
        bp_error_prefix(reader->error, reader->path);
    }
    return status;
}

bp_status end_tokens_read(end_tokens *ends, bp_store *store, const char *directory,
                          const char *name, bp_error *error)
{
    char path[BP_STORE_PATH_MAX];
    char buffer[TEXT_BYTES];
    bool there = false;
    *ends = (end_tokens){.given = false};
    if (directory == NULL || directory[0] == '\0' ||
        bp_storage_join(path, directory, name, NULL) != BP_OK ||
        store->exists(store, path, &there) != BP_OK || !there) {
        return BP_OK;
    }
    bp_storage_reader reader = {
        .store = store, .path = path, .buffer = buffer, .capacity = sizeof buffer, .error = error};
    if (store->open_read(store, path, &reader.file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    bp_status status = store->file_size(store, reader.file, &reader.end) == BP_OK
                           ? end_tokens_document(&reader, ends)
                           : bp_storage_failed(error, store, "size", path);
    (void)store->close(store, reader.file); /* it was only read */
    return status;
}

bp_status end_tokens_find(end_tokens *ends, bp_store *store, const char *adapter,
                          const run_tokenizer *c, const char *model, bp_error *error)
{
    BP_TRY(end_tokens_read(ends, store, adapter, END_TOKENS_FILE, error));
    if (!ends->given && c->bytes > 0 && c->ends_given) {
        ends->given = true;
        ends->count = c->end_count;
        memcpy(ends->id, c->end, sizeof ends->id);
    }
    return ends->given || c->bytes > 0
               ? BP_OK
               : end_tokens_read(ends, store, model, END_TOKENS_FILE, error);
}

static void end_tokens_put(end_tokens *ends, int64_t id)
{
    bool there = id < 0 || ends->count == END_TOKENS_MAX;
    for (uint32_t i = 0; i < ends->count; i++) {
        there = there || ends->id[i] == id;
    }
    if (!there) {
        ends->id[ends->count++] = id;
    }
}

void end_tokens_add(end_tokens *ends, const run_tokenizer *c, const bp_model_config *config,
                    int64_t id)
{
    if (!ends->given) {
        end_tokens_put(ends, run_tokenizer_end_token(c, config));
        end_tokens_put(ends, config->eos_token);
        for (uint32_t i = 0; i < config->more_eos_count; i++) {
            end_tokens_put(ends, config->more_eos[i]);
        }
        ends->given = true;
    }
    end_tokens_put(ends, id);
}

/* The text of a generation_config.json that is not there. */
static size_t default_config(const bp_model_config *config, char text[TEXT_BYTES])
{
    const int64_t ids[] = {config->bos_token, config->pad_token};
    static const char *const keys[] = {"bos_token_id", "pad_token_id"};
    bp_text out;
    bp_json_writer json;
    bp_text_init(&out, NULL, NULL, text, TEXT_BYTES);
    bp_json_put_begin(&json, &out, BP_JSON_SPACED);
    bp_json_put_open(&json, NULL, '{');
    for (size_t i = 0; i < 2; i++) {
        if (ids[i] >= 0) {
            bp_json_put_i64(&json, keys[i], ids[i]);
        }
    }
    bp_json_put_close(&json);
    const bp_status fits = bp_text_flush(&out);
    (void)fits; /* two numbers do */
    return (size_t)out.written;
}

bp_status end_tokens_write(const end_tokens *ends, const bp_model_config *config, bp_store *store,
                           const char *from, const char *to, void *work, bp_error *error)
{
    static char file[FILE_BYTES];
    char list[END_TOKENS_MAX * 12 + 2];
    char path[BP_STORE_PATH_MAX];
    size_t length;
    bp_text out;
    bp_json_writer json;
    bool there = false;
    bp_stream_file stream;
    BP_TRY(bp_storage_join(path, from, END_TOKENS_FILE, error));
    BP_TRY(bp_storage_exists(store, path, &there, error));
    if (there) {
        BP_TRY(bp_storage_read_small(store, path, file, sizeof file, &length, error));
    } else {
        length = default_config(config, file);
    }
    bp_text_init(&out, NULL, NULL, list, sizeof list);
    bp_json_put_begin(&json, &out, BP_JSON_SPACED);
    bp_json_put_open(&json, NULL, '[');
    for (uint32_t i = 0; i < ends->count; i++) {
        bp_json_put_i64(&json, NULL, ends->id[i]);
    }
    bp_json_put_close(&json);
    BP_TRY(bp_text_flush(&out));
    const bp_config_change change = {.key = "eos_token_id", .value = list};
    bp_json_span span = {file, length};
    const bp_json_source source = {bp_json_span_fill, &span, length};
    BP_TRY(bp_storage_join(path, to, END_TOKENS_FILE, error));
    BP_TRY(bp_stream_begin(&stream, store, path, error));
    bp_status status = bp_hf_config_change(&source, &change, work, bp_stream_add, &stream, error);
    return bp_stream_end(&stream, status);
}

bool end_tokens_has(const end_tokens *ends, const run_tokenizer *c, const bp_model_config *config,
                    uint32_t id)
{
    if (ends->turn > 0 && id == ends->turn - 1) {
        return true;
    }
    if (!ends->given) {
        return run_tokenizer_ends(c, config, id);
    }
    for (uint32_t i = 0; i < ends->count; i++) {
        if (ends->id[i] == (int64_t)id) {
            return true;
        }
    }
    return false;
}
