/* SPDX-License-Identifier: MIT */
/* Helpers over bp_store: each call's failure is recorded once, with the call and the file. */
#include "core/base/storage.h"

#include <string.h>

#include "arena/text.h"

bp_status bp_storage_failed(bp_error *error, const bp_store *store, const char *call,
                            const char *path)
{
    char name[BP_ERROR_NAME_MAX];
    bp_text text;
    bp_text_init(&text, NULL, NULL, name, sizeof name);
    size_t room = sizeof name - strlen(call) - 4;
    size_t length = strlen(path);
    /* Of a path that is too long the end says more than the beginning. */
    bp_text_string(&text, length > room ? path + (length - room) : path);
    bp_text_string(&text, " (");
    bp_text_string(&text, call);
    bp_text_string(&text, ")");
    bp_status fits = bp_text_flush(&text);
    (void)fits; /* the path was cut to make it so */
    const char *reason = store->reason != NULL ? store->reason : "the storage call failed";
    return bp_error_set(error, BP_ERR_STORE, "storage", reason, name);
}

bp_status bp_storage_join(char path[BP_STORE_PATH_MAX], const char *directory, const char *name,
                          bp_error *error)
{
    bp_text text;
    bp_text_init(&text, NULL, NULL, path, BP_STORE_PATH_MAX);
    bp_text_string(&text, directory);
    if (directory[0] != '\0') {
        bp_text_char(&text, '/');
    }
    bp_text_string(&text, name);
    if (bp_text_flush(&text) != BP_OK) {
        return bp_error_limit(error, BP_ERR_USAGE, "storage", "a path is too long", name,
                              bp_size_signed(strlen(directory) + strlen(name) + 1), BP_LIMIT_MOST,
                              BP_STORE_PATH_MAX - 1);
    }
    return BP_OK;
}

bp_status bp_storage_exists(bp_store *store, const char *path, bool *there, bp_error *error)
{
    return store->exists(store, path, there) == BP_OK
               ? BP_OK
               : bp_storage_failed(error, store, "look up", path);
}

typedef struct sought_name {
    const char *name;
    bool listed;
} sought_name;

static bp_status see_sought(void *user, const char *name)
{
    sought_name *sought = user;
    sought->listed = sought->listed || strcmp(name, sought->name) == 0;
    return BP_OK;
}

bp_status bp_storage_holds(bp_store *store, const char *directory, const char *name, bool *there,
                           bp_error *error)
{
    char path[BP_STORE_PATH_MAX];
    sought_name sought = {.name = name};
    BP_TRY(bp_storage_join(path, directory, name, error));
    BP_TRY(bp_storage_exists(store, path, there, error));
    if (*there) {
        return BP_OK;
    }
    if (store->list(store, directory, see_sought, &sought) != BP_OK) {
        return bp_storage_exists(store, path, there, error); /* no directory: asked twice */
    }
    return sought.listed
               ? bp_error_set(error, BP_ERR_STORE, "storage",
                              "the directory lists the name, and it cannot be looked up", path)
               : BP_OK;
}

bp_status bp_storage_write_file(bp_store *store, const char *path, const void *bytes, size_t length,
                                bp_error *error)
{
    bp_file file;
    if (store->open_write(store, path, &file) != BP_OK) {
        return bp_storage_failed(error, store, "create", path);
    }
    bp_status status = BP_OK;
    if (store->write_at(store, file, 0, bytes, length) != BP_OK) {
        status = bp_storage_failed(error, store, "write", path);
    } else if (store->sync(store, file) != BP_OK) {
        status = bp_storage_failed(error, store, "sync", path);
    }
    if (store->close(store, file) != BP_OK && status == BP_OK) {
        status = bp_storage_failed(error, store, "close", path);
    }
    return status;
}

