/* SPDX-License-Identifier: MIT */
/* libFuzzer target: images of any bytes are read, every number of them, or refused, and never
 * beyond their file. */
#include <math.h>

#include "tests/fuzz/one_file.h"
#include "tools/formats/images/data_pnm.h"

/* Number k of the image as the file has it, brought to 0 .. 255. */
static uint8_t number_of(const bp_pnm *image, const uint8_t *bytes, uint64_t k)
{
    const uint8_t *at = bytes + image->start + (image->most > 255 ? 2 * k : k);
    const uint64_t found = image->most > 255 ? (uint64_t)at[0] << 8 | at[1] : at[0];
    const double most = (double)image->most;
    return (uint8_t)nearbyint(fmin((double)found, most) * 255.0 / most);
}

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
            if (bp_pnm_number(&image, k, &number) != BP_OK ||
                number != number_of(&image, bytes, k)) {
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
