/* SPDX-License-Identifier: MIT */
/* libFuzzer target: an index of shards beside two good shards, a.safetensors with the tensors a and
 * b, and b.safetensors with the tensor c. */
#include "tests/fuzz/one_file.h"
#include "tools/formats/hf/hf_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const char header_a[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                               "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
static const char header_b[] = "{\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";

static size_t make_shard(uint8_t *to, const char *header, size_t data)
{
    size_t length = strlen(header);
    memset(to, 0, 8 + length + data);
    to[0] = (uint8_t)length;
    memcpy(to + 8, header, length);
    return 8 + length + data;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    one_file one;
    uint8_t a[256];
    uint8_t b[256];
    bp_store store = one_store(&one, bytes, size);
    one.files[1] = (one_content){"d/a.safetensors", a, make_shard(a, header_a, 2)};
    one.files[2] = (one_content){"d/b.safetensors", b, make_shard(b, header_b, 1)};
    one.count = 3;
    static uint64_t scratch[8192];
    bp_staging room = {scratch, sizeof scratch};
    bp_error error = {.code = BP_OK};
    bp_tensor_set set;
    bp_status status = bp_hf_open(&set, &store, "d/index.json", &room, &error);
    if (status != error.code || one.open != 0) {
        abort();
    }
    if (status == BP_OK) {
        for (uint32_t p = 0; p < set.part_count; p++) {
            bool known = strcmp(set.parts[p].path, "d/a.safetensors") == 0 ||
                         strcmp(set.parts[p].path, "d/b.safetensors") == 0;
            if (!known) {
                abort();
            }
        }
        status = bp_tensor_set_close(&set);
    }
    if (status != BP_OK && status != BP_ERR_DATA && status != BP_ERR_FIT) {
        abort();
    }
    return 0;
}
