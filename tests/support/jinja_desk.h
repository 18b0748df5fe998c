/* SPDX-License-Identifier: MIT */
/* A template, its variables and what it writes. */
#ifndef BP_TESTS_SUPPORT_JINJA_DESK_H
#define BP_TESTS_SUPPORT_JINJA_DESK_H

#include "tools/formats/jinja.h"

enum { JINJA_ROOM = 1 << 22, JINJA_TEXT = 1 << 16 };

typedef struct jinja_desk_state {
    bp_error error;
    bp_jinja_room room;
    char text[JINJA_TEXT]; /* what the last template wrote */
} jinja_desk_state;

extern jinja_desk_state jinja_desk;

/* Empties a room, whose errors become the desk's; it has `bytes`, at most JINJA_ROOM. */
void jinja_desk_start(bp_jinja_room *room, size_t bytes);

/* Compiles and runs a template in the desk's room, on 26 July 2024. */
bp_status jinja_desk_render(const char *source, size_t length, const bp_jinja_value *variables,
                            size_t *written);

#endif
