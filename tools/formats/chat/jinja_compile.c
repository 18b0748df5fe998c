/* SPDX-License-Identifier: MIT */
/* Chat templates: text and statements to instructions. */
#include <string.h>

#include "tools/formats/chat/jinja_program.h"

enum { BLOCKS = 48, VARIABLES = 4 };

typedef enum block_kind {
    BLOCK_FOR,
    BLOCK_IF,
    BLOCK_SET,
    BLOCK_MACRO,
    BLOCK_WITH,
    BLOCK_GENERATION
} block_kind;

static const char *const block_ends[] = {"endfor",   "endif",   "endset",
                                         "endmacro", "endwith", "endgeneration"};

typedef struct block {
    block_kind kind;
    uint32_t jump;  /* to be landed at the next branch: IF; to the end: MACRO */
    uint32_t chain; /* the last of the jumps to the end, each holding how far back the one before
                       is; UINT32_MAX: none */
    uint32_t next;  /* FOR: its NEXT */
    uint32_t first; /* FOR: its FOR */
    bool otherwise; /* an else was there */
    int32_t name;   /* SET */
} block;

typedef struct statements {
    bp_jinja_compiler c;
    block blocks[BLOCKS];
    uint32_t depth;
} statements;

static bp_status block_push(statements *s, block_kind kind)
{
    if (s->depth == BLOCKS) {
        return bp_jinja_wrong(&s->c, "blocks lie too deep in one another");
    }
    s->blocks[s->depth++] = (block){.kind = kind, .chain = UINT32_MAX};
    return BP_OK;
}

/* A jump to the end of the block, wherever that will be. */
static bp_status chain_jump(bp_jinja_compiler *c, block *b, bp_jinja_op op)
{
    const uint32_t here = c->program->code_count;
    BP_TRY(bp_jinja_emit(c, op, 0, (int32_t)b->chain));
    b->chain = here;
    return BP_OK;
}

static void chain_land(bp_jinja_compiler *c, const block *b)
{
    uint32_t at = b->chain;
    while (at != UINT32_MAX) {
        const uint32_t before = (uint32_t)c->program->code[at].a;
        bp_jinja_land(c, at);
        at = before;
    }
}

static bp_status variable_name(statements *s, int32_t *name)
{
    bp_jinja_compiler *c = &s->c;
    if (c->token.kind != BP_JINJA_NAME) {
        return bp_jinja_wrong(c, "the name of a variable is missing");
    }
    BP_TRY(bp_jinja_name(c, c->token.text, c->token.length, name));
    return bp_jinja_advance(c);
}

static bp_status store_names(bp_jinja_compiler *c, const int32_t *names, uint32_t count)
{
    if (count > 1) {
        BP_TRY(bp_jinja_emit(c, BP_JINJA_UNPACK, 0, (int32_t)count));
    }
    for (uint32_t i = 0; i < count; i++) {
        BP_TRY(bp_jinja_emit(c, BP_JINJA_STORE, 0, names[i]));
    }
    return BP_OK;
}

/* a or a, b or (a, b) */
static bp_status variable_names(statements *s, int32_t names[VARIABLES], uint32_t *count)
{
    bp_jinja_compiler *c = &s->c;
    const bool bracket = bp_jinja_sees_sign(c, '(');
    *count = 0;
    if (bracket) {
        BP_TRY(bp_jinja_advance(c));
    }
    for (;;) {
        if (*count == VARIABLES) {
            return bp_jinja_wrong(c, "more variables at once than can be");
        }
        BP_TRY(variable_name(s, &names[(*count)++]));
        if (!bp_jinja_sees_sign(c, ',')) {
            break;
        }
        BP_TRY(bp_jinja_advance(c));
    }
    return bracket ? bp_jinja_expect(c, ')') : BP_OK;
}

