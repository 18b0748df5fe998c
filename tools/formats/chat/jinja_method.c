/* SPDX-License-Identifier: MIT */
/* Chat templates: methods of strings and mappings, and the functions. */
#include <string.h>

#include "tools/formats/chat/jinja_text.h"

const bp_jinja_value *bp_jinja_argument(const bp_jinja_arguments *arguments, uint32_t place,
                                        const char *name)
{
    for (uint32_t i = 0; i < arguments->count; i++) {
        const bool named = arguments->names != NULL && arguments->names[i].kind == BP_JINJA_STRING;
        if (named ? bp_jinja_is(&arguments->names[i], name) : i == place) {
            return &arguments->values[i];
        }
    }
    return NULL;
}

typedef bp_status (*method_call)(bp_jinja_room *room, const bp_jinja_value *x,
                                 const bp_jinja_arguments *arguments, bp_jinja_value *to);

enum { FRONT = 1, BACK = 2 }; /* sides of a string */

/* way: the sides */
static bp_status method_strip(bp_jinja_room *room, const bp_jinja_value *x,
                              const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value *given = bp_jinja_argument(arguments, 0, "chars");
    const bool chosen = given != NULL && given->kind != BP_JINJA_NONE;
    bp_jinja_value set;
    if (chosen) {
        BP_TRY(bp_jinja_string_argument(room, arguments, 0, "chars", &set));
    }
    *to = bp_jinja_strip(x, chosen ? &set : NULL, (arguments->way & FRONT) != 0,
                         (arguments->way & BACK) != 0);
    return BP_OK;
}

static bool has_end(const bp_jinja_value *x, const bp_jinja_value *word, bool front)
{
    return word->kind == BP_JINJA_STRING && word->count <= x->count &&
           (word->count == 0 || memcmp(front ? x->is.text : x->is.text + x->count - word->count,
                                       word->is.text, word->count) == 0);
}

/* One word, or a tuple of them. way: the side */
static bp_status method_ends(bp_jinja_room *room, const bp_jinja_value *x,
                             const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bool front = arguments->way == FRONT;
    const bp_jinja_value *words = bp_jinja_argument(arguments, 0, "prefix");
    bool holds = false;
    if (words == NULL || (words->kind != BP_JINJA_STRING && words->kind != BP_JINJA_LIST)) {
        return bp_jinja_refuse(room->error, "startswith and endswith take a string or several",
                               NULL);
    }
    const bool list = words->kind == BP_JINJA_LIST;
    for (uint32_t i = 0; i < (list ? words->count : 1); i++) {
        holds = holds || has_end(x, list ? &words->is.items[i] : words, front);
    }
    *to = bp_jinja_bool(holds);
    return BP_OK;
}

/* way: the side */
static bp_status method_remove(bp_jinja_room *room, const bp_jinja_value *x,
                               const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bool front = arguments->way == FRONT;
    bp_jinja_value word;
    BP_TRY(bp_jinja_string_argument(room, arguments, 0, front ? "prefix" : "suffix", &word));
    const size_t cut = has_end(x, &word, front) ? word.count : 0;
    *to = bp_jinja_string(front ? x->is.text + cut : x->is.text, x->count - cut);
    return BP_OK;
}

/* The next piece between white space; false: there is none. */
static bool piece_of_spaces(const bp_jinja_value *x, size_t *at, bp_jinja_value *piece)
{
    bp_jinja_value rest = bp_jinja_string(x->is.text + *at, x->count - *at);
    rest = bp_jinja_strip(&rest, NULL, true, false);
    size_t length = 0;
    while (length < rest.count) { /* up to the next white space */
        const bp_jinja_value tail = bp_jinja_string(rest.is.text + length, rest.count - length);
        if (bp_jinja_strip(&tail, NULL, true, false).count != tail.count) {
            break;
        }
        length++;
        while (length < rest.count && ((unsigned char)rest.is.text[length] & 0xc0u) == 0x80u) {
            length++;
        }
    }
    *piece = bp_jinja_string(rest.is.text, length);
    *at = (size_t)(rest.is.text - x->is.text) + length;
    return length > 0;
}

static bool piece_of_words(const bp_jinja_value *x, const bp_jinja_value *word, bool last,
                           size_t *at, bp_jinja_value *piece)
{
    size_t end = *at;
    if (*at > x->count) {
        return false;
    }
    while (!last && end + word->count <= x->count &&
           memcmp(x->is.text + end, word->is.text, word->count) != 0) {
        end++;
    }
    const bool found = !last && end + word->count <= x->count;
    end = found ? end : x->count;
    *piece = bp_jinja_string(x->is.text + *at, end - *at);
    *at = found ? end + word->count : (size_t)x->count + 1;
    return true;
}

static bp_status method_split(bp_jinja_room *room, const bp_jinja_value *x,
                              const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value *given = bp_jinja_argument(arguments, 0, "sep");
    const bp_jinja_value *most = bp_jinja_argument(arguments, 1, "maxsplit");
    const bool spaces = given == NULL || given->kind == BP_JINJA_NONE;
    const uint64_t limit = most != NULL && most->kind == BP_JINJA_INT && most->is.i64 >= 0
                               ? (uint64_t)most->is.i64
                               : UINT64_MAX;
    bp_jinja_value word = bp_jinja_string("", 0);
    bp_jinja_value *items;
    bp_jinja_value piece;
    if (!spaces) {
        BP_TRY(bp_jinja_string_argument(room, arguments, 0, "sep", &word));
    }
    if (spaces ? limit != UINT64_MAX : word.count == 0) {
        return bp_jinja_refuse(room->error, "a string cannot be split so", NULL);
    }
    uint32_t count = 0;
    for (size_t at = 0; spaces ? piece_of_spaces(x, &at, &piece)
                               : piece_of_words(x, &word, count == limit, &at, &piece);) {
        count++;
    }
    BP_TRY(bp_jinja_list_new(room, count, &items, to));
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (spaces) {
            (void)piece_of_spaces(x, &at, &items[i]);
        } else {
            (void)piece_of_words(x, &word, i == limit, &at, &items[i]);
        }
    }
    return BP_OK;
}

