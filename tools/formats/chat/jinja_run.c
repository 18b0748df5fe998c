/* SPDX-License-Identifier: MIT */
/* Chat templates: the machine that renders them. */
#include <string.h>

#include "tools/formats/chat/jinja_machine.h"

/* *empty: there is nothing to go through, and no loop was begun. */
static bp_status loop_begin(bp_jinja_machine *m, bool choosing, bool *empty);
/* *over: there is no next part, and the loop ended. */
static bp_status loop_next(bp_jinja_machine *m, bool *over);
static void loop_end(bp_jinja_machine *m);
static void loop_keep(bp_jinja_machine *m);

static bp_status jinja_stop(bp_jinja_machine *m, const char *text, const char *what)
{
    char name[BP_ERROR_NAME_MAX];
    bp_text out;
    bp_text_init(&out, NULL, NULL, name, sizeof name);
    bp_text_string(&out, "line ");
    bp_text_u64(&out, m->program->code[m->at].line);
    if (what != NULL) {
        bp_text_string(&out, ", ");
        bp_text_string(&out, what);
    }
    return bp_jinja_refuse(m->room->error, text, bp_text_flush(&out) == BP_OK ? name : NULL);
}

static bp_status jinja_push(bp_jinja_machine *m, const bp_jinja_value *value)
{
    if (m->depth == BP_JINJA_STACK) {
        return jinja_stop(m, "an expression needs too many values at once", NULL);
    }
    m->stack[m->depth++] = *value;
    return BP_OK;
}

static bp_status run_write(bp_jinja_machine *m, const bp_jinja_value *string)
{
    bp_jinja_render *r = m->r;
    if (string->count > r->out_room - r->length) {
        return bp_error_limit(
            m->room->error, BP_ERR_FIT, "template", "the rendered text is longer than it may be",
            NULL, (int64_t)(r->length + string->count), BP_LIMIT_MOST, (int64_t)r->out_room);
    }
    if (string->count > 0) {
        memcpy(r->out + r->length, string->is.text, string->count);
    }
    r->length += string->count;
    return BP_OK;
}

/* Where the innermost scope begins. */
static uint32_t scope_begin(const bp_jinja_machine *m)
{
    uint32_t begin = 0;
    if (m->frame_count > 0) {
        begin = m->frames[m->frame_count - 1].scope;
    }
    if (m->loop_count > 0 && m->loops[m->loop_count - 1].scope > begin) {
        begin = m->loops[m->loop_count - 1].scope;
    }
    if (m->scope_count > 0 && m->scopes[m->scope_count - 1] > begin) {
        begin = m->scopes[m->scope_count - 1];
    }
    return begin;
}

static bp_status jinja_bind(bp_jinja_machine *m, uint32_t name, const bp_jinja_value *value)
{
    const uint32_t begin = scope_begin(m);
    for (uint32_t i = m->bound; i > begin; i--) {
        if (m->bindings[i - 1].name == name) {
            m->bindings[i - 1].value = *value;
            return BP_OK;
        }
    }
    if (m->bound == BP_JINJA_BINDINGS) {
        return jinja_stop(m, "more variables are set than can be", NULL);
    }
    m->bindings[m->bound++] = (bp_jinja_binding){name, *value};
    m->globals = begin == 0 ? m->bound : m->globals;
    return BP_OK;
}

/* The variable as it is seen here; NULL: nobody set it. */
static bp_jinja_binding *run_find(bp_jinja_machine *m, uint32_t name)
{
    const uint32_t own = m->frame_count > 0 ? m->frames[m->frame_count - 1].scope : 0;
    for (uint32_t i = m->bound; i > own; i--) {
        if (m->bindings[i - 1].name == name) {
            return &m->bindings[i - 1];
        }
    }
    for (uint32_t i = own < m->globals ? own : m->globals; i > 0; i--) {
        if (m->bindings[i - 1].name == name) {
            return &m->bindings[i - 1];
        }
    }
    return NULL;
}