/* for a in b if c: what is chosen is gone through afterwards. */
static bp_status statement_for(statements *s)
{
    bp_jinja_compiler *c = &s->c;
    int32_t names[VARIABLES];
    uint32_t count;
    BP_TRY(block_push(s, BLOCK_FOR));
    BP_TRY(variable_names(s, names, &count));
    if (!bp_jinja_sees(c, "in")) {
        return bp_jinja_wrong(c, "`in` is missing");
    }
    BP_TRY(bp_jinja_advance(c));
    BP_TRY(bp_jinja_expression(c, false));
    if (bp_jinja_sees(c, "if")) {
        BP_TRY(bp_jinja_advance(c));
        BP_TRY(bp_jinja_emit(c, BP_JINJA_SELECT, 0, 0));
        const uint32_t next = c->program->code_count;
        BP_TRY(bp_jinja_emit(c, BP_JINJA_NEXT, 0, 0));
        BP_TRY(store_names(c, names, count));
        BP_TRY(bp_jinja_expression(c, true));
        BP_TRY(bp_jinja_emit(c, BP_JINJA_KEEP, 0, 0));
        BP_TRY(bp_jinja_emit(c, BP_JINJA_JUMP, 0, (int32_t)next - (int32_t)c->program->code_count));
        bp_jinja_land(c, next);
    }
    block *b = &s->blocks[s->depth - 1];
    b->first = c->program->code_count;
    BP_TRY(bp_jinja_emit(c, BP_JINJA_FOR, 0, 0));
    b->next = c->program->code_count;
    BP_TRY(chain_jump(c, b, BP_JINJA_NEXT));
    return store_names(c, names, count);
}

static bp_status statement_if(statements *s)
{
    bp_jinja_compiler *c = &s->c;
    BP_TRY(block_push(s, BLOCK_IF));
    BP_TRY(bp_jinja_expression(c, true));
    s->blocks[s->depth - 1].jump = c->program->code_count;
    return bp_jinja_emit(c, BP_JINJA_UNLESS, 0, 0);
}

/* The back jump of a loop. */
static bp_status loop_again(bp_jinja_compiler *c, const block *b)
{
    return bp_jinja_emit(c, BP_JINJA_JUMP, 0, (int32_t)b->next - (int32_t)c->program->code_count);
}

static bp_status statement_else(statements *s, bool condition)
{
    bp_jinja_compiler *c = &s->c;
    block *b = s->depth > 0 ? &s->blocks[s->depth - 1] : NULL;
    const bool loop = b != NULL && b->kind == BLOCK_FOR && !condition;
    if (b == NULL || (b->kind != BLOCK_IF && !loop) || b->otherwise) {
        return bp_jinja_wrong(c, "an else or elif belongs to no if");
    }
    if (loop) { /* as in Jinja: also where a first round was left early and none was whole */
        BP_TRY(bp_jinja_emit(c, BP_JINJA_WENT, 0, 0));
        BP_TRY(loop_again(c, b));
        bp_jinja_land(c, b->first);
        chain_land(c, b);
        b->chain = UINT32_MAX;
        b->otherwise = true;
        return chain_jump(c, b, BP_JINJA_WENT_ON);
    }
    BP_TRY(chain_jump(c, b, BP_JINJA_JUMP));
    bp_jinja_land(c, b->jump);
    b->otherwise = !condition;
    if (condition) {
        BP_TRY(bp_jinja_expression(c, true));
        b->jump = c->program->code_count;
        return bp_jinja_emit(c, BP_JINJA_UNLESS, 0, 0);
    }
    return BP_OK;
}

