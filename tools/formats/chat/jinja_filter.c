/* SPDX-License-Identifier: MIT */
/* Chat templates: filters, what may follow |. */
#include <math.h>
#include <string.h>

#include "core/base/number.h"
#include "tools/formats/chat/jinja_text.h"
#include "tools/formats/unicode/unicode.h"

typedef bp_status (*filter_call)(bp_jinja_room *room, const bp_jinja_value *x,
                                 const bp_jinja_arguments *arguments, bp_jinja_value *to);

/* What is no string becomes one, as soft_str() does it. */
static bp_status text_of(bp_jinja_room *room, const bp_jinja_value *x, bp_jinja_value *to)
{
    return bp_jinja_text(room, x, to);
}

static bp_status filter_tojson(bp_jinja_room *room, const bp_jinja_value *x,
                               const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value *ascii = bp_jinja_argument(arguments, 0, "ensure_ascii");
    const bp_jinja_value *indent = bp_jinja_argument(arguments, 1, "indent");
    const bp_jinja_value *between = bp_jinja_argument(arguments, 2, "separators");
    const bp_jinja_value *sorts = bp_jinja_argument(arguments, 3, "sort_keys");
    bp_jinja_style style = bp_jinja_style_usual();
    if ((ascii != NULL && bp_jinja_true(ascii)) || (sorts != NULL && bp_jinja_true(sorts))) {
        return bp_jinja_refuse(room->error, "tojson neither escapes letters nor sorts keys here",
                               NULL);
    }
    if (indent != NULL && indent->kind != BP_JINJA_NONE) {
        if (indent->kind != BP_JINJA_INT || indent->is.i64 < 0 || indent->is.i64 > 64) {
            return bp_jinja_refuse(room->error, "tojson takes an indent of 0 to 64", NULL);
        }
        style.lines = true;
        style.indent = (unsigned)indent->is.i64;
        style.item = bp_jinja_string(",", 1);
    }
    if (between != NULL && between->kind != BP_JINJA_NONE) {
        if (between->kind != BP_JINJA_LIST || between->count != 2 ||
            between->is.items[0].kind != BP_JINJA_STRING ||
            between->is.items[1].kind != BP_JINJA_STRING) {
            return bp_jinja_refuse(room->error, "the separators of tojson are two strings", NULL);
        }
        style.item = between->is.items[0];
        style.key = between->is.items[1];
    }
    return bp_jinja_styled(room, x, &style, to);
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
        return !x->generator
                   ? BP_OK
                   : bp_jinja_refuse(room->error, "the length of a generator is asked for",
                                     "| list makes it a list");
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
    to->tuple = to->generator = to->range = false;
    return BP_OK;
}

/* way: whether the last one is wanted */
static bp_status filter_end(bp_jinja_room *room, const bp_jinja_value *x,
                            const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value parts;
    bp_jinja_stream *stream = bp_jinja_stream_of(x);
    if (stream != NULL && arguments->way != 0) {
        return bp_jinja_refuse(room->error, "the last of a generator is asked for",
                               "| list makes it a list");
    }
    BP_TRY(stream != NULL ? bp_jinja_rest(room, x, &parts) : bp_jinja_parts(room, x, &parts));
    if (stream != NULL && parts.count > 0) {
        stream->taken++;
    }
    *to = parts.count > 0 ? parts.is.items[arguments->way != 0 ? parts.count - 1 : 0]
                          : bp_jinja_undefined(NULL);
    return BP_OK;
}

static bp_status filter_reverse(bp_jinja_room *room, const bp_jinja_value *x,
                                const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value none = bp_jinja_string("", 0);
    bp_jinja_value parts;
    bp_jinja_value *items;
    (void)arguments;
    BP_TRY(bp_jinja_parts(room, x, &parts));
    BP_TRY(bp_jinja_list_new(room, parts.count, &items, to));
    for (uint32_t i = 0; i < parts.count; i++) {
        items[i] = parts.is.items[parts.count - 1 - i];
    }
    parts = *to;
    return x->kind == BP_JINJA_STRING ? bp_jinja_join_parts(room, &parts, &none, &none, to) : BP_OK;
}

