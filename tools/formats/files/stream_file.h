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

#endif
