/* SPDX-License-Identifier: MIT */
/* Replacing a whole file so that a reader sees the old one or the new one, never half of one. */
#ifndef BP_FORMATS_REPLACE_H
#define BP_FORMATS_REPLACE_H

#include "core/base/error.h"
#include "core/base/store.h"

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
