/* SPDX-License-Identifier: MIT */
/* A store for fuzz targets: the file under test, and any number of files that are always there. It
 * aborts when a reader asks for bytes that the file does not have. */
#ifndef BP_TESTS_FUZZ_ONE_FILE_H
#define BP_TESTS_FUZZ_ONE_FILE_H

#include <stdlib.h>
#include <string.h>

#include "core/base/store.h"

typedef struct one_content {
    const char *path; /* NULL in the first: whatever path no other has */
    const uint8_t *bytes;
    size_t size;
} one_content;

/* files[0] is the one under test. */
typedef struct one_file {
    one_content files[4];
    size_t count;
    size_t open; /* files that are open */
} one_file;

static bp_status one_open(bp_store *store, const char *path, bp_file *file)
{
    one_file *one = store->context;
    file->handle = 1;
    for (size_t i = 1; i < one->count; i++) {
        if (strcmp(one->files[i].path, path) == 0) {
            file->handle = i + 1;
        }
    }
    one->open++;
    return BP_OK;
}

static bp_status one_size(bp_store *store, bp_file file, uint64_t *bytes)
{
    *bytes = ((const one_file *)store->context)->files[file.handle - 1].size;
    return BP_OK;
}

static bp_status one_read(bp_store *store, bp_file file, uint64_t offset, void *to, size_t bytes)
{
    const one_content *one = &((const one_file *)store->context)->files[file.handle - 1];
    if (offset > one->size || bytes > one->size - offset) {
        abort(); /* the reader knows the size and must not ask for more */
    }
    if (bytes > 0) {
        memcpy(to, one->bytes + offset, bytes);
    }
    return BP_OK;
}

static bp_status one_close(bp_store *store, bp_file file)
{
    (void)file;
    ((one_file *)store->context)->open--;
    return BP_OK;
}

static bp_status one_exists(bp_store *store, const char *path, bool *there)
{
    const one_file *one = store->context;
    *there = one->count == 1;
    for (size_t i = 1; i < one->count; i++) {
        *there = *there || strcmp(one->files[i].path, path) == 0;
    }
    return BP_OK;
}

/* Starts a store over the file under test. */
static inline bp_store one_store(one_file *one, const uint8_t *bytes, size_t size)
{
    *one = (one_file){.files = {{NULL, bytes, size}}, .count = 1};
    return (bp_store){.context = one,
                      .open_read = one_open,
                      .file_size = one_size,
                      .read_at = one_read,
                      .close = one_close,
                      .exists = one_exists};
}

#endif
