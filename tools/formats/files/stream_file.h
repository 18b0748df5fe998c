/* SPDX-License-Identifier: MIT */
/* Files of any size, written front to back beside their place and renamed into it; and copies. */
#ifndef BP_FORMATS_STREAM_FILE_H
#define BP_FORMATS_STREAM_FILE_H

#include "core/base/error.h"
#include "core/base/store.h"

/* A file being written. Must not move. */
typedef struct bp_stream_file {
    bp_store *store;
    bp_file file;
    bp_error *error;
    const char *path;
    uint64_t at;
    char name[BP_STORE_PATH_MAX]; /* the temporary one */
} bp_stream_file;

/* Creates path.tmp. path and error must outlive the record. */
bp_status bp_stream_begin(bp_stream_file *stream, bp_store *store, const char *path,
                          bp_error *error) BP_MUST_CHECK;

/* A bp_sink whose user is the bp_stream_file. */
bp_status bp_stream_add(void *user, const char *bytes, size_t length) BP_MUST_CHECK;

/* With status BP_OK: syncs, closes and renames to the path. Otherwise closes, and the path is as it
 * was. Returns the first failure, `status` included. */
bp_status bp_stream_end(bp_stream_file *stream, bp_status status) BP_MUST_CHECK;

/* Copies a file through `work` bytes of memory. *there is false, and nothing is done, when there is
 * no such file. */
bp_status bp_copy_file(bp_store *store, const char *from, const char *to, void *memory, size_t work,
                       bool *there, bp_error *error) BP_MUST_CHECK;

/* Replacing a whole file so that a reader sees the old one or the new one, never half of one. */
/* path + ".tmp". BP_ERR_USAGE when it does not fit. */
bp_status bp_replace_name(char name[BP_STORE_PATH_MAX], const char *path,
                          bp_error *error) BP_MUST_CHECK;

/* Renames path.tmp, which is complete and synced, to `path`; where that fails, path.tmp is removed.
 */
bp_status bp_replace_end(bp_store *store, const char *path, bp_error *error) BP_MUST_CHECK;

/* Removes path.tmp after a failure, if it can. */
void bp_replace_abandon(bp_store *store, const char *path);

/* Writes path.tmp, syncs it, renames it to `path`. */
bp_status bp_replace_file(bp_store *store, const char *path, const void *bytes, size_t length,
                          bp_error *error) BP_MUST_CHECK;

/* Copies a file of any size to `path` in the same way, through `buffer` (capacity > 0). */
bp_status bp_replace_copy(bp_store *store, const char *from, const char *path, void *buffer,
                          size_t capacity, bp_error *error) BP_MUST_CHECK;

#endif
