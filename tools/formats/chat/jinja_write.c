/* SPDX-License-Identifier: MIT */
/* Values of chat templates: written as Python's str() and json.dumps() write them. */
#include <string.h>

#include "core/base/number.h"
#include "tools/formats/chat/jinja_value.h"

/* A list or mapping that is being written. */
typedef struct write_level {
    const bp_jinja_value *value;
    uint32_t next;
} write_level;

typedef struct writing {
    bp_text *out;
    bp_jinja_writing form;
    bp_jinja_style style;
    bp_error *error;
    write_level levels[BP_JINJA_DEPTH];
    uint32_t depth;
} writing;

/* The shortest digits that read back as the same number, with a point or an exponent. */
static void write_float(bp_text *out, double value)
{
    enum { DIGITS = 17, DECIMALS = 21 };
    char text[64];
    bp_text own;
    bp_number back;
    const double size = value < 0 ? -value : value;
    const bool plain = size < 1e16 && (size <= 0 || size >= 1e-4);
    for (unsigned n = 1; n <= (plain ? DECIMALS : DIGITS); n++) {
        bp_text_init(&own, NULL, NULL, text, sizeof text);
        if (plain) {
            bp_text_fixed(&own, value, n);
        } else {
            bp_text_general(&own, value, n);
        }
        if (bp_text_flush(&own) == BP_OK && bp_number_parse(text, strlen(text), &back) == BP_OK &&
            !(back.real < value) && !(back.real > value)) {
            break;
        }
    }
    bp_text_string(out, text);
}