/* set a = x; set a, b = x; set a.b = x; set a */
static bp_status statement_set(statements *s)
{
    bp_jinja_compiler *c = &s->c;
    int32_t names[VARIABLES];
    uint32_t count;
    int32_t attribute = -1;
    BP_TRY(variable_names(s, names, &count));
    if (count == 1 && bp_jinja_sees_sign(c, '.')) {
        bp_jinja_value text;
        BP_TRY(bp_jinja_advance(c));
        if (c->token.kind != BP_JINJA_NAME) {
            return bp_jinja_wrong(c, "the name of an attribute is missing");
        }
        BP_TRY(bp_jinja_copy(c->room, c->token.text, c->token.length, &text));
        BP_TRY(bp_jinja_constant(c, &text, &attribute));
        BP_TRY(bp_jinja_advance(c));
    }
    if (c->token.kind == BP_JINJA_CLOSED && count == 1 && attribute < 0) {
        BP_TRY(block_push(s, BLOCK_SET));
        s->blocks[s->depth - 1].name = names[0];
        BP_TRY(bp_jinja_emit(c, BP_JINJA_CAPTURE, 0, 0));
        return bp_jinja_emit(c, BP_JINJA_SCOPE, 1, 0); /* what is set inside stays inside */
    }
    BP_TRY(bp_jinja_expect(c, '='));
    BP_TRY(bp_jinja_expression(c, true));
    if (attribute < 0) {
        uint32_t values = 1;
        for (; bp_jinja_sees_sign(c, ','); values++) {
            BP_TRY(bp_jinja_advance(c));
            BP_TRY(bp_jinja_expression(c, true));
        }
        if (values > 1) {
            BP_TRY(bp_jinja_emit(c, BP_JINJA_LIST_OF, 1, (int32_t)values));
        }
        return store_names(c, names, count);
    }
    BP_TRY(bp_jinja_emit(c, BP_JINJA_STORE_ATTR, 0, names[0]));
    c->program->code[c->program->code_count - 1].m = (uint16_t)attribute;
    return BP_OK;
}

/* One parameter, with what it is when nobody gives it. */
static bp_status macro_parameter(statements *s, bp_jinja_macro *macro)
{
    bp_jinja_compiler *c = &s->c;
    int32_t name;
    if (macro->count == BP_JINJA_ARGUMENTS) {
        return bp_jinja_wrong(c, "a macro has more parameters than can be");
    }
    BP_TRY(variable_name(s, &name));
    macro->names[macro->count] = (uint32_t)name;
    if (bp_jinja_sees_sign(c, '=')) {
        BP_TRY(bp_jinja_advance(c));
        BP_TRY(bp_jinja_emit(c, BP_JINJA_MISSING, 0, (int32_t)macro->count));
        const uint32_t unless = c->program->code_count;
        BP_TRY(bp_jinja_emit(c, BP_JINJA_UNLESS, 0, 0));
        BP_TRY(bp_jinja_expression(c, true));
        BP_TRY(bp_jinja_emit(c, BP_JINJA_STORE, 0, name));
        bp_jinja_land(c, unless);
    }
    macro->count++;
    return BP_OK;
}

static bp_status statement_macro(statements *s)
{
    bp_jinja_compiler *c = &s->c;
    bp_jinja_program *program = c->program;
    int32_t name;
    BP_TRY(block_push(s, BLOCK_MACRO));
    BP_TRY(variable_name(s, &name));
    if (program->macro_count == BP_JINJA_MACROS) {
        return bp_jinja_wrong(c, "the template has more macros than can be");
    }
    bp_jinja_macro *macro = &program->macros[program->macro_count];
    BP_TRY(bp_jinja_emit(c, BP_JINJA_MACRO_OF, 0, name));
    program->code[program->code_count - 1].m = (uint16_t)program->macro_count++;
    s->blocks[s->depth - 1].jump = program->code_count;
    BP_TRY(bp_jinja_emit(c, BP_JINJA_JUMP, 0, 0));
    *macro = (bp_jinja_macro){.entry = program->code_count};
    BP_TRY(bp_jinja_expect(c, '('));
    while (!bp_jinja_sees_sign(c, ')')) {
        BP_TRY(macro_parameter(s, macro));
        if (!bp_jinja_sees_sign(c, ',')) {
            break;
        }
        BP_TRY(bp_jinja_advance(c));
    }
    return bp_jinja_expect(c, ')');
}

static bp_status statement_with(statements *s)
{
    bp_jinja_compiler *c = &s->c;
    int32_t name;
    BP_TRY(block_push(s, BLOCK_WITH));
    BP_TRY(bp_jinja_emit(c, BP_JINJA_SCOPE, 1, 0));
    while (c->token.kind == BP_JINJA_NAME) {
        BP_TRY(variable_name(s, &name));
        BP_TRY(bp_jinja_expect(c, '='));
        BP_TRY(bp_jinja_expression(c, true));
        BP_TRY(bp_jinja_emit(c, BP_JINJA_STORE, 0, name));
        if (bp_jinja_sees_sign(c, ',')) {
            BP_TRY(bp_jinja_advance(c));
        }
    }
    return BP_OK;
}