static bp_status method_join(bp_jinja_room *room, const bp_jinja_value *x,
                             const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value *list = bp_jinja_argument(arguments, 0, "iterable");
    const bp_jinja_value whole = bp_jinja_string("", 0);
    return list == NULL ? bp_jinja_refuse(room->error, "join takes a list", NULL)
                        : bp_jinja_join_parts(room, list, x, &whole, to);
}

static bp_status method_find(bp_jinja_room *room, const bp_jinja_value *x,
                             const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value word;
    BP_TRY(bp_jinja_string_argument(room, arguments, 0, "sub", &word));
    for (uint32_t i = 0; i + word.count <= x->count; i++) {
        if (word.count == 0 || memcmp(x->is.text + i, word.is.text, word.count) == 0) {
            const bp_jinja_value before = bp_jinja_string(x->is.text, i);
            *to = bp_jinja_int((int64_t)bp_jinja_characters(&before));
            return BP_OK;
        }
    }
    *to = bp_jinja_int(-1);
    return BP_OK;
}

/* way: a bp_jinja_case */
static bp_status method_recase(bp_jinja_room *room, const bp_jinja_value *x,
                               const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    return bp_jinja_recase(room, x, (bp_jinja_case)arguments->way, to);
}

static bp_status method_get(bp_jinja_room *room, const bp_jinja_value *x,
                            const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value key;
    const bp_jinja_value *otherwise = bp_jinja_argument(arguments, 1, "default");
    BP_TRY(bp_jinja_string_argument(room, arguments, 0, "key", &key));
    const bp_jinja_value *found = bp_jinja_dict_get(x->is.dict, key.is.text, key.count);
    *to = found != NULL ? *found : otherwise != NULL ? *otherwise : bp_jinja_none();
    return BP_OK;
}

/* way: which parts */
static bp_status method_parts(bp_jinja_room *room, const bp_jinja_value *x,
                              const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    return bp_jinja_dict_parts(room, x, (bp_jinja_of_dict)arguments->way, to);
}

typedef struct method_row {
    const char *name;
    bp_jinja_kind kind; /* of what it is a method */
    method_call call;
    unsigned way;  /* what the call reads as arguments->way */
    uint32_t most; /* arguments that it reads */
} method_row;

static const method_row methods[] = {
    {"strip", BP_JINJA_STRING, method_strip, FRONT | BACK, 1},
    {"lstrip", BP_JINJA_STRING, method_strip, FRONT, 1},
    {"rstrip", BP_JINJA_STRING, method_strip, BACK, 1},
    {"split", BP_JINJA_STRING, method_split, 0, 2},
    {"startswith", BP_JINJA_STRING, method_ends, FRONT, 1},
    {"endswith", BP_JINJA_STRING, method_ends, BACK, 1},
    {"removeprefix", BP_JINJA_STRING, method_remove, FRONT, 1},
    {"removesuffix", BP_JINJA_STRING, method_remove, BACK, 1},
    {"replace", BP_JINJA_STRING, bp_jinja_replace_call, 0, 3},
    {"join", BP_JINJA_STRING, method_join, 0, 1},
    {"find", BP_JINJA_STRING, method_find, 0, 1},
    {"lower", BP_JINJA_STRING, method_recase, BP_JINJA_LOWER, 0},
    {"upper", BP_JINJA_STRING, method_recase, BP_JINJA_UPPER, 0},
    {"capitalize", BP_JINJA_STRING, method_recase, BP_JINJA_CAPITALIZE, 0},
    {"title", BP_JINJA_STRING, method_recase, BP_JINJA_TITLE, 0},
    {"get", BP_JINJA_DICT, method_get, 0, 2},
    {"items", BP_JINJA_DICT, method_parts, BP_JINJA_ITEMS, 0},
    {"keys", BP_JINJA_DICT, method_parts, BP_JINJA_KEYS, 0},
    {"values", BP_JINJA_DICT, method_parts, BP_JINJA_VALUES, 0},
};

bp_status bp_jinja_method(bp_jinja_room *room, const bp_jinja_value *x, const bp_jinja_value *name,
                          const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    char text[32] = "";
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (methods[i].kind == (bp_jinja_kind)x->kind && bp_jinja_is(name, methods[i].name)) {
            bp_jinja_arguments all = *arguments;
            if (all.count > methods[i].most) { /* never passed over */
                return bp_jinja_refuse(room->error, "an argument of a method is not there",
                                       methods[i].name);
            }
            all.way = methods[i].way;
            return methods[i].call(room, x, &all, to);
        }
    }
    if (name->count < sizeof text) {
        memcpy(text, name->is.text, name->count);
    }
    return bp_jinja_refuse(room->error,
                           x->kind == BP_JINJA_UNDEFINED
                               ? "a method of something undefined is called"
                               : "a method that is not there, or not of this kind of value",
                           text);
}