/* A letter without its case; case is there of ASCII only. */
static unsigned char filter_letter(char c, bool cased)
{
    return (unsigned char)(!cased && c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* How two values lie to one another, strings with or without the case of their letters; *known as
 * bp_jinja_compare has it. */
static int filter_order(const bp_jinja_value *a, const bp_jinja_value *b, bool cased, bool *known)
{
    if (a->kind != BP_JINJA_STRING || b->kind != BP_JINJA_STRING) {
        return bp_jinja_compare(a, b, known);
    }
    *known = true;
    for (uint32_t i = 0; i < a->count && i < b->count; i++) {
        const int order = filter_letter(a->is.text[i], cased) - filter_letter(b->is.text[i], cased);
        if (order != 0) {
            return order;
        }
    }
    return (a->count > b->count) - (a->count < b->count);
}

/* Whether a character of several bytes is of a script without case: signs of Latin-1, Hebrew,
 * Arabic, scripts of India, punctuation, Chinese, Japanese, Korean, and pictures. */
static bool filter_caseless(unsigned char lead, unsigned char next)
{
    return lead == 0xc2 || (lead >= 0xd7 && lead <= 0xe0) || (lead == 0xe2 && next <= 0x83) ||
           (lead >= 0xe3 && lead <= 0xe9) || (lead >= 0xeb && lead <= 0xed) ||
           (lead == 0xf0 && next >= 0x9f);
}

/* Values that are compared without case must have none beyond ASCII. */
static bp_status filter_check_case(bp_jinja_room *room, const bp_jinja_value *values,
                                   uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        const unsigned char *text = (const unsigned char *)values[k].is.text;
        for (uint32_t i = 0; values[k].kind == BP_JINJA_STRING && i < values[k].count; i++) {
            const unsigned char next = i + 1 < values[k].count ? text[i + 1] : 0;
            if (text[i] >= 0xc0 && !filter_caseless(text[i], next)) {
                return bp_jinja_refuse(room->error, "upper and lower case are there of ASCII only",
                                       NULL);
            }
        }
    }
    return BP_OK;
}

static bool filter_flag(const bp_jinja_arguments *arguments, uint32_t place, const char *name)
{
    const bp_jinja_value *flag = bp_jinja_argument(arguments, place, name);
    return flag != NULL && bp_jinja_true(flag);
}

/* Sorts values by their keys; equal ones stay in their order. */
static bp_status filter_sort_by(bp_jinja_room *room, bp_jinja_value *items, bp_jinja_value *keys,
                                uint32_t count, bool cased, bool falls)
{
    if (!cased && count > 1) {
        BP_TRY(filter_check_case(room, keys, count));
    }
    for (uint32_t i = 1; i < count; i++) {
        const bp_jinja_value item = items[i], key = keys[i];
        uint32_t k = i;
        for (; k > 0; k--) {
            bool known;
            const int order = filter_order(&keys[k - 1], &key, cased, &known);
            if (!known) {
                return bp_jinja_refuse(room->error, "values that have no order are sorted", NULL);
            }
            if (falls ? order >= 0 : order <= 0) {
                break;
            }
            items[k] = items[k - 1];
            keys[k] = keys[k - 1];
        }
        items[k] = item;
        keys[k] = key;
    }
    return BP_OK;
}

/* sort(reverse, case_sensitive, attribute) */
static bp_status filter_sort(bp_jinja_room *room, const bp_jinja_value *x,
                             const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value *attribute = bp_jinja_argument(arguments, 2, "attribute");
    bp_jinja_value parts, own, keys = bp_jinja_string("", 0);
    bp_jinja_value *items, *by;
    if (attribute != NULL) {
        BP_TRY(bp_jinja_string_argument(room, arguments, 2, "attribute", &keys));
    }
    const bp_jinja_value name = keys;
    BP_TRY(bp_jinja_parts(room, x, &parts));
    BP_TRY(bp_jinja_list_new(room, parts.count, &items, to));
    BP_TRY(bp_jinja_list_new(room, parts.count, &by, &own));
    for (uint32_t i = 0; i < parts.count; i++) {
        items[i] = parts.is.items[i];
        BP_TRY(bp_jinja_attribute_of(room, &items[i], &name, &by[i]));
    }
    return filter_sort_by(room, items, by, parts.count, filter_flag(arguments, 1, "case_sensitive"),
                          filter_flag(arguments, 0, "reverse"));
}

static bp_status filter_unique(bp_jinja_room *room, const bp_jinja_value *x,
                               const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value parts;
    bp_jinja_value *items;
    uint32_t count = 0;
    const bool cased = filter_flag(arguments, 0, "case_sensitive");
    BP_TRY(bp_jinja_parts(room, x, &parts));
    BP_TRY(bp_jinja_list_new(room, parts.count, &items, to));
    if (!cased && parts.count > 1) {
        BP_TRY(filter_check_case(room, parts.is.items, parts.count));
    }
    for (uint32_t i = 0; i < parts.count; i++) {
        const bp_jinja_value *part = &parts.is.items[i];
        bool known = false;
        for (uint32_t k = 0; k < count && !known; k++) {
            bool ordered = false;
            known = part->kind == BP_JINJA_STRING && items[k].kind == BP_JINJA_STRING
                        ? filter_order(&items[k], part, cased, &ordered) == 0
                        : bp_jinja_equal(&items[k], part);
        }
        if (!known) {
            items[count++] = parts.is.items[i];
        }
    }
    to->count = count;
    return BP_OK;
}

/* Pairs by their keys, or their values: dictsort(case_sensitive, by, reverse). */
static bp_status filter_dictsort(bp_jinja_room *room, const bp_jinja_value *x,
                                 const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value *items, *by;
    bp_jinja_value pairs, own, what = bp_jinja_string("key", 3);
    if (bp_jinja_argument(arguments, 1, "by") != NULL) {
        BP_TRY(bp_jinja_string_argument(room, arguments, 1, "by", &what));
    }
    const uint32_t part = bp_jinja_is(&what, "value") ? 1 : 0;
    if (part == 0 && !bp_jinja_is(&what, "key")) {
        return bp_jinja_refuse(room->error, "dictsort sorts by key or value", NULL);
    }
    BP_TRY(bp_jinja_dict_parts(room, x, BP_JINJA_ITEMS, &pairs));
    BP_TRY(bp_jinja_list_new(room, pairs.count, &items, to));
    BP_TRY(bp_jinja_list_new(room, pairs.count, &by, &own));
    for (uint32_t i = 0; i < pairs.count; i++) {
        items[i] = pairs.is.items[i];
        by[i] = items[i].is.items[part];
    }
    return filter_sort_by(room, items, by, pairs.count, filter_flag(arguments, 0, "case_sensitive"),
                          filter_flag(arguments, 2, "reverse"));
}

static bp_status filter_replace(bp_jinja_room *room, const bp_jinja_value *x,
                                const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    bp_jinja_value text;
    BP_TRY(text_of(room, x, &text));
    return bp_jinja_replace_call(room, &text, arguments, to);
}

/* The digits of a text as Python's int and float take them: of any script, blanks around, a sign,
 * and single underscores between digits. *length becomes what is left; false: it is too long, or no
 * such text. */
enum { NUMBER_ROOM = 400 };

static bool filter_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool filter_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A character beyond ASCII as int and float see it: a decimal digit of Unicode 15 by its value, a
 * space as one; anything else is none of a number. */
static char filter_plain_character(uint32_t c)
{
    /* of each script the zero, which the other nine follow */
    static const uint32_t zeros[] = {
        0x660,   0x6f0,   0x7c0,   0x966,   0x9e6,   0xa66,   0xae6,   0xb66,   0xbe6,   0xc66,
        0xce6,   0xd66,   0xde6,   0xe50,   0xed0,   0xf20,   0x1040,  0x1090,  0x17e0,  0x1810,
        0x1946,  0x19d0,  0x1a80,  0x1a90,  0x1b50,  0x1bb0,  0x1c40,  0x1c50,  0xa620,  0xa8d0,
        0xa900,  0xa9d0,  0xa9f0,  0xaa50,  0xabf0,  0xff10,  0x104a0, 0x10d30, 0x11066, 0x110f0,
        0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950,
        0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec,
        0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0};
    for (size_t i = 0; i < sizeof zeros / sizeof zeros[0]; i++) {
        if (c >= zeros[i] && c - zeros[i] < 10) {
            return (char)('0' + (int)(c - zeros[i]));
        }
    }
    return bp_char_class_of(c) == BP_CHAR_SPACE ? ' ' : '?';
}

/* The text in ASCII; false: it is too long for a number. */
static bool filter_ascii(const bp_jinja_value *x, char to[NUMBER_ROOM], uint32_t *length)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->count;) {
        const char c = x->is.text[i];
        size_t bytes = 1;
        if (n == NUMBER_ROOM) {
            return false;
        }
        to[n++] = (unsigned char)c < 0x80 ? c
                                          : filter_plain_character(bp_utf8_get(
                                                (const unsigned char *)x->is.text + i, &bytes));
        i += (uint32_t)bytes;
    }
    *length = n;
    return true;
}

