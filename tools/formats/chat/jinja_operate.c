/* SPDX-License-Identifier: MIT */
/* Chat templates: operators, indices and slices, as Python has them. */
#include <string.h>

#include "tools/formats/chat/jinja_program.h"
#include "tools/formats/unicode/unicode.h"

enum { LIST_MOST = 1 << 20 };

bp_status bp_jinja_list_new(bp_jinja_room *room, size_t count, bp_jinja_value **items,
                            bp_jinja_value *to)
{
    *items = NULL;
    if (count > LIST_MOST) {
        return bp_jinja_refuse(room->error, "a list has more elements than can be", NULL);
    }
    *items = bp_jinja_take(room, count * sizeof **items);
    *to = (bp_jinja_value){.kind = BP_JINJA_LIST, .count = (uint32_t)count, .is.items = *items};
    return *items != NULL ? BP_OK : BP_ERR_FIT;
}

static bp_status string_parts(bp_jinja_room *room, const bp_jinja_value *x, bp_jinja_value *to)
{
    bp_jinja_value *items;
    size_t at = 0;
    BP_TRY(bp_jinja_list_new(room, bp_jinja_characters(x), &items, to));
    for (uint32_t i = 0; i < to->count; i++) {
        size_t length;
        (void)bp_utf8_get((const unsigned char *)x->is.text + at, &length);
        items[i] = bp_jinja_string(x->is.text + at, length);
        at += length;
    }
    return BP_OK;
}

bp_status bp_jinja_generate(bp_jinja_room *room, bp_jinja_value *x)
{
    bp_jinja_value list, *items;
    bp_jinja_stream *stream = bp_jinja_take(room, sizeof *stream);
    BP_TRY(bp_jinja_list_new(room, (size_t)x->count + 1, &items, &list));
    if (stream == NULL) {
        return BP_ERR_FIT;
    }
    *stream = (bp_jinja_stream){.taken = 0};
    items[0] = (bp_jinja_value){.kind = BP_JINJA_NONE, .is.stream = stream};
    if (x->count > 0) {
        memcpy(items + 1, x->is.items, x->count * sizeof *items);
    }
    x->is.items = items + 1;
    x->generator = true;
    return BP_OK;
}

bp_jinja_stream *bp_jinja_stream_of(const bp_jinja_value *x)
{
    return x->kind == BP_JINJA_LIST && x->generator ? x->is.items[-1].is.stream : NULL;
}

bp_status bp_jinja_rest(bp_jinja_room *room, const bp_jinja_value *x, bp_jinja_value *to)
{
    const bp_jinja_stream *stream = bp_jinja_stream_of(x);
    *to = *x;
    if (stream == NULL) {
        return BP_OK;
    }
    if (stream->open) {
        return bp_jinja_refuse(room->error,
                               "a generator is gone through while a loop or a filter has it",
                               "| list makes it a list");
    }
    to->generator = false;
    to->is.items += stream->taken;
    to->count -= stream->taken;
    return BP_OK;
}

/* All that is left of a generator. */
static bp_status generator_parts(bp_jinja_room *room, const bp_jinja_value *x, bp_jinja_value *to)
{
    bp_jinja_stream *stream = bp_jinja_stream_of(x);
    BP_TRY(bp_jinja_rest(room, x, to));
    if (stream != NULL) {
        stream->taken = x->count;
    }
    return BP_OK;
}

bp_status bp_jinja_parts(bp_jinja_room *room, const bp_jinja_value *x, bp_jinja_value *to)
{
    bp_jinja_value *items;
    switch (x->kind) {
    case BP_JINJA_LIST:
        return generator_parts(room, x, to);
    case BP_JINJA_UNDEFINED:
        return bp_jinja_list_new(room, 0, &items, to);
    case BP_JINJA_STRING:
        return string_parts(room, x, to);
    case BP_JINJA_DICT:
        BP_TRY(bp_jinja_list_new(room, x->is.dict->count, &items, to));
        for (uint32_t i = 0; i < to->count; i++) {
            items[i] = x->is.dict->pairs[i].key;
        }
        return BP_OK;
    default:
        return bp_jinja_refuse(room->error,
                               "what is neither a list, string nor mapping has no "
                               "parts to go through",
                               NULL);
    }
}