static void run_load(bp_jinja_machine *m, uint32_t name, bp_jinja_value *to)
{
    const bp_jinja_binding *found = run_find(m, name);
    const bp_jinja_value *own = &m->program->names[name];
    const bp_jinja_value function = {.kind = BP_JINJA_MACRO, .is.i64 = -1};
    *to = found != NULL               ? found->value
          : bp_jinja_is_function(own) ? function
                                      : bp_jinja_undefined(own->is.text);
}

/* loop.index and its like. */
static bp_status loop_attribute(bp_jinja_machine *m, const bp_jinja_value *x,
                                const bp_jinja_value *name, bp_jinja_value *to)
{
    const bp_jinja_loop *loop = &m->loops[x->is.i64];
    const uint32_t i = loop->next - 1, count = loop->parts.count;
    *to = bp_jinja_undefined(NULL);
    if ((uint64_t)x->is.i64 >= m->loop_count || loop->next == 0) {
        return jinja_stop(m, "a loop is asked of after its end", NULL);
    }
    if (bp_jinja_is(name, "index0") || bp_jinja_is(name, "index")) {
        *to = bp_jinja_int((int64_t)i + (name->count == 5 ? 1 : 0));
    } else if (bp_jinja_is(name, "first") || bp_jinja_is(name, "last")) {
        *to = bp_jinja_bool(name->is.text[0] == 'f' ? i == 0 : i + 1 == count);
    } else if (bp_jinja_is(name, "length")) {
        *to = bp_jinja_int(count);
    } else if (bp_jinja_is(name, "revindex") || bp_jinja_is(name, "revindex0")) {
        *to = bp_jinja_int((int64_t)count - i - (name->count == 9 ? 1 : 0));
    } else if (bp_jinja_is(name, "depth") || bp_jinja_is(name, "depth0")) {
        *to = bp_jinja_int(name->count == 5 ? 1 : 0); /* none is recursive */
    } else if (bp_jinja_is(name, "previtem")) {
        *to = i > 0 ? loop->parts.is.items[i - 1] : *to;
    } else if (bp_jinja_is(name, "nextitem")) {
        *to = i + 1 < count ? loop->parts.is.items[i + 1] : *to;
    } else {
        return jinja_stop(m, "a loop has no such attribute", name->is.text);
    }
    return BP_OK;
}

static bp_status run_attribute(bp_jinja_machine *m, const bp_jinja_value *name)
{
    bp_jinja_value *x = &m->stack[m->depth - 1];
    if (x->kind == BP_JINJA_UNDEFINED) {
        return jinja_stop(m, "an attribute of something undefined is asked for", x->is.text);
    }
    if (x->kind == BP_JINJA_LOOP) {
        const bp_jinja_value loop = *x;
        return loop_attribute(m, &loop, name, x);
    }
    const bp_jinja_value *found = x->kind == BP_JINJA_DICT || x->kind == BP_JINJA_NAMESPACE
                                      ? bp_jinja_dict_get(x->is.dict, name->is.text, name->count)
                                      : NULL;
    *x = found != NULL ? *found : bp_jinja_undefined(NULL);
    return BP_OK;
}

static bp_jinja_arguments take_arguments(bp_jinja_machine *m, const bp_jinja_code *code)
{
    m->depth -= code->n;
    return (bp_jinja_arguments){
        &m->stack[m->depth],
        code->m != BP_JINJA_NO_NAMES ? m->program->constants[code->m].is.items : NULL, code->n, 0};
}

/* Its arguments become its first variables. */
static bp_status macro_call(bp_jinja_machine *m, const bp_jinja_macro *macro,
                            bp_jinja_arguments arguments)
{
    if (m->frame_count == BP_JINJA_FRAMES || arguments.count > macro->count) {
        return jinja_stop(m,
                          m->frame_count == BP_JINJA_FRAMES ? "macros call each other too often"
                                                            : "a macro is given too many arguments",
                          NULL);
    }
    bp_jinja_frame *f = &m->frames[m->frame_count++];
    *f = (bp_jinja_frame){m->at, m->bound, (uint32_t)m->r->length, m->loop_count, 0};
    for (uint32_t i = 0; i < macro->count; i++) {
        const bp_jinja_value *name = &m->program->names[macro->names[i]];
        const bp_jinja_value *given = bp_jinja_argument(&arguments, i, name->is.text);
        const bp_jinja_value none = bp_jinja_undefined(name->is.text);
        const bp_jinja_value value = given != NULL ? *given : none;
        f->given |= given != NULL ? UINT32_C(1) << i : 0;
        if (m->bound == BP_JINJA_BINDINGS) {
            return jinja_stop(m, "more variables are set than can be", NULL);
        }
        m->bindings[m->bound++] = (bp_jinja_binding){macro->names[i], value};
    }
    m->at = macro->entry - 1;
    return BP_OK;
}

