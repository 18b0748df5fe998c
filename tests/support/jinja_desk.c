/* SPDX-License-Identifier: MIT */
/* The desk of templates that tests share. */
#include "tests/support/jinja_desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

jinja_desk_state jinja_desk;

void jinja_desk_start(bp_jinja_room *room, size_t bytes)
{
    jinja_desk.error = (bp_error){.code = BP_OK};
    if (room->memory == NULL) {
        room->memory = malloc(JINJA_ROOM);
    }
    assert_non_null(room->memory);
    room->bytes = bytes;
    room->used = 0;
    room->error = &jinja_desk.error;
}

bp_status jinja_desk_render(const char *source, size_t length, const bp_jinja_value *variables,
                            size_t *written)
{
    bp_jinja_program program;
    *written = 0;
    bp_status status = bp_jinja_compile(&program, &jinja_desk.room, source, length);
    if (status != BP_OK) {
        return status;
    }
    bp_jinja_render r = {.program = &program,
                         .room = &jinja_desk.room,
                         .variables = variables,
                         .now = {2024, 7, 26, 0, 0, 0},
                         .out = jinja_desk.text,
                         .out_room = sizeof jinja_desk.text};
    status = bp_jinja_run(&r);
    *written = r.length;
    return status;
}
