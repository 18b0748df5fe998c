/* SPDX-License-Identifier: MIT */
/* A chat template, translated: instructions of a stack machine. For the parts of jinja_*.c.
 *
 * Jumps are relative, so that pieces of code can be moved: `a if c else b` is written with its
 * condition in the middle. */
#ifndef BP_FORMATS_JINJA_PROGRAM_H
#define BP_FORMATS_JINJA_PROGRAM_H

#include "tools/formats/chat/jinja.h"

#define BP_JINJA_NO_NAMES UINT16_MAX

typedef enum bp_jinja_op {
    BP_JINJA_CONST,      /* push constant a */
    BP_JINJA_LOAD,       /* push variable a */
    BP_JINJA_STORE,      /* pop into variable a of the innermost scope */
    BP_JINJA_STORE_ATTR, /* pop a value into attribute `constant m` of the namespace in variable a
                          */
    BP_JINJA_ATTR,       /* pop x, push x.name, name = constant a */
    BP_JINJA_INDEX,      /* pop i, x: push x[i] */
    BP_JINJA_SLICE,      /* pop step, stop, start (none: absent), x: push the slice */
    BP_JINJA_CALL,       /* n arguments, function or macro `name a` */
    BP_JINJA_METHOD,     /* n arguments behind x, method `constant a` */
    BP_JINJA_FILTER,     /* the same, a filter */
    BP_JINJA_TEST,       /* the same, a test */
    BP_JINJA_LIST_OF,    /* pop a values, push their list; n: it is a tuple */
    BP_JINJA_DICT_OF,    /* pop a keys and values */
    BP_JINJA_NOT,
    BP_JINJA_NEGATE,
    BP_JINJA_ADD, /* from here on two operands */
    BP_JINJA_SUBTRACT,
    BP_JINJA_MULTIPLY,
    BP_JINJA_DIVIDE,
    BP_JINJA_FLOOR_DIVIDE,
    BP_JINJA_MODULO,
    BP_JINJA_POWER,
    BP_JINJA_CONCAT,
    BP_JINJA_EQ,
    BP_JINJA_NE,
    BP_JINJA_LT,
    BP_JINJA_GT,
    BP_JINJA_LE,
    BP_JINJA_GE,
    BP_JINJA_IN,
    BP_JINJA_NOT_IN, /* to here */
    BP_JINJA_JUMP,   /* by a, counted from this instruction, as in all that follow */
    BP_JINJA_UNLESS, /* pop; jump if false */
    BP_JINJA_AND,    /* jump if the top is false, else pop it */
    BP_JINJA_OR,
    BP_JINJA_FOR,    /* pop what is gone through; jump if it is empty */
    BP_JINJA_SELECT, /* the same, to choose from; no jump */
    BP_JINJA_NEXT,   /* push the next part; jump when there is none, the loop is over then */
    BP_JINJA_UNPACK, /* pop a list of a values, push them, the last one first */
    BP_JINJA_KEEP,   /* pop; if true the part is chosen */
    BP_JINJA_BREAK,
    BP_JINJA_WENT,      /* the loop went through its body to the end */
    BP_JINJA_WENT_ON,   /* jump if the loop that ended last went through its body once at least */
    BP_JINJA_SCOPE,     /* n 1: a scope begins, 0: it ends */
    BP_JINJA_CAPTURE,   /* what is written from here on .. */
    BP_JINJA_CAPTURED,  /* .. is pushed as a string */
    BP_JINJA_OUTPUT,    /* pop, write */
    BP_JINJA_TEXT,      /* write constant a */
    BP_JINJA_GENERATED, /* n 1: what the model says begins, 0: it ends */
    BP_JINJA_MACRO_OF,  /* bind name a to macro m */
    BP_JINJA_MISSING,   /* push whether argument a was not given */
    BP_JINJA_RETURN,
    BP_JINJA_END
} bp_jinja_op;

typedef struct bp_jinja_code {
    uint8_t op;
    uint8_t n;
    uint16_t m; /* of calls: the constant that lists the arguments' names, or BP_JINJA_NO_NAMES */
    int32_t a;
    uint32_t line;
} bp_jinja_code;

typedef struct bp_jinja_macro {
    uint32_t entry; /* its first instruction */
    uint32_t count; /* parameters */
    uint32_t names[BP_JINJA_ARGUMENTS];
} bp_jinja_macro;

/* What is being translated. */
typedef enum bp_jinja_token_kind {
    BP_JINJA_NAME,
    BP_JINJA_VALUE, /* a string or number */
    BP_JINJA_SIGN,  /* one or two characters: `sign` */
    BP_JINJA_CLOSED /* the tag is over */
} bp_jinja_token_kind;

#define BP_JINJA_TWO(a, b) ((uint32_t)(a) | (uint32_t)(b) << 8)

typedef struct bp_jinja_token {
    bp_jinja_token_kind kind;
    uint32_t sign;
    const char *text; /* NAME */
    size_t length;
    bp_jinja_value value;
} bp_jinja_token;