static bp_status macro_return(bp_jinja_machine *m)
{
    const bp_jinja_frame *f = &m->frames[--m->frame_count];
    bp_jinja_value text;
    BP_TRY(bp_jinja_copy(m->room, m->r->out + f->output, m->r->length - f->output, &text));
    m->r->length = f->output;
    m->bound = f->scope;
    m->loop_count = f->loops;
    m->at = f->back;
    return jinja_push(m, &text);
}

static bp_status run_call(bp_jinja_machine *m, const bp_jinja_code *code)
{
    const bp_jinja_arguments arguments = take_arguments(m, code);
    const bp_jinja_value *name = &m->program->names[code->a];
    const bp_jinja_binding *bound = run_find(m, (uint32_t)code->a);
    bp_jinja_value result;
    bool known = false;
    if (bound != NULL) { /* a function under another name is no macro, and has no number */
        const bool macro = bound->value.kind == BP_JINJA_MACRO && bound->value.is.i64 >= 0;
        return macro ? macro_call(m, &m->program->macros[bound->value.is.i64], arguments)
                     : jinja_stop(m, "what is called is no macro", name->is.text);
    }
    BP_TRY(bp_jinja_function(m->room, name, &arguments, &m->r->now, &result, &known));
    return known ? jinja_push(m, &result)
                 : jinja_stop(m, "a function that is not there", name->is.text);
}

/* Methods, filters and tests of a value. */
static bp_status run_apply(bp_jinja_machine *m, const bp_jinja_code *code)
{
    const bp_jinja_arguments arguments = take_arguments(m, code);
    const bp_jinja_value *name = &m->program->constants[code->a];
    const bp_jinja_value x = m->stack[--m->depth];
    bp_jinja_value result;
    bool holds = false;
    if (code->op == BP_JINJA_TEST) {
        BP_TRY(bp_jinja_test(m->room, &x, name, &arguments, &holds));
        result = bp_jinja_bool(holds);
    } else if (code->op == BP_JINJA_FILTER) {
        BP_TRY(bp_jinja_filter(m->room, &x, name, &arguments, &result));
    } else {
        BP_TRY(bp_jinja_method(m->room, &x, name, &arguments, &result));
    }
    return jinja_push(m, &result);
}

static bp_status run_list(bp_jinja_machine *m, const bp_jinja_code *code)
{
    const uint32_t count = (uint32_t)code->a;
    bp_jinja_value *items;
    bp_jinja_value list;
    if (code->op == BP_JINJA_LIST_OF) {
        BP_TRY(bp_jinja_list_new(m->room, count, &items, &list));
        m->depth -= count;
        if (count > 0) {
            memcpy(items, &m->stack[m->depth], count * sizeof *items);
        }
        list.tuple = code->n != 0;
        return jinja_push(m, &list);
    }
    BP_TRY(bp_jinja_dict_new(m->room, count, &list));
    m->depth -= 2 * count;
    for (uint32_t i = 0; i < count; i++) {
        const bp_jinja_value *pair = &m->stack[m->depth + 2 * i];
        if (pair[0].kind != BP_JINJA_STRING) {
            return jinja_stop(m, "the keys of mappings are strings here", NULL);
        }
        BP_TRY(bp_jinja_dict_set(m->room, list.is.dict, &pair[0], &pair[1]));
    }
    return jinja_push(m, &list);
}

