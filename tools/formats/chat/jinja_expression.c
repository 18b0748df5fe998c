/* SPDX-License-Identifier: MIT */
/* Chat templates: expressions to instructions, by operator precedence with a stack of what waits
 * (Dijkstra's shunting yard), so that nothing recurses. */
#include <string.h>

#include "tools/formats/chat/jinja_program.h"

enum { WAITING = 64 };

/* How tightly operators bind, as jinja2's parser has it. */
enum { CHOICE = 1, CONDITION, EITHER, BOTH, NOT, COMPARE, SUM, JOINING, PRODUCT, POWER, SIGNED };

typedef enum wait_kind {
    WAIT_OP,     /* `op` is written when its operands are */
    WAIT_JUMP,   /* and, or: the jump at `at` lands behind the second operand */
    WAIT_IF,     /* a if: `start` begins a, `at` the condition */
    WAIT_ELSE,   /* a if c else: the jump at `at` lands behind b */
    WAIT_TEST,   /* x is NAME: its argument follows without brackets; `op` is its place */
    WAIT_BRACKET /* `sign` opened it */
} wait_kind;

typedef struct waiting {
    wait_kind kind;
    uint32_t level;
    uint32_t op;   /* an instruction; of brackets that of a call, or 0 */
    uint32_t sign; /* '(' a group or tuple, 'c' a call, '[', 'i' an index, '{' */
    uint32_t at;
    uint32_t start; /* where the element around it begins */
    int32_t name;   /* of a call */
    uint32_t count; /* elements so far */
    bool negated;   /* is not */
    bool tuple;
    uint32_t given; /* an index: which bounds of a slice there are, and 8: it is one */
    uint32_t named; /* arguments with names */
    int32_t names[BP_JINJA_ARGUMENTS]; /* constants; -1: by place */
} waiting;

typedef struct expression {
    bp_jinja_compiler *c;
    waiting stack[WAITING];
    uint32_t depth;
    uint32_t start;  /* where the code of the present element begins */
    bool operand;    /* an operand comes next */
    bool attribute;  /* the last instruction is .name: a call makes it a method */
    bool plain_name; /* the last instruction loads a name: a call calls it */
    bool choices;
} expression;

static bp_status wait_push(expression *e, wait_kind kind, uint32_t level, uint32_t op)
{
    if (e->depth == WAITING) {
        return bp_jinja_wrong(e->c, "an expression has too many levels");
    }
    waiting *w = &e->stack[e->depth++];
    w->kind = kind;
    w->level = level;
    w->op = op;
    w->at = e->c->program->code_count;
    w->start = e->start;
    w->sign = 0;
    w->count = w->given = w->named = 0;
    w->negated = w->tuple = false;
    return BP_OK;
}

static bp_status wait_bracket(expression *e, uint32_t sign, uint32_t op, int32_t name)
{
    BP_TRY(wait_push(e, WAIT_BRACKET, 0, op));
    waiting *w = &e->stack[e->depth - 1];
    w->sign = sign;
    w->name = name;
    memset(w->names, -1, sizeof w->names);
    e->start = e->c->program->code_count;
    e->operand = true;
    return BP_OK;
}

static void code_reverse(bp_jinja_code *code, uint32_t from, uint32_t to)
{
    while (from + 1 < to) {
        const bp_jinja_code other = code[--to];
        code[to] = code[from];
        code[from++] = other;
    }
}

/* a, c are written, from `start` and from `at`: they become c, jump behind a unless c, a, jump. */
static bp_status choice_turn(expression *e, const waiting *w, uint32_t *jump)
{
    bp_jinja_compiler *c = e->c;
    bp_jinja_program *program = c->program;
    const uint32_t end = program->code_count;
    const uint32_t condition = end - w->at;
    BP_TRY(bp_jinja_emit(c, BP_JINJA_UNLESS, 0, 0));
    BP_TRY(bp_jinja_emit(c, BP_JINJA_JUMP, 0, 0));
    bp_jinja_code *code = program->code;
    const bp_jinja_code unless = code[end];
    code_reverse(code, w->start, w->at);
    code_reverse(code, w->at, end);
    code_reverse(code, w->start, end);
    const uint32_t first = w->start + condition;
    memmove(&code[first + 1], &code[first], (end - first) * sizeof *code);
    code[first] = unless;
    code[first].a = (int32_t)(end + 2 - first);
    *jump = end + 1;
    return BP_OK;
}

