/* SPDX-License-Identifier: MIT */
/* The brackets of arrays. */
#include "tools/formats/files/data_array.h"

/* The byte at the walk's place; -1 at the end of the file. */
static bp_status array_peek(bp_data_reader *reader, const bp_data_array *a, int *byte)
{
    const unsigned char *bytes;
    size_t count;
    BP_TRY(bp_data_look(reader, a->at, &bytes, &count));
    *byte = count > 0 ? *bytes : -1;
    return BP_OK;
}

static bool array_is_space(int byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* To the next byte that is no white space. */
static bp_status array_skip(bp_data_reader *reader, bp_data_array *a, int *byte)
{
    BP_TRY(array_peek(reader, a, byte));
    while (array_is_space(*byte)) {
        a->feeds += *byte == '\n' ? 1 : 0;
        a->at++;
        BP_TRY(array_peek(reader, a, byte));
    }
    reader->line = a->feeds + 1;
    return BP_OK;
}

bp_status bp_data_array_begin(bp_data_reader *reader, uint64_t at, bp_data_array *a, bool *is)
{
    int byte;
    *a = (bp_data_array){.at = at};
    BP_TRY(array_skip(reader, a, &byte));
    *is = byte == '[';
    a->at += *is ? 1 : 0;
    return BP_OK;
}

/* How deep the walk is inside of an element. */
typedef struct depth {
    uint64_t brackets;
    bool string;
    bool escaped; /* behind a backslash */
} depth;

/* Whether the element ends before this byte. */
static bool array_ends(depth *d, unsigned char byte)
{
    if (d->string) {
        d->string = d->escaped || byte != '"';
        d->escaped = !d->escaped && byte == '\\';
        return false;
    }
    switch (byte) {
    case '"':
        d->string = true;
        return false;
    case '[':
    case '{':
        d->brackets++;
        return false;
    case ']':
    case '}':
        if (d->brackets > 0) {
            d->brackets--;
            return false;
        }
        return true;
    default:
        return byte == ',' && d->brackets == 0;
    }
}

/* Behind the element's last byte; at the end of the file if it has no end. */
static bp_status array_pass(bp_data_reader *reader, bp_data_array *a)
{
    depth d = {.brackets = 0};
    for (;;) {
        const unsigned char *bytes;
        size_t count;
        BP_TRY(bp_data_look(reader, a->at, &bytes, &count));
        if (count == 0) {
            return BP_OK;
        }
        for (size_t i = 0; i < count; i++) {
            if (array_ends(&d, bytes[i])) {
                return BP_OK;
            }
            a->feeds += bytes[i] == '\n' ? 1 : 0;
            a->at++;
        }
    }
}

/* Behind the closing bracket there is nothing more. */
static bp_status array_close(bp_data_reader *reader, bp_data_array *a)
{
    int byte;
    a->at++;
    BP_TRY(array_skip(reader, a, &byte));
    return byte < 0 ? BP_OK : bp_data_refuse(reader, "something follows the JSON array");
}

bp_status bp_data_array_next(bp_data_reader *reader, bp_data_array *a, bool *more)
{
    int byte;
    *more = false;
    BP_TRY(array_skip(reader, a, &byte));
    if (a->any && byte == ',') {
        a->at++;
        BP_TRY(array_skip(reader, a, &byte));
        if (byte == ']') {
            return bp_data_refuse(reader, "no element follows the comma");
        }
    } else if (byte == ']') {
        return array_close(reader, a);
    }
    if (byte < 0) {
        return bp_data_refuse(reader, "the JSON array has no end: the file is cut short");
    }
    *more = true;
    a->any = true;
    a->start = a->at;
    BP_TRY(array_pass(reader, a));
    a->end = a->at;
    if (a->end == a->start) {
        return bp_data_refuse(reader, "the JSON array has an empty element");
    }
    return BP_OK;
}