/* break, continue */
static bp_status statement_leave(statements *s, bool again)
{
    bp_jinja_compiler *c = &s->c;
    uint32_t i = s->depth;
    while (i > 0 && s->blocks[i - 1].kind != BLOCK_FOR) {
        i = s->blocks[i - 1].kind == BLOCK_IF || s->blocks[i - 1].kind == BLOCK_WITH ? i - 1 : 0;
    }
    if (i == 0 || s->blocks[i - 1].otherwise) {
        return bp_jinja_wrong(c, "break or continue is outside a loop");
    }
    return again ? loop_again(c, &s->blocks[i - 1])
                 : chain_jump(c, &s->blocks[i - 1], BP_JINJA_BREAK);
}

static bp_status statement_end(statements *s)
{
    bp_jinja_compiler *c = &s->c;
    block *b = s->depth > 0 ? &s->blocks[s->depth - 1] : NULL;
    if (b == NULL || !bp_jinja_sees(c, block_ends[b->kind])) {
        return bp_jinja_wrong(c, "a block ends that was not begun, or is not the innermost");
    }
    BP_TRY(bp_jinja_advance(c));
    if (b->kind == BLOCK_MACRO && c->token.kind == BP_JINJA_NAME) {
        BP_TRY(bp_jinja_advance(c)); /* its name may be said again */
    }
    s->depth--;
    switch (b->kind) {
    case BLOCK_FOR:
        if (!b->otherwise) {
            BP_TRY(loop_again(c, b));
            bp_jinja_land(c, b->first);
        }
        chain_land(c, b);
        return BP_OK;
    case BLOCK_IF:
        if (!b->otherwise) {
            bp_jinja_land(c, b->jump);
        }
        chain_land(c, b);
        return BP_OK;
    case BLOCK_SET:
        BP_TRY(bp_jinja_emit(c, BP_JINJA_SCOPE, 0, 0));
        BP_TRY(bp_jinja_emit(c, BP_JINJA_CAPTURED, 0, 0));
        return bp_jinja_emit(c, BP_JINJA_STORE, 0, b->name);
    case BLOCK_MACRO:
        BP_TRY(bp_jinja_emit(c, BP_JINJA_RETURN, 0, 0));
        bp_jinja_land(c, b->jump);
        return BP_OK;
    case BLOCK_WITH:
        return bp_jinja_emit(c, BP_JINJA_SCOPE, 0, 0);
    default:
        BP_TRY(bp_jinja_emit(c, BP_JINJA_SCOPE, 0, 0));
        return bp_jinja_emit(c, BP_JINJA_GENERATED, 0, 0);
    }
}

static bp_status statement(statements *s)
{
    static const char *const words[] = {"for",   "if",   "elif",       "else",  "set",
                                        "macro", "with", "generation", "break", "continue"};
    bp_jinja_compiler *c = &s->c;
    uint32_t which = 0;
    if (c->token.kind == BP_JINJA_NAME && c->token.length > 3 &&
        memcmp(c->token.text, "end", 3) == 0) {
        return statement_end(s);
    }
    while (which < 10 && !bp_jinja_sees(c, words[which])) {
        which++;
    }
    if (which == 10) {
        return bp_jinja_wrong(c, "a statement that is not there");
    }
    BP_TRY(bp_jinja_advance(c));
    switch (which) {
    case 0:
        return statement_for(s);
    case 1:
        return statement_if(s);
    case 2:
    case 3:
        return statement_else(s, which == 2);
    case 4:
        return statement_set(s);
    case 5:
        return statement_macro(s);
    case 6:
        return statement_with(s);
    case 7:
        c->program->generates = true;
        BP_TRY(block_push(s, BLOCK_GENERATION));
        BP_TRY(bp_jinja_emit(c, BP_JINJA_GENERATED, 1, 0));
        return bp_jinja_emit(c, BP_JINJA_SCOPE, 1, 0);
    default:
        return statement_leave(s, which == 9);
    }
}