static bp_status write_call(expression *e, const waiting *w)
{
    bp_jinja_compiler *c = e->c;
    BP_TRY(bp_jinja_emit(c, (bp_jinja_op)w->op, w->count, w->name));
    if (w->named > 0) {
        bp_jinja_value *names;
        bp_jinja_value list;
        int32_t index;
        BP_TRY(bp_jinja_list_new(c->room, w->count, &names, &list));
        for (uint32_t i = 0; i < w->count; i++) {
            names[i] = w->names[i] < 0 ? bp_jinja_none() : c->program->constants[w->names[i]];
        }
        BP_TRY(bp_jinja_constant(c, &list, &index));
        c->program->code[c->program->code_count - 1].m = (uint16_t)index;
    }
    return w->negated ? bp_jinja_emit(c, BP_JINJA_NOT, 0, 0) : BP_OK;
}

/* Writes what waits with at least this level. */
static bp_status reduce(expression *e, uint32_t level)
{
    bp_jinja_compiler *c = e->c;
    while (e->depth > 0 && e->stack[e->depth - 1].level >= level) {
        const waiting *w = &e->stack[--e->depth];
        uint32_t jump;
        int32_t index;
        const bp_jinja_value undefined = bp_jinja_undefined(NULL);
        switch (w->kind) {
        case WAIT_OP:
            BP_TRY(bp_jinja_emit(c, (bp_jinja_op)w->op, 0, 0));
            break;
        case WAIT_TEST:
            BP_TRY(write_call(e, w));
            break;
        case WAIT_IF: /* without else: nothing */
            BP_TRY(choice_turn(e, w, &jump));
            BP_TRY(bp_jinja_constant(c, &undefined, &index));
            BP_TRY(bp_jinja_emit(c, BP_JINJA_CONST, 0, index));
            bp_jinja_land(c, jump);
            e->start = w->start;
            break;
        default:
            bp_jinja_land(c, w->at);
            e->start = w->kind == WAIT_ELSE ? w->start : e->start;
            break;
        }
    }
    return BP_OK;
}

static bp_status expression_constant(expression *e, const bp_jinja_value *value)
{
    int32_t index;
    BP_TRY(bp_jinja_constant(e->c, value, &index));
    e->operand = false;
    return bp_jinja_emit(e->c, BP_JINJA_CONST, 0, index);
}

static bp_status operand_name(expression *e)
{
    static const char *const words[] = {"none", "None", "false", "False", "true", "True"};
    bp_jinja_compiler *c = e->c;
    int32_t index;
    if (bp_jinja_sees(c, "not")) {
        BP_TRY(bp_jinja_advance(c));
        return wait_push(e, WAIT_OP, NOT, BP_JINJA_NOT);
    }
    for (uint32_t i = 0; i < 6; i++) {
        if (bp_jinja_sees(c, words[i])) {
            const bp_jinja_value value = i < 2 ? bp_jinja_none() : bp_jinja_bool(i > 3);
            BP_TRY(bp_jinja_advance(c));
            return expression_constant(e, &value);
        }
    }
    BP_TRY(bp_jinja_name(c, c->token.text, c->token.length, &index));
    BP_TRY(bp_jinja_emit(c, BP_JINJA_LOAD, 0, index));
    BP_TRY(bp_jinja_advance(c));
    e->operand = false;
    e->plain_name = true;
    return BP_OK;
}

