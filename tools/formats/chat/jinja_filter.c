/* SPDX-License-Identifier: MIT */
/* Chat templates: filters, what may follow |. */
#include <string.h>

#include "core/base/number.h"
#include "tools/formats/chat/jinja_text.h"

typedef bp_status (*filter_call)(bp_jinja_room *room, const bp_jinja_value *x,
                                 const bp_jinja_arguments *arguments, bp_jinja_value *to);

/* What is no string becomes one, as soft_str() does it. */
static bp_status text_of(bp_jinja_room *room, const bp_jinja_value *x, bp_jinja_value *to)
{
    return bp_jinja_text(room, x, BP_JINJA_PLAIN, 0, to);
}

static bp_status filter_tojson(bp_jinja_room *room, const bp_jinja_value *x,
                               const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value *indent = bp_jinja_argument(arguments, 3, "indent");
    indent = indent == NULL ? bp_jinja_argument(arguments, 0, "indent") : indent;
    const bool spaced = indent != NULL && indent->kind == BP_JINJA_INT && indent->is.i64 > 0 &&
                        indent->is.i64 <= 16;
    return bp_jinja_text(room, x, BP_JINJA_JSON, spaced ? (unsigned)indent->is.i64 : 0, to);
}

static bp_status filter_trim(bp_jinja_room *room, const bp_jinja_value *x,
                             const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value text;
    bp_jinja_value set;
    const bool given = bp_jinja_argument(arguments, 0, "chars") != NULL;
    BP_TRY(text_of(room, x, &text));
    if (given) {
        BP_TRY(bp_jinja_string_argument(room, arguments, 0, "chars", &set));
    }
    *to = bp_jinja_strip(&text, given ? &set : NULL, true, true);
    return BP_OK;
}

static bp_status filter_length(bp_jinja_room *room, const bp_jinja_value *x,
                               const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    (void)arguments;
    switch (x->kind) {
    case BP_JINJA_STRING:
        *to = bp_jinja_int((int64_t)bp_jinja_characters(x));
        return BP_OK;
    case BP_JINJA_LIST:
    case BP_JINJA_UNDEFINED:
        *to = bp_jinja_int(x->count);
        return BP_OK;
    case BP_JINJA_DICT:
        *to = bp_jinja_int(x->is.dict->count);
        return BP_OK;
    default:
        return bp_jinja_refuse(room->error, "the length of what has none is asked for", NULL);
    }
}

static bp_status filter_string(bp_jinja_room *room, const bp_jinja_value *x,
                               const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    (void)arguments;
    return text_of(room, x, to);
}

static bp_status filter_items(bp_jinja_room *room, const bp_jinja_value *x,
                              const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    (void)arguments;
    return x->kind == BP_JINJA_UNDEFINED ? bp_jinja_parts(room, x, to)
                                         : bp_jinja_dict_parts(room, x, BP_JINJA_ITEMS, to);
}

static bp_status filter_default(bp_jinja_room *room, const bp_jinja_value *x,
                                const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value *value = bp_jinja_argument(arguments, 0, "default_value");
    const bp_jinja_value *empty = bp_jinja_argument(arguments, 1, "boolean");
    const bool replaces = x->kind == BP_JINJA_UNDEFINED ||
                          (empty != NULL && bp_jinja_true(empty) && !bp_jinja_true(x));
    (void)room;
    *to = !replaces ? *x : value != NULL ? *value : bp_jinja_string("", 0);
    return BP_OK;
}

static bp_status filter_join(bp_jinja_room *room, const bp_jinja_value *x,
                             const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value separator = bp_jinja_string("", 0);
    bp_jinja_value attribute = bp_jinja_string("", 0);
    if (bp_jinja_argument(arguments, 0, "d") != NULL) {
        BP_TRY(bp_jinja_string_argument(room, arguments, 0, "d", &separator));
    }
    if (bp_jinja_argument(arguments, 1, "attribute") != NULL) {
        BP_TRY(bp_jinja_string_argument(room, arguments, 1, "attribute", &attribute));
    }
    return bp_jinja_join_parts(room, x, &separator, &attribute, to);
}

