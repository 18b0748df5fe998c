/* SPDX-License-Identifier: MIT */
/* Writing without a medium. */
#include "tools/bedplate/app/store_none.h"

static bp_status store_none_refuse(bp_store *store)
{
    store->reason = "nothing is kept here";
    return BP_ERR_STORE;
}

static bp_status none_open_read(bp_store *store, const char *path, bp_file *file)
{
    (void)path;
    (void)file;
    return store_none_refuse(store);
}

static bp_status none_open_write(bp_store *store, const char *path, bp_file *file)
{
    (void)store;
    (void)path;
    file->handle = 1;
    return BP_OK;
}

static bp_status none_file_size(bp_store *store, bp_file file, uint64_t *bytes)
{
    (void)file;
    *bytes = 0;
    return store_none_refuse(store);
}

static bp_status none_read_at(bp_store *store, bp_file file, uint64_t offset, void *to,
                              size_t bytes)
{
    (void)file;
    (void)offset;
    (void)to;
    (void)bytes;
    return store_none_refuse(store);
}

static bp_status none_write_at(bp_store *store, bp_file file, uint64_t offset, const void *from,
                               size_t bytes)
{
    (void)store;
    (void)file;
    (void)offset;
    (void)from;
    (void)bytes;
    return BP_OK;
}

static bp_status none_file(bp_store *store, bp_file file)
{
    (void)store;
    (void)file;
    return BP_OK;
}

static bp_status none_two_paths(bp_store *store, const char *from, const char *to)
{
    (void)store;
    (void)from;
    (void)to;
    return BP_OK;
}

static bp_status none_path(bp_store *store, const char *path)
{
    (void)store;
    (void)path;
    return BP_OK;
}

static bp_status none_list(bp_store *store, const char *path,
                           bp_status (*each)(void *user, const char *name), void *user)
{
    (void)store;
    (void)path;
    (void)each;
    (void)user;
    return BP_OK;
}

static bp_status none_free_bytes(bp_store *store, const char *path, uint64_t *bytes)
{
    (void)store;
    (void)path;
    *bytes = UINT64_MAX;
    return BP_OK;
}

static bp_status none_exists(bp_store *store, const char *path, bool *there)
{
    (void)store;
    (void)path;
    *there = false;
    return BP_OK;
}

bp_store store_none(void)
{
    return (bp_store){.open_read = none_open_read,
                      .open_write = none_open_write,
                      .file_size = none_file_size,
                      .read_at = none_read_at,
                      .write_at = none_write_at,
                      .sync = none_file,
                      .close = none_file,
                      .rename = none_two_paths,
                      .remove = none_path,
                      .make_directory = none_path,
                      .remove_directory = none_path,
                      .sync_directory = none_path,
                      .list = none_list,
                      .free_bytes = none_free_bytes,
                      .exists = none_exists};
}
