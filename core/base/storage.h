/* SPDX-License-Identifier: MIT */
/* What every user of a bp_store needs: paths, error reports, whole small files, JSON sources. */
#ifndef BP_CORE_STORAGE_H
#define BP_CORE_STORAGE_H

#include "arena/base.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/store.h"

/* Records that the store's call `call` ("write", "sync", ...) on `path` failed: the error's name is
 * "PATH (CALL)", its text the store's own reason. Returns BP_ERR_STORE. */
bp_status bp_storage_failed(bp_error *error, const bp_store *store, const char *call,
                            const char *path) BP_MUST_CHECK;

/* directory/name, or name alone when directory is "". BP_ERR_USAGE when it does not fit. */
bp_status bp_storage_join(char path[BP_STORE_PATH_MAX], const char *directory, const char *name,
                          bp_error *error) BP_MUST_CHECK;

/* Whether something has that path. A call that fails is BP_ERR_STORE and says nothing of the path:
 * who takes it for "not there" begins a run anew beside what is there. */
bp_status bp_storage_exists(bp_store *store, const char *path, bool *there,
                            bp_error *error) BP_MUST_CHECK;

/* Whether `directory` (not "") has something of that name. "No" is believed only where the listing
 * agrees: a name that is listed and not found is BP_ERR_STORE, a passing fault of the medium. Where
 * there is no listing the name is looked up again. */
bp_status bp_storage_holds(bp_store *store, const char *directory, const char *name, bool *there,
                           bp_error *error) BP_MUST_CHECK;

/* Writes a whole file, syncs and closes it. Nothing is retried. */
bp_status bp_storage_write_file(bp_store *store, const char *path, const void *bytes, size_t length,
                                bp_error *error) BP_MUST_CHECK;

/* Reads a whole file of at most `room` bytes to `to`. BP_ERR_FIT when it is longer (found: room,
 * wanted: the file's bytes). */
bp_status bp_storage_read_file(bp_store *store, const char *path, void *to, size_t room,
                               size_t *length, bp_error *error) BP_MUST_CHECK;

/* The same for a kind of file that is never larger than `most` bytes, for which there is room: a
 * larger one is BP_ERR_DATA. */
bp_status bp_storage_read_small(bp_store *store, const char *path, void *to, size_t most,
                                size_t *length, bp_error *error) BP_MUST_CHECK;

/* Removes a directory and the files in it (one level; a directory inside makes it fail). Of a link
 * to a directory the link alone. */
bp_status bp_storage_remove_directory(bp_store *store, const char *path,
                                      bp_error *error) BP_MUST_CHECK;

/* A part of an open file as a JSON document, read through `buffer` (capacity > 0). */
typedef struct bp_storage_reader {
    bp_store *store;
    bp_file file;
    const char *path;
    uint64_t offset; /* of the next byte; fill moves it */
    uint64_t end;
    void *buffer;
    size_t capacity;
    bp_error *error;
} bp_storage_reader;

/* The fill of a bp_json_source whose user is a bp_storage_reader. */
bp_status bp_storage_fill(void *user, const unsigned char **bytes, size_t *count);

#endif
