/* SPDX-License-Identifier: MIT */
/* Chat templates: the state of a rendering. For jinja_run.c and jinja_loop.c. */
#ifndef BP_FORMATS_JINJA_MACHINE_H
#define BP_FORMATS_JINJA_MACHINE_H

#include "tools/formats/chat/jinja_program.h"

enum {
    BP_JINJA_STACK = 256,
    BP_JINJA_BINDINGS = 512,
    BP_JINJA_LOOPS = 24,
    BP_JINJA_FRAMES = 24,
    BP_JINJA_SCOPES = 64
};

typedef struct bp_jinja_binding {
    uint32_t name;
    bp_jinja_value value;
} bp_jinja_binding;

typedef struct bp_jinja_loop {
    bp_jinja_value parts;    /* a list */
    bp_jinja_stream *stream; /* of the generator that is gone through, or NULL */
    uint32_t next;
    uint32_t scope;  /* bindings below it are not the loop's */
    uint32_t scopes; /* SCOPE blocks around it */
    bool choosing;
    bool went; /* through its body to the end, once at least */
    uint32_t chosen;
    bp_jinja_value *choice; /* what is chosen */
} bp_jinja_loop;

/* A macro that is running. */
typedef struct bp_jinja_frame {
    uint32_t back;   /* the instruction behind the call */
    uint32_t scope;  /* its first binding */
    uint32_t output; /* where what it writes begins */
    uint32_t loops;
    uint32_t given; /* which arguments there were, a bit each */
} bp_jinja_frame;

typedef struct bp_jinja_machine {
    bp_jinja_render *r;
    const bp_jinja_program *program;
    bp_jinja_room *room;
    bp_jinja_value stack[BP_JINJA_STACK];
    uint32_t depth;
    bp_jinja_binding bindings[BP_JINJA_BINDINGS];
    uint32_t bound;
    uint32_t globals; /* bindings that everybody sees: of the template itself, outside of loops */
    bp_jinja_loop loops[BP_JINJA_LOOPS];
    uint32_t loop_count;
    bool went; /* the loop that ended last */
    bp_jinja_frame frames[BP_JINJA_FRAMES];
    uint32_t frame_count;
    uint32_t scopes[BP_JINJA_SCOPES];
    uint32_t scope_count;
    uint32_t captures[BP_JINJA_SCOPES]; /* output lengths */
    uint32_t capture_count;
    uint32_t at;
} bp_jinja_machine;

#endif