static bp_status operate_in(bp_jinja_room *room, const bp_jinja_value *a, const bp_jinja_value *b,
                            bool *holds)
{
    *holds = false;
    if (b->kind == BP_JINJA_STRING && a->kind == BP_JINJA_STRING) {
        for (uint32_t i = 0; i + a->count <= b->count && !*holds; i++) {
            *holds = a->count == 0 || memcmp(b->is.text + i, a->is.text, a->count) == 0;
        }
        return BP_OK;
    }
    if (b->kind == BP_JINJA_DICT) {
        *holds = a->kind == BP_JINJA_STRING &&
                 bp_jinja_dict_get(b->is.dict, a->is.text, a->count) != NULL;
        return BP_OK;
    }
    if (b->kind == BP_JINJA_LIST || b->kind == BP_JINJA_UNDEFINED) {
        bp_jinja_stream *stream = bp_jinja_stream_of(b);
        bp_jinja_value rest;
        BP_TRY(bp_jinja_rest(room, b, &rest));
        for (uint32_t i = 0; i < rest.count && !*holds; i++) {
            *holds = bp_jinja_equal(a, &rest.is.items[i]);
            if (stream != NULL) {
                stream->taken++; /* up to the one that is found */
            }
        }
        return BP_OK;
    }
    return bp_jinja_refuse(room->error, "`in` asks what has no parts", NULL);
}

static bp_status operate_compare(bp_jinja_room *room, bp_jinja_op op, const bp_jinja_value *a,
                                 const bp_jinja_value *b, bp_jinja_value *to)
{
    bool known = true;
    bool holds = false;
    if (op == BP_JINJA_IN || op == BP_JINJA_NOT_IN) {
        BP_TRY(operate_in(room, a, b, &holds));
        *to = bp_jinja_bool(holds == (op == BP_JINJA_IN));
        return BP_OK;
    }
    if (op == BP_JINJA_EQ || op == BP_JINJA_NE) {
        *to = bp_jinja_bool(bp_jinja_equal(a, b) == (op == BP_JINJA_EQ));
        return BP_OK;
    }
    const int order = bp_jinja_compare(a, b, &known);
    if (!known) {
        return bp_jinja_refuse(room->error, "values that have no order are compared", NULL);
    }
    *to = bp_jinja_bool(op == BP_JINJA_LT   ? order < 0
                        : op == BP_JINJA_GT ? order > 0
                        : op == BP_JINJA_LE ? order <= 0
                                            : order >= 0);
    return BP_OK;
}

/* Whole numbers; the quotient goes down, and the rest has the divisor's sign. */
static bp_status operate_int(bp_jinja_room *room, bp_jinja_op op, int64_t a, int64_t b,
                             bp_jinja_value *to)
{
    const int64_t most = INT64_C(1) << 31; /* so that nothing overflows */
    if (a > most || a < -most || b > most || b < -most) {
        return bp_jinja_refuse(room->error, "a number is larger than templates may reckon with",
                               NULL);
    }
    const bool divides = op == BP_JINJA_FLOOR_DIVIDE || op == BP_JINJA_MODULO;
    if (divides && b == 0) {
        return bp_jinja_refuse(room->error, "a division by zero", NULL);
    }
    const int64_t down = divides && a % b != 0 && (a < 0) != (b < 0) ? 1 : 0;
    switch (op) {
    case BP_JINJA_ADD:
        *to = bp_jinja_int(a + b);
        break;
    case BP_JINJA_SUBTRACT:
        *to = bp_jinja_int(a - b);
        break;
    case BP_JINJA_MULTIPLY:
        *to = bp_jinja_int(a * b);
        break;
    case BP_JINJA_FLOOR_DIVIDE:
        *to = bp_jinja_int(a / b - down);
        break;
    default:
        *to = bp_jinja_int(a % b + down * b);
        break;
    }
    return BP_OK;
}