static bool filter_plain(const bp_jinja_value *x, char to[NUMBER_ROOM], uint32_t *length)
{
    char text[NUMBER_ROOM];
    uint32_t from = 0, end, n = 0;
    if (!filter_ascii(x, text, &end)) {
        return false;
    }
    for (; from < end && filter_blank(text[from]); from++) {
    }
    for (; end > from && filter_blank(text[end - 1]); end--) {
    }
    for (uint32_t i = from; i < end; i++) {
        const bool between =
            i > from && i + 1 < end && filter_digit(text[i - 1]) && filter_digit(text[i + 1]);
        if (text[i] == '_' && !between) {
            return false;
        }
        if (text[i] != '_' && !(i == from && text[i] == '+')) {
            to[n++] = text[i];
        }
    }
    *length = n;
    return !(n > 0 && to[0] == '-' && from < end && text[from] == '+');
}

/* A number as Python writes one but JSON does not: zeros in front, no digit before or behind the
 * point; an infinity where it is beyond what a double holds. false: it is none. */
static bool filter_real(const bp_jinja_value *x, bp_number *number)
{
    char plain[NUMBER_ROOM], shaped[NUMBER_ROOM + 2];
    uint32_t length, n = 0, i = 0;
    if (!filter_plain(x, plain, &length)) {
        return false;
    }
    if (i < length && plain[i] == '-') {
        shaped[n++] = plain[i++];
    }
    const bool digits = i < length && filter_digit(plain[i]);
    for (; i + 1 < length && plain[i] == '0' && filter_digit(plain[i + 1]); i++) {
    }
    if (!digits && i + 1 < length && plain[i] == '.' && filter_digit(plain[i + 1])) {
        shaped[n++] = '0';
    }
    for (; i < length; i++) {
        shaped[n++] = plain[i];
        if (plain[i] == '.' && digits && !(i + 1 < length && filter_digit(plain[i + 1]))) {
            shaped[n++] = '0';
        }
        if (n > NUMBER_ROOM) {
            return false;
        }
    }
    const bp_status status = bp_number_parse(shaped, n, number);
    if (status == BP_ERR_OVERFLOW) {
        *number = (bp_number){.real = shaped[0] == '-' ? -HUGE_VAL : HUGE_VAL};
    }
    return status == BP_OK || status == BP_ERR_OVERFLOW;
}

