/* SPDX-License-Identifier: MIT */
/* libFuzzer target: numpy's arrays of any bytes, through windows of several sizes, must come to one
 * answer, and never be read beyond their file. */
#include "tests/fuzz/one_file.h"
#include "tools/formats/data/data_npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static uint64_t sum_of(bp_store *store, size_t window)
{
    unsigned char buffer[512];
    bp_error error = {.code = BP_OK};
    bp_data_reader reader = {
        .store = store, .path = "x.npy", .buffer = buffer, .capacity = window, .error = &error};
    bp_npy npy = {.reader = &reader};
    uint64_t sum = 0;
    if (store->open_read(store, reader.path, &reader.file) != BP_OK) {
        abort();
    }
    if (bp_data_reader_begin(&reader) != BP_OK || bp_npy_begin(&npy) != BP_OK) {
        return error.code == BP_ERR_DATA ? 1 : 0;
    }
    if (npy.start + npy.rows * npy.each * npy.bytes != reader.size) {
        abort();
    }
    for (uint64_t i = 0; i < npy.rows * npy.each && i < 4096; i++) {
        double number;
        uint64_t bits;
        if (bp_npy_number(&npy, i, &number) != BP_OK) {
            abort();
        }
        memcpy(&bits, &number, sizeof bits);
        sum = (sum ^ bits) * 0x9e3779b97f4a7c15u;
    }
    return sum | 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    one_file one;
    bp_store store = one_store(&one, bytes, size);
    const uint64_t whole = sum_of(&store, 512);
    if (whole == 0 || sum_of(&store, 1) != whole || sum_of(&store, 7) != whole) {
        abort();
    }
    return 0;
}