/* way: a bp_jinja_case */
static bp_status filter_recase(bp_jinja_room *room, const bp_jinja_value *x,
                               const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value text;
    BP_TRY(text_of(room, x, &text));
    return bp_jinja_recase(room, &text, (bp_jinja_case)arguments->way, to);
}

static bp_status filter_list(bp_jinja_room *room, const bp_jinja_value *x,
                             const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    (void)arguments;
    BP_TRY(bp_jinja_parts(room, x, to));
    to->tuple = false;
    return BP_OK;
}

/* way: whether the last one is wanted */
static bp_status filter_end(bp_jinja_room *room, const bp_jinja_value *x,
                            const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value parts;
    BP_TRY(bp_jinja_parts(room, x, &parts));
    *to = parts.count > 0 ? parts.is.items[arguments->way != 0 ? parts.count - 1 : 0]
                          : bp_jinja_undefined(NULL);
    return BP_OK;
}

static bp_status filter_reverse(bp_jinja_room *room, const bp_jinja_value *x,
                                const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value parts;
    bp_jinja_value *items;
    (void)arguments;
    BP_TRY(bp_jinja_parts(room, x, &parts));
    BP_TRY(bp_jinja_list_new(room, parts.count, &items, to));
    for (uint32_t i = 0; i < parts.count; i++) {
        items[i] = parts.is.items[parts.count - 1 - i];
    }
    return BP_OK;
}

static bp_status filter_unique(bp_jinja_room *room, const bp_jinja_value *x,
                               const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value parts;
    bp_jinja_value *items;
    uint32_t count = 0;
    (void)arguments;
    BP_TRY(bp_jinja_parts(room, x, &parts));
    BP_TRY(bp_jinja_list_new(room, parts.count, &items, to));
    for (uint32_t i = 0; i < parts.count; i++) {
        bool known = false;
        for (uint32_t k = 0; k < count && !known; k++) {
            known = bp_jinja_equal(&items[k], &parts.is.items[i]);
        }
        if (!known) {
            items[count++] = parts.is.items[i];
        }
    }
    to->count = count;
    return BP_OK;
}

/* Pairs by their keys. */
static bp_status filter_dictsort(bp_jinja_room *room, const bp_jinja_value *x,
                                 const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value *items;
    bp_jinja_value pairs;
    bool known;
    (void)arguments;
    BP_TRY(bp_jinja_dict_parts(room, x, BP_JINJA_ITEMS, &pairs));
    BP_TRY(bp_jinja_list_new(room, pairs.count, &items, to));
    for (uint32_t i = 0; i < pairs.count; i++) {
        uint32_t k = i;
        for (; k > 0 && bp_jinja_compare(&items[k - 1].is.items[0], &pairs.is.items[i].is.items[0],
                                         &known) > 0;
             k--) {
            items[k] = items[k - 1];
        }
        items[k] = pairs.is.items[i];
    }
    return BP_OK;
}

static bp_status filter_replace(bp_jinja_room *room, const bp_jinja_value *x,
                                const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value text;
    BP_TRY(text_of(room, x, &text));
    return bp_jinja_replace_call(room, &text, arguments, to);
}

static bp_status filter_int(bp_jinja_room *room, const bp_jinja_value *x,
                            const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_number number;
    double real;
    (void)room;
    (void)arguments;
    *to = bp_jinja_int(0);
    if (x->kind == BP_JINJA_STRING) {
        if (bp_number_parse(x->is.text, x->count, &number) == BP_OK && number.real < 1e15 &&
            number.real > -1e15) {
            *to = bp_jinja_int(number.integer ? number.i64 : (int64_t)number.real);
        }
    } else if (x->kind == BP_JINJA_INT) {
        *to = *x;
    } else if (bp_jinja_number(x, &real) && real < 1e15 && real > -1e15) {
        *to = bp_jinja_int((int64_t)real);
    }
    return BP_OK;
}

