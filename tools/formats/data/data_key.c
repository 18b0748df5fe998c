/* SPDX-License-Identifier: MIT */
/* Keys of files that are made from data. */
#include "tools/formats/data/data_key.h"

#include <string.h>

#include "tools/formats/files/data_array.h"

void bp_data_key_number(bp_digest *digest, uint64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
    bp_digest_add(digest, bytes, sizeof bytes);
}

static uint64_t data_key_count(const unsigned char *bytes, size_t count, int byte)
{
    uint64_t found = 0;
    const unsigned char *at = bytes;
    while ((at = memchr(at, byte, count - (size_t)(at - bytes))) != NULL) {
        at++;
        found++;
    }
    return found;
}

bp_status bp_data_key_file(bp_data_reader *reader, bp_digest *key, uint64_t *lines)
{
    const unsigned char *bytes;
    size_t count;
    uint64_t offset = 0;
    bp_data_array array;
    bool is_array;
    BP_TRY(bp_data_reader_begin(reader));
    BP_TRY(bp_data_mark(reader, &offset));
    BP_TRY(bp_data_array_begin(reader, offset, &array, &is_array));
    offset = 0;
    bp_data_key_number(key, reader->size);
    BP_TRY(bp_data_look(reader, offset, &bytes, &count));
    while (count > 0) {
        bp_digest_add(key, bytes, count);
        *lines += data_key_count(bytes, count, '\n');
        *lines += is_array ? data_key_count(bytes, count, '{') : 0;
        offset += count;
        BP_TRY(bp_data_look(reader, offset, &bytes, &count));
    }
    return BP_OK;
}