/* A name and = in front of an argument. */
static bp_status argument_name(expression *e, bool *named)
{
    bp_jinja_compiler *c = e->c;
    waiting *w = e->depth > 0 ? &e->stack[e->depth - 1] : NULL;
    const bp_jinja_token token = c->token;
    *named = false;
    if (w == NULL || w->kind != WAIT_BRACKET || w->sign != 'c' || c->token.kind != BP_JINJA_NAME ||
        w->count == BP_JINJA_ARGUMENTS) {
        return BP_OK;
    }
    size_t at = c->at;
    while (at < c->length && (c->source[at] == ' ' || c->source[at] == '\n')) {
        at++;
    }
    if (at + 1 >= c->length || c->source[at] != '=' || c->source[at + 1] == '=') {
        return BP_OK;
    }
    bp_jinja_value name;
    *named = true;
    w->named++;
    BP_TRY(bp_jinja_copy(c->room, token.text, token.length, &name));
    BP_TRY(bp_jinja_constant(c, &name, &w->names[w->count]));
    BP_TRY(bp_jinja_advance(c));
    return bp_jinja_advance(c);
}

static bp_status close_bracket(expression *e);

static bp_status take_operand(expression *e)
{
    bp_jinja_compiler *c = e->c;
    const bp_jinja_token token = c->token;
    bool named;
    e->attribute = e->plain_name = false;
    BP_TRY(argument_name(e, &named));
    if (named) {
        return BP_OK;
    }
    if (token.kind == BP_JINJA_NAME) {
        return operand_name(e);
    }
    if (token.kind == BP_JINJA_VALUE) {
        bp_jinja_value value = token.value;
        BP_TRY(bp_jinja_advance(c));
        while (value.kind == BP_JINJA_STRING && c->token.kind == BP_JINJA_VALUE &&
               c->token.value.kind == BP_JINJA_STRING) {
            BP_TRY(bp_jinja_join(c->room, &value, &c->token.value, &value));
            BP_TRY(bp_jinja_advance(c));
        }
        return expression_constant(e, &value);
    }
    if (token.kind != BP_JINJA_SIGN) {
        return bp_jinja_wrong(c, "an expression ends where a value should come");
    }
    switch (token.sign) {
    case '(':
    case '[':
    case '{':
        BP_TRY(bp_jinja_advance(c));
        return wait_bracket(e, token.sign, 0, 0);
    case '-':
    case '+':
        BP_TRY(bp_jinja_advance(c));
        return token.sign == '-' ? wait_push(e, WAIT_OP, SIGNED, BP_JINJA_NEGATE) : BP_OK;
    case ')':
    case ']':
    case '}':
    case ':':
        return close_bracket(e);
    default:
        return bp_jinja_wrong(c, "a sign stands where a value should come");
    }
}

/* The bound of a slice, or none where it is left out. */
static bp_status slice_bound(expression *e, waiting *w, bool last)
{
    const bp_jinja_value none = bp_jinja_none();
    if (e->operand) {
        BP_TRY(expression_constant(e, &none));
    }
    w->count++;
    if (last) {
        for (; w->count < 3; w->count++) {
            BP_TRY(expression_constant(e, &none));
        }
    }
    return BP_OK;
}

static bp_status close_index(expression *e, waiting *w)
{
    if (w->given == 0) {
        return e->operand ? bp_jinja_wrong(e->c, "an index is empty")
                          : bp_jinja_emit(e->c, BP_JINJA_INDEX, 0, 0);
    }
    BP_TRY(slice_bound(e, w, true));
    return bp_jinja_emit(e->c, BP_JINJA_SLICE, 0, 0);
}