static bp_status run_unpack(bp_jinja_machine *m, uint32_t count)
{
    bp_jinja_value parts;
    const bp_jinja_value x = m->stack[--m->depth];
    BP_TRY(bp_jinja_parts(m->room, &x, &parts));
    if (parts.count != count) {
        return jinja_stop(m, "another number of values than of variables", NULL);
    }
    for (uint32_t i = count; i > 0; i--) {
        BP_TRY(jinja_push(m, &parts.is.items[i - 1]));
    }
    return BP_OK;
}

static bp_status store_attribute(bp_jinja_machine *m, const bp_jinja_code *code)
{
    const bp_jinja_binding *bound = run_find(m, (uint32_t)code->a);
    const bp_jinja_value value = m->stack[--m->depth];
    if (bound == NULL || bound->value.kind != BP_JINJA_NAMESPACE) {
        return jinja_stop(m, "only attributes of namespaces can be set",
                          m->program->names[code->a].is.text);
    }
    return bp_jinja_dict_set(m->room, bound->value.is.dict, &m->program->constants[code->m],
                             &value);
}

/* ---- output ---- */

static bp_status run_output(bp_jinja_machine *m)
{
    bp_jinja_value text;
    const size_t mark = m->room->used;
    const bp_jinja_value x = m->stack[--m->depth];
    BP_TRY(bp_jinja_text(m->room, &x, &text));
    BP_TRY(run_write(m, &text));
    m->room->used = mark;
    return BP_OK;
}

static bp_status run_capture(bp_jinja_machine *m, bool begins)
{
    bp_jinja_value text;
    if (begins) {
        if (m->capture_count == BP_JINJA_SCOPES) {
            return jinja_stop(m, "blocks lie too deep in one another", NULL);
        }
        m->captures[m->capture_count++] = (uint32_t)m->r->length;
        return BP_OK;
    }
    const uint32_t from = m->captures[--m->capture_count];
    BP_TRY(bp_jinja_copy(m->room, m->r->out + from, m->r->length - from, &text));
    m->r->length = from;
    return jinja_push(m, &text);
}

static bp_status run_generated(bp_jinja_machine *m, bool begins)
{
    bp_jinja_render *r = m->r;
    if (r->spans == NULL || m->frame_count > 0 || m->capture_count > 0) {
        return BP_OK;
    }
    if (begins) {
        if (r->span_count == r->span_room) {
            return jinja_stop(m, "the template has more generation blocks than there is room for",
                              NULL);
        }
        r->spans[r->span_count++] = (bp_jinja_span){(uint32_t)r->length, (uint32_t)r->length};
        return BP_OK;
    }
    if (r->span_count > 0) {
        r->spans[r->span_count - 1].to = (uint32_t)r->length;
    }
    return BP_OK;
}

static bp_status run_scope(bp_jinja_machine *m, bool begins)
{
    if (!begins) {
        m->bound = m->scopes[--m->scope_count];
        return BP_OK;
    }
    if (m->scope_count == BP_JINJA_SCOPES) {
        return jinja_stop(m, "blocks lie too deep in one another", NULL);
    }
    m->scopes[m->scope_count++] = m->bound;
    return BP_OK;
}

/* ---- instructions ---- */

static bp_status run_jump(bp_jinja_machine *m, const bp_jinja_code *code)
{
    bool jumps = true;
    bool begun = false;
    const bp_jinja_value *top = m->depth > 0 ? &m->stack[m->depth - 1] : NULL;
    switch (code->op) {
    case BP_JINJA_UNLESS:
        jumps = !bp_jinja_true(top);
        m->depth--;
        break;
    case BP_JINJA_AND:
    case BP_JINJA_OR:
        jumps = bp_jinja_true(top) == (code->op == BP_JINJA_OR);
        m->depth -= jumps ? 0 : 1;
        break;
    case BP_JINJA_FOR:
    case BP_JINJA_SELECT:
        BP_TRY(loop_begin(m, code->op == BP_JINJA_SELECT, &begun));
        jumps = begun;
        break;
    case BP_JINJA_NEXT:
        BP_TRY(loop_next(m, &jumps));
        break;
    case BP_JINJA_BREAK:
        loop_end(m);
        break;
    case BP_JINJA_WENT_ON:
        jumps = m->went;
        break;
    default:
        break;
    }
    if (jumps) {
        m->at = (uint32_t)((int64_t)m->at + code->a - 1);
    }
    return BP_OK;
}