static bp_status operate_numbers(bp_jinja_room *room, bp_jinja_op op, const bp_jinja_value *a,
                                 const bp_jinja_value *b, bp_jinja_value *to)
{
    double x;
    double y;
    if (!bp_jinja_number(a, &x) || !bp_jinja_number(b, &y)) {
        return bp_jinja_refuse(room->error, "values are reckoned with that are no numbers", NULL);
    }
    const bool whole = a->kind != BP_JINJA_FLOAT && b->kind != BP_JINJA_FLOAT;
    if (whole && op != BP_JINJA_DIVIDE && op != BP_JINJA_POWER) {
        return operate_int(room, op, a->kind == BP_JINJA_INT ? a->is.i64 : (int64_t)x,
                           b->kind == BP_JINJA_INT ? b->is.i64 : (int64_t)y, to);
    }
    *to = (bp_jinja_value){.kind = BP_JINJA_FLOAT};
    switch (op) {
    case BP_JINJA_ADD:
        to->is.real = x + y;
        return BP_OK;
    case BP_JINJA_SUBTRACT:
        to->is.real = x - y;
        return BP_OK;
    case BP_JINJA_MULTIPLY:
        to->is.real = x * y;
        return BP_OK;
    case BP_JINJA_DIVIDE:
        if (!(y < 0) && !(y > 0)) {
            return bp_jinja_refuse(room->error, "a division by zero", NULL);
        }
        to->is.real = x / y;
        return BP_OK;
    default:
        return bp_jinja_refuse(room->error,
                               "powers, and quotients and rests of fractions, are "
                               "not there",
                               NULL);
    }
}

static bp_status operate_lists(bp_jinja_room *room, const bp_jinja_value *a,
                               const bp_jinja_value *b, bp_jinja_value *to)
{
    bp_jinja_value *items;
    BP_TRY(bp_jinja_list_new(room, (size_t)a->count + b->count, &items, to));
    if (a->count > 0) {
        memcpy(items, a->is.items, a->count * sizeof *items);
    }
    if (b->count > 0) {
        memcpy(items + a->count, b->is.items, b->count * sizeof *items);
    }
    return BP_OK;
}

/* "-" * 3 */
static bp_status operate_repeat(bp_jinja_room *room, const bp_jinja_value *string, int64_t times,
                                bp_jinja_value *to)
{
    *to = bp_jinja_string("", 0);
    if (times > LIST_MOST) {
        return bp_jinja_refuse(room->error, "a string is repeated more often than can be", NULL);
    }
    const size_t length = times > 0 ? (size_t)times * string->count : 0;
    char *at = length <= UINT32_MAX ? bp_jinja_take(room, length) : NULL;
    if (at == NULL) {
        return BP_ERR_FIT;
    }
    for (size_t i = 0; i < length; i++) {
        at[i] = string->is.text[i % string->count];
    }
    *to = bp_jinja_string(at, length);
    return BP_OK;
}

bp_status bp_jinja_operate(bp_jinja_room *room, bp_jinja_op op, const bp_jinja_value *a,
                           const bp_jinja_value *b, bp_jinja_value *to)
{
    if (op >= BP_JINJA_EQ) {
        return operate_compare(room, op, a, b, to);
    }
    if (op == BP_JINJA_CONCAT) {
        bp_jinja_value x;
        bp_jinja_value y;
        BP_TRY(bp_jinja_text(room, a, &x));
        BP_TRY(bp_jinja_text(room, b, &y));
        return bp_jinja_join(room, &x, &y, to);
    }
    if (a->kind == BP_JINJA_UNDEFINED || b->kind == BP_JINJA_UNDEFINED) {
        return bp_jinja_refuse(room->error, "something undefined is used",
                               a->kind == BP_JINJA_UNDEFINED ? a->is.text : b->is.text);
    }
    if (op == BP_JINJA_ADD && a->kind == BP_JINJA_STRING && b->kind == BP_JINJA_STRING) {
        return bp_jinja_join(room, a, b, to);
    }
    if (op == BP_JINJA_ADD && a->kind == BP_JINJA_LIST && b->kind == BP_JINJA_LIST &&
        !a->generator && !b->generator) {
        return operate_lists(room, a, b, to);
    }
    if (op == BP_JINJA_MULTIPLY && a->kind == BP_JINJA_STRING && b->kind == BP_JINJA_INT) {
        return operate_repeat(room, a, b->is.i64, to);
    }
    if (op == BP_JINJA_ADD && (a->kind == BP_JINJA_STRING || b->kind == BP_JINJA_STRING)) {
        return bp_jinja_refuse(room->error, "a string is joined to what is none by +", NULL);
    }
    return operate_numbers(room, op, a, b, to);
}