typedef struct bp_jinja_compiler {
    bp_jinja_program *program;
    bp_jinja_room *room;
    const char *source;
    size_t length;
    size_t at;      /* of the next token */
    size_t line_at; /* up to here lines are counted */
    uint32_t line;
    bool variable;     /* the tag is {{ }}, not {% %} */
    uint32_t brackets; /* open in the expression: }} is no end there */
    bp_jinja_token token;
    bool line_starts; /* text: nothing but what was cut off stands before it in its line */
} bp_jinja_compiler;

bp_status bp_jinja_wrong(bp_jinja_compiler *c, const char *text) BP_MUST_CHECK;
bp_status bp_jinja_advance(bp_jinja_compiler *c) BP_MUST_CHECK; /* to the next token */
bool bp_jinja_sees(const bp_jinja_compiler *c, const char *name);
bool bp_jinja_sees_sign(const bp_jinja_compiler *c, uint32_t sign);
/* Past this sign, or refused. */
bp_status bp_jinja_expect(bp_jinja_compiler *c, uint32_t sign) BP_MUST_CHECK;

bp_status bp_jinja_emit(bp_jinja_compiler *c, bp_jinja_op op, uint32_t n, int32_t a) BP_MUST_CHECK;
bp_status bp_jinja_constant(bp_jinja_compiler *c, const bp_jinja_value *value,
                            int32_t *index) BP_MUST_CHECK;
bp_status bp_jinja_name(bp_jinja_compiler *c, const char *text, size_t length,
                        int32_t *index) BP_MUST_CHECK;
/* Lets the jump at `from` go to the next instruction that is emitted. */
void bp_jinja_land(bp_jinja_compiler *c, uint32_t from);

/* An expression; without `choices` an `if` behind it is not its own. */
bp_status bp_jinja_expression(bp_jinja_compiler *c, bool choices) BP_MUST_CHECK;

/* ---- running ---- */

/* Arguments of a call, names NULL or as many strings (none: by place). */
typedef struct bp_jinja_arguments {
    const bp_jinja_value *values;
    const bp_jinja_value *names;
    uint32_t count;
    unsigned way; /* which of the calls that share a function: set by its table */
} bp_jinja_arguments;

/* The argument of this place or name; NULL: not given. */
const bp_jinja_value *bp_jinja_argument(const bp_jinja_arguments *arguments, uint32_t place,
                                        const char *name);

bp_status bp_jinja_operate(bp_jinja_room *room, bp_jinja_op op, const bp_jinja_value *a,
                           const bp_jinja_value *b, bp_jinja_value *to) BP_MUST_CHECK;
bp_status bp_jinja_index(bp_jinja_room *room, const bp_jinja_value *x, const bp_jinja_value *index,
                         bp_jinja_value *to) BP_MUST_CHECK;
/* bounds: start, stop, step. */
bp_status bp_jinja_slice(bp_jinja_room *room, const bp_jinja_value *x,
                         const bp_jinja_value bounds[3], bp_jinja_value *to) BP_MUST_CHECK;
bp_status bp_jinja_method(bp_jinja_room *room, const bp_jinja_value *x, const bp_jinja_value *name,
                          const bp_jinja_arguments *arguments, bp_jinja_value *to) BP_MUST_CHECK;
bp_status bp_jinja_filter(bp_jinja_room *room, const bp_jinja_value *x, const bp_jinja_value *name,
                          const bp_jinja_arguments *arguments, bp_jinja_value *to) BP_MUST_CHECK;
bp_status bp_jinja_test(bp_jinja_room *room, const bp_jinja_value *x, const bp_jinja_value *name,
                        const bp_jinja_arguments *arguments, bool *holds) BP_MUST_CHECK;
/* namespace, dict, range, strftime_now, raise_exception. *known false: none of them. */
bp_status bp_jinja_function(bp_jinja_room *room, const bp_jinja_value *name,
                            const bp_jinja_arguments *arguments, const bp_jinja_time *now,
                            bp_jinja_value *to, bool *known) BP_MUST_CHECK;
bool bp_jinja_is_function(const bp_jinja_value *name);
/* Whether a filter, test or method of this name is there: asked when it is translated. */
bool bp_jinja_has_filter(const char *name, size_t length);
bool bp_jinja_has_test(const char *name, size_t length);

/* Makes a list a generator, which is gone through once. BP_ERR_FIT. */
bp_status bp_jinja_generate(bp_jinja_room *room, bp_jinja_value *x) BP_MUST_CHECK;
/* How far a generator was gone through; NULL: x is none. */
bp_jinja_stream *bp_jinja_stream_of(const bp_jinja_value *x);
/* What is left of a list or a generator, which is not taken from it. BP_ERR_DATA: a loop has it. */
bp_status bp_jinja_rest(bp_jinja_room *room, const bp_jinja_value *x,
                        bp_jinja_value *to) BP_MUST_CHECK;
/* A list's elements, a mapping's keys, a string's characters; undefined: nothing. What is left of a
 * generator is taken from it. */
bp_status bp_jinja_parts(bp_jinja_room *room, const bp_jinja_value *x,
                         bp_jinja_value *to) BP_MUST_CHECK;
/* A list of `count` values whose elements are to be filled in. */
bp_status bp_jinja_list_new(bp_jinja_room *room, size_t count, bp_jinja_value **items,
                            bp_jinja_value *to) BP_MUST_CHECK;

#endif