/* A word that Python's float takes beside numbers: an infinity, or not a number. */
static bool filter_word(const bp_jinja_value *x, double *real)
{
    static const char *const words[] = {"inf", "infinity", "nan"};
    char plain[NUMBER_ROOM];
    uint32_t length;
    if (!filter_plain(x, plain, &length)) {
        return false;
    }
    const uint32_t sign = length > 0 && plain[0] == '-' ? 1 : 0;
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        uint32_t i = sign;
        const char *word = words[w];
        for (; i < length && *word != '\0' && (plain[i] | 0x20) == *word; i++) {
            word++;
        }
        if (i == length && *word == '\0' && length > sign) {
            const double infinite = sign ? -HUGE_VAL : HUGE_VAL;
            *real = w == 2 ? (double)NAN : infinite;
            return true;
        }
    }
    return false;
}

/* What is not there has no number: Python raises. */
static bp_status filter_there(bp_jinja_room *room, const bp_jinja_value *x)
{
    return x->kind != BP_JINJA_UNDEFINED
               ? BP_OK
               : bp_jinja_refuse(room->error, "a number is asked of what is undefined", x->is.text);
}

/* The whole part of a number that is finite. Python's has as many digits as it takes. */
static bp_status filter_whole(bp_jinja_room *room, double real, bp_jinja_value *to)
{
    const double most = 9223372036854775808.0; /* 2^63 */
    if (!(real >= -most && real < most)) {
        return bp_jinja_refuse(room->error, "a whole number is beyond 64 bits", "int");
    }
    *to = bp_jinja_int((int64_t)real);
    return BP_OK;
}

