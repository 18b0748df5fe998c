/* SPDX-License-Identifier: MIT */
/* Writing on after the medium has failed. */
#include "tools/bedplate/app/store_lasting.h"

#define NOWHERE UINT64_MAX /* the handle of a file that is not on the medium */

static store_lasting *lasting_of(bp_store *store)
{
    return store->context;
}

static bool lasting_writes(bp_store *store)
{
    return !lasting_of(store)->lost;
}

static bp_status lasting_seen(bp_store *store, bp_status status)
{
    store_lasting *l = lasting_of(store);
    l->lost = l->lost || status != BP_OK;
    return BP_OK;
}

/* What is read from files is the medium's own affair. */
static bp_status lasting_read(bp_store *store, bp_status status)
{
    const bp_store *medium = lasting_of(store)->medium;
    store->reason = medium->reason;
    store->code = medium->code;
    return status;
}

static bp_status lasting_open_read(bp_store *store, const char *path, bp_file *file)
{
    bp_store *medium = lasting_of(store)->medium;
    return lasting_read(store, medium->open_read(medium, path, file));
}

static bp_status lasting_open_write(bp_store *store, const char *path, bp_file *file)
{
    bp_store *medium = lasting_of(store)->medium;
    if (lasting_writes(store)) {
        (void)lasting_seen(store, medium->open_write(medium, path, file));
    }
    file->handle = lasting_writes(store) ? file->handle : NOWHERE;
    return BP_OK;
}

static bp_status lasting_file_size(bp_store *store, bp_file file, uint64_t *bytes)
{
    bp_store *medium = lasting_of(store)->medium;
    return lasting_read(store, medium->file_size(medium, file, bytes));
}

static bp_status lasting_read_at(bp_store *store, bp_file file, uint64_t offset, void *to,
                                 size_t bytes)
{
    bp_store *medium = lasting_of(store)->medium;
    return lasting_read(store, medium->read_at(medium, file, offset, to, bytes));
}

static bp_status lasting_write_at(bp_store *store, bp_file file, uint64_t offset, const void *from,
                                  size_t bytes)
{
    bp_store *medium = lasting_of(store)->medium;
    return lasting_writes(store)
               ? lasting_seen(store, medium->write_at(medium, file, offset, from, bytes))
               : BP_OK;
}

static bp_status lasting_sync(bp_store *store, bp_file file)
{
    bp_store *medium = lasting_of(store)->medium;
    return lasting_writes(store) ? lasting_seen(store, medium->sync(medium, file)) : BP_OK;
}

/* Also after the loss, or the file would stay open. The first reason is kept. */
static bp_status lasting_close(bp_store *store, bp_file file)
{
    bp_store *medium = lasting_of(store)->medium;
    const char *reason = medium->reason;
    const int code = medium->code;
    const bool lost = !lasting_writes(store);
    if (file.handle != NOWHERE) {
        (void)lasting_seen(store, medium->close(medium, file));
    }
    if (lost) {
        medium->reason = reason;
        medium->code = code;
    }
    return BP_OK;
}

static bp_status lasting_rename(bp_store *store, const char *from, const char *to)
{
    bp_store *medium = lasting_of(store)->medium;
    return lasting_writes(store) ? lasting_seen(store, medium->rename(medium, from, to)) : BP_OK;
}

static bp_status lasting_remove(bp_store *store, const char *path)
{
    bp_store *medium = lasting_of(store)->medium;
    return lasting_writes(store) ? lasting_seen(store, medium->remove(medium, path)) : BP_OK;
}

static bp_status lasting_make_directory(bp_store *store, const char *path)
{
    bp_store *medium = lasting_of(store)->medium;
    return lasting_writes(store) ? lasting_seen(store, medium->make_directory(medium, path))
                                 : BP_OK;
}

static bp_status lasting_remove_directory(bp_store *store, const char *path)
{
    bp_store *medium = lasting_of(store)->medium;
    return lasting_writes(store) ? lasting_seen(store, medium->remove_directory(medium, path))
                                 : BP_OK;
}

static bp_status lasting_remove_link(bp_store *store, const char *path, bool *was)
{
    bp_store *medium = lasting_of(store)->medium;
    *was = false;
    return lasting_writes(store) && medium->remove_link != NULL
               ? lasting_seen(store, medium->remove_link(medium, path, was))
               : BP_OK;
}

static bp_status lasting_sync_directory(bp_store *store, const char *path)
{
    bp_store *medium = lasting_of(store)->medium;
    return lasting_writes(store) ? lasting_seen(store, medium->sync_directory(medium, path))
                                 : BP_OK;
}

static bp_status lasting_list(bp_store *store, const char *path,
                              bp_status (*each)(void *user, const char *name), void *user)
{
    bp_store *medium = lasting_of(store)->medium;
    if (!lasting_writes(store)) {
        return BP_OK;
    }
    /* Any other status is that of the one who looks at the names. */
    const bp_status status = medium->list(medium, path, each, user);
    return status == BP_ERR_STORE ? lasting_seen(store, status) : status;
}

static bp_status lasting_free_bytes(bp_store *store, const char *path, uint64_t *bytes)
{
    (void)store;
    (void)path;
    *bytes = UINT64_MAX;
    return BP_OK;
}

static bp_status lasting_exists(bp_store *store, const char *path, bool *there)
{
    bp_store *medium = lasting_of(store)->medium;
    *there = false;
    return lasting_writes(store) ? lasting_seen(store, medium->exists(medium, path, there)) : BP_OK;
}

void store_lasting_begin(store_lasting *l, bp_store *medium)
{
    *l = (store_lasting){.medium = medium,
                         .store = {.context = l,
                                   .open_read = lasting_open_read,
                                   .open_write = lasting_open_write,
                                   .file_size = lasting_file_size,
                                   .read_at = lasting_read_at,
                                   .write_at = lasting_write_at,
                                   .sync = lasting_sync,
                                   .close = lasting_close,
                                   .rename = lasting_rename,
                                   .remove = lasting_remove,
                                   .make_directory = lasting_make_directory,
                                   .remove_directory = lasting_remove_directory,
                                   .sync_directory = lasting_sync_directory,
                                   .list = lasting_list,
                                   .free_bytes = lasting_free_bytes,
                                   .exists = lasting_exists,
                                   .remove_link = lasting_remove_link}};
}

bp_status store_lasting_end(store_lasting *l)
{
    return l->lost ? BP_ERR_STORE : BP_OK;
}
