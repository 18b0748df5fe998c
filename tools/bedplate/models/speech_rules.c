/* SPDX-License-Identifier: MIT */
/* Rules of generation_config.json for texts of speech. */
#include "tools/bedplate/models/speech_rules.h"

#include <math.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/storage.h"
#include "tools/bedplate/models/end_tokens.h"

enum { TEXT_BYTES = 4096 };

/* A reading on its way. */
typedef struct rules_reading {
    speech_rules *rules;
    uint32_t vocabulary;
    bp_json json;
} rules_reading;

static bp_status rules_refuse(rules_reading *r)
{
    return bp_json_refuse(&r->json,
                          "suppress_tokens and begin_suppress_tokens are lists of ids, "
                          "lang_to_id and task_to_id objects of them, forced_decoder_ids a list of "
                          "pairs of places from 1 on, at most 3, and ids");
}

/* Puts an id behind a list, if the model has it and the list does not. */
static bp_status rules_put(rules_reading *r, uint32_t *id, uint32_t *count, uint32_t most,
                           const bp_json_event *event)
{
    if (event->kind != BP_JSON_NUMBER || !event->integer) {
        return rules_refuse(r);
    }
    if (event->i64 < 0 || event->i64 >= (int64_t)r->vocabulary) {
        return BP_OK;
    }
    for (uint32_t i = 0; i < *count; i++) {
        if (id[i] == (uint32_t)event->i64) {
            return BP_OK;
        }
    }
    if (*count == most) {
        return bp_json_refuse(&r->json, "a list of tokens is longer than is read");
    }
    id[(*count)++] = (uint32_t)event->i64;
    return BP_OK;
}

static bp_status rules_list(rules_reading *r, speech_list *list)
{
    bp_json_event event;
    list->count = 0;
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return rules_refuse(r);
    }
    BP_TRY(bp_json_next(&r->json, &event));
    while (event.kind != BP_JSON_ARRAY_END) {
        BP_TRY(rules_put(r, list->id, &list->count, SPEECH_RULES_IDS, &event));
        BP_TRY(bp_json_next(&r->json, &event));
    }
    return BP_OK;
}

static bp_status rules_languages(rules_reading *r)
{
    bp_json_event event;
    r->rules->languages = 0;
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return rules_refuse(r);
    }
    BP_TRY(bp_json_next(&r->json, &event));
    while (event.kind == BP_JSON_KEY) {
        BP_TRY(bp_json_next(&r->json, &event));
        BP_TRY(
            rules_put(r, r->rules->language, &r->rules->languages, SPEECH_RULES_LANGUAGES, &event));
        BP_TRY(bp_json_next(&r->json, &event));
    }
    return BP_OK;
}

static bp_status rules_task(rules_reading *r)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return rules_refuse(r);
    }
    BP_TRY(bp_json_next(&r->json, &event));
    while (event.kind == BP_JSON_KEY) {
        const bool is = strcmp(event.text, "transcribe") == 0;
        BP_TRY(bp_json_next(&r->json, &event));
        if (event.kind != BP_JSON_NUMBER || !event.integer) {
            return rules_refuse(r);
        }
        const bool known = event.i64 >= 0 && event.i64 < (int64_t)r->vocabulary;
        r->rules->task = is && known ? event.i64 : r->rules->task;
        BP_TRY(bp_json_next(&r->json, &event));
    }
    return BP_OK;
}

/* A pair of a place and an id, whose bracket was read. */
static bp_status rules_force(rules_reading *r)
{
    speech_rules *rules = r->rules;
    bp_json_event place, id, event;
    BP_TRY(bp_json_next(&r->json, &place));
    BP_TRY(place.kind == BP_JSON_NUMBER ? bp_json_next(&r->json, &id) : rules_refuse(r));
    BP_TRY(bp_json_next(&r->json, &event));
    const bool null = id.kind == BP_JSON_NULL;
    const uint32_t at = rules->forced_count;
    const bool known =
        id.kind == BP_JSON_NUMBER && id.integer && id.i64 >= 0 && id.i64 < (int64_t)r->vocabulary;
    if (!place.integer || place.i64 != (int64_t)at + 1 || at + 1 == SPEECH_PREFIX_MOST ||
        event.kind != BP_JSON_ARRAY_END || !(known || (null && at == 0))) {
        return rules_refuse(r);
    }
    rules->forced_opens = rules->forced_opens || null;
    rules->forced[rules->forced_count++] = null ? 0 : (uint32_t)id.i64;
    return BP_OK;
}

static bp_status rules_forced(rules_reading *r)
{
    bp_json_event event;
    r->rules->forced_count = 0;
    r->rules->forced_opens = false;
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind == BP_JSON_NULL) {
        return BP_OK;
    }
    if (event.kind != BP_JSON_ARRAY_BEGIN) {
        return rules_refuse(r);
    }
    BP_TRY(bp_json_next(&r->json, &event));
    while (event.kind != BP_JSON_ARRAY_END) {
        BP_TRY(event.kind == BP_JSON_ARRAY_BEGIN ? rules_force(r) : rules_refuse(r));
        BP_TRY(bp_json_next(&r->json, &event));
    }
    return BP_OK;
}