/* , : and the closing sign of a bracket; what is inside it is written. */
static bp_status close_bracket(expression *e)
{
    bp_jinja_compiler *c = e->c;
    const uint32_t sign = c->token.sign;
    waiting *w = e->depth > 0 ? &e->stack[e->depth - 1] : NULL;
    e->attribute = e->plain_name = false;
    if (w == NULL || w->kind != WAIT_BRACKET) {
        return bp_jinja_wrong(c, "a bracket is closed that was not opened");
    }
    const uint32_t right = w->sign == '[' || w->sign == 'i' ? ']' : w->sign == '{' ? '}' : ')';
    BP_TRY(bp_jinja_advance(c));
    if (sign == ':' && w->sign == 'i' && w->count < 2) {
        w->given = 8;
        BP_TRY(slice_bound(e, w, false));
        e->start = c->program->code_count;
        e->operand = true;
        return BP_OK;
    }
    if (!e->operand && w->sign != 'i') {
        w->count++;
    }
    const bool colon = sign == ':' && w->sign == '{' && !e->operand && w->count % 2 == 1;
    const bool comma =
        sign == ',' && w->sign != 'i' && (w->sign != '{' || w->count % 2 == 0); /* after a value */
    if (comma || colon) {
        w->tuple = w->sign == '(';
        e->start = c->program->code_count;
        e->operand = true;
        return w->sign == 'c' && w->count == BP_JINJA_ARGUMENTS
                   ? bp_jinja_wrong(c, "a call has more arguments than can be")
                   : BP_OK;
    }
    if (sign != right || (w->sign == '{' && w->count % 2 == 1)) {
        return bp_jinja_wrong(c, "the brackets of an expression do not fit together");
    }
    const waiting own = *w;
    e->depth--;
    e->start = own.start;
    const bool empty = e->operand;
    e->operand = false;
    switch (own.sign) {
    case 'c':
        return write_call(e, &own);
    case 'i':
        e->operand = empty;
        BP_TRY(close_index(e, w));
        e->operand = false;
        return BP_OK;
    case '[':
        return bp_jinja_emit(c, BP_JINJA_LIST_OF, 0, (int32_t)own.count);
    case '{':
        return bp_jinja_emit(c, BP_JINJA_DICT_OF, 0, (int32_t)(own.count / 2));
    default:
        return own.tuple || own.count == 0
                   ? bp_jinja_emit(c, BP_JINJA_LIST_OF, 1, (int32_t)own.count)
                   : BP_OK;
    }
}

static bp_status open_call(expression *e)
{
    bp_jinja_compiler *c = e->c;
    bp_jinja_program *program = c->program;
    const bp_jinja_code last = program->code[program->code_count - 1];
    if (!e->attribute && !e->plain_name) {
        return bp_jinja_wrong(c, "what is called is neither a function nor a method");
    }
    program->code_count--;
    BP_TRY(bp_jinja_advance(c));
    return wait_bracket(e, 'c', e->attribute ? BP_JINJA_METHOD : BP_JINJA_CALL, last.a);
}

static bp_status take_filter(expression *e)
{
    bp_jinja_compiler *c = e->c;
    int32_t name;
    BP_TRY(bp_jinja_advance(c));
    if (c->token.kind != BP_JINJA_NAME || !bp_jinja_has_filter(c->token.text, c->token.length)) {
        return bp_jinja_wrong(c, "a filter that is not there");
    }
    bp_jinja_value value;
    BP_TRY(bp_jinja_copy(c->room, c->token.text, c->token.length, &value));
    BP_TRY(bp_jinja_constant(c, &value, &name));
    BP_TRY(bp_jinja_advance(c));
    if (!bp_jinja_sees_sign(c, '(')) {
        return bp_jinja_emit(c, BP_JINJA_FILTER, 0, name);
    }
    BP_TRY(bp_jinja_advance(c));
    return wait_bracket(e, 'c', BP_JINJA_FILTER, name);
}

static bp_status take_test(expression *e)
{
    bp_jinja_compiler *c = e->c;
    bp_jinja_value value;
    int32_t name;
    BP_TRY(bp_jinja_advance(c));
    const bool negated = bp_jinja_sees(c, "not");
    if (negated) {
        BP_TRY(bp_jinja_advance(c));
    }
    if (c->token.kind != BP_JINJA_NAME || !bp_jinja_has_test(c->token.text, c->token.length)) {
        return bp_jinja_wrong(c, "a test that is not there");
    }
    BP_TRY(bp_jinja_copy(c->room, c->token.text, c->token.length, &value));
    BP_TRY(bp_jinja_constant(c, &value, &name));
    BP_TRY(bp_jinja_advance(c));
    if (bp_jinja_sees_sign(c, '(')) {
        BP_TRY(bp_jinja_advance(c));
        BP_TRY(wait_bracket(e, 'c', BP_JINJA_TEST, name));
        e->stack[e->depth - 1].negated = negated;
        return BP_OK;
    }
    const bool word = c->token.kind == BP_JINJA_NAME && !bp_jinja_sees(c, "else") &&
                      !bp_jinja_sees(c, "or") && !bp_jinja_sees(c, "and") &&
                      !bp_jinja_sees(c, "is") && !bp_jinja_sees(c, "if") &&
                      !bp_jinja_sees(c, "in") && !bp_jinja_sees(c, "not");
    if (word || c->token.kind == BP_JINJA_VALUE || bp_jinja_sees_sign(c, '[')) {
        BP_TRY(wait_push(e, WAIT_TEST, SIGNED + 1, BP_JINJA_TEST));
        waiting *w = &e->stack[e->depth - 1];
        w->name = name;
        w->count = 1;
        w->negated = negated;
        e->operand = true;
        return BP_OK;
    }
    BP_TRY(bp_jinja_emit(c, BP_JINJA_TEST, 0, name));
    return negated ? bp_jinja_emit(c, BP_JINJA_NOT, 0, 0) : BP_OK;
}

