/* SPDX-License-Identifier: MIT */
/* Chat templates: strings and mappings taken apart and put together. */
#include "tools/formats/chat/jinja_text.h"

#include <string.h>

#include "tools/formats/unicode/unicode.h"

bp_status bp_jinja_string_argument(bp_jinja_room *room, const bp_jinja_arguments *arguments,
                                   uint32_t place, const char *name, bp_jinja_value *to)
{
    const bp_jinja_value *found = bp_jinja_argument(arguments, place, name);
    if (found == NULL || found->kind != BP_JINJA_STRING) {
        return bp_jinja_refuse(room->error, "an argument that should be a string is none", name);
    }
    *to = *found;
    return BP_OK;
}

/* str.isspace(): White_Space and the separators of ASCII. */
static bool is_space(uint32_t c)
{
    return (c >= 0x1c && c <= 0x1f) || bp_char_class_of(c) == BP_CHAR_SPACE;
}

static bool is_stripped(const bp_jinja_value *set, const char *at, size_t length)
{
    if (set == NULL) {
        size_t own;
        return is_space(bp_utf8_get((const unsigned char *)at, &own));
    }
    for (size_t i = 0; i + length <= set->count; i++) {
        if (memcmp(set->is.text + i, at, length) == 0) {
            return true;
        }
    }
    return false;
}

bp_jinja_value bp_jinja_strip(const bp_jinja_value *string, const bp_jinja_value *set, bool left,
                              bool right)
{
    const char *text = string->is.text;
    size_t from = 0;
    size_t to = string->count;
    while (left && from < to) {
        size_t length;
        (void)bp_utf8_get((const unsigned char *)text + from, &length);
        if (!is_stripped(set, text + from, length)) {
            break;
        }
        from += length;
    }
    while (right && to > from) {
        size_t length = 1;
        while (length < 4 && ((unsigned char)text[to - length] & 0xc0u) == 0x80u) {
            length++;
        }
        if (!is_stripped(set, text + to - length, length)) {
            break;
        }
        to -= length;
    }
    return bp_jinja_string(text + from, to - from);
}

/* The next place of a word at or behind `at`; the string's length: none. */
static size_t find_word(const bp_jinja_value *string, const bp_jinja_value *word, size_t at)
{
    while (at + word->count <= string->count &&
           memcmp(string->is.text + at, word->is.text, word->count) != 0) {
        at++;
    }
    return at + word->count <= string->count ? at : string->count;
}

/* Every `from` becomes `with`, at most `most` of them (negative: all). */
static bp_status bp_jinja_replace(bp_jinja_room *room, const bp_jinja_value *string,
                                  const bp_jinja_value *from, const bp_jinja_value *with,
                                  int64_t most, bp_jinja_value *to)
{
    size_t count = 0;
    size_t used = 0;
    if (from->count == 0) {
        return bp_jinja_refuse(room->error, "an empty string is replaced", NULL);
    }
    const size_t limit = most < 0 ? SIZE_MAX : (size_t)most;
    for (size_t at = find_word(string, from, 0); at < string->count && count < limit; count++) {
        at = find_word(string, from, at + from->count);
    }
    const size_t length = string->count - count * from->count + count * with->count;
    char *out = length <= UINT32_MAX ? bp_jinja_take(room, length) : NULL;
    if (out == NULL) {
        return BP_ERR_FIT;
    }
    *to = bp_jinja_string(out, length);
    for (size_t at = 0; at < string->count;) {
        const size_t next = count > 0 ? find_word(string, from, at) : string->count;
        memcpy(out + used, string->is.text + at, next - at);
        used += next - at;
        at = next;
        if (count > 0) {
            if (with->count > 0) {
                memcpy(out + used, with->is.text, with->count);
            }
            used += with->count;
            at += from->count;
            count--;
        }
    }
    return BP_OK;
}

