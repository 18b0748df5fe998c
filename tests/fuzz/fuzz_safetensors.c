/* SPDX-License-Identifier: MIT */
/* libFuzzer target: the safetensors reader on any bytes; what it accepts must be consistent. */
#include <stdlib.h>
#include <string.h>

#include "core/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* A store that holds one file. */
typedef struct one_file {
    const uint8_t *bytes;
    size_t size;
} one_file;

static bp_status one_open(bp_store *store, const char *path, bp_file *file)
{
    (void)store;
    (void)path;
    file->handle = 1;
    return BP_OK;
}

static bp_status one_size(bp_store *store, bp_file file, uint64_t *bytes)
{
    (void)file;
    *bytes = ((const one_file *)store->context)->size;
    return BP_OK;
}

static bp_status one_read(bp_store *store, bp_file file, uint64_t offset, void *to, size_t bytes)
{
    const one_file *one = store->context;
    (void)file;
    if (offset > one->size || bytes > one->size - offset) {
        abort(); /* the reader knows the size and must not ask for more */
    }
    memcpy(to, one->bytes + offset, bytes);
    return BP_OK;
}

static bp_status one_close(bp_store *store, bp_file file)
{
    (void)store;
    (void)file;
    return BP_OK;
}

static void check_accepted(const bp_safetensors *file)
{
    uint64_t covered = 0;
    for (size_t i = 0; i < file->entry_count; i++) {
        const bp_tensor_entry *entry = &file->entries[i];
        covered += entry->bytes;
        unsigned char staging_bytes[32];
        bp_staging staging = {staging_bytes, sizeof staging_bytes};
        uint64_t digest;
        if (bp_safetensors_find(file, entry->name) != entry ||
            bp_safetensors_stream(file, entry, staging, NULL, NULL, &digest) != BP_OK) {
            abort();
        }
    }
    for (size_t i = 0; i < file->metadata_count; i++) {
        const bp_pair *pair = &file->metadata[i];
        if (bp_safetensors_metadata(file, pair->key) != pair->value) {
            abort();
        }
    }
    if (covered != file->data_bytes) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    one_file one = {bytes, size};
    bp_store store = {.context = &one,
                      .open_read = one_open,
                      .file_size = one_size,
                      .read_at = one_read,
                      .close = one_close};
    static unsigned char scratch[32768];
    bp_error error = {.code = BP_OK};
    bp_safetensors file;
    bp_status status = bp_safetensors_open(&file, &store, "f", scratch, sizeof scratch, &error);
    if (status != error.code) {
        abort();
    }
    if (status == BP_OK) {
        check_accepted(&file);
        status = bp_safetensors_close(&file);
    }
    if (status != BP_OK && status != BP_ERR_DATA && status != BP_ERR_FIT) {
        abort();
    }
    return 0;
}
