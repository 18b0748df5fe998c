/* SPDX-License-Identifier: MIT */
/* Values of chat templates: what Jinja calls none, numbers, strings, lists and mappings.
 *
 * All of them lie in one room that the caller gives; nothing is freed before the room is taken
 * back as a whole. Lists and strings may share their elements (slices copy nothing); mappings keep
 * their insertion order, as Python's do. Only namespaces ever change. */
#ifndef BP_FORMATS_JINJA_VALUE_H
#define BP_FORMATS_JINJA_VALUE_H

#include "arena/text.h"
#include "core/base/error.h"

#define BP_JINJA_DEPTH 48 /* values inside of values, when they are written or compared */

typedef enum bp_jinja_kind {
    BP_JINJA_UNDEFINED,
    BP_JINJA_NONE,
    BP_JINJA_BOOL,
    BP_JINJA_INT,
    BP_JINJA_FLOAT,
    BP_JINJA_STRING,
    BP_JINJA_LIST,
    BP_JINJA_DICT,
    BP_JINJA_NAMESPACE,
    BP_JINJA_MACRO,
    BP_JINJA_LOOP
} bp_jinja_kind;

typedef struct bp_jinja_value bp_jinja_value;
typedef struct bp_jinja_dict bp_jinja_dict;
typedef struct bp_jinja_stream bp_jinja_stream;

struct bp_jinja_value {
    uint8_t kind;   /* bp_jinja_kind */
    bool tuple;     /* LIST: written with parentheses */
    bool generator; /* LIST: what a filter gives out one by one, once: always true, without a
                       length, elements by number or a written form, until it is made a list.
                       Before its items is one with `stream` */
    bool range;     /* LIST: of numbers, which is not written as a list is */
    uint32_t count; /* STRING: bytes; LIST: elements */
    union {
        bool truth;
        int64_t i64; /* MACRO, LOOP: its number */
        double real;
        const char *text; /* STRING: valid UTF-8; UNDEFINED: the name, for messages, or NULL */
        const bp_jinja_value *items;
        bp_jinja_dict *dict;     /* DICT, NAMESPACE */
        bp_jinja_stream *stream; /* before the items of a generator */
    } is;
};

typedef struct bp_jinja_pair {
    bp_jinja_value key; /* a string */
    bp_jinja_value value;
} bp_jinja_pair;

/* How far a generator was gone through. All copies of its value share it. */
struct bp_jinja_stream {
    uint32_t taken;
    bool open; /* a loop or another generator goes through it: nobody else can */
};

struct bp_jinja_dict {
    uint32_t count;
    uint32_t room;
    bp_jinja_pair *pairs;
};

/* Where values are made. A plain record; bp_jinja_room_of makes one, `used` may be set back to an
 * earlier value, which forgets what was made since. */
typedef struct bp_jinja_room {
    char *memory; /* aligned to 16 */
    size_t bytes;
    size_t used;
    bp_error *error;
} bp_jinja_room;

/* The message of a template that goes wrong, "template" its place; BP_ERR_DATA. */
bp_status bp_jinja_refuse(bp_error *error, const char *text, const char *name);

/* Bytes aligned to 16; NULL and BP_ERR_FIT recorded when the room is used up. */
void *bp_jinja_take(bp_jinja_room *room, size_t bytes);

bp_jinja_value bp_jinja_undefined(const char *name);
bp_jinja_value bp_jinja_none(void);
bp_jinja_value bp_jinja_bool(bool truth);
bp_jinja_value bp_jinja_int(int64_t i64);
bp_jinja_value bp_jinja_string(const char *text, size_t length); /* which is not copied */

/* A copy of the bytes. BP_ERR_FIT. */
bp_status bp_jinja_copy(bp_jinja_room *room, const char *text, size_t length,
                        bp_jinja_value *to) BP_MUST_CHECK;
/* Two strings in one. */
bp_status bp_jinja_join(bp_jinja_room *room, const bp_jinja_value *a, const bp_jinja_value *b,
                        bp_jinja_value *to) BP_MUST_CHECK;

/* An empty mapping with room for some pairs, which grows as it must. */
bp_status bp_jinja_dict_new(bp_jinja_room *room, uint32_t pairs, bp_jinja_value *to) BP_MUST_CHECK;
/* Adds or replaces. */
bp_status bp_jinja_dict_set(bp_jinja_room *room, bp_jinja_dict *dict, const bp_jinja_value *key,
                            const bp_jinja_value *value) BP_MUST_CHECK;
/* NULL: no such key. */
const bp_jinja_value *bp_jinja_dict_get(const bp_jinja_dict *dict, const char *key, size_t length);

bool bp_jinja_is(const bp_jinja_value *value, const char *text); /* this string */
bool bp_jinja_true(const bp_jinja_value *value);
bool bp_jinja_number(const bp_jinja_value *value, double *real); /* bools are numbers, too */
/* As Python's ==. */
bool bp_jinja_equal(const bp_jinja_value *a, const bp_jinja_value *b);
/* < 0, 0, > 0; *known false: they have no order. */
int bp_jinja_compare(const bp_jinja_value *a, const bp_jinja_value *b, bool *known);

/* How a value is written. */
typedef enum bp_jinja_writing {
    BP_JINJA_PLAIN, /* as str(): strings as they are, what is inside of others as repr() */
    BP_JINJA_JSON   /* as json.dumps(ensure_ascii=False) */
} bp_jinja_writing;

/* How lists and mappings are written: what stands between two members and behind a key, whether
 * each member has a line of its own, and how many spaces each level moves it. */
typedef struct bp_jinja_style {
    bp_jinja_value item, key;
    bool lines;
    unsigned indent;
} bp_jinja_style;

/* ", " and ": ", in one line. */
bp_jinja_style bp_jinja_style_usual(void);

/* Writes a value in the usual style. BP_ERR_DATA: too deep, or JSON of what has none. */
bp_status bp_jinja_write(bp_text *out, const bp_jinja_value *value, bp_jinja_writing writing,
                         bp_error *error) BP_MUST_CHECK;

/* A value as a string in the room: as str() writes it, and as JSON. */
bp_status bp_jinja_text(bp_jinja_room *room, const bp_jinja_value *value,
                        bp_jinja_value *to) BP_MUST_CHECK;
bp_status bp_jinja_styled(bp_jinja_room *room, const bp_jinja_value *value,
                          const bp_jinja_style *style, bp_jinja_value *to) BP_MUST_CHECK;

/* Characters of a string, and the byte at which number `index` of them begins. */
size_t bp_jinja_characters(const bp_jinja_value *string);
size_t bp_jinja_byte_of(const bp_jinja_value *string, size_t index);

#endif
