/* SPDX-License-Identifier: MIT */
/* Failing on demand. */
#include "tests/support/store_faulty.h"

#include <string.h>

static bool fails(bp_store *store, fault_kind kind)
{
    faulty_store *faulty = store->context;
    faulty->calls[kind]++;
    faulty->all++;
    const bool any = faulty->kind == FAULT_ANY;
    const size_t made = any ? faulty->all : faulty->calls[kind];
    const bool hit = (any || kind == faulty->kind) && faulty->at != 0 &&
                     (faulty->for_ever ? made >= faulty->at : made == faulty->at);
    if (hit) {
        faulty->failures++;
        store->reason = "made to fail";
        store->code = 5;
    }
    return hit;
}

static bp_store *inner_of(const bp_store *store)
{
    const faulty_store *faulty = store->context;
    return faulty->inner;
}

/* Reports the inner store's failure as one's own. */
static bp_status passed(bp_store *store, bp_status status)
{
    store->reason = inner_of(store)->reason;
    store->code = inner_of(store)->code;
    return status;
}

static bp_status faulty_open_read(bp_store *store, const char *path, bp_file *file)
{
    if (fails(store, FAULT_OPEN_READ)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->open_read(inner_of(store), path, file));
}

static bp_status faulty_open_write(bp_store *store, const char *path, bp_file *file)
{
    if (fails(store, FAULT_OPEN_WRITE)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->open_write(inner_of(store), path, file));
}

/* Counts as opening to write. */
static bp_status faulty_open_update(bp_store *store, const char *path, bp_file *file)
{
    if (fails(store, FAULT_OPEN_WRITE)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->open_update(inner_of(store), path, file));
}

static bp_status faulty_file_size(bp_store *store, bp_file file, uint64_t *bytes)
{
    if (fails(store, FAULT_FILE_SIZE)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->file_size(inner_of(store), file, bytes));
}

static bp_status faulty_read_at(bp_store *store, bp_file file, uint64_t offset, void *to,
                                size_t bytes)
{
    if (fails(store, FAULT_READ_AT)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->read_at(inner_of(store), file, offset, to, bytes));
}

static bp_status faulty_write_at(bp_store *store, bp_file file, uint64_t offset, const void *from,
                                 size_t bytes)
{
    bp_store *inner = inner_of(store);
    if (fails(store, FAULT_WRITE_AT)) {
        bp_status half = inner->write_at(inner, file, offset, from, bytes / 2);
        (void)half;
        return BP_ERR_STORE;
    }
    return passed(store, inner->write_at(inner, file, offset, from, bytes));
}

static bp_status faulty_sync(bp_store *store, bp_file file)
{
    if (fails(store, FAULT_SYNC)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->sync(inner_of(store), file));
}

static bp_status faulty_close(bp_store *store, bp_file file)
{
    bp_status status = inner_of(store)->close(inner_of(store), file);
    return fails(store, FAULT_CLOSE) ? BP_ERR_STORE : passed(store, status);
}

static bp_status faulty_rename(bp_store *store, const char *from, const char *to)
{
    if (fails(store, FAULT_RENAME)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->rename(inner_of(store), from, to));
}

static bp_status faulty_remove(bp_store *store, const char *path)
{
    if (fails(store, FAULT_REMOVE)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->remove(inner_of(store), path));
}

static bp_status faulty_make_directory(bp_store *store, const char *path)
{
    if (fails(store, FAULT_MAKE_DIRECTORY)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->make_directory(inner_of(store), path));
}

static bp_status faulty_remove_directory(bp_store *store, const char *path)
{
    if (fails(store, FAULT_REMOVE_DIRECTORY)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->remove_directory(inner_of(store), path));
}

static bp_status faulty_sync_directory(bp_store *store, const char *path)
{
    if (fails(store, FAULT_SYNC_DIRECTORY)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->sync_directory(inner_of(store), path));
}

static bp_status faulty_list(bp_store *store, const char *path,
                             bp_status (*each)(void *user, const char *name), void *user)
{
    if (fails(store, FAULT_LIST)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->list(inner_of(store), path, each, user));
}

static bp_status faulty_free_bytes(bp_store *store, const char *path, uint64_t *bytes)
{
    if (fails(store, FAULT_FREE_BYTES)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->free_bytes(inner_of(store), path, bytes));
}

static bp_status faulty_exists(bp_store *store, const char *path, bool *there)
{
    if (fails(store, FAULT_EXISTS)) {
        return BP_ERR_STORE;
    }
    return passed(store, inner_of(store)->exists(inner_of(store), path, there));
}

void faulty_store_init(faulty_store *faulty, bp_store *inner)
{
    *faulty = (faulty_store){.inner = inner};
    faulty->store = (bp_store){.context = faulty,
                               .open_read = faulty_open_read,
                               .open_write = faulty_open_write,
                               .file_size = faulty_file_size,
                               .read_at = faulty_read_at,
                               .write_at = faulty_write_at,
                               .sync = faulty_sync,
                               .close = faulty_close,
                               .rename = faulty_rename,
                               .remove = faulty_remove,
                               .make_directory = faulty_make_directory,
                               .remove_directory = faulty_remove_directory,
                               .sync_directory = faulty_sync_directory,
                               .list = faulty_list,
                               .free_bytes = faulty_free_bytes,
                               .exists = faulty_exists,
                               .open_update = faulty_open_update};
}

void faulty_store_arm(faulty_store *faulty, fault_kind kind, size_t at, bool for_ever)
{
    faulty->kind = kind;
    faulty->at = at;
    faulty->for_ever = for_ever;
    faulty->failures = 0;
    faulty->all = 0;
    memset(faulty->calls, 0, sizeof faulty->calls);
}
