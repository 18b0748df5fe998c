/* SPDX-License-Identifier: MIT */
/* The grammar of a safetensors header: JSON events to rows of two tables. */
#include "core/base/safetensors_private.h"

#include <string.h>

/* Wrong content of a tensor's entry, or of the metadata when `name` says so. */
static bp_status safetensors_header_refuse(bp_header_scan *scan, const char *name, const char *text)
{
    return bp_error_set(scan->error, BP_ERR_DATA, "safetensors", text, name);
}

/* Appends text; *start stays where it was put. Counting only, *start is NULL. */
static void keep_text(bp_header_scan *scan, const char *text, size_t length, const char **start)
{
    if (scan->filling && length > scan->text_most - scan->text) {
        scan->changed = true;
        return;
    }
    if (scan->filling) {
        *start = scan->text_room + scan->text;
        memcpy(scan->text_room + scan->text, text, length);
    }
    scan->text += length;
}

static bp_status expect(bp_header_scan *scan, bp_json_kind kind, const char *name, const char *text)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&scan->json, &event));
    return event.kind == kind ? BP_OK : safetensors_header_refuse(scan, name, text);
}

/* The value of a metadata key, which may come in parts. */
static bp_status read_metadata_value(bp_header_scan *scan, const char *key, const char **value)
{
    bp_json_event event;
    const char *part = NULL;
    do {
        BP_TRY(bp_json_next(&scan->json, &event));
        if (event.kind != BP_JSON_TEXT && event.kind != BP_JSON_TEXT_PART) {
            return safetensors_header_refuse(scan, key, "the metadata value is not a string");
        }
        if (memchr(event.text, '\0', event.length) != NULL) {
            return safetensors_header_refuse(scan, key, "the metadata value holds a NUL");
        }
        keep_text(scan, event.text, event.length, &part);
        *value = *value == NULL ? part : *value;
    } while (event.kind == BP_JSON_TEXT_PART);
    keep_text(scan, "", 1, &part);
    return BP_OK;
}

static bp_status read_metadata_pair(bp_header_scan *scan, const bp_json_event *event)
{
    char key[BP_TENSOR_NAME_MAX + sizeof BP_SAFETENSORS_DIGEST];
    if (event->length >= sizeof key) {
        return safetensors_header_refuse(scan, "__metadata__", "a metadata key is too long");
    }
    memcpy(key, event->text, event->length + 1);
    if (strlen(key) != event->length) {
        return safetensors_header_refuse(scan, "__metadata__", "a metadata key holds a NUL");
    }
    bp_pair pair = {NULL, NULL};
    keep_text(scan, key, event->length + 1, &pair.key);
    BP_TRY(read_metadata_value(scan, key, &pair.value));
    if (scan->filling && scan->pairs == scan->pair_most) {
        scan->changed = true;
    }
    if (scan->filling && !scan->changed) {
        scan->pair_table[scan->pairs] = pair;
    }
    scan->pairs++;
    return BP_OK;
}

static bp_status read_metadata(bp_header_scan *scan)
{
    if (scan->metadata_seen) {
        return safetensors_header_refuse(scan, "__metadata__", "the metadata is there twice");
    }
    scan->metadata_seen = true;
    BP_TRY(expect(scan, BP_JSON_OBJECT_BEGIN, "__metadata__", "the metadata is not an object"));
    bp_json_event event;
    BP_TRY(bp_json_next(&scan->json, &event));
    while (event.kind == BP_JSON_KEY) {
        BP_TRY(read_metadata_pair(scan, &event));
        BP_TRY(bp_json_next(&scan->json, &event));
    }
    return BP_OK;
}

static bp_status read_dtype(bp_header_scan *scan, bp_tensor_entry *entry)
{
    bp_json_event event;
    BP_TRY(bp_json_next(&scan->json, &event));
    if (event.kind != BP_JSON_TEXT) {
        return safetensors_header_refuse(scan, entry->name, "dtype is not a string");
    }
    if (!bp_dtype_parse(event.text, event.length, &entry->dtype)) {
        return safetensors_header_refuse(scan, entry->name,
                                         "dtype is not one that this program knows");
    }
    return BP_OK;
}

/* An array of at most `most` integers, none below zero. */
static bp_status read_numbers(bp_header_scan *scan, const char *name, uint64_t *numbers,
                              uint32_t most, uint32_t *count)
{
    static const char *const wrong = "shape and data_offsets must be arrays of integers from 0 up";
    *count = 0;
    BP_TRY(expect(scan, BP_JSON_ARRAY_BEGIN, name, wrong));
    for (;;) {
        bp_json_event event;
        BP_TRY(bp_json_next(&scan->json, &event));
        if (event.kind == BP_JSON_ARRAY_END) {
            return BP_OK;
        }
        /* Anything that is not a number has integer = false. */
        if (!event.integer || event.i64 < 0) {
            return safetensors_header_refuse(scan, name, wrong);
        }
        if (*count == most) {
            return bp_error_limit(scan->error, BP_ERR_DATA, "safetensors",
                                  "shape or data_offsets has too many numbers", name,
                                  bp_size_signed(most) + 1, BP_LIMIT_MOST, most);
        }
        numbers[(*count)++] = (uint64_t)event.i64;
    }
}

