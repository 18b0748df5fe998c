/* SPDX-License-Identifier: MIT */
/* Write beside, sync, rename. */
#include "tools/formats/replace.h"

#include <string.h>

#include "core/storage.h"

static const char ending[] = ".tmp";

bp_status bp_replace_name(char name[BP_STORE_PATH_MAX], const char *path, bp_error *error)
{
    size_t length = strlen(path);
    if (length + sizeof ending > BP_STORE_PATH_MAX) {
        return bp_error_numbers(error, BP_ERR_USAGE, "replace", "a path is too long", path,
                                (int64_t)length, BP_STORE_PATH_MAX - (int64_t)sizeof ending);
    }
    memcpy(name, path, length);
    memcpy(name + length, ending, sizeof ending);
    return BP_OK;
}

bp_status bp_replace_end(bp_store *store, const char *path, bp_error *error)
{
    char name[BP_STORE_PATH_MAX];
    BP_TRY(bp_replace_name(name, path, error));
    if (store->rename(store, name, path) != BP_OK) {
        return bp_storage_failed(error, store, "rename", path);
    }
    return BP_OK;
}

bp_status bp_replace_file(bp_store *store, const char *path, const void *bytes, size_t length,
                          bp_error *error)
{
    char name[BP_STORE_PATH_MAX];
    BP_TRY(bp_replace_name(name, path, error));
    BP_TRY(bp_storage_write_file(store, name, bytes, length, error));
    return bp_replace_end(store, path, error);
}
