/* SPDX-License-Identifier: MIT */
/* Chat templates: the part of Jinja 2 that the templates of language models use, as transformers
 * renders them (trim_blocks and lstrip_blocks on, nothing escaped, loop controls, `generation`).
 *
 * There are: for (with if, else, several names, break, continue, loop), if, set (names, attributes
 * of namespaces, blocks), macro, with, raw, generation, comments and white space control; all
 * operators; slices; the filters, tests, methods and functions of jinja_filter.c, jinja_test.c,
 * jinja_method.c and jinja_function.c. Not there, and refused by name: include, import, extends,
 * block, call, filter blocks, recursive loops, chained comparisons.
 *
 * A template is a stranger's program: it runs in bounded memory, at most BP_JINJA_STEPS
 * instructions, and calls nothing but the above. */
#ifndef BP_FORMATS_JINJA_H
#define BP_FORMATS_JINJA_H

#include "tools/formats/chat/jinja_value.h"

#define BP_JINJA_SOURCE_MAX 131072   /* bytes of a template */
#define BP_JINJA_STEPS      20000000 /* instructions of one rendering */
#define BP_JINJA_ARGUMENTS  16       /* of a call */
#define BP_JINJA_MACROS     32
#define BP_JINJA_NAMES      512 /* variables */

typedef struct bp_jinja_program {
    struct bp_jinja_code *code;
    uint32_t code_count;
    uint32_t code_room;
    bp_jinja_value *constants;
    uint32_t constant_count;
    uint32_t constant_room;
    bp_jinja_value *names; /* of variables, (BP_JINJA_NAMES) */
    uint32_t name_count;
    struct bp_jinja_macro *macros; /* (BP_JINJA_MACROS) */
    uint32_t macro_count;
    bool generates; /* has {% generation %} */
} bp_jinja_program;

/* Translates a template into the room, where it stays. source: valid UTF-8, not needed afterwards.
 * BP_ERR_DATA naming the line: not a template, or something that is not there; BP_ERR_FIT. Takes
 * about 30 bytes of the room for each of the source. */
bp_status bp_jinja_compile(bp_jinja_program *program, bp_jinja_room *room, const char *source,
                           size_t length) BP_MUST_CHECK;

/* What strftime_now tells: given, never asked of a clock, so that data stays what it was. */
typedef struct bp_jinja_time {
    int32_t year, month, day; /* 2024, 7, 26 */
    int32_t hour, minute, second;
} bp_jinja_time;

/* Where in the output something is: bytes from .. to - 1. */
typedef struct bp_jinja_span {
    uint32_t from, to;
} bp_jinja_span;

/* A rendering. */
typedef struct bp_jinja_render {
    const bp_jinja_program *program;
    bp_jinja_room *room;             /* values that it makes; the caller sets `used` back */
    const bp_jinja_value *variables; /* a mapping: messages, add_generation_prompt, bos_token, .. */
    bp_jinja_time now;
    char *out; /* the text */
    size_t out_room;
    size_t length;        /* bytes written */
    bp_jinja_span *spans; /* what {% generation %} is around; NULL: not asked for */
    uint32_t span_room;
    uint32_t span_count;
    /* The place at which a loop last came to each element of `turns` (a list of mappings): where
     * that turn's text begins; UINT32_MAX: never with text behind it. NULL: not asked for. */
    const bp_jinja_value *turns;
    uint32_t *turn_starts;
} bp_jinja_render;

/* BP_ERR_DATA: the template refuses (raise_exception), or does what cannot be done: the error's
 * name has the line, or the template's own words. BP_ERR_FIT: it takes too much memory, text or
 * time. */
bp_status bp_jinja_run(bp_jinja_render *render) BP_MUST_CHECK;

#endif
