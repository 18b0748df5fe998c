/* SPDX-License-Identifier: MIT */
/* Windows of a file. */
#include "tools/formats/files/data_reader.h"

#include <string.h>

#include "arena/text.h"
#include "core/base/storage.h"

static const char where[] = "data";

bp_status bp_data_reader_open(bp_data_reader *reader)
{
    bp_store *store = reader->store;
    bool there = true;
    if (store->exists(store, reader->path, &there) == BP_OK && !there) {
        return bp_error_set(reader->error, BP_ERR_DATA, where, "there is no such file",
                            reader->path);
    }
    return store->open_read(store, reader->path, &reader->file) == BP_OK
               ? BP_OK
               : bp_storage_failed(reader->error, store, "open", reader->path);
}

bp_status bp_data_reader_begin(bp_data_reader *reader)
{
    reader->base = 0;
    reader->held = 0;
    reader->line = 0;
    if (reader->store->file_size(reader->store, reader->file, &reader->size) != BP_OK) {
        return bp_storage_failed(reader->error, reader->store, "size", reader->path);
    }
    return BP_OK;
}

bp_status bp_data_look(bp_data_reader *reader, uint64_t offset, const unsigned char **bytes,
                       size_t *count)
{
    *bytes = reader->buffer;
    *count = 0;
    if (offset >= reader->size) {
        return BP_OK;
    }
    if (offset < reader->base || offset >= reader->base + reader->held) {
        uint64_t left = reader->size - offset;
        size_t n = left < reader->capacity ? (size_t)left : reader->capacity;
        reader->held = 0;
        if (reader->store->read_at(reader->store, reader->file, offset, reader->buffer, n) !=
            BP_OK) {
            return bp_storage_failed(reader->error, reader->store, "read", reader->path);
        }
        reader->base = offset;
        reader->held = n;
    }
    size_t skipped = (size_t)(offset - reader->base);
    *bytes = reader->buffer + skipped;
    *count = reader->held - skipped;
    return BP_OK;
}

bp_status bp_data_line_end(bp_data_reader *reader, uint64_t from, uint64_t *end)
{
    const unsigned char *bytes;
    size_t count;
    for (;;) {
        BP_TRY(bp_data_look(reader, from, &bytes, &count));
        const unsigned char *feed = count > 0 ? memchr(bytes, '\n', count) : NULL;
        if (count == 0 || feed != NULL) {
            *end = from + (feed != NULL ? (uint64_t)(feed - bytes) : 0);
            return BP_OK;
        }
        from += count;
    }
}

bp_status bp_data_mark(bp_data_reader *reader, uint64_t *bytes)
{
    static const unsigned char mark[3] = {0xef, 0xbb, 0xbf};
    *bytes = 0;
    for (uint64_t i = 0; i < sizeof mark; i++) {
        const unsigned char *at;
        size_t count;
        BP_TRY(bp_data_look(reader, i, &at, &count));
        if (count == 0 || *at != mark[i]) {
            return BP_OK;
        }
    }
    *bytes = sizeof mark;
    return BP_OK;
}

void bp_data_name_position(bp_data_reader *reader)
{
    enum { PATH_SHOWN = 120 }; /* so that the line is always to be read */
    char place[PATH_SHOWN + 24];
    bp_text text;
    const size_t length = strlen(reader->path);
    bp_text_init(&text, NULL, NULL, place, sizeof place);
    bp_text_string(&text, reader->path + (length > PATH_SHOWN ? length - PATH_SHOWN : 0));
    if (reader->line > 0) {
        bp_text_char(&text, ':');
        bp_text_u64(&text, reader->line);
    }
    bp_text_char(&text, '\0');
    bp_status fits = bp_text_flush(&text);
    (void)fits; /* a colon, 20 digits and a zero always do */
    bp_error_prefix(reader->error, place);
}

bp_status bp_data_refuse(bp_data_reader *reader, const char *text)
{
    bp_status status = bp_error_set(reader->error, BP_ERR_DATA, where, text, "");
    bp_data_name_position(reader);
    return status;
}

bp_status bp_data_refuse_word(bp_data_reader *reader, const char *text, const char *word,
                              size_t length)
{
    bp_status status = bp_error_set(reader->error, BP_ERR_DATA, where, text, "");
    bp_error_found(reader->error, word, length);
    bp_data_name_position(reader);
    return status;
}

bp_status bp_data_refuse_numbers(bp_data_reader *reader, const char *text, int64_t found,
                                 int64_t wanted)
{
    bp_status status = bp_error_numbers(reader->error, BP_ERR_DATA, where, text, "", found, wanted);
    bp_data_name_position(reader);
    return status;
}

bp_status bp_data_refuse_most(bp_data_reader *reader, const char *text, int64_t found, int64_t most)
{
    bp_status status =
        bp_error_limit(reader->error, BP_ERR_DATA, where, text, "", found, BP_LIMIT_MOST, most);
    bp_data_name_position(reader);
    return status;
}