static bp_status rules_member(rules_reading *r, const char *key)
{
    if (strcmp(key, "suppress_tokens") == 0) {
        return rules_list(r, &r->rules->never);
    }
    if (strcmp(key, "begin_suppress_tokens") == 0) {
        return rules_list(r, &r->rules->first);
    }
    if (strcmp(key, "lang_to_id") == 0) {
        return rules_languages(r);
    }
    if (strcmp(key, "task_to_id") == 0) {
        return rules_task(r);
    }
    return strcmp(key, "forced_decoder_ids") == 0 ? rules_forced(r) : bp_json_skip(&r->json);
}

/* Whether a token may be written behind the prefix. */
static bool rules_leave_token(const rules_reading *r)
{
    const speech_list *never = &r->rules->never, *first = &r->rules->first;
    uint32_t count = never->count;
    for (uint32_t i = 0; i < first->count; i++) {
        bool both = false;
        for (uint32_t j = 0; j < never->count && !both; j++) {
            both = first->id[i] == never->id[j];
        }
        count += both ? 0 : 1;
    }
    return count < r->vocabulary;
}

static bp_status rules_document(rules_reading *r, bp_storage_reader *reader)
{
    static char text[TEXT_BYTES];
    bp_json_event event;
    const bp_json_source source = {bp_storage_fill, reader, reader->end};
    const bp_json_memory memory = {
        .text = text, .text_bytes = sizeof text, .max_depth = BP_JSON_DEPTH_MAX};
    BP_TRY(bp_json_init(&r->json, &source, &memory, reader->error));
    BP_TRY(bp_json_next(&r->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&r->json, "the document is no object");
    }
    BP_TRY(bp_json_next(&r->json, &event));
    while (event.kind == BP_JSON_KEY) {
        BP_TRY(rules_member(r, event.text));
        BP_TRY(bp_json_next(&r->json, &event));
    }
    return rules_leave_token(r)
               ? BP_OK
               : bp_json_refuse(&r->json, "suppress_tokens and begin_suppress_tokens leave no "
                                          "token");
}

static bp_status rules_read(rules_reading *r, bp_store *store, const char *directory, bool *there,
                            bp_error *error)
{
    char path[BP_STORE_PATH_MAX];
    char buffer[TEXT_BYTES];
    *there = false;
    if (directory == NULL || directory[0] == '\0' ||
        bp_storage_join(path, directory, END_TOKENS_FILE, NULL) != BP_OK ||
        store->exists(store, path, there) != BP_OK || !*there) {
        return BP_OK;
    }
    bp_storage_reader reader = {
        .store = store, .path = path, .buffer = buffer, .capacity = sizeof buffer, .error = error};
    if (store->open_read(store, path, &reader.file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    const bp_status status = store->file_size(store, reader.file, &reader.end) == BP_OK
                                 ? rules_document(r, &reader)
                                 : bp_storage_failed(error, store, "size", path);
    (void)store->close(store, reader.file); /* it was only read */
    if (status == BP_ERR_DATA) {
        bp_error_prefix(error, path);
    }
    return status;
}

bp_status speech_rules_find(speech_rules *rules, bp_store *store, const char *adapter,
                            const char *model, uint32_t vocabulary, bp_error *error)
{
    rules_reading r = {.rules = rules, .vocabulary = vocabulary};
    bool there = false;
    memset(rules, 0, sizeof *rules);
    rules->task = -1;
    BP_TRY(rules_read(&r, store, adapter, &there, error));
    return there ? BP_OK : rules_read(&r, store, model, &there, error);
}

bp_status speech_rules_prefix(const speech_rules *rules, const settings *set,
                              const bp_tokenizer *tokenizer, speech_prefix *prefix, bool *finds,
                              bp_error *error)
{
    speech_prefix asked;
    const bool silent = set->language == NULL && strcmp(set->task_token, "none") == 0;
    BP_TRY(speech_prefix_find(&asked, set, tokenizer, error));
    const uint32_t last = asked.id[asked.count - 1]; /* <|notimestamps|> */
    const uint32_t forced = silent ? rules->forced_count : 0;
    *finds = set->language == NULL && rules->languages > 0 && (forced == 0 || rules->forced_opens);
    *prefix = (speech_prefix){.count = 0};
    if (*finds) {
        prefix->id[prefix->count++] = rules->language[0];
    }
    for (uint32_t i = rules->forced_opens ? 1 : 0; i < forced; i++) {
        prefix->id[prefix->count++] = rules->forced[i];
    }
    for (uint32_t i = 0; i + 1 < asked.count; i++) {
        prefix->id[prefix->count++] = asked.id[i];
    }
    if (set->language != NULL && asked.count == 2 && rules->task >= 0) {
        prefix->id[prefix->count++] = (uint32_t)rules->task;
    }
    if (prefix->count == 0 || prefix->id[prefix->count - 1] != last) {
        prefix->id[prefix->count++] = last;
    }
    return BP_OK;
}

uint32_t speech_rules_language(const speech_rules *rules, const float *logits)
{
    uint32_t best = rules->language[0];
    for (uint32_t i = 1; i < rules->languages; i++) {
        const uint32_t id = rules->language[i];
        const bool less = logits[id] > logits[best] || (logits[id] == logits[best] && id < best);
        best = less ? id : best;
    }
    return best;
}

static void rules_forbid(const speech_list *list, float *logits)
{
    for (uint32_t i = 0; i < list->count; i++) {
        logits[list->id[i]] = -INFINITY;
    }
}

void speech_rules_apply(const speech_rules *rules, bool begins, float *logits)
{
    rules_forbid(&rules->never, logits);
    if (begins) {
        rules_forbid(&rules->first, logits);
    }
}
