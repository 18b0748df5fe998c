/* SPDX-License-Identifier: MIT */
/* libFuzzer target: the reader of llm.c models; what it accepts must lie inside the file. */
#include "tests/fuzz/one_file.h"
#include "tools/formats/llmc/llmc_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    one_file one;
    bp_store store = one_store(&one, bytes, size);
    static uint64_t scratch[8192];
    bp_staging room = {scratch, sizeof scratch};
    bp_error error = {.code = BP_OK};
    bp_llmc_file file;
    bp_status status = bp_llmc_open(&file, &store, "l", &room, &error);
    if (status != error.code || one.open != 0) {
        abort();
    }
    if (status == BP_OK) {
        for (size_t i = 0; i < file.part.entry_count; i++) {
            const bp_tensor_entry *entry = &file.part.entries[i];
            if (file.part.data_at + entry->offset + entry->bytes > size) {
                abort();
            }
        }
    } else if (status != BP_ERR_DATA && status != BP_ERR_FIT) {
        abort();
    }
    return 0;
}
