/* SPDX-License-Identifier: MIT */
/* Chat templates: what methods and filters do to strings. For jinja_method.c and jinja_filter.c. */
#ifndef BP_FORMATS_JINJA_TEXT_H
#define BP_FORMATS_JINJA_TEXT_H

#include "tools/formats/chat/jinja_program.h"

/* A word of the arguments; BP_ERR_DATA unless it is a string. */
bp_status bp_jinja_string_argument(bp_jinja_room *room, const bp_jinja_arguments *arguments,
                                   uint32_t place, const char *name,
                                   bp_jinja_value *to) BP_MUST_CHECK;

/* Without the characters at its ends that are in `set`, NULL: white space as Python sees it. */
bp_jinja_value bp_jinja_strip(const bp_jinja_value *string, const bp_jinja_value *set, bool left,
                              bool right);

/* The parts of x, or that attribute of each (a name, or names with points between them; empty: they
 * themselves), as one string with a separator between them. */
bp_status bp_jinja_join_parts(bp_jinja_room *room, const bp_jinja_value *x,
                              const bp_jinja_value *separator, const bp_jinja_value *attribute,
                              bp_jinja_value *to) BP_MUST_CHECK;
bp_status bp_jinja_attribute_of(bp_jinja_room *room, const bp_jinja_value *x,
                                const bp_jinja_value *name, bp_jinja_value *to) BP_MUST_CHECK;

/* replace(old, new, count) */
bp_status bp_jinja_replace_call(bp_jinja_room *room, const bp_jinja_value *x,
                                const bp_jinja_arguments *arguments,
                                bp_jinja_value *to) BP_MUST_CHECK;

typedef enum bp_jinja_case {
    BP_JINJA_LOWER,
    BP_JINJA_UPPER,
    BP_JINJA_CAPITALIZE,
    BP_JINJA_TITLE, /* the method: behind whatever is no letter */
    BP_JINJA_WORDS  /* the filter title: behind white space, -, (, {, [ and < */
} bp_jinja_case;

/* In another case. BP_ERR_DATA: it has letters that are not of ASCII. */
bp_status bp_jinja_recase(bp_jinja_room *room, const bp_jinja_value *string, bp_jinja_case form,
                          bp_jinja_value *to) BP_MUST_CHECK;

/* A list of pairs, the keys, or the values of a mapping. */
typedef enum bp_jinja_of_dict { BP_JINJA_ITEMS, BP_JINJA_KEYS, BP_JINJA_VALUES } bp_jinja_of_dict;
bp_status bp_jinja_dict_parts(bp_jinja_room *room, const bp_jinja_value *dict,
                              bp_jinja_of_dict what, bp_jinja_value *to) BP_MUST_CHECK;

#endif