/* As repr(): single quotes, or double ones where that saves escapes. */
static void write_repr(bp_text *out, const bp_jinja_value *string)
{
    const char *text = string->is.text;
    const bool twice = string->count > 0 && memchr(text, '\'', string->count) != NULL &&
                       memchr(text, '"', string->count) == NULL;
    const char quote = twice ? '"' : '\'';
    bp_text_char(out, quote);
    for (uint32_t i = 0; i < string->count; i++) {
        const char c = text[i];
        if (c == '\n' || c == '\r' || c == '\t') {
            bp_text_string(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        } else if ((unsigned char)c < 0x20 || c == 0x7f) {
            bp_text_string(out, "\\x");
            bp_text_hex(out, (unsigned char)c, 2);
        } else {
            if (c == quote || c == '\\') {
                bp_text_char(out, '\\');
            }
            bp_text_char(out, c);
        }
    }
    bp_text_char(out, quote);
}

static bp_status write_flat(writing *w, const bp_jinja_value *value, bool inside)
{
    static const char *const python[] = {"None", "False", "True"};
    static const char *const json[] = {"null", "false", "true"};
    const char *const *words = w->form == BP_JINJA_JSON ? json : python;
    switch (value->kind) {
    case BP_JINJA_NONE:
        bp_text_string(w->out, words[0]);
        return BP_OK;
    case BP_JINJA_BOOL:
        bp_text_string(w->out, words[value->is.truth ? 2 : 1]);
        return BP_OK;
    case BP_JINJA_INT:
        bp_text_i64(w->out, value->is.i64);
        return BP_OK;
    case BP_JINJA_FLOAT:
        write_float(w->out, value->is.real);
        return BP_OK;
    case BP_JINJA_STRING:
        if (w->form == BP_JINJA_JSON) {
            bp_text_json_bytes(w->out, value->is.text, value->count);
        } else if (inside) {
            write_repr(w->out, value);
        } else {
            bp_text_bytes(w->out, value->is.text, value->count);
        }
        return BP_OK;
    case BP_JINJA_UNDEFINED:
        bp_text_string(w->out, inside && w->form != BP_JINJA_JSON ? "Undefined" : "");
        return w->form == BP_JINJA_JSON
                   ? bp_jinja_refuse(w->error, "an undefined value is no JSON", value->is.text)
                   : BP_OK;
    default:
        return bp_jinja_refuse(w->error, "a macro, loop or namespace cannot be written", NULL);
    }
}

static void write_break(const writing *w, uint32_t level)
{
    if (w->style.lines) {
        bp_text_char(w->out, '\n');
        bp_text_repeat(w->out, ' ', (size_t)w->style.indent * level);
    }
}

/* Between the parts of the innermost list or mapping; false: it is over and closed. */
static bool write_next(writing *w, const bp_jinja_value **part)
{
    write_level *level = &w->levels[w->depth - 1];
    const bp_jinja_value *value = level->value;
    const bool list = value->kind == BP_JINJA_LIST;
    const uint32_t count = list ? value->count : value->is.dict->count;
    const bool tuple = list && value->tuple && w->form != BP_JINJA_JSON;
    const uint32_t i = level->next++;
    if (i == count) {
        if (count > 0) {
            write_break(w, w->depth - 1);
        }
        bp_text_string(w->out, tuple ? (count == 1 ? ",)" : ")") : list ? "]" : "}");
        w->depth--;
        return false;
    }
    if (i > 0) {
        bp_text_bytes(w->out, w->style.item.is.text, w->style.item.count);
    }
    write_break(w, w->depth);
    *part = list ? &value->is.items[i] : &value->is.dict->pairs[i].value;
    if (!list) {
        if (w->form == BP_JINJA_JSON) {
            bp_text_json_bytes(w->out, value->is.dict->pairs[i].key.is.text,
                               value->is.dict->pairs[i].key.count);
        } else {
            write_repr(w->out, &value->is.dict->pairs[i].key);
        }
        bp_text_bytes(w->out, w->style.key.is.text, w->style.key.count);
    }
    return true;
}

static bp_status write_value(writing *w, const bp_jinja_value *value, bool inside)
{
    const bool list = value->kind == BP_JINJA_LIST;
    if (!list && value->kind != BP_JINJA_DICT) {
        return write_flat(w, value, inside);
    }
    if (list && (value->generator || value->range)) {
        return bp_jinja_refuse(w->error, "a generator or a range cannot be written",
                               "| list makes it a list");
    }
    if (w->depth == BP_JINJA_DEPTH) {
        return bp_jinja_refuse(w->error, "lists or mappings lie too deep in one another", NULL);
    }
    const bool tuple = list && value->tuple && w->form != BP_JINJA_JSON;
    bp_text_char(w->out, tuple ? '(' : list ? '[' : '{');
    w->levels[w->depth++] = (write_level){value, 0};
    return BP_OK;
}

static bp_status write_whole(writing *w, const bp_jinja_value *value)
{
    const bp_jinja_value *part;
    BP_TRY(write_value(w, value, false));
    while (w->depth > 0) {
        if (write_next(w, &part)) {
            BP_TRY(write_value(w, part, true));
        }
    }
    return BP_OK;
}

bp_jinja_style bp_jinja_style_usual(void)
{
    return (bp_jinja_style){.item = bp_jinja_string(", ", 2), .key = bp_jinja_string(": ", 2)};
}

bp_status bp_jinja_write(bp_text *out, const bp_jinja_value *value, bp_jinja_writing form,
                         bp_error *error)
{
    writing w = {.out = out, .form = form, .style = bp_jinja_style_usual(), .error = error};
    return write_whole(&w, value);
}

/* What is written, as a string. */
static bp_status write_string(bp_jinja_room *room, writing *w, const bp_jinja_value *value,
                              bp_jinja_value *to)
{
    bp_text out;
    const size_t left = room->bytes - room->used;
    if (left < 16) {
        (void)bp_jinja_take(room, 16);
        return BP_ERR_FIT;
    }
    char *at = room->memory + room->used;
    bp_text_init(&out, NULL, NULL, at, left);
    w->out = &out;
    w->error = room->error;
    BP_TRY(write_whole(w, value));
    /* What did not fit is refused as a string of that length is. */
    const bool whole = bp_text_flush(&out) == BP_OK;
    if (bp_jinja_take(room, whole ? (size_t)out.written : left + 1) == NULL) {
        return BP_ERR_FIT;
    }
    *to = bp_jinja_string(at, (size_t)out.written);
    return BP_OK;
}

bp_status bp_jinja_text(bp_jinja_room *room, const bp_jinja_value *value, bp_jinja_value *to)
{
    writing w = {.form = BP_JINJA_PLAIN, .style = bp_jinja_style_usual()};
    if (value->kind == BP_JINJA_STRING) {
        *to = *value;
        return BP_OK;
    }
    return write_string(room, &w, value, to);
}

bp_status bp_jinja_styled(bp_jinja_room *room, const bp_jinja_value *value,
                          const bp_jinja_style *style, bp_jinja_value *to)
{
    writing w = {.form = BP_JINJA_JSON, .style = *style};
    return write_string(room, &w, value, to);
}