/* A postfix: .name, [, (, |, is. */
static bp_status take_postfix(expression *e, bool *taken)
{
    bp_jinja_compiler *c = e->c;
    *taken = true;
    if (bp_jinja_sees_sign(c, '.')) {
        bp_jinja_value value;
        int32_t name;
        BP_TRY(bp_jinja_advance(c));
        if (c->token.kind == BP_JINJA_VALUE && c->token.value.kind == BP_JINJA_INT) {
            BP_TRY(bp_jinja_constant(c, &c->token.value, &name)); /* a.0 is a[0] */
            BP_TRY(bp_jinja_emit(c, BP_JINJA_CONST, 0, name));
            BP_TRY(bp_jinja_emit(c, BP_JINJA_INDEX, 0, 0));
        } else if (c->token.kind == BP_JINJA_NAME) {
            BP_TRY(bp_jinja_copy(c->room, c->token.text, c->token.length, &value));
            BP_TRY(bp_jinja_constant(c, &value, &name));
            BP_TRY(bp_jinja_emit(c, BP_JINJA_ATTR, 0, name));
        } else {
            return bp_jinja_wrong(c, "a name is missing behind the point");
        }
        e->attribute = c->token.kind == BP_JINJA_NAME;
        e->plain_name = false;
        return bp_jinja_advance(c);
    }
    if (bp_jinja_sees_sign(c, '(')) {
        return open_call(e);
    }
    e->attribute = e->plain_name = false;
    if (bp_jinja_sees_sign(c, '[')) {
        BP_TRY(bp_jinja_advance(c));
        return wait_bracket(e, 'i', 0, 0);
    }
    if (bp_jinja_sees_sign(c, '|') || bp_jinja_sees(c, "is")) {
        BP_TRY(reduce(e, SIGNED)); /* also the argument of a test is whole */
        return bp_jinja_sees_sign(c, '|') ? take_filter(e) : take_test(e);
    }
    *taken = false;
    return BP_OK;
}

static bp_status take_choice(expression *e, bool *taken)
{
    bp_jinja_compiler *c = e->c;
    *taken = bp_jinja_sees(c, "else");
    if (*taken) {
        BP_TRY(reduce(e, EITHER));
        if (e->depth == 0 || e->stack[e->depth - 1].kind != WAIT_IF) {
            return bp_jinja_wrong(c, "an else has no if");
        }
        waiting *w = &e->stack[e->depth - 1];
        BP_TRY(choice_turn(e, w, &w->at));
        w->kind = WAIT_ELSE;
        w->level = CHOICE;
        e->start = c->program->code_count;
        e->operand = true;
        return bp_jinja_advance(c);
    }
    bool inside = false; /* of a bracket */
    for (uint32_t i = 0; i < e->depth; i++) {
        inside = inside || e->stack[i].kind == WAIT_BRACKET;
    }
    *taken = bp_jinja_sees(c, "if") && (e->choices || inside);
    if (*taken) {
        BP_TRY(reduce(e, CONDITION)); /* a if c if d: the first has no else */
        BP_TRY(wait_push(e, WAIT_IF, CONDITION, 0));
        e->operand = true;
        return bp_jinja_advance(c);
    }
    return BP_OK;
}

