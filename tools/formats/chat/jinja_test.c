/* SPDX-License-Identifier: MIT */
/* Chat templates: tests, what may follow `is`. */
#include <string.h>

#include "tools/formats/chat/jinja_program.h"

typedef enum test_kind {
    TEST_DEFINED,
    TEST_UNDEFINED,
    TEST_NONE,
    TEST_TRUE,
    TEST_FALSE,
    TEST_BOOLEAN,
    TEST_INTEGER,
    TEST_FLOAT,
    TEST_NUMBER,
    TEST_STRING,
    TEST_MAPPING,
    TEST_ITERABLE,
    TEST_SEQUENCE,
    TEST_CALLABLE,
    TEST_EVEN,
    TEST_ODD,
    TEST_DIVISIBLE,
    TEST_SAME,
    TEST_EQ, /* from here on an operator */
    TEST_NE,
    TEST_LT,
    TEST_GT,
    TEST_LE,
    TEST_GE,
    TEST_IN
} test_kind;

typedef struct test_row {
    const char *name;
    test_kind kind;
} test_row;

static const test_row tests[] = {
    {"defined", TEST_DEFINED},
    {"undefined", TEST_UNDEFINED},
    {"none", TEST_NONE},
    {"true", TEST_TRUE},
    {"false", TEST_FALSE},
    {"boolean", TEST_BOOLEAN},
    {"integer", TEST_INTEGER},
    {"float", TEST_FLOAT},
    {"number", TEST_NUMBER},
    {"string", TEST_STRING},
    {"mapping", TEST_MAPPING},
    {"iterable", TEST_ITERABLE},
    {"sequence", TEST_SEQUENCE},
    {"callable", TEST_CALLABLE},
    {"even", TEST_EVEN},
    {"odd", TEST_ODD},
    {"divisibleby", TEST_DIVISIBLE},
    {"sameas", TEST_SAME},
    {"eq", TEST_EQ},
    {"equalto", TEST_EQ},
    {"ne", TEST_NE},
    {"lt", TEST_LT},
    {"lessthan", TEST_LT},
    {"gt", TEST_GT},
    {"greaterthan", TEST_GT},
    {"le", TEST_LE},
    {"ge", TEST_GE},
    {"in", TEST_IN},
    {"==", TEST_EQ}, /* as selectattr() names them */
    {"!=", TEST_NE},
    {"<", TEST_LT},
    {">", TEST_GT},
    {"<=", TEST_LE},
    {">=", TEST_GE},
};

static const test_row *test_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (strlen(tests[i].name) == length && memcmp(tests[i].name, name, length) == 0) {
            return &tests[i];
        }
    }
    return NULL;
}

bool bp_jinja_has_test(const char *name, size_t length)
{
    return test_find(name, length) != NULL;
}

/* What a value is by itself. */
static bool test_alone(const bp_jinja_value *x, test_kind kind)
{
    const bool boolean = x->kind == BP_JINJA_BOOL;
    const bool parts = x->kind == BP_JINJA_STRING || x->kind == BP_JINJA_LIST ||
                       x->kind == BP_JINJA_DICT || x->kind == BP_JINJA_UNDEFINED;
    double real;
    switch (kind) {
    case TEST_DEFINED:
        return x->kind != BP_JINJA_UNDEFINED;
    case TEST_UNDEFINED:
        return x->kind == BP_JINJA_UNDEFINED;
    case TEST_NONE:
        return x->kind == BP_JINJA_NONE;
    case TEST_TRUE:
        return boolean && x->is.truth;
    case TEST_FALSE:
        return boolean && !x->is.truth;
    case TEST_BOOLEAN:
        return boolean;
    case TEST_INTEGER:
        return x->kind == BP_JINJA_INT;
    case TEST_FLOAT:
        return x->kind == BP_JINJA_FLOAT;
    case TEST_NUMBER:
        return bp_jinja_number(x, &real);
    case TEST_STRING:
        return x->kind == BP_JINJA_STRING;
    case TEST_MAPPING:
        return x->kind == BP_JINJA_DICT;
    case TEST_ITERABLE:
        return parts;
    case TEST_SEQUENCE:
        return parts && !(x->kind == BP_JINJA_LIST && x->generator);
    default:                                                               /* TEST_CALLABLE */
        return x->kind == BP_JINJA_MACRO || x->kind == BP_JINJA_UNDEFINED; /* so Jinja has it */
    }
}

static bp_status test_number(bp_jinja_room *room, const bp_jinja_value *x, int64_t divisor,
                             int64_t rest, bool *holds)
{
    if (x->kind != BP_JINJA_INT || divisor == 0) {
        return bp_jinja_refuse(room->error, "a test of whole numbers is made of another value",
                               NULL);
    }
    const int64_t own = x->is.i64 % divisor;
    *holds = (own < 0 ? -own : own) == rest;
    return BP_OK;
}

bp_status bp_jinja_test(bp_jinja_room *room, const bp_jinja_value *x, const bp_jinja_value *name,
                        const bp_jinja_arguments *arguments, bool *holds)
{
    static const bp_jinja_op operators[] = {BP_JINJA_EQ, BP_JINJA_NE, BP_JINJA_LT, BP_JINJA_GT,
                                            BP_JINJA_LE, BP_JINJA_GE, BP_JINJA_IN};
    const test_row *row = test_find(name->is.text, name->count);
    const bp_jinja_value *other = bp_jinja_argument(arguments, 0, "other");
    bp_jinja_value result;
    if (row == NULL) {
        return bp_jinja_refuse(room->error, "a test that is not there", NULL);
    }
    if (row->kind <= TEST_CALLABLE) {
        *holds = test_alone(x, row->kind);
        return BP_OK;
    }
    if (row->kind == TEST_EVEN || row->kind == TEST_ODD) {
        return test_number(room, x, 2, row->kind == TEST_ODD ? 1 : 0, holds);
    }
    if (other == NULL) {
        return bp_jinja_refuse(room->error, "a test lacks what it compares with", row->name);
    }
    if (row->kind == TEST_DIVISIBLE) {
        return test_number(room, x, other->kind == BP_JINJA_INT ? other->is.i64 : 0, 0, holds);
    }
    if (row->kind == TEST_SAME) {
        *holds = x->kind == other->kind && bp_jinja_equal(x, other);
        return BP_OK;
    }
    BP_TRY(bp_jinja_operate(room, operators[row->kind - TEST_EQ], x, other, &result));
    *holds = result.is.truth;
    return BP_OK;
}
