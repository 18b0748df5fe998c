/* SPDX-License-Identifier: MIT */
/* Chat templates: loops that are rendered. */
#include "tools/formats/chat/jinja_machine.h"

bp_status bp_jinja_loop_begin(bp_jinja_machine *m, bool choosing, bool *empty)
{
    const bp_jinja_value x = m->stack[--m->depth];
    bp_jinja_value parts;
    BP_TRY(bp_jinja_parts(m->room, &x, &parts));
    *empty = parts.count == 0 && !choosing;
    if (*empty) {
        m->went = false;
        return BP_OK;
    }
    if (m->loop_count == BP_JINJA_LOOPS) {
        return bp_jinja_stop(m, "loops lie too deep in one another", NULL);
    }
    bp_jinja_loop *loop = &m->loops[m->loop_count];
    *loop = (bp_jinja_loop){
        .parts = parts, .scope = m->bound, .scopes = m->scope_count, .choosing = choosing};
    if (choosing) {
        bp_jinja_value list;
        BP_TRY(bp_jinja_list_new(m->room, parts.count, &loop->choice, &list));
    }
    m->loop_count++;
    return BP_OK;
}

void bp_jinja_loop_end(bp_jinja_machine *m)
{
    const bp_jinja_loop *loop = &m->loops[--m->loop_count];
    m->went = loop->went;
    m->bound = loop->scope;
    m->scope_count = loop->scopes;
}

/* Notes that what is written next belongs to the turn. */
static void note_turn(bp_jinja_machine *m, const bp_jinja_value *part)
{
    const bp_jinja_value *turns = m->r->turns;
    if (turns == NULL || part->kind != BP_JINJA_DICT || m->frame_count > 0 ||
        m->capture_count > 0) {
        return;
    }
    for (uint32_t i = 0; i < turns->count; i++) {
        if (turns->is.items[i].kind == BP_JINJA_DICT &&
            turns->is.items[i].is.dict == part->is.dict) {
            m->r->turn_starts[i] = (uint32_t)m->r->length;
        }
    }
}

bp_status bp_jinja_loop_next(bp_jinja_machine *m, bool *over)
{
    bp_jinja_loop *loop = &m->loops[m->loop_count - 1];
    m->bound = loop->scope;
    m->scope_count = loop->scopes;
    *over = loop->next == loop->parts.count;
    if (!*over) {
        int64_t number = (int64_t)m->loop_count - 1;
        const bp_jinja_value self = {.kind = BP_JINJA_LOOP, .is.i64 = number};
        for (uint32_t i = 0; i < m->program->name_count && !loop->choosing; i++) {
            if (bp_jinja_is(&m->program->names[i], "loop")) {
                BP_TRY(bp_jinja_bind(m, i, &self));
            }
        }
        const bp_jinja_value *part = &loop->parts.is.items[loop->next++];
        note_turn(m, part);
        return bp_jinja_push(m, part);
    }
    const bp_jinja_value chosen = {
        .kind = BP_JINJA_LIST, .count = loop->chosen, .is.items = loop->choice};
    const bool choosing = loop->choosing;
    bp_jinja_loop_end(m);
    return choosing ? bp_jinja_push(m, &chosen) : BP_OK;
}

void bp_jinja_loop_keep(bp_jinja_machine *m)
{
    bp_jinja_loop *loop = &m->loops[m->loop_count - 1];
    if (bp_jinja_true(&m->stack[--m->depth])) {
        loop->choice[loop->chosen++] = loop->parts.is.items[loop->next - 1];
    }
}