typedef struct operator_row {
    const char *word; /* or NULL */
    uint32_t sign;
    uint32_t level;
    bp_jinja_op op;
} operator_row;

static const operator_row operators[] = {
    {"or", 0, EITHER, BP_JINJA_OR},
    {"and", 0, BOTH, BP_JINJA_AND},
    {"in", 0, COMPARE, BP_JINJA_IN},
    {NULL, BP_JINJA_TWO('=', '='), COMPARE, BP_JINJA_EQ},
    {NULL, BP_JINJA_TWO('!', '='), COMPARE, BP_JINJA_NE},
    {NULL, BP_JINJA_TWO('<', '='), COMPARE, BP_JINJA_LE},
    {NULL, BP_JINJA_TWO('>', '='), COMPARE, BP_JINJA_GE},
    {NULL, '<', COMPARE, BP_JINJA_LT},
    {NULL, '>', COMPARE, BP_JINJA_GT},
    {NULL, '+', SUM, BP_JINJA_ADD},
    {NULL, '-', SUM, BP_JINJA_SUBTRACT},
    {NULL, '~', JOINING, BP_JINJA_CONCAT},
    {NULL, '*', PRODUCT, BP_JINJA_MULTIPLY},
    {NULL, '/', PRODUCT, BP_JINJA_DIVIDE},
    {NULL, BP_JINJA_TWO('/', '/'), PRODUCT, BP_JINJA_FLOOR_DIVIDE},
    {NULL, '%', PRODUCT, BP_JINJA_MODULO},
    {NULL, BP_JINJA_TWO('*', '*'), POWER, BP_JINJA_POWER},
};

static bp_status take_operator(expression *e, bool *taken)
{
    bp_jinja_compiler *c = e->c;
    const operator_row *row = NULL;
    const operator_row not_in = {NULL, 0, COMPARE, BP_JINJA_NOT_IN};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0] && row == NULL; i++) {
        const operator_row *own = &operators[i];
        row = own->word != NULL ? (bp_jinja_sees(c, own->word) ? own : NULL)
                                : (bp_jinja_sees_sign(c, own->sign) ? own : NULL);
    }
    if (row == NULL && bp_jinja_sees(c, "not")) {
        BP_TRY(bp_jinja_advance(c));
        if (!bp_jinja_sees(c, "in")) {
            return bp_jinja_wrong(c, "`not` stands where an operator should come");
        }
        row = &not_in;
    }
    *taken = row != NULL;
    if (row == NULL) {
        return BP_OK;
    }
    BP_TRY(bp_jinja_advance(c));
    BP_TRY(reduce(e, row->level + (row->level == COMPARE ? 1 : 0)));
    if (row->level == COMPARE && e->depth > 0 && e->stack[e->depth - 1].level == COMPARE) {
        return bp_jinja_wrong(c, "chained comparisons are not there: a < b and b < c");
    }
    e->operand = true;
    e->attribute = e->plain_name = false;
    const bool jumps = row->op == BP_JINJA_OR || row->op == BP_JINJA_AND;
    BP_TRY(wait_push(e, jumps ? WAIT_JUMP : WAIT_OP, row->level, row->op));
    return jumps ? bp_jinja_emit(c, row->op, 0, 0) : BP_OK;
}

bp_status bp_jinja_expression(bp_jinja_compiler *c, bool choices)
{
    expression e = {.c = c, .start = c->program->code_count, .operand = true, .choices = choices};
    for (;;) {
        bool taken = e.operand;
        if (e.operand) {
            BP_TRY(take_operand(&e));
            continue;
        }
        BP_TRY(take_postfix(&e, &taken));
        if (!taken) {
            BP_TRY(take_choice(&e, &taken));
        }
        if (!taken) {
            BP_TRY(take_operator(&e, &taken));
        }
        if (taken) {
            continue;
        }
        BP_TRY(reduce(&e, CHOICE)); /* an element, or the whole, is over */
        if (e.depth == 0) {
            return BP_OK;
        }
        if (c->token.kind != BP_JINJA_SIGN) {
            return bp_jinja_wrong(c, "a bracket of the expression is not closed");
        }
        BP_TRY(close_bracket(&e));
    }
}
