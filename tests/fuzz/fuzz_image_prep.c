/* SPDX-License-Identifier: MIT */
/* libFuzzer target: a preprocessor_config.json of any bytes is read or refused as data, and what
 * was read gives sizes within the bounds that a resize has, or their refusal, for images of any
 * shape. */
#include "tests/fuzz/one_file.h"
#include "tools/formats/images/image_prep.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const uint64_t shapes[4][2] = {{1, 1}, {1, 65536}, {65536, 1}, {48, 37}};
    static uint64_t scratch[BP_IMAGE_PREP_SCRATCH / 8];
    one_file one;
    bp_store store = one_store(&one, bytes, size);
    bp_error error = {.code = BP_OK};
    bp_image_prep prep;
    const bp_status status =
        bp_image_prep_read(&prep, &store, "preprocessor_config.json", scratch, &error);
    if (one.open != 0 || (status != BP_OK && error.code != BP_ERR_DATA)) {
        abort();
    }
    for (size_t i = 0; status == BP_OK && i < 4; i++) {
        uint64_t to[2], cut[2];
        bp_image_prep_sizes(&prep, shapes[i], to, cut);
        for (size_t k = 0; k < 2; k++) {
            const bool whole = cut[k] == to[k];
            if (to[k] == 0 || cut[k] == 0 || (!whole && cut[k] > BP_IMAGE_PREP_SIZE)) {
                abort();
            }
        }
        for (uint32_t c = 0; c < 3; c++) {
            (void)bp_image_prep_number(&prep, 255, c);
        }
    }
    return 0;
}
