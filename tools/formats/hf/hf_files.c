/* SPDX-License-Identifier: MIT */
/* Opening one file or many. An index is read twice: for the names of its files, and, when these
 * have been checked, to hold it against what is in them. */
#include "tools/formats/hf/hf_files.h"

#include <string.h>

#include "core/base/json.h"
#include "core/base/storage.h"

enum { INDEX_TEXT = 1024, INDEX_CHUNK = BP_HF_INDEX_WORK - INDEX_TEXT };

static const char where[] = "weights";

bp_status bp_hf_find(bp_store *store, const char *directory, char path[BP_STORE_PATH_MAX],
                     bool *found, bp_error *error)
{
    static const char *const names[] = {BP_HF_WEIGHTS, BP_HF_INDEX};
    *found = false;
    for (size_t i = 0; i < 2 && !*found; i++) {
        BP_TRY(bp_storage_join(path, directory, names[i], error));
        BP_TRY(bp_storage_exists(store, path, found, error));
    }
    if (!*found) {
        path[0] = '\0';
    }
    return BP_OK;
}

static bp_status hf_files_no_room(bp_error *error, const char *path, uint64_t has, uint64_t needs)
{
    return bp_error_limit(error, BP_ERR_FIT, where, "the memory for reading weights is too small",
                          path, bp_size_signed(has), BP_LIMIT_LEAST, bp_size_signed(needs));
}

/* Reads the header of one file into a part and closes it again. */
static bp_status open_part(bp_tensor_part *part, bp_store *store, bp_staging *room, bp_error *error)
{
    bp_safetensors file;
    BP_TRY(bp_safetensors_open(&file, store, part->path, room->memory, room->capacity, error));
    part->entries = file.entries;
    part->entry_count = file.entry_count;
    part->metadata = file.metadata;
    part->metadata_count = file.metadata_count;
    part->data_at = file.data_at;
    part->file_bytes = file.data_at + file.data_bytes;
    room->memory = (char *)room->memory + file.scratch_used;
    room->capacity -= file.scratch_used;
    return bp_safetensors_close(&file);
}

/* One reading of an index. */
typedef struct index_scan {
    bp_json json;
    bp_tensor_set *set;
    bp_error *error;
    bool checking; /* the second reading */
    bool seen;     /* weight_map */
    char *names;   /* first reading: the files' names, one after the other, terminated */
    size_t names_used;
    size_t names_room;
    uint32_t count;
} index_scan;

/* A file name that stays in the index's own directory. */
static bool plain_name(const char *name, size_t length)
{
    if (length == 0 || length > 255 || name[0] == '.' || memchr(name, '\0', length) != NULL) {
        return false;
    }
    return strchr(name, '/') == NULL && strchr(name, '\\') == NULL;
}

static bp_status hf_files_refuse(index_scan *scan, const char *text, const char *name)
{
    return bp_error_set(scan->error, BP_ERR_DATA, where, text, name);
}

/* First reading: keeps the name if it is new. Shards come in runs, so the last is looked at first.
 */
static bp_status note_file(index_scan *scan, const char *name, size_t length)
{
    for (const char *at = scan->names; at < scan->names + scan->names_used; at += strlen(at) + 1) {
        if (strcmp(at, name) == 0) {
            return BP_OK;
        }
    }
    if (scan->count == BP_HF_SHARDS_MAX) {
        return hf_files_refuse(scan, "the index names more than 1024 files", name);
    }
    if (length + 1 > scan->names_room - scan->names_used) {
        return hf_files_no_room(scan->error, NULL, scan->names_room, scan->names_used + length + 1);
    }
    memcpy(scan->names + scan->names_used, name, length + 1);
    scan->names_used += length + 1;
    scan->count++;
    return BP_OK;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Second reading: the tensor must be in the file that the index says, and be named once. */
static bp_status check_tensor(index_scan *scan, const char *tensor, const char *file)
{
    uint32_t part;
    bp_tensor_entry *entry = bp_tensor_set_find(scan->set, tensor, &part);
    if (entry == NULL || strcmp(base_of(scan->set->parts[part].path), file) != 0) {
        return hf_files_refuse(scan, "the index puts a tensor in a file that does not hold it",
                               tensor);
    }
    if (entry->handle != 0) {
        return hf_files_refuse(scan, "the index names a tensor twice", tensor);
    }
    entry->handle = 1;
    return BP_OK;
}

static bp_status take_pair(index_scan *scan, const bp_json_event *key)
{
    char tensor[BP_TENSOR_NAME_MAX];
    bp_json_event event;
    if (key->length == 0 || key->length >= sizeof tensor || strlen(key->text) != key->length) {
        return bp_json_refuse(&scan->json, "a tensor's name is empty, too long or holds NUL");
    }
    memcpy(tensor, key->text, key->length + 1);
    BP_TRY(bp_json_next(&scan->json, &event));
    if (event.kind != BP_JSON_TEXT || !plain_name(event.text, event.length)) {
        return hf_files_refuse(
            scan, "the index must give the name of a file beside it, without a path", tensor);
    }
    return scan->checking ? check_tensor(scan, tensor, event.text)
                          : note_file(scan, event.text, event.length);
}

static bp_status take_map(index_scan *scan)
{
    bp_json_event event;
    if (scan->seen) {
        return bp_json_refuse(&scan->json, "weight_map is there twice");
    }
    scan->seen = true;
    BP_TRY(bp_json_next(&scan->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&scan->json, "weight_map must be an object");
    }
    for (;;) {
        BP_TRY(bp_json_next(&scan->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            return BP_OK;
        }
        BP_TRY(take_pair(scan, &event));
    }
}

static bp_status take_document(index_scan *scan)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&scan->json, &event));
    if (event.kind != BP_JSON_OBJECT_BEGIN) {
        return bp_json_refuse(&scan->json, "the file must hold one JSON object");
    }
    for (;;) {
        BP_TRY(bp_json_next(&scan->json, &event));
        if (event.kind == BP_JSON_OBJECT_END) {
            break;
        }
        if (strcmp(event.text, "weight_map") == 0) {
            BP_TRY(take_map(scan));
        } else {
            BP_TRY(bp_json_skip(&scan->json));
        }
    }
    BP_TRY(bp_json_next(&scan->json, &event));
    return scan->seen ? BP_OK : bp_json_refuse(&scan->json, "weight_map is missing");
}