static bp_status filter_float(bp_jinja_room *room, const bp_jinja_value *x,
                              const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_number number;
    (void)room;
    (void)arguments;
    *to = (bp_jinja_value){.kind = BP_JINJA_FLOAT};
    if (x->kind != BP_JINJA_STRING) {
        (void)bp_jinja_number(x, &to->is.real);
    } else if (bp_number_parse(x->is.text, x->count, &number) == BP_OK) {
        to->is.real = number.real;
    }
    return BP_OK;
}

static bp_status filter_abs(bp_jinja_room *room, const bp_jinja_value *x,
                            const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value zero = bp_jinja_int(0);
    double real;
    (void)arguments;
    *to = *x;
    return bp_jinja_number(x, &real) && real < 0
               ? bp_jinja_operate(room, BP_JINJA_SUBTRACT, &zero, x, to)
               : BP_OK;
}

/* Lines behind the first one are moved by four spaces, or as many as are said; empty ones not. */
static bp_status filter_indent(bp_jinja_room *room, const bp_jinja_value *x,
                               const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value *given = bp_jinja_argument(arguments, 0, "width");
    const bp_jinja_value *all = bp_jinja_argument(arguments, 1, "first");
    size_t lines = 1;
    bp_jinja_value text;
    if (given != NULL &&
        (given->kind != BP_JINJA_INT || given->is.i64 < 0 || given->is.i64 >= 64)) {
        return bp_jinja_refuse(room->error, "indent takes a width below 64", NULL);
    }
    const size_t width = given != NULL ? (size_t)given->is.i64 : 4;
    BP_TRY(text_of(room, x, &text));
    for (uint32_t i = 0; i < text.count; i++) {
        lines += text.is.text[i] == '\n' ? 1 : 0;
    }
    char *out = bp_jinja_take(room, text.count + lines * width);
    if (out == NULL) {
        return BP_ERR_FIT;
    }
    size_t used = 0;
    bool begins = false;
    if (all != NULL && bp_jinja_true(all)) { /* the first one even if it is empty */
        memset(out, ' ', width);
        used = width;
    }
    for (uint32_t i = 0; i < text.count; i++) {
        if (begins && text.is.text[i] != '\n') {
            memset(out + used, ' ', width);
            used += width;
        }
        begins = text.is.text[i] == '\n';
        out[used++] = text.is.text[i];
    }
    *to = bp_jinja_string(out, used);
    return BP_OK;
}

enum { REJECTS = 1, BY_ATTRIBUTE = 2 };

/* select, reject(test, arguments), and by an attribute. way: of the bits above. */
static bp_status filter_choose(bp_jinja_room *room, const bp_jinja_value *x,
                               const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bool by_attribute = (arguments->way & BY_ATTRIBUTE) != 0;
    const bool keeps = (arguments->way & REJECTS) == 0;
    bp_jinja_value parts;
    bp_jinja_value *items;
    bp_jinja_value attribute = bp_jinja_string("", 0);
    bp_jinja_value name = bp_jinja_string("", 0);
    uint32_t count = 0;
    const uint32_t first = by_attribute ? 1 : 0;
    if (by_attribute) {
        BP_TRY(bp_jinja_string_argument(room, arguments, 0, "attribute", &attribute));
    }
    if (arguments->count > first) {
        BP_TRY(bp_jinja_string_argument(room, arguments, first, "test", &name));
    }
    const uint32_t left = arguments->count > first + 1 ? arguments->count - first - 1 : 0;
    const bp_jinja_arguments rest = {.values = arguments->values + arguments->count - left,
                                     .count = left};
    BP_TRY(bp_jinja_parts(room, x, &parts));
    BP_TRY(bp_jinja_list_new(room, parts.count, &items, to));
    for (uint32_t i = 0; i < parts.count; i++) {
        bp_jinja_value value;
        BP_TRY(bp_jinja_attribute_of(room, &parts.is.items[i], &attribute, &value));
        bool holds = bp_jinja_true(&value);
        if (name.count > 0) {
            BP_TRY(bp_jinja_test(room, &value, &name, &rest, &holds));
        }
        if (holds == keeps) {
            items[count++] = parts.is.items[i];
        }
    }
    to->count = count;
    return BP_OK;
}