static bp_status filter_int(bp_jinja_room *room, const bp_jinja_value *x,
                            const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value *otherwise = bp_jinja_argument(arguments, 0, "default");
    bp_number number;
    double real;
    BP_TRY(filter_there(room, x));
    *to = otherwise != NULL ? *otherwise : bp_jinja_int(0);
    if (x->kind == BP_JINJA_STRING) {
        if (!filter_real(x, &number) || isinf(number.real)) {
            return BP_OK;
        }
        *to = bp_jinja_int(number.i64);
        return number.integer ? BP_OK : filter_whole(room, number.real, to);
    }
    if (x->kind == BP_JINJA_INT) {
        *to = *x;
        return BP_OK;
    }
    /* not a number has the default, an infinity raises */
    return bp_jinja_number(x, &real) && !isnan(real) ? filter_whole(room, real, to) : BP_OK;
}

static bp_status filter_float(bp_jinja_room *room, const bp_jinja_value *x,
                              const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value *otherwise = bp_jinja_argument(arguments, 0, "default");
    bp_jinja_value real = {.kind = BP_JINJA_FLOAT};
    bp_number number;
    bool is = false;
    BP_TRY(filter_there(room, x));
    if (x->kind != BP_JINJA_STRING) {
        is = bp_jinja_number(x, &real.is.real);
    } else if (filter_real(x, &number)) {
        real.is.real = number.real;
        is = true;
    } else {
        is = filter_word(x, &real.is.real);
    }
    *to = !is && otherwise != NULL ? *otherwise : real;
    return BP_OK;
}

static bp_status filter_abs(bp_jinja_room *room, const bp_jinja_value *x,
                            const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value zero = bp_jinja_int(0);
    double real;
    (void)arguments;
    if (!bp_jinja_number(x, &real)) {
        return bp_jinja_refuse(room->error, "abs takes a number", NULL);
    }
    *to = x->kind == BP_JINJA_BOOL ? bp_jinja_int(x->is.truth ? 1 : 0) : *x;
    if (x->kind == BP_JINJA_FLOAT) {
        to->is.real = fabs(real);
        return BP_OK;
    }
    return real < 0 ? bp_jinja_operate(room, BP_JINJA_SUBTRACT, &zero, x, to) : BP_OK;
}

/* indent(width, first, blank): lines behind the first one are moved by four spaces, or as many as
 * are said; empty ones only if that is asked for. */
static bp_status filter_indent(bp_jinja_room *room, const bp_jinja_value *x,
                               const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    const bp_jinja_value *given = bp_jinja_argument(arguments, 0, "width");
    const bool all = filter_flag(arguments, 1, "first"), blank = filter_flag(arguments, 2, "blank");
    size_t lines = 1;
    bp_jinja_value text;
    if (given != NULL &&
        (given->kind != BP_JINJA_INT || given->is.i64 < 0 || given->is.i64 >= 64)) {
        return bp_jinja_refuse(room->error, "indent takes a width below 64", NULL);
    }
    const size_t width = given != NULL ? (size_t)given->is.i64 : 4;
    if (x->kind != BP_JINJA_STRING) {
        return bp_jinja_refuse(room->error, "indent takes a string", NULL);
    }
    text = *x;
    for (uint32_t i = 0; i < text.count; i++) {
        lines += text.is.text[i] == '\n' ? 1 : 0;
    }
    char *out = bp_jinja_take(room, text.count + lines * width);
    if (out == NULL) {
        return BP_ERR_FIT;
    }
    size_t used = 0;
    bool begins = false;
    if (all) { /* the first one even if it is empty */
        memset(out, ' ', width);
        used = width;
    }
    for (uint32_t i = 0; i < text.count; i++) {
        if (begins && (blank || text.is.text[i] != '\n')) {
            memset(out + used, ' ', width);
            used += width;
        }
        begins = text.is.text[i] == '\n';
        out[used++] = text.is.text[i];
    }
    if (begins && blank) {
        memset(out + used, ' ', width);
        used += width;
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
    filter_call each;  /* NULL: map itself */
    unsigned way;      /* what the call reads as arguments->way */
    const char *takes; /* the names of its arguments, each with a space behind it; NULL: it sees to
                          them itself */
} filter_row;

static const filter_row filters[] = {
    {"tojson", filter_tojson, 0, "ensure_ascii indent separators sort_keys "},
    {"trim", filter_trim, 0, "chars "},
    {"length", filter_length, 0, ""},
    {"count", filter_length, 0, ""},
    {"string", filter_string, 0, ""},
    {"items", filter_items, 0, ""},
    {"safe", filter_string, 0, ""},
    {"default", filter_default, 0, "default_value boolean "},
    {"d", filter_default, 0, "default_value boolean "},
    {"join", filter_join, 0, "d attribute "},
    {"lower", filter_recase, BP_JINJA_LOWER, ""},
    {"upper", filter_recase, BP_JINJA_UPPER, ""},
    {"capitalize", filter_recase, BP_JINJA_CAPITALIZE, ""},
    {"title", filter_recase, BP_JINJA_WORDS, ""},
    {"list", filter_list, 0, ""},
    {"first", filter_end, 0, ""},
    {"last", filter_end, 1, ""},
    {"reverse", filter_reverse, 0, ""},
    {"unique", filter_unique, 0, "case_sensitive "},
    {"dictsort", filter_dictsort, 0, "case_sensitive by reverse "},
    {"replace", filter_replace, 0, "old new count "},
    {"int", filter_int, 0, "default "},
    {"float", filter_float, 0, "default "},
    {"abs", filter_abs, 0, ""},
    {"indent", filter_indent, 0, "width first blank "},
    {"map", NULL, 0, NULL},
    {"select", filter_choose, 0, NULL},
    {"reject", filter_choose, REJECTS, NULL},
    {"selectattr", filter_choose, BY_ATTRIBUTE, NULL},
    {"rejectattr", filter_choose, BY_ATTRIBUTE | REJECTS, NULL},
    {"sort", filter_sort, 0, "reverse case_sensitive attribute "},
};

/* Whether a filter gives out one by one what it makes of x, as jinja2's generators do. */
static bool filter_generates(const filter_row *row, const bp_jinja_value *x)
{
    const bool all = row->each == NULL || row->each == filter_choose ||
                     row->each == filter_unique || row->each == filter_items;
    return all || (row->each == filter_reverse && x->kind == BP_JINJA_LIST && !x->generator);
}

static const filter_row *filter_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        if (strlen(filters[i].name) == length && memcmp(filters[i].name, name, length) == 0) {
            return &filters[i];
        }
    }
    return NULL;
}

