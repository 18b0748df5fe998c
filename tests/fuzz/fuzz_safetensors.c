/* SPDX-License-Identifier: MIT */
/* libFuzzer target: the safetensors reader on any bytes; what it accepts must be consistent. */
#include "core/base/safetensors.h"
#include "tests/fuzz/one_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

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
    one_file one;
    bp_store store = one_store(&one, bytes, size);
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
