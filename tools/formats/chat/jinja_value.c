/* SPDX-License-Identifier: MIT */
/* Values of chat templates: made and compared. */
#include "tools/formats/chat/jinja_value.h"

#include <string.h>

static const char where[] = "template";

bp_status bp_jinja_refuse(bp_error *error, const char *text, const char *name)
{
    return bp_error_set(error, BP_ERR_DATA, where, text, name);
}

void *bp_jinja_take(bp_jinja_room *room, size_t bytes)
{
    const size_t rounded = bytes > SIZE_MAX - 15 ? SIZE_MAX : (bytes + 15) / 16 * 16;
    if (rounded > room->bytes - room->used) {
        bp_status status = bp_error_limit(
            room->error, BP_ERR_FIT, where, "the template needs more memory than it may have", NULL,
            (int64_t)room->bytes + 1, BP_LIMIT_MOST, (int64_t)room->bytes);
        return status == BP_OK ? room->memory : NULL;
    }
    void *at = room->memory + room->used;
    room->used += rounded;
    return at;
}

bp_jinja_value bp_jinja_undefined(const char *name)
{
    return (bp_jinja_value){.kind = BP_JINJA_UNDEFINED, .is.text = name};
}

bp_jinja_value bp_jinja_none(void)
{
    return (bp_jinja_value){.kind = BP_JINJA_NONE};
}

bp_jinja_value bp_jinja_bool(bool truth)
{
    return (bp_jinja_value){.kind = BP_JINJA_BOOL, .is.truth = truth};
}

bp_jinja_value bp_jinja_int(int64_t i64)
{
    return (bp_jinja_value){.kind = BP_JINJA_INT, .is.i64 = i64};
}

bp_jinja_value bp_jinja_string(const char *text, size_t length)
{
    return (bp_jinja_value){.kind = BP_JINJA_STRING, .count = (uint32_t)length, .is.text = text};
}

bp_status bp_jinja_copy(bp_jinja_room *room, const char *text, size_t length, bp_jinja_value *to)
{
    char *at = length <= UINT32_MAX ? bp_jinja_take(room, length) : NULL;
    if (at == NULL) {
        return BP_ERR_FIT;
    }
    if (length > 0) {
        memcpy(at, text, length);
    }
    *to = bp_jinja_string(at, length);
    return BP_OK;
}

bp_status bp_jinja_join(bp_jinja_room *room, const bp_jinja_value *a, const bp_jinja_value *b,
                        bp_jinja_value *to)
{
    const size_t length = (size_t)a->count + b->count;
    char *at = length <= UINT32_MAX ? bp_jinja_take(room, length) : NULL;
    if (at == NULL) {
        return BP_ERR_FIT;
    }
    if (a->count > 0) {
        memcpy(at, a->is.text, a->count);
    }
    if (b->count > 0) {
        memcpy(at + a->count, b->is.text, b->count);
    }
    *to = bp_jinja_string(at, length);
    return BP_OK;
}

bp_status bp_jinja_dict_new(bp_jinja_room *room, uint32_t pairs, bp_jinja_value *to)
{
    bp_jinja_dict *dict = bp_jinja_take(room, sizeof *dict);
    if (dict == NULL) {
        return BP_ERR_FIT;
    }
    *dict = (bp_jinja_dict){.room = pairs};
    if (pairs > 0) {
        dict->pairs = bp_jinja_take(room, pairs * sizeof *dict->pairs);
        if (dict->pairs == NULL) {
            return BP_ERR_FIT;
        }
    }
    *to = (bp_jinja_value){.kind = BP_JINJA_DICT, .is.dict = dict};
    return BP_OK;
}

bp_status bp_jinja_dict_set(bp_jinja_room *room, bp_jinja_dict *dict, const bp_jinja_value *key,
                            const bp_jinja_value *value)
{
    for (uint32_t i = 0; i < dict->count; i++) {
        if (bp_jinja_equal(&dict->pairs[i].key, key)) {
            dict->pairs[i].value = *value;
            return BP_OK;
        }
    }
    if (dict->count == dict->room) {
        const uint32_t more = dict->room < 4 ? 8 : 2 * dict->room;
        bp_jinja_pair *pairs = bp_jinja_take(room, more * sizeof *pairs);
        if (pairs == NULL) {
            return BP_ERR_FIT;
        }
        if (dict->count > 0) {
            memcpy(pairs, dict->pairs, dict->count * sizeof *pairs);
        }
        dict->pairs = pairs;
        dict->room = more;
    }
    dict->pairs[dict->count++] = (bp_jinja_pair){*key, *value};
    return BP_OK;
}

const bp_jinja_value *bp_jinja_dict_get(const bp_jinja_dict *dict, const char *key, size_t length)
{
    for (uint32_t i = 0; i < dict->count; i++) {
        const bp_jinja_value *own = &dict->pairs[i].key;
        if (own->count == length && memcmp(own->is.text, key, length) == 0) {
            return &dict->pairs[i].value;
        }
    }
    return NULL;
}

bool bp_jinja_is(const bp_jinja_value *value, const char *text)
{
    return value->kind == BP_JINJA_STRING && value->count == strlen(text) &&
           memcmp(value->is.text, text, value->count) == 0;
}

