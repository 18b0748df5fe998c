/* SPDX-License-Identifier: MIT */
/* The outer form of JSON files of objects. */
#include "tools/formats/files/data_records.h"

#include <string.h>

enum { KEYS = 256, DEPTH = 32 };

static bp_status span_fill(void *user, const unsigned char **bytes, size_t *count)
{
    bp_record_span *span = user;
    BP_TRY(bp_data_look(span->reader, span->offset, bytes, count));
    const uint64_t left = span->end - span->offset;
    *count = left < *count ? (size_t)left : *count;
    span->offset += *count;
    return BP_OK;
}

bp_status bp_record_span_begin(bp_record_span *span, uint64_t offset, uint64_t end, void *scratch)
{
    const size_t keys = (size_t)bp_json_keys_bytes(KEYS);
    const bp_json_source source = {span_fill, span, UINT64_MAX};
    const bp_json_memory memory = {(char *)scratch + keys, BP_RECORDS_SCRATCH - keys, scratch, keys,
                                   DEPTH};
    span->offset = offset;
    span->end = end;
    return bp_json_init(&span->json, &source, &memory, span->reader->error);
}

uint64_t bp_record_span_position(const bp_record_span *span)
{
    return span->offset - (uint64_t)(span->json.end - span->json.at);
}

bp_status bp_records_named(bp_records *records, bp_status status)
{
    bp_data_reader *reader = records->span.reader;
    if (status != BP_OK && records->span.json.status != BP_OK && status != BP_ERR_STORE) {
        bp_data_name_position(reader);
        if (status == BP_ERR_FIT && reader->error != NULL) {
            reader->error->code = BP_ERR_DATA; /* more keys than a good object has */
        }
        return status == BP_ERR_FIT ? BP_ERR_DATA : status;
    }
    return status;
}

/* Up to the beginning of the value of `data`; false: the object has no such member. */
static bp_status find_data(bp_json *json, bool *found)
{
    bp_json_event event;
    *found = false;
    BP_TRY(bp_json_next(json, &event));
    while (event.kind == BP_JSON_KEY) {
        const bool data = strcmp(event.text, "data") == 0;
        if (!data) {
            BP_TRY(bp_json_skip(json));
        }
        BP_TRY(bp_json_next(json, &event));
        if (data && event.kind == BP_JSON_ARRAY_BEGIN) {
            *found = true;
            return BP_OK;
        }
        if (data && (event.kind == BP_JSON_OBJECT_BEGIN || event.kind == BP_JSON_TEXT_PART)) {
            return BP_OK; /* no file of records: its lines may be objects that have such a key */
        }
        if (data) {
            BP_TRY(bp_json_next(json, &event));
        }
    }
    return BP_OK;
}

/* Whether the first line is an object by itself, and none with records in it. */
static bp_status is_lines(bp_records *records, uint64_t from, bool *lines)
{
    bp_data_reader *reader = records->span.reader;
    bp_error unheard = {.code = BP_OK};
    bp_error *const heard = reader->error;
    bp_json_event event;
    uint64_t end;
    bool found = false;
    BP_TRY(bp_data_line_end(reader, from, &end));
    reader->error = &unheard;
    bp_status status = bp_record_span_begin(&records->span, from, end, records->scratch);
    status = status == BP_OK ? bp_json_next(&records->span.json, &event) : status;
    status = status == BP_OK ? find_data(&records->span.json, &found) : status;
    reader->error = heard;
    *lines = status == BP_OK && !found;
    return BP_OK;
}

/* The first byte at or behind `from` that is no white space; -1: there is none. */
static bp_status first_byte(bp_data_reader *reader, uint64_t *from, int *byte)
{
    for (;; ++*from) {
        const unsigned char *at;
        size_t count;
        BP_TRY(bp_data_look(reader, *from, &at, &count));
        *byte = count > 0 ? *at : -1;
        if (count == 0 || (*at != ' ' && *at != '\t' && *at != '\r' && *at != '\n')) {
            return BP_OK;
        }
        reader->line += *at == '\n' ? 1 : 0;
    }
}

bp_status bp_records_begin(bp_records *records, bp_data_reader *reader, void *scratch)
{
    bp_json_event event;
    int byte;
    bool found = false;
    *records = (bp_records){.span = {.reader = reader}, .scratch = scratch};
    reader->line = 1;
    BP_TRY(bp_data_mark(reader, &records->start));
    BP_TRY(first_byte(reader, &records->start, &byte));
    records->lines = byte < 0;
    if (byte == '{') {
        BP_TRY(is_lines(records, records->start, &records->lines));
    }
    if (records->lines) {
        return BP_OK;
    }
    reader->line = 0;
    BP_TRY(bp_record_span_begin(&records->span, records->start, reader->size, scratch));
    bp_status status = bp_json_next(&records->span.json, &event);
    records->outer = event.kind == BP_JSON_OBJECT_BEGIN;
    if (status == BP_OK && records->outer) {
        status = find_data(&records->span.json, &found);
    }
    found = found || event.kind == BP_JSON_ARRAY_BEGIN;
    if (status == BP_OK && !found) {
        status = bp_json_refuse(&records->span.json,
                                "the file is neither an object a line, nor an array of objects, "
                                "nor an object with such an array as `data`");
    }
    return bp_records_named(records, status);
}

static bp_status next_line(bp_records *records, bool *there)
{
    bp_data_reader *reader = records->span.reader;
    bp_json_event event;
    uint64_t end;
    int byte;
    if (records->begun) {
        BP_TRY(bp_json_next(&records->span.json, &event)); /* nothing may follow */
        records->start = records->span.end;
    }
    BP_TRY(first_byte(reader, &records->start, &byte));
    *there = byte >= 0;
    records->begun = *there;
    if (!*there) {
        return BP_OK;
    }
    BP_TRY(bp_data_line_end(reader, records->start, &end));
    BP_TRY(bp_record_span_begin(&records->span, records->start, end, records->scratch));
    BP_TRY(bp_json_next(&records->span.json, &event));
    return event.kind == BP_JSON_OBJECT_BEGIN
               ? BP_OK
               : bp_json_refuse(&records->span.json, "a line of JSON lines is an object ({...})");
}

static bp_status next_item(bp_records *records, bool *there)
{
    bp_json *json = &records->span.json;
    bp_json_event event;
    BP_TRY(bp_json_next(json, &event));
    *there = event.kind == BP_JSON_OBJECT_BEGIN;
    if (!*there && event.kind != BP_JSON_ARRAY_END) {
        return bp_json_refuse(json, "the array holds something else than objects");
    }
    /* What stands behind the array has to be sound. */
    while (event.kind == BP_JSON_ARRAY_END || event.kind == BP_JSON_KEY) {
        if (event.kind == BP_JSON_KEY) {
            BP_TRY(bp_json_skip(json));
        }
        BP_TRY(bp_json_next(json, &event));
    }
    return *there || !records->outer ? BP_OK : bp_json_next(json, &event);
}

bp_status bp_records_next(bp_records *records, bool *there)
{
    *there = false;
    return bp_records_named(records,
                            records->lines ? next_line(records, there) : next_item(records, there));
}