enum { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

static bp_status read_field(bp_header_scan *scan, bp_tensor_entry *entry, uint64_t offsets[2],
                            const char *key, unsigned *seen)
{
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    unsigned field = 0;
    while (field < 3 && strcmp(fields[field], key) != 0) {
        field++;
    }
    if (field == 3) {
        return safetensors_header_refuse(scan, entry->name,
                                         "a field is none of dtype, shape, data_offsets");
    }
    if ((*seen >> field & 1u) != 0) {
        return safetensors_header_refuse(scan, entry->name, "a field is there twice");
    }
    *seen |= 1u << field;
    if (field == 0) {
        return read_dtype(scan, entry);
    }
    if (field == 1) {
        return read_numbers(scan, entry->name, entry->shape, BP_TENSOR_RANK_MAX, &entry->rank);
    }
    uint32_t count;
    BP_TRY(read_numbers(scan, entry->name, offsets, 2, &count));
    return count == 2 ? BP_OK
                      : safetensors_header_refuse(scan, entry->name,
                                                  "data_offsets does not have two numbers");
}

/* Saturates (`make prove`). */
static uint64_t shape_bytes(uint64_t element_bytes, const uint64_t *shape, uint32_t rank)
{
    uint64_t bytes = element_bytes;
    for (uint32_t i = 0; i < rank; i++) {
        bytes = bp_size_mul(bytes, shape[i]);
    }
    return bytes;
}

/* Shape, dtype and range must say the same size; each product is checked. */
static bp_status check_size(bp_header_scan *scan, bp_tensor_entry *entry, const uint64_t offsets[2])
{
    if (offsets[1] < offsets[0]) {
        return bp_error_limit(
            scan->error, BP_ERR_DATA, "safetensors", "data_offsets ends before it begins",
            entry->name, bp_size_signed(offsets[1]), BP_LIMIT_LEAST, bp_size_signed(offsets[0]));
    }
    const uint64_t bytes = shape_bytes(bp_dtype_bytes(entry->dtype), entry->shape, entry->rank);
    if (bytes == BP_SIZE_INVALID) {
        return safetensors_header_refuse(scan, entry->name, "the size of the shape overflows");
    }
    entry->offset = offsets[0];
    entry->bytes = offsets[1] - offsets[0];
    if (entry->bytes != bytes) {
        return bp_error_numbers(scan->error, BP_ERR_DATA, "safetensors",
                                "data_offsets does not span the bytes of shape and dtype",
                                entry->name, bp_size_signed(entry->bytes), bp_size_signed(bytes));
    }
    return BP_OK;
}

static bp_status read_entry(bp_header_scan *scan, const char *name)
{
    bp_tensor_entry entry = {.name = name};
    uint64_t offsets[2] = {0, 0};
    unsigned seen = 0;
    BP_TRY(expect(scan, BP_JSON_OBJECT_BEGIN, name, "the tensor's entry is not an object"));
    bp_json_event event;
    BP_TRY(bp_json_next(&scan->json, &event));
    while (event.kind == BP_JSON_KEY) {
        BP_TRY(read_field(scan, &entry, offsets, event.text, &seen));
        BP_TRY(bp_json_next(&scan->json, &event));
    }
    if (seen != SEEN_ALL) {
        return safetensors_header_refuse(scan, name,
                                         "one of dtype, shape, data_offsets is missing");
    }
    BP_TRY(check_size(scan, &entry, offsets));
    keep_text(scan, name, strlen(name) + 1, &entry.name);
    if (scan->filling && scan->entries == scan->entry_most) {
        scan->changed = true;
    }
    if (scan->filling && !scan->changed) {
        scan->entry_table[scan->entries] = entry;
    }
    scan->entries++;
    return BP_OK;
}

static bp_status read_member(bp_header_scan *scan, const bp_json_event *event)
{
    char name[BP_TENSOR_NAME_MAX];
    if (event->length >= sizeof name) {
        return bp_error_limit(
            scan->error, BP_ERR_DATA, "safetensors", "a tensor's name is too long", event->text,
            bp_size_signed(event->length), BP_LIMIT_MOST, (int64_t)sizeof name - 1);
    }
    memcpy(name, event->text, event->length + 1);
    if (event->length == 0 || strlen(name) != event->length) {
        return safetensors_header_refuse(scan, name, "a tensor's name is empty or holds a NUL");
    }
    return strcmp(name, "__metadata__") == 0 ? read_metadata(scan) : read_entry(scan, name);
}

bp_status bp_header_read(bp_header_scan *scan)
{
    BP_TRY(expect(scan, BP_JSON_OBJECT_BEGIN, NULL, "the header is not a JSON object"));
    bp_json_event event;
    BP_TRY(bp_json_next(&scan->json, &event));
    while (event.kind == BP_JSON_KEY) {
        BP_TRY(read_member(scan, &event));
        BP_TRY(bp_json_next(&scan->json, &event));
    }
    BP_TRY(bp_json_next(&scan->json, &event)); /* the end: nothing but white space follows */
    if (scan->changed) {
        return safetensors_header_refuse(scan, NULL, "the file changed while it was read");
    }
    return BP_OK;
}