bool bp_jinja_true(const bp_jinja_value *value)
{
    switch (value->kind) {
    case BP_JINJA_UNDEFINED:
    case BP_JINJA_NONE:
        return false;
    case BP_JINJA_BOOL:
        return value->is.truth;
    case BP_JINJA_INT:
        return value->is.i64 != 0;
    case BP_JINJA_FLOAT:
        return value->is.real < 0 || value->is.real > 0;
    case BP_JINJA_STRING:
    case BP_JINJA_LIST:
        return value->count > 0 || value->generator;
    case BP_JINJA_DICT:
        return value->is.dict->count > 0;
    default:
        return true;
    }
}

bool bp_jinja_number(const bp_jinja_value *value, double *real)
{
    *real = value->kind == BP_JINJA_FLOAT  ? value->is.real
            : value->kind == BP_JINJA_INT  ? (double)value->is.i64
            : value->kind == BP_JINJA_BOOL ? (double)value->is.truth
                                           : 0.0;
    return value->kind == BP_JINJA_FLOAT || value->kind == BP_JINJA_INT ||
           value->kind == BP_JINJA_BOOL;
}

static bool equal_flat(const bp_jinja_value *a, const bp_jinja_value *b)
{
    double x;
    double y;
    if (bp_jinja_number(a, &x)) {
        return bp_jinja_number(b, &y) && !(x < y) && !(x > y);
    }
    if (a->kind != b->kind) {
        return false;
    }
    switch (a->kind) {
    case BP_JINJA_STRING:
        return a->count == b->count && (a->count == 0 || /* of which there may be no text */
                                        memcmp(a->is.text, b->is.text, a->count) == 0);
    case BP_JINJA_LIST: /* a generator is equal to itself alone */
        return a->count == b->count && a->tuple == b->tuple && a->range == b->range &&
               a->generator == b->generator && (!a->generator || a->is.items == b->is.items);
    case BP_JINJA_DICT:
        return a->is.dict->count == b->is.dict->count;
    case BP_JINJA_NAMESPACE:
        return a->is.dict == b->is.dict;
    case BP_JINJA_MACRO:
    case BP_JINJA_LOOP:
        return a->is.i64 == b->is.i64;
    default:
        return true;
    }
}

/* Two values of which what is inside is still to be compared. */
typedef struct equal_level {
    const bp_jinja_value *a, *b;
    uint32_t next;
} equal_level;

/* The next two parts; false: there are none, or (*equal false) one has no partner. */
static bool equal_parts(equal_level *level, const bp_jinja_value **a, const bp_jinja_value **b,
                        bool *equal)
{
    const uint32_t i = level->next++;
    if (level->a->kind == BP_JINJA_LIST && i < level->a->count) {
        *a = &level->a->is.items[i];
        *b = &level->b->is.items[i];
        return true;
    }
    if (level->a->kind == BP_JINJA_DICT && i < level->a->is.dict->count) {
        const bp_jinja_pair *pair = &level->a->is.dict->pairs[i];
        *a = &pair->value;
        *b = bp_jinja_dict_get(level->b->is.dict, pair->key.is.text, pair->key.count);
        *equal = *b != NULL;
        return *equal;
    }
    return false;
}

bool bp_jinja_equal(const bp_jinja_value *a, const bp_jinja_value *b)
{
    equal_level stack[BP_JINJA_DEPTH];
    uint32_t depth = 0;
    bool equal = equal_flat(a, b);
    if (equal && (a->kind == BP_JINJA_LIST || a->kind == BP_JINJA_DICT)) {
        stack[depth++] = (equal_level){a, b, 0};
    }
    while (equal && depth > 0) {
        const bp_jinja_value *x;
        const bp_jinja_value *y;
        if (!equal_parts(&stack[depth - 1], &x, &y, &equal)) {
            depth--;
            continue;
        }
        equal = equal_flat(x, y);
        if (x->kind == BP_JINJA_LIST || x->kind == BP_JINJA_DICT) {
            equal = equal && depth < BP_JINJA_DEPTH; /* nothing so deep can be read */
            if (equal) {
                stack[depth++] = (equal_level){x, y, 0};
            }
        }
    }
    return equal;
}

int bp_jinja_compare(const bp_jinja_value *a, const bp_jinja_value *b, bool *known)
{
    double x;
    double y;
    *known = true;
    if (bp_jinja_number(a, &x) && bp_jinja_number(b, &y)) {
        return (x > y) - (x < y);
    }
    if (a->kind == BP_JINJA_STRING && b->kind == BP_JINJA_STRING) {
        const uint32_t common = a->count < b->count ? a->count : b->count;
        const int order = common > 0 ? memcmp(a->is.text, b->is.text, common) : 0;
        return order != 0 ? order : (a->count > b->count) - (a->count < b->count);
    }
    *known = false;
    return 0;
}

size_t bp_jinja_characters(const bp_jinja_value *string)
{
    size_t count = 0;
    for (uint32_t i = 0; i < string->count; i++) {
        count += ((unsigned char)string->is.text[i] & 0xc0u) != 0x80u;
    }
    return count;
}

size_t bp_jinja_byte_of(const bp_jinja_value *string, size_t index)
{
    size_t at = 0;
    for (size_t seen = 0; at < string->count; at++) {
        const bool begins = ((unsigned char)string->is.text[at] & 0xc0u) != 0x80u;
        if (begins && seen++ == index) {
            break;
        }
    }
    return at;
}