/* Reads the whole index once; `work` is BP_HF_INDEX_WORK bytes. */
static bp_status read_index(index_scan *scan, bp_store *store, const char *path, char *work)
{
    bp_error inner = {.code = BP_OK};
    bp_storage_reader reader = {.store = store,
                                .path = path,
                                .buffer = work + INDEX_TEXT,
                                .capacity = INDEX_CHUNK,
                                .error = &inner};
    bp_json_source source = {bp_storage_fill, &reader, BP_HF_INDEX_BYTES_MAX};
    /* Names given twice are found against the files, so the reader needs no key set. */
    bp_json_memory memory = {
        .text = work, .text_bytes = INDEX_TEXT, .keys = NULL, .max_depth = BP_JSON_DEPTH_MAX};
    bp_error *error = scan->error;
    if (store->open_read(store, path, &reader.file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    scan->error = &inner;
    bp_status status = BP_OK;
    if (store->file_size(store, reader.file, &reader.end) != BP_OK) {
        status = bp_storage_failed(&inner, store, "size", path);
    }
    status = status == BP_OK ? bp_json_init(&scan->json, &source, &memory, &inner) : status;
    status = status == BP_OK ? take_document(scan) : status;
    (void)store->close(store, reader.file); /* it was only read */
    scan->error = error;
    if (status != BP_OK && status != BP_ERR_STORE) {
        bp_error_prefix(&inner, path);
    }
    if (status != BP_OK && error != NULL && error->code == BP_OK) {
        *error = inner;
    }
    return status;
}

/* The paths of the shards, and a part for each. */
static bp_status make_parts(const index_scan *scan, const char *path, bp_staging *room,
                            bp_tensor_part **parts)
{
    size_t folder = (size_t)(base_of(path) - path);
    bp_tensor_part *table = bp_room_take(room, (uint64_t)scan->count * sizeof **parts);
    const char *name = scan->names;
    for (uint32_t i = 0; table != NULL && i < scan->count; i++, name += strlen(name) + 1) {
        size_t length = strlen(name);
        char *whole = bp_room_take(room, folder + length + 1);
        if (whole == NULL) {
            table = NULL;
            break;
        }
        if (folder + length >= BP_STORE_PATH_MAX) {
            return bp_error_set(scan->error, BP_ERR_USAGE, where, "a path is too long", name);
        }
        memcpy(whole, path, folder);
        memcpy(whole + folder, name, length + 1);
        table[i] = (bp_tensor_part){.path = whole};
    }
    *parts = table;
    return table != NULL
               ? BP_OK
               : hf_files_no_room(scan->error, path, room->capacity,
                                  (uint64_t)scan->count * (sizeof **parts + BP_STORE_PATH_MAX));
}

/* Every tensor of every file must have been named, or two files could hold the same one. */
static bp_status check_named(const bp_tensor_set *set)
{
    for (uint32_t p = 0; p < set->part_count; p++) {
        const bp_tensor_part *part = &set->parts[p];
        for (size_t i = 0; i < part->entry_count; i++) {
            if (part->entries[i].handle == 0) {
                bp_status status = bp_error_set(set->error, BP_ERR_DATA, where,
                                                "the file holds a tensor that the index does not "
                                                "put there",
                                                part->entries[i].name);
                bp_error_prefix(set->error, part->path);
                return status;
            }
        }
    }
    return BP_OK;
}

static bp_status open_parts(bp_tensor_part *parts, uint32_t count, bp_store *store,
                            bp_staging *room, bp_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        bool there = false;
        BP_TRY(bp_storage_exists(store, parts[i].path, &there, error));
        if (!there) {
            return bp_error_set(error, BP_ERR_DATA, where, "a file that the index names is missing",
                                parts[i].path);
        }
        BP_TRY(open_part(&parts[i], store, room, error));
        for (size_t j = 0; j < parts[i].entry_count; j++) {
            parts[i].entries[j].handle = 0;
        }
    }
    return BP_OK;
}

static bp_status open_index(bp_tensor_set *set, bp_store *store, const char *path, bp_staging *room,
                            bp_error *error)
{
    bp_staging rest = *room;
    char *work = bp_room_take(&rest, BP_HF_INDEX_WORK);
    if (work == NULL) {
        return hf_files_no_room(error, path, room->capacity, BP_HF_INDEX_WORK);
    }
    index_scan scan = {.error = error, .names = rest.memory, .names_room = rest.capacity};
    BP_TRY(read_index(&scan, store, path, work));
    if (bp_room_take(&rest, scan.names_used) == NULL) {
        return hf_files_no_room(error, path, room->capacity,
                                BP_HF_INDEX_WORK + scan.names_used + 8);
    }
    bp_tensor_part *parts = NULL;
    BP_TRY(make_parts(&scan, path, &rest, &parts));
    bp_tensor_set_init(set, store, path, parts, scan.count, error);
    BP_TRY(open_parts(parts, scan.count, store, &rest, error));
    index_scan again = {.error = error, .set = set, .checking = true};
    BP_TRY(read_index(&again, store, path, work));
    *room = rest;
    return check_named(set);
}

static bp_status open_single(bp_tensor_set *set, bp_store *store, const char *path,
                             bp_staging *room, bp_error *error)
{
    bp_tensor_part *part = bp_room_take(room, sizeof *part);
    if (part == NULL) {
        return hf_files_no_room(error, path, room->capacity, sizeof *part);
    }
    *part = (bp_tensor_part){.path = path};
    BP_TRY(open_part(part, store, room, error));
    bp_tensor_set_init(set, store, path, part, 1, error);
    return BP_OK;
}

bp_status bp_hf_open(bp_tensor_set *set, bp_store *store, const char *path, bp_staging *room,
                     bp_error *error)
{
    static const char ending[] = ".json";
    size_t length = strlen(path);
    size_t tail = sizeof ending - 1;
    *set = (bp_tensor_set){.store = store, .path = path};
    if (length > tail && strcmp(path + length - tail, ending) == 0) {
        return open_index(set, store, path, room, error);
    }
    return open_single(set, store, path, room, error);
}

static bp_status add_prefix(bp_tensor_part *part, const char *prefix, bp_staging *room,
                            bp_error *error)
{
    const size_t before = strlen(prefix);
    for (size_t i = 0; i < part->entry_count; i++) {
        const char *name = part->entries[i].name;
        const size_t bytes = before + strlen(name) + 1;
        char *whole = bp_room_take(room, bytes);
        if (bytes > BP_TENSOR_NAME_MAX) {
            return bp_error_set(error, BP_ERR_DATA, where, "a tensor's name is too long", name);
        }
        if (whole == NULL) {
            return hf_files_no_room(error, part->path, room->capacity, bytes);
        }
        memcpy(whole, prefix, before);
        memcpy(whole + before, name, bytes - before);
        part->entries[i].name = whole;
        part->entries[i].handle = 0;
    }
    return BP_OK;
}

bp_status bp_hf_add(bp_tensor_set *set, const char *path, const char *prefix, bp_staging *room)
{
    const uint32_t count = set->part_count;
    bp_tensor_part *parts = bp_room_take(room, (count + (uint64_t)1) * sizeof *parts);
    bool there = false;
    BP_TRY(bp_storage_exists(set->store, path, &there, set->error));
    if (!there) {
        return bp_error_set(set->error, BP_ERR_DATA, where,
                            "the file of a module's weights is missing", path);
    }
    if (parts == NULL) {
        return hf_files_no_room(set->error, path, room->capacity,
                                (count + (uint64_t)1) * sizeof *parts);
    }
    BP_TRY(bp_tensor_set_close(set));
    memcpy(parts, set->parts, count * sizeof *parts);
    parts[count] = (bp_tensor_part){.path = path};
    BP_TRY(open_part(&parts[count], set->store, room, set->error));
    BP_TRY(add_prefix(&parts[count], prefix, room, set->error));
    bp_tensor_set_init(set, set->store, set->path, parts, count + 1, set->error);
    return BP_OK;
}