/* What a filter knows no use for is refused, never passed over. */
static bp_status filter_check(bp_jinja_room *room, const filter_row *row,
                              const bp_jinja_arguments *arguments)
{
    const char *name = row->takes;
    for (uint32_t i = 0; name != NULL && i < arguments->count; i++) {
        const bp_jinja_value *said = arguments->names != NULL ? &arguments->names[i] : NULL;
        bool takes = false;
        uint32_t known = 0;
        for (const char *at = name; *at != '\0'; at = strchr(at, ' ') + 1, known++) {
            const size_t length = strcspn(at, " ");
            takes =
                takes || (said == NULL || said->count == 0
                              ? known == i
                              : said->count == length && memcmp(said->is.text, at, length) == 0);
        }
        if (!takes) {
            return bp_jinja_refuse(room->error, "an argument of a filter is not there", row->name);
        }
    }
    return BP_OK;
}

static bp_status filter_map(bp_jinja_room *room, const bp_jinja_value *x,
                            const bp_jinja_arguments *arguments, bp_jinja_value *to);

static bp_status filter_apply(bp_jinja_room *room, const filter_row *row, const bp_jinja_value *x,
                              const bp_jinja_arguments *arguments, bp_jinja_value *to)
{
    BP_TRY((row->each != NULL ? row->each : filter_map)(room, x, arguments, to));
    if (!filter_generates(row, x)) {
        return BP_OK;
    }
    bp_jinja_stream *stream = bp_jinja_stream_of(x);
    if (stream != NULL) {
        stream->open = true; /* what is made of it goes through it when it is gone through */
    }
    return bp_jinja_generate(room, to);
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
    BP_TRY(row != NULL ? filter_check(room, row, &rest) : BP_OK);
    BP_TRY(bp_jinja_parts(room, x, &parts));
    BP_TRY(bp_jinja_list_new(room, parts.count, &items, to));
    for (uint32_t i = 0; i < parts.count; i++) {
        if (row != NULL) {
            BP_TRY(filter_apply(room, row, &parts.is.items[i], &rest, &items[i]));
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
    BP_TRY(filter_check(room, row, arguments));
    bp_jinja_arguments all = *arguments;
    all.way = row->way;
    return filter_apply(room, row, x, &all, to);
}
