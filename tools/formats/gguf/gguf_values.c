/* SPDX-License-Identifier: MIT */
/* Values of an open GGUF file. Open has checked that all of them lie inside the file. */
#include <string.h>

#include "arena/text.h"
#include "core/base/number.h"
#include "core/base/storage.h"
#include "tools/formats/gguf/gguf_read.h"

static const char where[] = "gguf";

bp_status bp_gguf_refuse(const bp_gguf_file *file, const char *text, const char *name)
{
    bp_status status = bp_error_set(file->error, BP_ERR_DATA, where, text, name);
    bp_error_prefix(file->error, file->path);
    return status;
}

static bp_status read_at(const bp_gguf_file *file, uint64_t at, void *to, size_t bytes)
{
    if (file->store->read_at(file->store, file->file, at, to, bytes) != BP_OK) {
        return bp_storage_failed(file->error, file->store, "read", file->path);
    }
    return BP_OK;
}

const bp_gguf_key *bp_gguf_find(const bp_gguf_file *file, const char *name)
{
    size_t low = 0;
    size_t high = file->key_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(file->keys[middle].name, name);
        if (order == 0) {
            return &file->keys[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

/* The number behind an integer type; false for a negative one and for other types. */
static bool whole_number(const bp_gguf_key *key, uint64_t *value)
{
    static const uint8_t sign_bit[BP_GGUF_TYPES] = {
        [BP_GGUF_I8] = 8, [BP_GGUF_I16] = 16, [BP_GGUF_I32] = 32, [BP_GGUF_I64] = 64};
    switch (key->type) {
    case BP_GGUF_F32:
    case BP_GGUF_F64:
    case BP_GGUF_BOOL:
    case BP_GGUF_STRING:
    case BP_GGUF_ARRAY:
    case BP_GGUF_TYPES:
        return false;
    default:
        *value = key->bits;
        return sign_bit[key->type] == 0 || key->bits >> (sign_bit[key->type] - 1) == 0;
    }
}

bp_status bp_gguf_take_count(const bp_gguf_file *file, const char *name, uint64_t least,
                             uint64_t most, uint32_t *value)
{
    const bp_gguf_key *key = bp_gguf_find(file, name);
    uint64_t found;
    if (key == NULL) {
        return bp_gguf_refuse(file, "the key is missing", name);
    }
    if (!whole_number(key, &found)) {
        return bp_gguf_refuse(file, "this key must be a whole number that is not negative", name);
    }
    if (found < least || found > most) {
        static const char text[] = "a value is out of range";
        bp_status status = found < least
                               ? bp_error_limit(file->error, BP_ERR_DATA, where, text, name,
                                                (int64_t)found, BP_LIMIT_LEAST, (int64_t)least)
                               : bp_error_limit(file->error, BP_ERR_DATA, where, text, name,
                                                found > INT64_MAX ? INT64_MAX : (int64_t)found,
                                                BP_LIMIT_MOST, (int64_t)most);
        bp_error_prefix(file->error, file->path);
        return status;
    }
    *value = (uint32_t)found;
    return BP_OK;
}

/* The number with the fewest digits that is this float: 1e-5, not 9.99999974737875e-06. */
static double decimal_of(float value)
{
    char digits[40];
    bp_number number = {.real = (double)value};
    for (unsigned significant = 1; significant <= 9; significant++) {
        bp_text text;
        bp_text_init(&text, NULL, NULL, digits, sizeof digits);
        bp_text_general(&text, (double)value, significant);
        bool read = bp_text_flush(&text) == BP_OK &&
                    bp_number_parse(digits, strlen(digits), &number) == BP_OK;
        if (read && (float)number.real == value) {
            return number.real;
        }
    }
    return (double)value; /* infinite or not a number */
}

bp_status bp_gguf_take_real(const bp_gguf_file *file, const char *name, double *value)
{
    const bp_gguf_key *key = bp_gguf_find(file, name);
    if (key == NULL) {
        return bp_gguf_refuse(file, "the key is missing", name);
    }
    if (key->type == BP_GGUF_F32) {
        uint32_t bits = (uint32_t)key->bits;
        float single;
        memcpy(&single, &bits, sizeof single);
        *value = decimal_of(single);
        return BP_OK;
    }
    if (key->type == BP_GGUF_F64) {
        memcpy(value, &key->bits, sizeof *value);
        return BP_OK;
    }
    return bp_gguf_refuse(file, "this key must be a number with a fraction", name);
}

bp_status bp_gguf_take_positive(const bp_gguf_file *file, const char *name, double *value)
{
    if (bp_gguf_find(file, name) == NULL) {
        return BP_OK;
    }
    BP_TRY(bp_gguf_take_real(file, name, value));
    return *value > 0.0 && *value < 1e12
               ? BP_OK
               : bp_gguf_refuse(file, "a value is out of range (above 0, below 1e12)", name);
}

bp_status bp_gguf_take_string(const bp_gguf_file *file, const char *name, char *value, size_t room)
{
    const bp_gguf_key *key = bp_gguf_find(file, name);
    if (key == NULL) {
        return bp_gguf_refuse(file, "the key is missing", name);
    }
    if (key->type != BP_GGUF_STRING || key->count >= room) {
        return bp_gguf_refuse(file, "this key must be a string, and not a longer one", name);
    }
    BP_TRY(read_at(file, key->at, value, (size_t)key->count));
    value[key->count] = '\0';
    if (memchr(value, '\0', (size_t)key->count) != NULL) {
        return bp_gguf_refuse(file, "a string holds NUL", name);
    }
    return BP_OK;
}

bp_status bp_gguf_items_begin(bp_gguf_items *items, const bp_gguf_file *file, const char *name,
                              bp_gguf_type type)
{
    const bp_gguf_key *key = bp_gguf_find(file, name);
    if (key == NULL) {
        return bp_gguf_refuse(file, "the key is missing", name);
    }
    if (key->type != BP_GGUF_ARRAY || key->item != type) {
        return bp_gguf_refuse(file,
                              type == BP_GGUF_STRING
                                  ? "this key must be an array of strings"
                                  : "this key must be an array of 32-bit numbers",
                              name);
    }
    items->file = file;
    items->key = key;
    items->next = 0;
    items->at = key->at;
    items->ahead = 0;
    items->ahead_at = 0;
    return BP_OK;
}

static bp_status beyond(const bp_gguf_items *items)
{
    return bp_error_numbers(items->file->error, BP_ERR_USAGE, where,
                            "more items are read than an array has", items->key->name,
                            (int64_t)items->next, (int64_t)items->key->count);
}

/* Bytes of the array, mostly out of what was read ahead of them. */
static bp_status items_read(bp_gguf_items *items, uint64_t at, void *to, size_t bytes)
{
    const uint64_t end = items->key->at + items->key->bytes;
    if (bytes > BP_GGUF_AHEAD || bytes > end - at) {
        return read_at(items->file, at, to, bytes);
    }
    if (at + bytes > items->ahead_at + items->ahead) { /* places only grow */
        items->ahead_at = at;
        items->ahead = end - at < BP_GGUF_AHEAD ? (size_t)(end - at) : BP_GGUF_AHEAD;
        BP_TRY(read_at(items->file, at, items->buffer, items->ahead));
    }
    memcpy(to, items->buffer + (at - items->ahead_at), bytes);
    return BP_OK;
}

bp_status bp_gguf_items_string(bp_gguf_items *items, char *text, size_t room, size_t *length)
{
    unsigned char raw[8];
    uint64_t bytes = 0;
    if (items->next == items->key->count) {
        return beyond(items);
    }
    BP_TRY(items_read(items, items->at, raw, sizeof raw));
    for (size_t i = 8; i > 0; i--) {
        bytes = bytes << 8 | raw[i - 1];
    }
    if (bytes >= room) {
        return bp_gguf_refuse(items->file, "a string of this array is too long", items->key->name);
    }
    BP_TRY(items_read(items, items->at + 8, text, (size_t)bytes));
    text[bytes] = '\0';
    *length = (size_t)bytes;
    items->at += 8 + bytes;
    items->next++;
    return BP_OK;
}

bp_status bp_gguf_items_i32(bp_gguf_items *items, int32_t *value)
{
    if (items->next == items->key->count) {
        return beyond(items);
    }
    BP_TRY(items_read(items, items->at, value, sizeof *value));
    items->at += sizeof *value;
    items->next++;
    return BP_OK;
}