/* ---- text ---- */

static bp_status emit_text(bp_jinja_compiler *c, size_t from, size_t to)
{
    bp_jinja_value text;
    int32_t index;
    if (to <= from) {
        return BP_OK;
    }
    BP_TRY(bp_jinja_copy(c->room, c->source + from, to - from, &text));
    BP_TRY(bp_jinja_constant(c, &text, &index));
    return bp_jinja_emit(c, BP_JINJA_TEXT, 0, index);
}

static bool is_space(char c)
{
    return c != '\0' && strchr(" \t\n\r\v\f", c) != NULL;
}

/* Where text that goes before a tag ends: the sign - takes all white space away, blocks and
 * comments the white space between them and the beginning of their line. */
static size_t text_end(const bp_jinja_compiler *c, size_t from, size_t tag)
{
    const char kind = c->source[tag + 1], sign = tag + 2 < c->length ? c->source[tag + 2] : '\0';
    size_t end = tag;
    if (sign == '-') {
        while (end > from && is_space(c->source[end - 1])) {
            end--;
        }
        return end;
    }
    if (sign == '+' || kind == '{') {
        return tag;
    }
    while (end > from && (c->source[end - 1] == ' ' || c->source[end - 1] == '\t')) {
        end--;
    }
    const bool line = end > from ? c->source[end - 1] == '\n' : c->line_starts;
    return line ? end : tag;
}

/* Behind a tag, `at` its last brace and one: - takes white space away, blocks and comments a line
 * end; `sign` is what stands before the closing characters. */
static void text_begin(bp_jinja_compiler *c, char sign, char kind)
{
    size_t at = c->at;
    if (sign == '-') {
        while (at < c->length && is_space(c->source[at])) {
            at++;
        }
    } else if (kind != '{' && sign != '+' && at < c->length && c->source[at] == '\n') {
        at++;
    }
    c->line_starts = at > c->at && c->source[at - 1] == '\n';
    c->at = at;
}

static bool begins_tag(const char *at)
{
    return at[0] == '{' && (at[1] == '{' || at[1] == '%' || at[1] == '#');
}

/* The next {{, {% or {#; the end of the source if there is none. */
static size_t find_tag(const bp_jinja_compiler *c, size_t from)
{
    while (from + 1 < c->length && !begins_tag(c->source + from)) {
        from++;
    }
    return from + 1 < c->length ? from : c->length;
}

static bp_status pass_comment(bp_jinja_compiler *c)
{
    while (c->at + 1 < c->length && (c->source[c->at] != '#' || c->source[c->at + 1] != '}')) {
        c->at++;
    }
    if (c->at + 1 >= c->length) {
        return bp_jinja_wrong(c, "a comment does not end");
    }
    const char sign = c->source[c->at - 1];
    c->at += 2;
    text_begin(c, sign, '#');
    return BP_OK;
}

/* From behind a tag's last word. */
static bp_status close_tag(bp_jinja_compiler *c)
{
    const char kind = c->variable ? '{' : '%';
    if (c->token.kind != BP_JINJA_CLOSED) {
        return bp_jinja_wrong(c, "a tag continues where it should end");
    }
    const char sign = c->source[c->at];
    c->at += sign == '-' || (sign == '+' && !c->variable) ? 3 : 2;
    text_begin(c, sign, kind);
    return BP_OK;
}

