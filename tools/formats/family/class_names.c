/* SPDX-License-Identifier: MIT */
/* id2label: an object from numbers of classes, written as texts, to their names. */
#include "tools/formats/family/class_names.h"

#include <string.h>

#include "core/base/json.h"
#include "core/base/number.h"
#include "core/base/storage.h"
#include "tools/formats/hf/hf_config.h"

enum { READ_BYTES = 16384, TEXT_BYTES = BP_CLASS_NAMES_SCRATCH - READ_BYTES };

/* Keeps the name of the next class; false: it is another's, or there is no room. */
static bool keep(bp_class_names *names, int64_t class_number, const bp_json_event *name)
{
    size_t bytes = name->length + 1;
    if (class_number != (int64_t)names->count || names->count == BP_CLASS_NAMES_MAX ||
        bytes > BP_CLASS_NAMES_TEXT - names->used || strlen(name->text) != name->length) {
        return false;
    }
    memcpy(names->text + names->used, name->text, bytes);
    names->start[names->count++] = names->used;
    names->used += (uint32_t)bytes;
    return true;
}

/* The members of id2label; *good becomes false where one is no name. */
static bp_status take_names(bp_json *json, bp_class_names *names, bool *good)
{
    bp_json_event event;
    bp_number number;
    BP_TRY(bp_json_next(json, &event));
    *good = event.kind == BP_JSON_OBJECT_BEGIN;
    while (*good) {
        BP_TRY(bp_json_next(json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            break;
        }
        bool whole = bp_number_parse(event.text, event.length, &number) == BP_OK && number.integer;
        BP_TRY(bp_json_next(json, &event));
        *good = whole && event.kind == BP_JSON_TEXT && keep(names, number.i64, &event);
    }
    return BP_OK;
}

/* Reads up to the names and leaves what follows them: hf_config.c has seen that it is sound. */
static bp_status find_names(bp_json *json, bp_class_names *names)
{
    bp_json_event event;
    bool good = false;
    BP_TRY(bp_json_next(json, &event));
    do {
        BP_TRY(bp_json_next(json, &event));
        bool here = event.kind == BP_JSON_KEY && strcmp(event.text, "id2label") == 0;
        if (here) {
            BP_TRY(take_names(json, names, &good));
            break;
        }
        if (event.kind == BP_JSON_KEY) {
            BP_TRY(bp_json_skip(json));
        }
    } while (event.kind == BP_JSON_KEY);
    names->count = good ? names->count : 0;
    return BP_OK;
}

static bp_status class_names_read_file(bp_storage_reader *reader, unsigned char *scratch,
                                       bp_class_names *names)
{
    bp_json json;
    if (reader->store->file_size(reader->store, reader->file, &reader->end) != BP_OK) {
        return bp_storage_failed(reader->error, reader->store, "size", reader->path);
    }
    reader->buffer = scratch;
    reader->capacity = READ_BYTES;
    const bp_json_source source = {bp_storage_fill, reader, BP_HF_CONFIG_BYTES_MAX};
    /* hf_config.c has seen that no key is there twice. */
    const bp_json_memory memory = {.text = (char *)scratch + READ_BYTES,
                                   .text_bytes = TEXT_BYTES,
                                   .max_depth = BP_JSON_DEPTH_MAX};
    BP_TRY(bp_json_init(&json, &source, &memory, reader->error));
    return find_names(&json, names);
}

bp_status bp_class_names_read(bp_store *store, const char *path, void *scratch,
                              bp_class_names *names, bp_error *error)
{
    bp_storage_reader reader = {.store = store, .path = path, .error = error};
    names->count = 0;
    names->used = 0;
    if (store->open_read(store, path, &reader.file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    bp_status status = class_names_read_file(&reader, scratch, names);
    /* Nothing was written: a failing close of a file that was read loses nothing. */
    (void)store->close(store, reader.file);
    return status;
}

bool bp_class_names_find(const bp_class_names *names, const char *text, size_t length,
                         uint32_t *class_number)
{
    uint32_t count = names != NULL ? names->count : 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = names->text + names->start[i];
        if (strlen(name) == length && memcmp(name, text, length) == 0) {
            *class_number = i;
            return true;
        }
    }
    return false;
}
