/* SPDX-License-Identifier: MIT */
/* What the files of the JSON reader share: bytes, failures, and the text room. */
#ifndef BP_CORE_JSON_PRIVATE_H
#define BP_CORE_JSON_PRIVATE_H

#include "core/base/json.h"

/* The next byte without taking it, or -1 at the end or when the source failed. */
int bp_json_peek(bp_json *json);

/* Reads from where the opening quote was taken, or goes on with a string of which parts are out.
 * *whole is false when the room is full before the string ends. */
bp_status bp_json_take_string(bp_json *json, bool *whole) BP_MUST_CHECK;

/* The key in the text room joins the keys of the innermost object; refused if it is there. */
bp_status bp_json_add_key(bp_json *json) BP_MUST_CHECK;

/* The keys of the innermost container are forgotten. */
void bp_json_drop_keys(bp_json *json);

#endif