/* {% raw %}: text up to {% endraw %}, tags and all. */
static bp_status pass_raw(bp_jinja_compiler *c)
{
    BP_TRY(bp_jinja_advance(c));
    c->variable = true; /* a line end behind the first tag stays, as behind a variable */
    BP_TRY(close_tag(c));
    c->variable = false;
    const size_t from = c->at;
    size_t tag = from;
    for (;; tag++) {
        while (tag + 1 < c->length && (c->source[tag] != '{' || c->source[tag + 1] != '%')) {
            tag++;
        }
        if (tag + 1 >= c->length) {
            return bp_jinja_wrong(c, "raw does not end");
        }
        const char sign = tag + 2 < c->length ? c->source[tag + 2] : '\0';
        c->at = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
        BP_TRY(bp_jinja_advance(c));
        if (bp_jinja_sees(c, "endraw")) {
            break;
        }
    }
    BP_TRY(emit_text(c, from, text_end(c, from, tag)));
    BP_TRY(bp_jinja_advance(c));
    return close_tag(c);
}

static bp_status pass_tag(statements *s, size_t tag)
{
    bp_jinja_compiler *c = &s->c;
    const char kind = c->source[tag + 1], sign = tag + 2 < c->length ? c->source[tag + 2] : '\0';
    c->at = tag + 2;
    if (kind == '#') {
        return pass_comment(c);
    }
    c->at += sign == '-' || (sign == '+' && kind == '%') ? 1 : 0;
    c->variable = kind == '{';
    c->brackets = 0;
    BP_TRY(bp_jinja_advance(c));
    if (c->variable) {
        BP_TRY(bp_jinja_expression(c, true));
        BP_TRY(bp_jinja_emit(c, BP_JINJA_OUTPUT, 0, 0));
    } else if (bp_jinja_sees(c, "raw")) {
        return pass_raw(c);
    } else {
        BP_TRY(statement(s));
    }
    return close_tag(c);
}

static bp_status compile_all(statements *s)
{
    bp_jinja_compiler *c = &s->c;
    c->line_starts = true;
    while (c->at < c->length) {
        const size_t from = c->at, tag = find_tag(c, from);
        BP_TRY(emit_text(c, from, tag < c->length ? text_end(c, from, tag) : tag));
        if (tag == c->length) {
            break;
        }
        BP_TRY(pass_tag(s, tag));
    }
    c->at = c->length;
    return s->depth > 0 ? bp_jinja_wrong(c, "a block does not end")
                        : bp_jinja_emit(c, BP_JINJA_END, 0, 0);
}

/* Line ends become \n, and the last one goes. */
static bp_status source_take(bp_jinja_compiler *c, const char *source, size_t length)
{
    char *to = length <= BP_JINJA_SOURCE_MAX ? bp_jinja_take(c->room, length + 1) : NULL;
    if (to == NULL) {
        return length <= BP_JINJA_SOURCE_MAX
                   ? BP_ERR_FIT
                   : bp_error_limit(c->room->error, BP_ERR_DATA, "template",
                                    "the template has more bytes than can be", NULL,
                                    (int64_t)length, BP_LIMIT_MOST, BP_JINJA_SOURCE_MAX);
    }
    c->source = to;
    for (size_t i = 0; i < length; i++) {
        const bool pair = source[i] == '\r' && i + 1 < length && source[i + 1] == '\n';
        if (!pair) {
            to[c->length++] = source[i] == '\r' ? '\n' : source[i];
        }
    }
    c->length -= c->length > 0 && to[c->length - 1] == '\n' ? 1 : 0;
    return BP_OK;
}

bp_status bp_jinja_compile(bp_jinja_program *program, bp_jinja_room *room, const char *source,
                           size_t length)
{
    statements s = {.c = {.program = program, .room = room, .line = 1}};
    *program = (bp_jinja_program){.code_room = (uint32_t)(length + length / 2 + 64),
                                  .constant_room = (uint32_t)(length / 2 + 64)};
    BP_TRY(source_take(&s.c, source, length));
    program->code = bp_jinja_take(room, program->code_room * sizeof *program->code);
    program->constants = bp_jinja_take(room, program->constant_room * sizeof *program->constants);
    program->names = bp_jinja_take(room, BP_JINJA_NAMES * sizeof *program->names);
    program->macros = bp_jinja_take(room, BP_JINJA_MACROS * sizeof *program->macros);
    if (program->code == NULL || program->constants == NULL || program->names == NULL ||
        program->macros == NULL) {
        return BP_ERR_FIT;
    }
    return compile_all(&s);
}
