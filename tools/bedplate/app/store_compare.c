/* SPDX-License-Identifier: MIT */
/* Comparing instead of writing. */
#include "tools/bedplate/app/store_compare.h"

#include <string.h>

#include "tools/bedplate/app/store_none.h"

#define COMPARED UINT64_MAX /* the handle of the file that is compared */

static store_compare *compare_of(bp_store *store)
{
    return store->context;
}

static store_compared *compare_now(store_compare *c)
{
    return c->count > 0 ? &c->list[c->count - 1] : NULL;
}

static bp_status compare_open_write(bp_store *store, const char *path, bp_file *file)
{
    store_compare *c = compare_of(store);
    char name[BP_STORE_PATH_MAX];
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    const size_t length = strlen(path) - 4; /* .tmp */
    const size_t bytes = length - (size_t)(base - path);
    file->handle = COMPARED;
    c->end = 0;
    if (c->count == STORE_COMPARE_FILES || bytes >= STORE_COMPARE_NAME) {
        return BP_OK;
    }
    memcpy(name, path, length);
    name[length] = '\0';
    store_compared *now = &c->list[c->count++];
    *now = (store_compared){.equal = true};
    memcpy(now->name, base, bytes);
    now->there = c->files->open_read(c->files, name, &c->file) == BP_OK;
    return BP_OK;
}

static bp_status compare_write_at(bp_store *store, bp_file file, uint64_t offset, const void *from,
                                  size_t bytes)
{
    store_compare *c = compare_of(store);
    store_compared *now = compare_now(c);
    unsigned char there[4096];
    const unsigned char *at = from;
    (void)file;
    c->end = offset + bytes > c->end ? offset + bytes : c->end;
    while (bytes > 0 && now != NULL && now->there && now->equal) {
        const size_t piece = bytes < sizeof there ? bytes : sizeof there;
        now->equal = c->files->read_at(c->files, c->file, offset, there, piece) == BP_OK &&
                     memcmp(there, at, piece) == 0;
        at += piece;
        offset += piece;
        bytes -= piece;
    }
    return BP_OK;
}

static bp_status compare_close(bp_store *store, bp_file file)
{
    store_compare *c = compare_of(store);
    store_compared *now = compare_now(c);
    uint64_t bytes = 0;
    if (file.handle != COMPARED) {
        return c->medium->close(c->medium, file);
    }
    if (now != NULL && now->there) {
        now->equal = now->equal && c->files->file_size(c->files, c->file, &bytes) == BP_OK &&
                     bytes == c->end;
        (void)c->files->close(c->files, c->file); /* it was read only */
    }
    return BP_OK;
}

static bp_status compare_open_read(bp_store *store, const char *path, bp_file *file)
{
    bp_store *medium = compare_of(store)->medium;
    return medium->open_read(medium, path, file);
}

static bp_status compare_file_size(bp_store *store, bp_file file, uint64_t *bytes)
{
    bp_store *medium = compare_of(store)->medium;
    return medium->file_size(medium, file, bytes);
}

static bp_status compare_read_at(bp_store *store, bp_file file, uint64_t offset, void *to,
                                 size_t bytes)
{
    bp_store *medium = compare_of(store)->medium;
    return medium->read_at(medium, file, offset, to, bytes);
}

static bp_status compare_exists(bp_store *store, const char *path, bool *there)
{
    bp_store *medium = compare_of(store)->medium;
    return medium->exists(medium, path, there);
}

void store_compare_begin(store_compare *c, bp_store *medium, bp_store *files)
{
    *c = (store_compare){.store = store_none(), .medium = medium, .files = files};
    c->store.context = c;
    c->store.open_read = compare_open_read;
    c->store.open_write = compare_open_write;
    c->store.file_size = compare_file_size;
    c->store.read_at = compare_read_at;
    c->store.write_at = compare_write_at;
    c->store.close = compare_close;
    c->store.exists = compare_exists;
}
