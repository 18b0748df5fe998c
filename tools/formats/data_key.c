/* SPDX-License-Identifier: MIT */
/* Keys of files that are made from data. */
#include "tools/formats/data_key.h"

#include <string.h>

void bp_data_key_number(bp_digest *digest, uint64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
    bp_digest_add(digest, bytes, sizeof bytes);
}

bp_status bp_data_key_file(bp_data_reader *reader, bp_digest *key, uint64_t *lines)
{
    const unsigned char *bytes;
    size_t count;
    uint64_t offset = 0;
    BP_TRY(bp_data_reader_begin(reader));
    bp_data_key_number(key, reader->size);
    BP_TRY(bp_data_look(reader, offset, &bytes, &count));
    while (count > 0) {
        bp_digest_add(key, bytes, count);
        const unsigned char *at = bytes;
        while ((at = memchr(at, '\n', count - (size_t)(at - bytes))) != NULL) {
            at++;
            ++*lines;
        }
        offset += count;
        BP_TRY(bp_data_look(reader, offset, &bytes, &count));
    }
    return BP_OK;
}