bp_status bp_jinja_recase(bp_jinja_room *room, const bp_jinja_value *string, bp_jinja_case form,
                          bp_jinja_value *to)
{
    char *out = bp_jinja_take(room, string->count);
    bool begins = true;
    if (out == NULL) {
        return BP_ERR_FIT;
    }
    for (uint32_t i = 0; i < string->count; i++) {
        const char c = string->is.text[i];
        if ((unsigned char)c >= 0x80) {
            return bp_jinja_refuse(room->error, "upper and lower case are there of ASCII only",
                                   NULL);
        }
        const bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
        const bool up = form == BP_JINJA_UPPER || (form >= BP_JINJA_CAPITALIZE && begins);
        out[i] = c;
        if (up && lower) {
            out[i] = (char)(c - 'a' + 'A');
        } else if (!up && upper) {
            out[i] = (char)(c - 'A' + 'a');
        }
        const bool splits = c != '\0' && strchr(" \t\n\v\f\r-({[<", c) != NULL;
        begins = form == BP_JINJA_WORDS ? splits : form == BP_JINJA_TITLE && !lower && !upper;
    }
    *to = bp_jinja_string(out, string->count);
    return BP_OK;
}

bp_status bp_jinja_dict_parts(bp_jinja_room *room, const bp_jinja_value *dict,
                              bp_jinja_of_dict what, bp_jinja_value *to)
{
    bp_jinja_value *items;
    if (dict->kind != BP_JINJA_DICT) {
        return bp_jinja_refuse(room->error, "what is no mapping has no items", NULL);
    }
    BP_TRY(bp_jinja_list_new(room, dict->is.dict->count, &items, to));
    for (uint32_t i = 0; i < to->count; i++) {
        const bp_jinja_pair *pair = &dict->is.dict->pairs[i];
        bp_jinja_value *both;
        items[i] = what == BP_JINJA_KEYS ? pair->key : pair->value;
        if (what == BP_JINJA_ITEMS) {
            BP_TRY(bp_jinja_list_new(room, 2, &both, &items[i]));
            items[i].tuple = true;
            both[0] = pair->key;
            both[1] = pair->value;
        }
    }
    return BP_OK;
}

bp_status bp_jinja_attribute_of(bp_jinja_room *room, const bp_jinja_value *x,
                                const bp_jinja_value *name, bp_jinja_value *to)
{
    *to = *x;
    for (size_t at = 0; at <= name->count && name->count > 0;) {
        size_t end = at;
        while (end < name->count && name->is.text[end] != '.') {
            end++;
        }
        const bp_jinja_value part = bp_jinja_string(name->is.text + at, end - at);
        const bp_jinja_value before = *to;
        BP_TRY(bp_jinja_index(room, &before, &part, to));
        at = end + 1;
    }
    return BP_OK;
}

bp_status bp_jinja_join_parts(bp_jinja_room *room, const bp_jinja_value *x,
                              const bp_jinja_value *separator, const bp_jinja_value *attribute,
                              bp_jinja_value *to)
{
    bp_jinja_value parts;
    bp_jinja_value piece;
    bp_jinja_value text;
    BP_TRY(bp_jinja_parts(room, x, &parts));
    *to = bp_jinja_string("", 0);
    for (uint32_t i = 0; i < parts.count; i++) {
        BP_TRY(bp_jinja_attribute_of(room, &parts.is.items[i], attribute, &piece));
        BP_TRY(bp_jinja_text(room, &piece, &text));
        if (i > 0) {
            BP_TRY(bp_jinja_join(room, to, separator, to));
        }
        BP_TRY(bp_jinja_join(room, to, &text, to));
    }
    return BP_OK;
}

bp_status bp_jinja_replace_call(bp_jinja_room *room, const bp_jinja_value *x,
                                const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value from = {0};
    bp_jinja_value with = {0};
    const bp_jinja_value *most = bp_jinja_argument(arguments, 2, "count");
    BP_TRY(bp_jinja_string_argument(room, arguments, 0, "old", &from));
    BP_TRY(bp_jinja_string_argument(room, arguments, 1, "new", &with));
    return bp_jinja_replace(room, x, &from, &with,
                            most != NULL && most->kind == BP_JINJA_INT ? most->is.i64 : -1, to);
}