static bp_status read_open_file(bp_store *store, bp_file file, void *to, size_t room,
                                size_t *length, const char **call)
{
    uint64_t bytes;
    *call = "size";
    BP_TRY(store->file_size(store, file, &bytes));
    *length = (size_t)bytes;
    if (bytes > room) {
        return BP_ERR_FIT;
    }
    *call = "read";
    return store->read_at(store, file, 0, to, *length);
}

bp_status bp_storage_read_file(bp_store *store, const char *path, void *to, size_t room,
                               size_t *length, bp_error *error)
{
    bp_file file;
    if (store->open_read(store, path, &file) != BP_OK) {
        return bp_storage_failed(error, store, "open", path);
    }
    const char *call;
    bp_status status = read_open_file(store, file, to, room, length, &call);
    if (status == BP_ERR_FIT) {
        status =
            bp_error_limit(error, BP_ERR_FIT, "storage", "the file is larger than its room", path,
                           bp_size_signed(room), BP_LIMIT_LEAST, bp_size_signed(*length));
    } else if (status != BP_OK) {
        status = bp_storage_failed(error, store, call, path);
    }
    if (store->close(store, file) != BP_OK && status == BP_OK) {
        status = bp_storage_failed(error, store, "close", path);
    }
    return status;
}

typedef struct first_entry {
    char name[BP_STORE_PATH_MAX];
    bool fits;
} first_entry;

static bp_status take_first(void *user, const char *name)
{
    first_entry *first = user;
    size_t length = strlen(name);
    first->fits = length < sizeof first->name;
    memcpy(first->name, name, first->fits ? length + 1 : 0);
    return BP_ERR_STOPPED; /* ends the listing */
}

bp_status bp_storage_remove_directory(bp_store *store, const char *path, bp_error *error)
{
    bool link = false;
    if (store->remove_link != NULL && store->remove_link(store, path, &link) != BP_OK) {
        return bp_storage_failed(error, store, "remove", path);
    }
    for (; !link;) {
        /* One name per listing: removing entries while a listing is under way is not defined. */
        first_entry first;
        bp_status status = store->list(store, path, take_first, &first);
        if (status == BP_OK) {
            break;
        }
        if (status != BP_ERR_STOPPED || !first.fits) {
            return bp_storage_failed(error, store, "list", path);
        }
        char inner[BP_STORE_PATH_MAX];
        BP_TRY(bp_storage_join(inner, path, first.name, error));
        if (store->remove(store, inner) != BP_OK) {
            return bp_storage_failed(error, store, "remove", inner);
        }
    }
    if (!link && store->remove_directory(store, path) != BP_OK) {
        return bp_storage_failed(error, store, "remove directory", path);
    }
    return BP_OK;
}

bp_status bp_storage_fill(void *user, const unsigned char **bytes, size_t *count)
{
    bp_storage_reader *reader = user;
    uint64_t left = reader->end - reader->offset;
    *count = left < reader->capacity ? (size_t)left : reader->capacity;
    *bytes = reader->buffer;
    if (*count == 0) {
        return BP_OK;
    }
    bp_store *store = reader->store;
    if (store->read_at(store, reader->file, reader->offset, reader->buffer, *count) != BP_OK) {
        return bp_storage_failed(reader->error, store, "read", reader->path);
    }
    reader->offset += *count;
    return BP_OK;
}

bp_status bp_storage_read_small(bp_store *store, const char *path, void *to, size_t most,
                                size_t *length, bp_error *error)
{
    bp_error inner = {.code = BP_OK};
    const bp_status status = bp_storage_read_file(store, path, to, most, length, &inner);
    if (status == BP_ERR_FIT) {
        return bp_error_limit(error, BP_ERR_DATA, "storage",
                              "the file is larger than one of its kind may be", path, inner.wanted,
                              BP_LIMIT_MOST, bp_size_signed(most));
    }
    if (status != BP_OK && error != NULL && error->code == BP_OK) {
        *error = inner;
    }
    return status;
}