static bp_status run_operator(bp_jinja_machine *m, const bp_jinja_code *code)
{
    const bp_jinja_op op = (bp_jinja_op)code->op;
    bp_jinja_value result;
    if (op == BP_JINJA_SLICE) {
        m->depth -= 4;
        BP_TRY(bp_jinja_slice(m->room, &m->stack[m->depth], &m->stack[m->depth + 1], &result));
    } else if (op == BP_JINJA_NOT) {
        result = bp_jinja_bool(!bp_jinja_true(&m->stack[--m->depth]));
    } else if (op == BP_JINJA_NEGATE) {
        const bp_jinja_value zero = bp_jinja_int(0);
        BP_TRY(bp_jinja_operate(m->room, BP_JINJA_SUBTRACT, &zero, &m->stack[--m->depth], &result));
    } else {
        m->depth -= 2;
        const bp_jinja_value *a = &m->stack[m->depth];
        bp_status status = op == BP_JINJA_INDEX
                               ? bp_jinja_index(m->room, &a[0], &a[1], &result)
                               : bp_jinja_operate(m->room, op, &a[0], &a[1], &result);
        BP_TRY(status);
    }
    return jinja_push(m, &result);
}

static bp_status run_variable(bp_jinja_machine *m, const bp_jinja_code *code)
{
    bp_jinja_value value;
    switch (code->op) {
    case BP_JINJA_CONST:
        return jinja_push(m, &m->program->constants[code->a]);
    case BP_JINJA_LOAD:
        run_load(m, (uint32_t)code->a, &value);
        return jinja_push(m, &value);
    case BP_JINJA_STORE:
        value = m->stack[--m->depth];
        return jinja_bind(m, (uint32_t)code->a, &value);
    case BP_JINJA_STORE_ATTR:
        return store_attribute(m, code);
    case BP_JINJA_MACRO_OF:
        value = (bp_jinja_value){.kind = BP_JINJA_MACRO, .is.i64 = code->m};
        return jinja_bind(m, (uint32_t)code->a, &value);
    default: /* BP_JINJA_MISSING */
        value = bp_jinja_bool((m->frames[m->frame_count - 1].given >> code->a & 1) == 0);
        return jinja_push(m, &value);
    }
}

static bp_status run_one(bp_jinja_machine *m, const bp_jinja_code *code)
{
    switch (code->op) {
    case BP_JINJA_ATTR:
        return run_attribute(m, &m->program->constants[code->a]);
    case BP_JINJA_CALL:
        return run_call(m, code);
    case BP_JINJA_METHOD:
    case BP_JINJA_FILTER:
    case BP_JINJA_TEST:
        return run_apply(m, code);
    case BP_JINJA_LIST_OF:
    case BP_JINJA_DICT_OF:
        return run_list(m, code);
    case BP_JINJA_JUMP:
    case BP_JINJA_UNLESS:
    case BP_JINJA_AND:
    case BP_JINJA_OR:
    case BP_JINJA_FOR:
    case BP_JINJA_SELECT:
    case BP_JINJA_NEXT:
    case BP_JINJA_BREAK:
    case BP_JINJA_WENT_ON:
        return run_jump(m, code);
    case BP_JINJA_WENT:
        m->loops[m->loop_count - 1].went = true;
        return BP_OK;
    case BP_JINJA_UNPACK:
        return run_unpack(m, (uint32_t)code->a);
    case BP_JINJA_KEEP:
        loop_keep(m);
        return BP_OK;
    case BP_JINJA_SCOPE:
        return run_scope(m, code->n != 0);
    case BP_JINJA_CAPTURE:
    case BP_JINJA_CAPTURED:
        return run_capture(m, code->op == BP_JINJA_CAPTURE);
    case BP_JINJA_OUTPUT:
        return run_output(m);
    case BP_JINJA_TEXT:
        return run_write(m, &m->program->constants[code->a]);
    case BP_JINJA_GENERATED:
        return run_generated(m, code->n != 0);
    case BP_JINJA_RETURN:
        return macro_return(m);
    case BP_JINJA_CONST:
    case BP_JINJA_LOAD:
    case BP_JINJA_STORE:
    case BP_JINJA_STORE_ATTR:
    case BP_JINJA_MACRO_OF:
    case BP_JINJA_MISSING:
        return run_variable(m, code);
    default:
        return run_operator(m, code);
    }
}

