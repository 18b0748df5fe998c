/* SPDX-License-Identifier: MIT */
/* libFuzzer target: images of any bytes are read, every number of them, or refused, and never
 * beyond their file. */
#include "tests/fuzz/one_file.h"
#include "tools/formats/data_pnm.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    one_file one;
    bp_store store = one_store(&one, bytes, size);
    bp_error error = {.code = BP_OK};
    const bp_data_reader list = {.store = &store, .path = "folder/list.csv", .error = &error};
    bp_pnm image = {.open = false};
    if (bp_pnm_open(&image, &list, "a.ppm", 5) != BP_OK) {
        abort();
    }
    if (bp_pnm_begin(&image) != BP_OK) {
        if (error.code != BP_ERR_DATA) {
            abort();
        }
    } else {
        const uint64_t numbers = image.size[0] * image.size[1] * image.size[2];
        for (uint64_t k = 0; k < numbers; k++) {
            uint8_t number;
            if (bp_pnm_number(&image, k, &number) != BP_OK || number != bytes[image.start + k]) {
                abort();
            }
        }
    }
    bp_pnm_close(&image);
    if (one.open != 0) {
        abort();
    }
    return 0;
}
