/* SPDX-License-Identifier: MIT */
/* eos_token_id of generation_config.json. */
#include "tools/bedplate/models/end_tokens.h"

#include <string.h>

#include "core/base/json.h"
#include "core/base/storage.h"

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

bp_status end_tokens_read(end_tokens *ends, bp_store *store, const char *directory, bp_error *error)
{
    static char file[FILE_BYTES];
    static char text[TEXT_BYTES];
    char path[BP_STORE_PATH_MAX];
    bool there = false;
    size_t length;
    bp_json json;
    ends->given = false;
    ends->count = 0;
    if (directory == NULL ||
        bp_storage_join(path, directory, "generation_config.json", NULL) != BP_OK ||
        store->exists(store, path, &there) != BP_OK || !there) {
        return BP_OK;
    }
    BP_TRY(bp_storage_read_file(store, path, file, sizeof file, &length, error));
    bp_json_span span = {file, length};
    const bp_json_source source = {bp_json_span_fill, &span, length};
    const bp_json_memory memory = {
        .text = text, .text_bytes = sizeof text, .max_depth = BP_JSON_DEPTH_MAX};
    BP_TRY(bp_json_init(&json, &source, &memory, error));
    bp_status status = read_members(&json, ends);
    if (status != BP_OK) {
        bp_error_prefix(error, path);
    }
    return status;
}

bool end_tokens_has(const end_tokens *ends, const run_tokenizer *c, const bp_model_config *config,
                    uint32_t id)
{
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