typedef struct filter_row {
    const char *name;
    filter_call each; /* NULL: map itself */
    unsigned way;     /* what the call reads as arguments->way */
} filter_row;

static const filter_row filters[] = {
    {"tojson", filter_tojson, 0},
    {"trim", filter_trim, 0},
    {"length", filter_length, 0},
    {"count", filter_length, 0},
    {"string", filter_string, 0},
    {"items", filter_items, 0},
    {"safe", filter_string, 0},
    {"default", filter_default, 0},
    {"d", filter_default, 0},
    {"join", filter_join, 0},
    {"lower", filter_recase, BP_JINJA_LOWER},
    {"upper", filter_recase, BP_JINJA_UPPER},
    {"capitalize", filter_recase, BP_JINJA_CAPITALIZE},
    {"title", filter_recase, BP_JINJA_WORDS},
    {"list", filter_list, 0},
    {"first", filter_end, 0},
    {"last", filter_end, 1},
    {"reverse", filter_reverse, 0},
    {"unique", filter_unique, 0},
    {"dictsort", filter_dictsort, 0},
    {"replace", filter_replace, 0},
    {"int", filter_int, 0},
    {"float", filter_float, 0},
    {"abs", filter_abs, 0},
    {"indent", filter_indent, 0},
    {"map", NULL, 0},
    {"select", filter_choose, 0},
    {"reject", filter_choose, REJECTS},
    {"selectattr", filter_choose, BY_ATTRIBUTE},
    {"rejectattr", filter_choose, BY_ATTRIBUTE | REJECTS},
};

static const filter_row *filter_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        if (strlen(filters[i].name) == length && memcmp(filters[i].name, name, length) == 0) {
            return &filters[i];
        }
    }
    return NULL;
}

/* map(attribute=..) or map(filter) */
static bp_status filter_map(bp_jinja_room *room, const bp_jinja_value *x,
                            const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value parts;
    bp_jinja_value name;
    bp_jinja_value *items;
    const bool attribute = bp_jinja_argument(arguments, UINT32_MAX, "attribute") != NULL;
    const bp_jinja_value *otherwise = bp_jinja_argument(arguments, UINT32_MAX, "default");
    const uint32_t taken = arguments->count > 0 ? 1 : 0;
    bp_jinja_arguments rest = {.values = arguments->values + taken,
                               .count = arguments->count - taken};
    BP_TRY(bp_jinja_string_argument(room, arguments, 0, "attribute", &name));
    const filter_row *row = attribute ? NULL : filter_find(name.is.text, name.count);
    if (!attribute && (row == NULL || row->each == NULL)) {
        return bp_jinja_refuse(room->error, "map applies a filter that is not there", NULL);
    }
    rest.way = row != NULL ? row->way : 0;
    BP_TRY(bp_jinja_parts(room, x, &parts));
    BP_TRY(bp_jinja_list_new(room, parts.count, &items, to));
    for (uint32_t i = 0; i < parts.count; i++) {
        if (row != NULL) {
            BP_TRY(row->each(room, &parts.is.items[i], &rest, &items[i]));
            continue;
        }
        BP_TRY(bp_jinja_attribute_of(room, &parts.is.items[i], &name, &items[i]));
        if (items[i].kind == BP_JINJA_UNDEFINED && otherwise != NULL) {
            items[i] = *otherwise;
        }
    }
    return BP_OK;
}

bool bp_jinja_has_filter(const char *name, size_t length)
{
    return filter_find(name, length) != NULL;
}

bp_status bp_jinja_filter(bp_jinja_room *room, const bp_jinja_value *x, const bp_jinja_value *name,
                          const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const filter_row *row = filter_find(name->is.text, name->count);
    if (row == NULL) {
        return bp_jinja_refuse(room->error, "a filter that is not there", NULL);
    }
    bp_jinja_arguments all = *arguments;
    all.way = row->way;
    return (row->each != NULL ? row->each : filter_map)(room, x, &all, to);
}