/* What the caller gives, where the template uses it. */
static bp_status bind_variables(bp_jinja_machine *m)
{
    const bp_jinja_dict *given = m->r->variables->is.dict;
    for (uint32_t i = 0; i < m->program->name_count; i++) {
        const bp_jinja_value *name = &m->program->names[i];
        const bp_jinja_value *value = bp_jinja_dict_get(given, name->is.text, name->count);
        if (value != NULL) {
            BP_TRY(jinja_bind(m, i, value));
        }
    }
    return BP_OK;
}

bp_status bp_jinja_run(bp_jinja_render *render)
{
    bp_jinja_machine *m = bp_jinja_take(render->room, sizeof *m);
    if (m == NULL) {
        return BP_ERR_FIT;
    }
    memset(m, 0, sizeof *m);
    m->r = render;
    m->program = render->program;
    m->room = render->room;
    render->length = 0;
    render->span_count = 0;
    for (uint32_t i = 0; render->turns != NULL && i < render->turns->count; i++) {
        render->turn_starts[i] = UINT32_MAX;
    }
    BP_TRY(bind_variables(m));
    for (uint32_t steps = 0; m->program->code[m->at].op != BP_JINJA_END; steps++, m->at++) {
        if (steps == BP_JINJA_STEPS) {
            return bp_error_limit(m->room->error, BP_ERR_FIT, "template",
                                  "the template does not end; instructions", NULL,
                                  (int64_t)steps + 1, BP_LIMIT_MOST, BP_JINJA_STEPS);
        }
        BP_TRY(run_one(m, &m->program->code[m->at]));
    }
    return BP_OK;
}

/* Chat templates: loops that are rendered. */

static bp_status loop_begin(bp_jinja_machine *m, bool choosing, bool *empty)
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
        return jinja_stop(m, "loops lie too deep in one another", NULL);
    }
    bp_jinja_loop *loop = &m->loops[m->loop_count];
    *loop = (bp_jinja_loop){.parts = parts,
                            .stream = bp_jinja_stream_of(&x),
                            .scope = m->bound,
                            .scopes = m->scope_count,
                            .choosing = choosing};
    if (loop->stream != NULL) {
        loop->stream->open = true; /* after a break it stays so */
    }
    if (choosing) {
        bp_jinja_value list;
        BP_TRY(bp_jinja_list_new(m->room, parts.count, &loop->choice, &list));
    }
    m->loop_count++;
    return BP_OK;
}

static void loop_end(bp_jinja_machine *m)
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

static bp_status loop_next(bp_jinja_machine *m, bool *over)
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
                BP_TRY(jinja_bind(m, i, &self));
            }
        }
        const bp_jinja_value *part = &loop->parts.is.items[loop->next++];
        note_turn(m, part);
        return jinja_push(m, part);
    }
    const bp_jinja_value chosen = {
        .kind = BP_JINJA_LIST, .count = loop->chosen, .is.items = loop->choice};
    const bool choosing = loop->choosing;
    if (loop->stream != NULL) {
        loop->stream->open = choosing;
    }
    loop_end(m);
    return choosing ? jinja_push(m, &chosen) : BP_OK;
}

static void loop_keep(bp_jinja_machine *m)
{
    bp_jinja_loop *loop = &m->loops[m->loop_count - 1];
    if (bp_jinja_true(&m->stack[--m->depth])) {
        loop->choice[loop->chosen++] = loop->parts.is.items[loop->next - 1];
    }
}