bp_status bp_jinja_index(bp_jinja_room *room, const bp_jinja_value *x, const bp_jinja_value *index,
                         bp_jinja_value *to)
{
    *to = bp_jinja_undefined(NULL);
    if (x->kind == BP_JINJA_UNDEFINED) {
        return bp_jinja_refuse(room->error, "an element of something undefined is asked for",
                               x->is.text);
    }
    if ((x->kind == BP_JINJA_DICT || x->kind == BP_JINJA_NAMESPACE) &&
        index->kind == BP_JINJA_STRING) {
        const bp_jinja_value *found = bp_jinja_dict_get(x->is.dict, index->is.text, index->count);
        *to = found != NULL ? *found : *to;
        return BP_OK;
    }
    if (x->kind == BP_JINJA_LIST && x->generator) {
        return BP_OK;
    }
    if (index->kind != BP_JINJA_INT || (x->kind != BP_JINJA_LIST && x->kind != BP_JINJA_STRING)) {
        return BP_OK;
    }
    const int64_t count =
        x->kind == BP_JINJA_LIST ? (int64_t)x->count : (int64_t)bp_jinja_characters(x);
    const int64_t at = index->is.i64 < 0 ? index->is.i64 + count : index->is.i64;
    if (at < 0 || at >= count) {
        return BP_OK;
    }
    if (x->kind == BP_JINJA_LIST) {
        *to = x->is.items[at];
        return BP_OK;
    }
    const size_t from = bp_jinja_byte_of(x, (size_t)at);
    *to = bp_jinja_string(x->is.text + from, bp_jinja_byte_of(x, (size_t)at + 1) - from);
    return BP_OK;
}

/* A bound as Python takes it, between 0 and count (-1 and count - 1 where steps go back). */
static bp_status slice_bound(bp_jinja_room *room, const bp_jinja_value *bound, int64_t count,
                             int64_t otherwise, bool back, int64_t *to)
{
    *to = otherwise;
    if (bound->kind == BP_JINJA_NONE) {
        return BP_OK;
    }
    if (bound->kind != BP_JINJA_INT) {
        return bp_jinja_refuse(room->error, "the bounds of a slice are whole numbers", NULL);
    }
    const int64_t least = back ? -1 : 0, most = back ? count - 1 : count;
    int64_t at = bound->is.i64 < 0 ? bound->is.i64 + count : bound->is.i64;
    at = at < least ? least : at;
    *to = at > most ? most : at;
    return BP_OK;
}

bp_status bp_jinja_slice(bp_jinja_room *room, const bp_jinja_value *x,
                         const bp_jinja_value bounds[3], bp_jinja_value *to)
{
    bp_jinja_value parts;
    bp_jinja_value *items;
    int64_t from;
    int64_t end;
    const bool string = x->kind == BP_JINJA_STRING;
    const int64_t step = bounds[2].kind == BP_JINJA_INT ? bounds[2].is.i64 : 1;
    if (string ? step != 1
               : x->kind != BP_JINJA_LIST || x->generator || (step != 1 && step != -1)) {
        return bp_jinja_refuse(
            room->error, "slices are there of lists, by steps of 1 and -1, and of strings", NULL);
    }
    parts = *x;
    const int64_t count = string ? (int64_t)bp_jinja_characters(x) : (int64_t)x->count;
    const bool back = step < 0;
    BP_TRY(slice_bound(room, &bounds[0], count, back ? count - 1 : 0, back, &from));
    BP_TRY(slice_bound(room, &bounds[1], count, back ? -1 : count, back, &end));
    const int64_t length = back ? from - end : end - from;
    const size_t taken = length > 0 ? (size_t)length : 0;
    if (string) {
        const size_t first = bp_jinja_byte_of(x, (size_t)from);
        const size_t last = taken > 0 ? bp_jinja_byte_of(x, (size_t)end) : first;
        *to = bp_jinja_string(x->is.text + first, last - first);
        return BP_OK;
    }
    if (!back) {
        *to = parts;
        to->is.items = taken > 0 ? x->is.items + from : x->is.items;
        to->count = (uint32_t)taken;
        return BP_OK;
    }
    BP_TRY(bp_jinja_list_new(room, taken, &items, to));
    for (size_t i = 0; i < taken; i++) {
        items[i] = x->is.items[from - (int64_t)i];
    }
    return BP_OK;
}
