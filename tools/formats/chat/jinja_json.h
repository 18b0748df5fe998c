/* SPDX-License-Identifier: MIT */
/* Values of chat templates, read from JSON. */
#ifndef BP_FORMATS_JINJA_JSON_H
#define BP_FORMATS_JINJA_JSON_H

#include "core/base/json.h"
#include "tools/formats/chat/jinja_value.h"

/* The value that comes next, whatever it is, into the room. With `dense` keys of mappings whose
 * value is null are left out. What json refuses; BP_ERR_FIT: the room is used up. */
bp_status bp_jinja_json(bp_jinja_room *room, bp_json *json, bool dense,
                        bp_jinja_value *to) BP_MUST_CHECK;

/* The same of a document that lies in memory; nothing else may follow it. */
bp_status bp_jinja_json_bytes(bp_jinja_room *room, const char *bytes, size_t length,
                              bp_jinja_value *to) BP_MUST_CHECK;

#endif
