/* SPDX-License-Identifier: MIT */
/* JSON to values of chat templates. */
#include "tools/formats/chat/jinja_json.h"

#include <string.h>

enum { KEYS = 1024, TEXT = 4096 };

/* A list or mapping that is being read. Elements of lists are gathered in a chain of pieces, for
 * nobody knows how many come. */
typedef struct json_level {
    bp_jinja_value value;
    bp_jinja_value key; /* of the value that comes next */
    bp_jinja_value *items;
    uint32_t room;
} json_level;

typedef struct json_reading {
    bp_jinja_room *room;
    bp_json *json;
    bool dense;
    json_level levels[BP_JINJA_DEPTH];
    uint32_t depth;
    bp_jinja_value result;
    bool done;
} json_reading;

static bp_status list_add(json_reading *r, json_level *level, const bp_jinja_value *value)
{
    if (level->value.count == level->room) {
        const uint32_t more = level->room < 8 ? 8 : 2 * level->room;
        bp_jinja_value *items = bp_jinja_take(r->room, more * sizeof *items);
        if (items == NULL) {
            return BP_ERR_FIT;
        }
        if (level->room > 0) {
            memcpy(items, level->items, level->room * sizeof *items);
        }
        level->items = items;
        level->room = more;
    }
    level->items[level->value.count++] = *value;
    level->value.is.items = level->items;
    return BP_OK;
}

/* A value is whole: it goes into what is around it. */
static bp_status json_give(json_reading *r, const bp_jinja_value *value)
{
    if (r->depth == 0) {
        r->result = *value;
        r->done = true;
        return BP_OK;
    }
    json_level *level = &r->levels[r->depth - 1];
    if (level->value.kind == BP_JINJA_LIST) {
        return list_add(r, level, value);
    }
    return r->dense && value->kind == BP_JINJA_NONE
               ? BP_OK
               : bp_jinja_dict_set(r->room, level->value.is.dict, &level->key, value);
}

static bp_status json_open(json_reading *r, bool list)
{
    if (r->depth == BP_JINJA_DEPTH) {
        return bp_json_refuse(r->json, "values lie too deep in one another");
    }
    json_level *level = &r->levels[r->depth++];
    *level = (json_level){.value = {.kind = BP_JINJA_LIST}};
    return list ? BP_OK : bp_jinja_dict_new(r->room, 0, &level->value);
}

/* A string, whose parts are put behind one another; nothing else is made meanwhile. */
static bp_status json_string(json_reading *r, bp_json_event *event, bp_jinja_value *to)
{
    BP_TRY(bp_jinja_copy(r->room, event->text, event->length, to));
    while (event->kind == BP_JSON_TEXT_PART) {
        bp_jinja_value more;
        BP_TRY(bp_json_next(r->json, event));
        more = bp_jinja_string(event->text, event->length);
        BP_TRY(bp_jinja_join(r->room, to, &more, to));
    }
    return BP_OK;
}

static bp_status json_take(json_reading *r, bp_json_event *event)
{
    bp_jinja_value value = bp_jinja_none();
    switch (event->kind) {
    case BP_JSON_OBJECT_BEGIN:
    case BP_JSON_ARRAY_BEGIN:
        return json_open(r, event->kind == BP_JSON_ARRAY_BEGIN);
    case BP_JSON_OBJECT_END:
    case BP_JSON_ARRAY_END:
        if (r->depth == 0) {
            return bp_json_refuse(r->json, "a value is missing");
        }
        value = r->levels[--r->depth].value;
        return json_give(r, &value);
    case BP_JSON_KEY:
        return r->depth == 0 ? bp_json_refuse(r->json, "a value is missing")
                             : bp_jinja_copy(r->room, event->text, event->length,
                                             &r->levels[r->depth - 1].key);
    case BP_JSON_TEXT:
    case BP_JSON_TEXT_PART:
        BP_TRY(json_string(r, event, &value));
        break;
    case BP_JSON_NUMBER:
        value = event->integer ? bp_jinja_int(event->i64)
                               : (bp_jinja_value){.kind = BP_JINJA_FLOAT, .is.real = event->real};
        break;
    case BP_JSON_TRUE:
    case BP_JSON_FALSE:
        value = bp_jinja_bool(event->kind == BP_JSON_TRUE);
        break;
    case BP_JSON_NULL:
        break;
    default:
        return bp_json_refuse(r->json, "a value is missing");
    }
    return json_give(r, &value);
}

bp_status bp_jinja_json(bp_jinja_room *room, bp_json *json, bool dense, bp_jinja_value *to)
{
    json_reading r = {.room = room, .json = json, .dense = dense};
    while (!r.done) {
        bp_json_event event;
        BP_TRY(bp_json_next(json, &event));
        BP_TRY(json_take(&r, &event));
    }
    *to = r.result;
    return BP_OK;
}

bp_status bp_jinja_json_bytes(bp_jinja_room *room, const char *bytes, size_t length,
                              bp_jinja_value *to)
{
    bp_json json;
    bp_json_event event;
    bp_json_span span = {bytes, length};
    const size_t keys = (size_t)bp_json_keys_bytes(KEYS);
    char *memory = bp_jinja_take(room, keys + TEXT);
    if (memory == NULL) {
        return BP_ERR_FIT;
    }
    const bp_json_source source = {bp_json_span_fill, &span, length};
    const bp_json_memory own = {memory + keys, TEXT, memory, keys, BP_JINJA_DEPTH};
    BP_TRY(bp_json_init(&json, &source, &own, room->error));
    BP_TRY(bp_jinja_json(room, &json, false, to));
    return bp_json_next(&json, &event);
}
